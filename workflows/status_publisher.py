"""Telling beside the work: one publication in flight, the newest picture wins (design §2.3).

A component that finishes never waits for the API server to store that it has; a hold and the end of a hop do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.failures import failure_details
    from activities.status import PublishRequest, StatusActivities
    from hopline.domain.status import UpgradeStatus
    from hopline.domain.wire import ClusterKey
    from hopline.operations.events import EventRecord, Regarding
    from hopline.operations.publication import Echo, Publication
    from workflows import activity_options, identifiers
    from workflows.cancellation import raise_if_cancelled
    from workflows.status_text import details_markdown, one_line


MAX_EVENTS = 50
"""Events that wait for a publication that works; at most 1,000 characters each, so that a payload stays small."""


@dataclass
class RunContext:
    """Who asks: goes into every request of a run."""

    cluster: ClusterKey
    workflow_id: str
    run_id: str
    management_uid: str = ""
    search_attributes: bool = False


@dataclass
class StatusPublisher:
    """Holds the status document and brings it to the custom resources, search attributes, memo and web UI.

    Attributes:
        annotations: BKECluster annotations that go with the next publication; None removes one.
        gone: why the run must end (the cluster is deleted); empty while it lives.
        problem: the last publication that failed for good; a later one that works clears it.
    """

    context: RunContext
    status: UpgradeStatus
    event_count: int = 0
    annotations: dict[str, str | None] = field(default_factory=dict)
    gone: str = ""
    problem: ActivityError | None = None
    _events: list[EventRecord] = field(default_factory=list)
    _dirty: bool = False
    _in_flight: bool = False
    _waiting: int = 0
    _shown: tuple[str, ...] = ()

    def asker(self) -> dict[str, Any]:
        """Who asks, as fields of a RunRequest."""
        context = self.context
        return {
            "cluster": context.cluster,
            "workflow_id": context.workflow_id,
            "run_id": context.run_id,
            "management_uid": context.management_uid,
        }

    def show(self, status: UpgradeStatus) -> None:
        """Make `status` the current picture; it is published as soon as the one in flight has landed."""
        self.status = status
        self._dirty = True
        workflow.set_current_details(details_markdown(status))
        self._index(status)

    def look_only(self, status: UpgradeStatus) -> None:
        """Make `status` the current picture for queries, without a publication."""
        self.status = status
        workflow.set_current_details(details_markdown(status))

    def say(self, message: str) -> None:
        """What the run waits for, in the state in which it is; before the first write nobody but a query hears it."""
        status = self.status.model_copy(update={"message": message})
        (self.show if status.wrote else self.look_only)(status)

    def tell(self, regarding: Regarding, reason: str, message: str, *, warning: bool = False) -> None:
        """Add a Kubernetes Event to the next publication."""
        self.event_count += 1
        record = EventRecord(
            number=self.event_count,
            regarding=regarding,
            reason=reason,
            message=message,
            warning=warning,
            at=workflow.now(),
        )
        self._events.append(record)
        self._dirty = True

    def _index(self, status: UpgradeStatus) -> None:
        """Search attributes and memo: readable without a worker; written only when they change."""
        hop = f"{status.hop.number}/{status.hop.total}" if status.hop else ""
        blocked_on = status.failure.component if status.failure else status.reason
        shown = (status.state.value, hop, status.to_version, blocked_on)
        if shown == self._shown:
            return
        self._shown = shown
        workflow.upsert_memo({"status": one_line(status)})
        if self.context.search_attributes:
            workflow.upsert_search_attributes(
                [
                    identifiers.CLUSTER.value_set(str(status.cluster)),
                    identifiers.PHASE.value_set(status.state.value),
                    identifiers.HOP.value_set(hop),
                    identifiers.TARGET_VERSION.value_set(status.to_version),
                    identifiers.BLOCKED_ON.value_set(blocked_on),
                ]
            )

    async def run(self) -> None:
        """Publish whenever there is something new; cancelled at the end of the run."""
        while True:
            await workflow.wait_condition(self._may_publish)
            # Another one may have begun since the condition was looked at: several waiters wake in one activation.
            if self._may_publish():
                await self._publish()

    def _may_publish(self) -> bool:
        return self._dirty and not self._in_flight and not self._waiting

    async def flush(self) -> None:
        """Return when everything shown so far is stored, or cannot be."""
        await self._turn()
        if self._dirty:
            await self._publish()
        raise_if_cancelled()

    async def close(self, annotations: dict[str, str | None], *, final: bool) -> None:
        """The publication that ends a hop, or with `final` the run and its wish. Raises ActivityError when it fails."""
        await self._turn()
        self.annotations.update(annotations)
        await self._publish(closing=bool(annotations), final=final)
        if self.problem is not None:
            raise self.problem

    async def _turn(self) -> None:
        """Wait for the publication in flight; meanwhile no other one begins beside the work."""
        self._waiting += 1
        try:
            while self._in_flight:
                await workflow.wait_condition(lambda: not self._in_flight)
        finally:
            self._waiting -= 1

    async def _publish(self, *, closing: bool = False, final: bool = False) -> None:
        self._dirty, self._in_flight = False, True
        events, self._events = tuple(self._events), []
        annotations, self.annotations = self.annotations, {}
        publication = Publication(
            status=self.status,
            now=workflow.now(),
            events=events,
            annotations=annotations,
            closing=closing,
            final=final,
        )
        request = PublishRequest(
            cluster=self.context.cluster,
            workflow_id=self.context.workflow_id,
            run_id=self.context.run_id,
            management_uid=self.context.management_uid,
            publication=publication,
        )
        try:
            echo = await workflow.execute_activity_method(
                StatusActivities.publish_status,
                request,
                summary=f"publish status: {self.status.state.value}",
                **activity_options.EFFECT,
            )
            self._heard(echo)
        except ActivityError as failure:
            # Told with the next one; what is written twice is written once.
            self._events = [*events, *self._events][-MAX_EVENTS:]
            self.annotations = annotations | self.annotations
            if is_cancelled_exception(failure):
                self._dirty = True
                raise
            self.problem = failure
            workflow.logger.warning("status was not published: %s", failure_details(failure).sentence())
        finally:
            self._in_flight = False

    def _heard(self, echo: Echo) -> None:
        self.problem = None
        self.gone = self.gone or echo.gone
