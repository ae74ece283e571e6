"""Work on a target cluster that may be away: it waits without a limit, says for what, and goes on by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, TimeoutError

with workflow.unsafe.imports_passed_through():
    from activities.failures import failure_details
    from activities.target import TargetActivities, TargetRequest, TargetSeen
    from hopline.domain.errors import ClusterNotReady, TargetAway
    from workflows import activity_options
    from workflows.cancellation import raise_if_cancelled

T = TypeVar("T")


class TargetPatience:
    """What one part of a run does about outages of its target; its deadlines stand still meanwhile."""

    def __init__(self, request: Callable[[], dict[str, Any]], say: Callable[[str], None]) -> None:
        """`request`: the fields of a RunRequest. `say` hears why it waits, and an empty text when it goes on."""
        self._request = request
        self._say = say
        self.lost = timedelta()
        """How long the target has been away in outages that are over."""
        self._since: datetime | None = None

    def now(self) -> datetime:
        """A clock that stands still while the target is away: what deadlines are compared with."""
        return (self._since or workflow.now()) - self.lost

    async def reaching(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of an activity on the target, asked for again after every outage. Raises its other failures."""
        while True:
            try:
                return await call()
            except ActivityError as failure:
                reason = await self._outage(failure)
                if not reason:
                    raise
                await self.until_back(reason)

    async def _outage(self, failure: ActivityError) -> str:
        """Why the target is away; empty when the failure has another reason. Some failures may have either."""
        details = failure_details(failure)
        if details.kind == TargetAway.__name__:
            return details.sentence()
        if isinstance(failure.cause, TimeoutError) or details.kind == ClusterNotReady.__name__:
            return (await self._look("", window_seconds=0.0)).reason
        return ""

    async def until_back(self, reason: str) -> None:
        """Return when the target can be reached; of several callers one looks, and the others wait for it."""
        if self._since is not None:
            await workflow.wait_condition(lambda: self._since is None)
            return
        self._since = workflow.now()
        try:
            while reason:
                self._say(reason)
                reason = (await self._look(reason)).reason
                raise_if_cancelled()
        finally:
            self.lost += workflow.now() - self._since
            self._since = None
        self._say("")

    async def _look(self, last: str, **window: float) -> TargetSeen:
        request = TargetRequest(**self._request(), last=last, **window)
        return await workflow.execute_activity_method(
            TargetActivities.wait_for_target,
            request,
            summary=f"wait for the cluster: {last}"[:200] if last else "look whether the cluster answers",
            **activity_options.AWAY,
        )
