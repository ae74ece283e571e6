"""Telling: the one way out for the status of a run."""

from __future__ import annotations

from temporalio import activity

from activities.failures import translated
from activities.heartbeats import heartbeating
from activities.requests import ManagementFence, RunRequest
from hopline.operations.publication import Echo, Publication, Publisher


class PublishRequest(RunRequest):
    """One publication of one run."""

    publication: Publication


class StatusActivities:
    """Writes ClusterVersion, BKECluster and Events for `ClusterUpgrade`; a silent one, which only observes, nothing."""

    def __init__(self, publisher: Publisher, fence: ManagementFence, *, silent: bool = False) -> None:
        self._fence = fence
        self._silent = silent
        self._publisher = publisher

    @activity.defn
    @translated
    async def publish_status(self, request: PublishRequest) -> Echo:
        """Write the picture; a repeated attempt writes nothing twice."""
        await self._fence.check(request)
        if self._silent:
            return Echo()
        async with heartbeating():
            return await self._publisher.publish(request.publication, request.run_id)
