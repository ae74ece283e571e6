"""Stands in for `EtcdActivities` where a test is about something else: a healthy etcd, and a good snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from temporalio import activity

from activities.etcd import DroppedSnapshot, MemberReport, SnapshotRequest, SpareReport, TakeSnapshot
from activities.nodes import NodeRequest
from hopline.domain.cluster import NodeFacts
from hopline.domain.etcd_snapshots import EtcdSnapshot
from hopline.operations.etcd_snapshots import SnapshotChoice, SnapshotReport, SnapshotToTake
from hopline.operations.node_watch import NodePhase

NODE = NodeFacts(name="east-m1", ip="192.0.2.1", hostname="m1", roles=("master", "etcd"), state_code=575)
SNAPSHOT = EtcdSnapshot(node="m1", path="/backup/backup-2607301200.db", size=20_032, sha256="ab" * 32)


class EtcdStandIn:
    """Every call is noted; answers can be replaced."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.asking: Callable[[NodeRequest], SpareReport] = lambda _: SpareReport()
        self.waiting: Callable[[NodeRequest], MemberReport] = lambda _: MemberReport()
        self.choosing: Callable[[SnapshotRequest], SnapshotChoice] = lambda _: SnapshotChoice(
            work=SnapshotToTake(node=NODE, version="v1")
        )
        self.taking: Callable[[TakeSnapshot], SnapshotReport] = lambda _: SnapshotReport(
            phase=NodePhase.DONE, snapshot=SNAPSHOT
        )

    @property
    def all(self) -> tuple[Callable[..., Any], ...]:
        """For a worker."""
        return (
            self.ask_for_spare,
            self.await_member,
            self.choose_snapshot,
            self.take_snapshot,
            self.drop_snapshot,
        )

    @activity.defn(name="ask_for_spare")
    async def ask_for_spare(self, request: NodeRequest) -> SpareReport:
        self.calls.append(f"ask {request.node.hostname}")
        return self.asking(request)

    @activity.defn(name="await_member")
    async def await_member(self, request: NodeRequest) -> MemberReport:
        self.calls.append(f"await {request.node.hostname}")
        return self.waiting(request)

    @activity.defn(name="choose_snapshot")
    async def choose_snapshot(self, request: SnapshotRequest) -> SnapshotChoice:
        self.calls.append("choose")
        return self.choosing(request)

    @activity.defn(name="take_snapshot")
    async def take_snapshot(self, request: TakeSnapshot) -> SnapshotReport:
        self.calls.append(f"take on {request.work.node.hostname} as {request.work.stamp}")
        return self.taking(request)

    @activity.defn(name="drop_snapshot")
    async def drop_snapshot(self, request: TakeSnapshot) -> DroppedSnapshot:
        self.calls.append(f"drop {request.work.stamp}")
        return DroppedSnapshot()
