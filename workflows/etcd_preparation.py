"""Before the first member of etcd is changed: a verified snapshot, and the order in which the members go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.etcd import DroppedSnapshot, EtcdActivities, SnapshotRequest, TakeSnapshot
    from activities.failures import failure_details, to_application_error
    from hopline.domain.errors import ComponentFailed
    from hopline.domain.etcd_snapshots import EtcdSnapshot
    from hopline.domain.node_versions import NodeSighting
    from hopline.domain.node_waves import leader_last
    from hopline.domain.release import InlineHandler
    from hopline.operations.etcd_snapshots import SnapshotChoice, SnapshotReport, SnapshotToTake
    from hopline.operations.node_watch import NodePhase
    from workflows import activity_options
    from workflows.cancellation import raise_if_cancelled, undisturbed
    from workflows.messages import RolloutInput
    from workflows.target_patience import TargetPatience

ILL_LIMIT = timedelta(minutes=5)
"""How long an etcd that is not well is waited for (openfuyao-nodes.md §2.4, §6)."""

ASK_AGAIN = timedelta(seconds=10)
SNAPSHOT_LIMIT = timedelta(minutes=20)
"""Above the 1,000 s that the agent has for a Command."""

DROP_LIMIT = timedelta(minutes=2)


class EtcdPreparation:
    """What a rollout of etcd does before its first member.

    Attributes:
        snapshot: None: none was taken yet.
    """

    def __init__(
        self,
        rollout: RolloutInput,
        asker: Callable[[], dict[str, Any]],
        patience: TargetPatience,
        say: Callable[[str], None],
    ) -> None:
        self._rollout = rollout
        self._asker = asker
        self._patience = patience
        self._say = say
        self.snapshot: EtcdSnapshot | None = rollout.so_far.snapshot

    @property
    def is_wanted(self) -> bool:
        """Only a change of the members themselves is prepared."""
        return self._rollout.component.handler == InlineHandler.ETCD

    async def prepare(self, todo: Sequence[NodeSighting]) -> tuple[NodeSighting, ...]:
        """The nodes in their order, the leader last; a snapshot was taken, when one of them is to be changed.

        Raises ApplicationError when there is no snapshot that can be relied on: no member was touched then.
        """
        if all(one.at_target for one in todo):
            return tuple(todo)
        choice, work = await self._choose()
        if self.snapshot is None:
            self.snapshot = await self._take(work)
            self._say(f"snapshot of etcd: {self.snapshot}")
        by_name = {one.node.name: one for one in todo}
        leader = next((name for name, one in by_name.items() if one.node.display_name == choice.leader), "")
        return tuple(by_name[name] for name in leader_last(by_name, leader))

    async def _choose(self) -> tuple[SnapshotChoice, SnapshotToTake]:
        """Where the snapshot is to be taken; waits for an etcd that may become well."""
        limit = self._patience.now() + ILL_LIMIT
        while True:
            choice = await self._patience.reaching(self._choose_once)
            raise_if_cancelled()
            if choice.work is not None:
                return choice, choice.work
            self._say(choice.problem)
            if not choice.passes or self._patience.now() >= limit:
                raise self._failed(choice.problem, choice.remedy)
            await workflow.sleep(ASK_AGAIN, summary=choice.problem[:200])
            raise_if_cancelled()

    async def _choose_once(self) -> SnapshotChoice:
        return await workflow.execute_activity_method(
            EtcdActivities.choose_snapshot,
            SnapshotRequest(**self._asker(), component=self._rollout.component),
            summary="look at etcd: members, leader, alarms",
            **activity_options.within(activity_options.READ, self._left()),
        )

    async def _take(self, work: SnapshotToTake) -> EtcdSnapshot:
        # In state before the Command is made: a second attempt makes the same name.
        now = workflow.now()
        request = TakeSnapshot(
            **self._asker(),
            component=self._rollout.component,
            work=work.model_copy(update={"stamp": int(now.timestamp())}),
            hop_version=self._rollout.hop_version,
            at=now,
        )
        self._say(f"snapshot of etcd by the agent of {work.node.display_name}")
        try:
            report = await self._wait(request)
        except (asyncio.CancelledError, ActivityError):
            await undisturbed(self._drop(request))
            raise
        if report.snapshot is None:
            may_run = await self._drop(request)
            raise self._failed(f"{report.message}; {may_run}" if may_run else report.message, report.remedy)
        raise_if_cancelled()
        return report.snapshot

    async def _wait(self, request: TakeSnapshot) -> SnapshotReport:
        limit = self._patience.now() + min(SNAPSHOT_LIMIT, self._left())
        while True:
            report = await self._patience.reaching(lambda: self._take_once(request))
            raise_if_cancelled()
            if report.phase is not NodePhase.WAITING:
                return report
            self._say(report.message)
            if self._patience.now() >= limit:
                return report.model_copy(update={"message": f"not done in time, still waiting for: {report.message}"})

    async def _take_once(self, request: TakeSnapshot) -> SnapshotReport:
        return await workflow.execute_activity_method(
            EtcdActivities.take_snapshot,
            request,
            summary=f"snapshot of etcd on {request.work.node.display_name}",
            **activity_options.within(activity_options.WAITING_EFFECT, self._left()),
        )

    async def _drop(self, request: TakeSnapshot) -> str:
        """Its Command does nothing more. That it could not be told must not hide why the snapshot was given up."""
        try:
            dropped: DroppedSnapshot = await workflow.execute_activity_method(
                EtcdActivities.drop_snapshot,
                request,
                summary=f"give up the snapshot on {request.work.node.display_name}",
                **activity_options.within(activity_options.EFFECT, DROP_LIMIT),
            )
        except ActivityError as error:
            return f"it could not be given up: {failure_details(error).sentence()}"
        return dropped.may_run

    def _left(self) -> timedelta:
        return self._rollout.deadline - self._patience.now()

    def _failed(self, message: str, remedy: str) -> Exception:
        component = self._rollout.component
        return to_application_error(
            ComponentFailed(
                f"{component.name} {component.version} was not begun: {message}",
                subject=f"BKECluster {self._rollout.cluster}",
                field="etcd",
                remedy=remedy,
            )
        )
