"""Waiting for a target cluster that is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Protocol, TypeVar

from temporalio import activity

from activities.failures import translated
from activities.heartbeats import heartbeating
from activities.requests import ManagementFence, RunRequest
from hopline.domain.errors import ClusterNotReady, Transient
from hopline.domain.release import InlineHandler
from hopline.domain.wire import WireModel
from hopline.operations.target_reach import TargetReach

WINDOW_SECONDS = 3000.0
"""A wait returns at the latest after this long (workflows/activity_options.AWAY)."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 10.0
"""Seconds between two looks."""


PATIENT_ATTEMPTS = 2
"""So often a request that got no answer is simply sent again: most outages are over in a moment."""

_API_SERVER_HANDLERS = (InlineHandler.MASTER, InlineHandler.ETCD)


class WorksOnTarget(Protocol):
    """A class with activities on the target."""

    reach: TargetReach


Self = TypeVar("Self", bound=WorksOnTarget)
Asked = TypeVar("Asked", bound=RunRequest)
Told = TypeVar("Told")


def minding_target(
    function: Callable[[Self, Asked], Coroutine[Any, Any, Told]],
) -> Callable[[Self, Asked], Coroutine[Any, Any, Told]]:
    """Decorator of an activity on the target: an outage leaves as TargetAway, and the workflow waits for its end.

    Not where a node's own API server or etcd is being replaced: an outage there may be what the step has done, and its
    deadline has to speak.
    """

    @wraps(function)
    async def call(self: Self, request: Asked) -> Told:
        if getattr(request, "step", None) and getattr(request, "component").handler in _API_SERVER_HANDLERS:  # noqa: B009
            return await function(self, request)
        try:
            return await self.reach.beside(request.cluster, function(self, request))
        except (ClusterNotReady, Transient) as error:
            if isinstance(error, Transient) and activity.info().attempt <= PATIENT_ATTEMPTS:
                raise
            async with heartbeating():
                away = await self.reach.outage(request.cluster)
            if away is None:
                raise
            raise away from error

    return call


class TargetRequest(RunRequest):
    """Wait on; `last` is what the workflow already knows. Without a window it is one look."""

    last: str = ""
    window_seconds: float = WINDOW_SECONDS


class TargetSeen(WireModel):
    """Whether the cluster can be reached, and if not, why as a sentence."""

    back: bool = False
    reason: str = ""


class TargetActivities:
    """Looks for the workflows; changes nothing."""

    def __init__(self, reach: TargetReach, fence: ManagementFence) -> None:
        self._reach = reach
        self._fence = fence

    @activity.defn
    @translated
    async def wait_for_target(self, request: TargetRequest) -> TargetSeen:
        """Return when the target answers, when the reason why it does not is another one, or the window is over."""
        await self._fence.check(request)
        deadline, pause = time.monotonic() + request.window_seconds, FIRST_PAUSE
        async with heartbeating() as pulse:
            while True:
                away = await self._reach.outage(request.cluster)
                if away is None:
                    return TargetSeen(back=True)
                pulse.message = str(away)
                if str(away) != request.last or time.monotonic() >= deadline:
                    return TargetSeen(reason=str(away))
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, LONGEST_PAUSE)
