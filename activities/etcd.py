"""Etcd around the work on a node: whether its member may go, whether it is back, and a snapshot before the first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from temporalio import activity

from activities.failures import translated
from activities.heartbeats import heartbeating
from activities.nodes import NodeRequest, fresh_node
from activities.requests import ManagementFence, RunRequest
from activities.target import minding_target
from hopline.domain.etcd import Objection
from hopline.domain.plan import PlannedComponent
from hopline.domain.wire import WireModel
from hopline.operations import nodes
from hopline.operations.etcd_care import EtcdCare, look_until
from hopline.operations.etcd_snapshots import EtcdSnapshots, SnapshotChoice, SnapshotReport, SnapshotToTake
from hopline.operations.node_sightings import look_at_node
from hopline.operations.one_controller import OneController
from hopline.operations.reading import read_cluster
from hopline.operations.target_reach import TargetReach
from hopline.ports import Clusters

ILL_SECONDS = 20.0
"""How long one call waits for an etcd, or a member, that is not well, before the workflow hears of it."""

SNAPSHOT_SECONDS = 180.0
"""How long one call waits for a snapshot (an agent gives up after 240 s)."""


class SpareReport(WireModel):
    """What stands against the work on a node; None: nothing.

    Attributes:
        leader: the member that leads now instead of the one on the node; empty: nothing was changed.
    """

    objection: Objection | None = None
    leader: str = ""


class MemberReport(WireModel):
    """What a member still lacks; empty: it serves."""

    missing: str = ""


class SnapshotRequest(RunRequest):
    """For which change of etcd a snapshot is to be taken."""

    component: PlannedComponent


class TakeSnapshot(SnapshotRequest):
    """Take it, or go on waiting for it. `at` is the time of the workflow."""

    work: SnapshotToTake
    hop_version: str = ""
    at: datetime


class DroppedSnapshot(WireModel):
    """What may still be running of a snapshot that was given up, as a sentence; empty: nothing."""

    may_run: str = ""


class EtcdActivities:
    """Asks etcd, and has snapshots taken, for `NodeRollout`."""

    def __init__(
        self,
        clusters: Clusters,
        fence: ManagementFence,
        care: EtcdCare,
        snapshots: EtcdSnapshots,
        one_controller: OneController,
    ) -> None:
        self._clusters = clusters
        self._management = clusters.management
        self._fence = fence
        self._care = care
        self._snapshots = snapshots
        self._one_controller = one_controller
        self.reach = TargetReach(clusters)

    @property
    def all(self) -> tuple[Callable[..., Any], ...]:
        """Every activity, for a worker."""
        return (
            self.ask_for_spare,
            self.await_member,
            self.choose_snapshot,
            self.take_snapshot,
            self.drop_snapshot,
        )

    @activity.defn
    @translated
    @minding_target
    async def ask_for_spare(self, request: NodeRequest) -> SpareReport:
        """Whether etcd can do without the member on a node; waits a while for what may pass. If so, it leads no more.

        A node that is at the target, or that a Command works on already, is not asked about: nothing new is taken down.
        """
        await self._fence.check(request)
        async with heartbeating() as pulse:
            if await self._is_under_way(request):
                return SpareReport()

            async def look() -> Objection | None:
                facts = await read_cluster(self._management, request.cluster)
                found = await self._care.objection(facts, request.component.handler, fresh_node(facts, request))
                pulse.message = found.message if found else ""
                return found

            found = await look_until(look, lambda seen: seen is None or not seen.passes, seconds=ILL_SECONDS)
            return SpareReport(objection=found, leader="" if found else await self._hand_over(request))

    async def _hand_over(self, request: NodeRequest) -> str:
        facts = await read_cluster(self._management, request.cluster)
        return await self._care.hand_over(facts, request.component.handler, fresh_node(facts, request))

    async def _is_under_way(self, request: NodeRequest) -> bool:
        if await nodes.is_busy(self._management, request.cluster, request.node):
            return True
        target = await self._clusters.target(request.cluster)
        return bool((await look_at_node(target, request.component, request.pool, request.node)).at_target)

    @activity.defn
    @translated
    @minding_target
    async def await_member(self, request: NodeRequest) -> MemberReport:
        """Whether the member on a node that was changed serves again; waits a while for it."""
        await self._fence.check(request)
        async with heartbeating() as pulse:

            async def look() -> str:
                facts = await read_cluster(self._management, request.cluster)
                pulse.message = await self._care.missing(facts, fresh_node(facts, request))
                return pulse.message

            return MemberReport(missing=await look_until(look, lambda missing: not missing, seconds=ILL_SECONDS))

    @activity.defn
    @translated
    @minding_target
    async def choose_snapshot(self, request: SnapshotRequest) -> SnapshotChoice:
        """On which node a snapshot is to be taken, and which member leads."""
        await self._fence.check(request)
        async with heartbeating():
            await self._one_controller.require_alone()
            facts = await read_cluster(self._management, request.cluster)
            return await self._snapshots.choose(facts, request.component.version)

    @activity.defn
    @translated
    @minding_target
    async def take_snapshot(self, request: TakeSnapshot) -> SnapshotReport:
        """Have the agent take it, wait for it, verify it, record it. Called again, it goes on."""
        await self._fence.check(request)
        async with heartbeating() as pulse:

            def tell(message: str) -> None:
                pulse.message = message

            facts = await read_cluster(self._management, request.cluster)
            seen = await self._snapshots.take(facts, request.work, seconds=SNAPSHOT_SECONDS, tell=tell)
            if seen.snapshot is None:
                return seen
            about = {"hop": request.hop_version, "run": request.run_id}
            recorded = await self._snapshots.record(request.cluster, seen.snapshot, about, request.at)
            return seen.model_copy(update={"snapshot": recorded})

    @activity.defn
    @translated
    async def drop_snapshot(self, request: TakeSnapshot) -> DroppedSnapshot:
        """Nothing of a snapshot that was given up begins later, and a Command that has ended badly goes."""
        await self._fence.check(request)
        async with heartbeating():
            facts = await read_cluster(self._management, request.cluster)
            return DroppedSnapshot(may_run=await self._snapshots.drop(facts, request.work))
