"""Telling an outage of the target cluster once, and its end once, however many parts of the run wait for it."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from hopline.domain.outage_status import target_away, target_back
    from hopline.operations.events import Regarding
    from workflows.status_publisher import StatusPublisher


class Outages:
    """Which parts of a run wait for the target, and why."""

    def __init__(self, publisher: StatusPublisher) -> None:
        self._publisher = publisher
        self._waiting: dict[str, str] = {}
        self._message_before = ""

    def noted(self, part: str, reason: str) -> None:
        """A part waits, or with an empty reason goes on."""
        before = self._told
        if reason:
            self._waiting[part] = reason
        else:
            self._waiting.pop(part, None)
        if self._told == before:
            return
        publisher = self._publisher
        if self._told:
            self._message_before = self._message_before or publisher.status.message
            publisher.tell(Regarding.CLUSTER_VERSION, "TargetUnreachable", self._told, warning=True)
            publisher.show(target_away(publisher.status, self._told))
            return
        publisher.tell(Regarding.CLUSTER_VERSION, "TargetReachable", "the cluster answers again: the upgrade goes on")
        publisher.show(target_back(publisher.status, before, self._message_before))
        self._message_before = ""

    @property
    def _told(self) -> str:
        """The newest reason; empty: nobody waits."""
        return next(reversed(self._waiting.values()), "")
