"""`NodeRollout`: one node-level component on one pool, wave after wave."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.failures import failure_details, to_application_error
    from activities.nodes import NodeActivities
    from activities.pool_reports import PoolReport, PoolRequest
    from hopline.domain.errors import ComponentFailed, HoplineError, OtherController, bounded
    from hopline.domain.name_lists import NameList
    from hopline.domain.node_versions import NodeSighting
    from hopline.domain.node_waves import canaries, failures_allowed, wave_size, waves
    from hopline.domain.plan import Pool
    from workflows import activity_options, identifiers
    from workflows.cancellation import raise_if_cancelled, undisturbed
    from workflows.etcd_preparation import EtcdPreparation
    from workflows.messages import (
        MAX_FAILURE_TEXT,
        FailedNode,
        NodePage,
        NodePageRequest,
        PoolProgress,
        RolloutInput,
        RolloutResult,
    )
    from workflows.node_failure import NodeFailed
    from workflows.node_turn import NodeTurn
    from workflows.rollout_board import RolloutBoard
    from workflows.target_patience import TargetPatience

MAX_EVENTS = 2000
"""A longer history replays too slowly for the takeover target (design, "Temporal settings that bind")."""

EVENTS_PER_NODE = 35
"""Of one node's turn, with a drain that is told about a few times."""

MAX_OTHERS = 10
"""Failed nodes that the failure names beside the newest."""

MAX_WITH_WAVE = 2400
"""A wave that might lead beyond it begins in a new execution: none has more than 2,500 events (design §6)."""


class StopRollout(Exception):
    """A node has failed in a way that ends the rollout whatever its budget."""

    def __init__(self, error: ApplicationError) -> None:
        super().__init__(str(error))
        self.error = error


@workflow.defn(name=identifiers.NODE_ROLLOUT, failure_exception_types=[HoplineError])
class NodeRollout:
    """Raises the nodes of a pool that are not at the target; the one writer of BKENode and Command."""

    @workflow.init
    def __init__(self, rollout: RolloutInput) -> None:
        self._rollout = rollout
        self._result = rollout.so_far
        self._patience = TargetPatience(self._asker, self._wait_for_target)
        self._board = RolloutBoard(rollout)
        self._etcd = EtcdPreparation(rollout, self._asker, self._patience, self._note_of_etcd)
        self._control_plane: tuple[str, ...] = ()

    @workflow.run
    async def run(self, rollout: RolloutInput) -> RolloutResult:
        """Return when every node of the pool is at the target and healthy; raise ComponentFailed when more nodes than
        the budget allows cannot be brought there, or at the end when some were put aside."""
        more = True
        while more:
            report = await self._look(self._result.after)
            self._note(report)
            more = await self._raise_stretch(report)
        self._require_all()
        await self._finish_telling()
        return self._result

    @workflow.query
    def progress(self) -> PoolProgress:
        """How far the pool is."""
        return self._board.progress()

    @workflow.query
    def nodes(self, request: NodePageRequest) -> NodePage:
        """The nodes of the pool that were looked at, page by page."""
        return self._board.page(request)

    async def _raise_stretch(self, report: PoolReport) -> bool:
        """Wave after wave of what was looked at; whether there is more behind it."""
        strategy, pool = self._rollout.strategy, self._rollout.pool
        size = wave_size(strategy, pool, report.total)
        canary = canaries(strategy, pool, self._result.done)
        planned = list(waves(await self._in_order(report), size, canary))
        if report.more and len(planned) > 1 and len(planned[-1]) < size:
            # The next look fills it up: a wave is small only at the end of the pool.
            planned.pop()
        for wave in planned:
            await self._continue_when_long(len(wave))
            await self._bring_wave(wave)
            if not self._etcd.is_wanted:
                # Members of etcd do not go by name: those behind us are told by what they show.
                self._result = self._result.model_copy(update={"after": wave[-1].node.name})
            canary -= len(wave)
            if strategy.soak_seconds and -len(wave) < canary <= 0:
                await self._soak(wave)
        return report.more and bool(planned)

    async def _in_order(self, report: PoolReport) -> tuple[NodeSighting, ...]:
        """What of a pool is left to do; members of etcd with the leader last, and after a snapshot."""
        if not self._etcd.is_wanted or not report.todo:
            return report.todo
        todo = await self._etcd.prepare(report.todo)
        self._result = self._result.model_copy(update={"snapshot": self._etcd.snapshot})
        self._note_of_etcd("")
        return todo

    def _note_of_etcd(self, message: str) -> None:
        self._board.note = message
        self._board.show(self._result)

    async def _bring_wave(self, wave: tuple[NodeSighting, ...]) -> None:
        """Every node of a wave to its end, whatever the end is; then judge the failures.

        A wave has the whole limit of the component for itself: a pool of thousands takes longer than one node may.
        """
        self._result = self._result.model_copy(update={"waves": self._result.waves + 1})
        limit = self._patience.now() + timedelta(seconds=self._rollout.component.timeout_seconds)
        self._rollout = self._rollout.model_copy(update={"deadline": max(self._rollout.deadline, limit)})
        self._board.show(self._result)
        ends = await asyncio.gather(*(self._bring(sighting) for sighting in wave), return_exceptions=True)
        for end in ends:
            if isinstance(end, StopRollout):
                raise end.error
            if isinstance(end, BaseException):
                raise end
        raise_if_cancelled()
        allowed = failures_allowed(self._rollout.strategy, self._rollout.pool, self._board.total)
        if self._result.failures > allowed:
            raise self._failure()

    async def _soak(self, wave: tuple[NodeSighting, ...]) -> None:
        """Look at the canaries again after a while: they must still be well before the others begin."""
        seconds = self._rollout.strategy.soak_seconds
        await workflow.sleep(timedelta(seconds=seconds), summary="soak of the canary wave")
        raise_if_cancelled()
        names = {one.node.name for one in wave}
        report = await self._look("")
        for one in report.todo:
            if one.node.name in names:
                raise to_application_error(
                    ComponentFailed(
                        f"canary {one.node.display_name} did not stay well for {seconds:.0f} s: {one.seen}",
                        subject=f"BKENode {self._rollout.cluster.kube_namespace}/{one.node.name}",
                        remedy="look at the node; then retry",
                    )
                )

    async def _bring(self, sighting: NodeSighting) -> None:
        """One node from the first look to its end. A failure is noted; raises StopRollout, or the cancellation."""
        turn = NodeTurn(
            self._rollout,
            sighting.node,
            self._asker(),
            lambda message: self._board.say(turn, message),
            self._patience,
            self._control_plane,
        )
        self._board.take(turn)
        try:
            await turn.raise_node()
        except NodeFailed as failure:
            await undisturbed(turn.release() if failure.untouched else turn.fail(failure.message))
            self._put_aside(turn, failure.message, failure.remedy or turn.remedy)
        except (asyncio.CancelledError, FailureError) as error:
            if is_cancelled_exception(error):
                await undisturbed(turn.release())
                raise
            details = failure_details(error)
            # Another controller has come before the node was touched: nothing is wrong with the node.
            untouched = details.kind == OtherController.__name__
            await undisturbed(turn.release() if untouched else turn.fail(details.sentence()))
            self._put_aside(turn, details.sentence(), details.remedy or turn.remedy)
            if untouched:
                raise StopRollout(self._failure()) from None
        else:
            found = NameList.of([turn.host])
            self._result = (
                self._result.with_already(found) if sighting.at_target else self._result.with_upgraded(turn.host)
            )
            self._result = self._result.with_note(turn.note)
            self._board.done(turn, self._result)

    def _put_aside(self, turn: NodeTurn, message: str, remedy: str) -> None:
        message = f"{message}; {turn.note}" if turn.note else message
        failed = FailedNode(
            node=turn.node.name,
            host=turn.host,
            message=bounded(message, MAX_FAILURE_TEXT),
            remedy=bounded(remedy, MAX_FAILURE_TEXT),
        )
        self._result = self._result.with_failed(failed)
        self._board.fail(turn, message, self._result)

    def _failure(self) -> ApplicationError:
        """The newest failed node by name and reason, and how many others there are."""
        component, failed = self._rollout.component, self._result.failed[-1]
        others = ", ".join(one.host for one in self._result.failed[:-1][-MAX_OTHERS:])
        unnamed = self._result.failures - 1 - min(len(self._result.failed) - 1, MAX_OTHERS)
        counted = f" and {unnamed} more" if unnamed else ""
        more = f"; failed before it: {others}{counted}" if others else ""
        error = ComponentFailed(
            f"{component.name} {component.version} failed on {failed.host}: {failed.message}{more}",
            subject=f"BKENode {self._rollout.cluster.kube_namespace}/{failed.node}",
            remedy=failed.remedy,
        )
        return to_application_error(error)

    def _require_all(self) -> None:
        """Nodes that were put aside are a debt: never a silent skip."""
        if self._result.failed:
            raise self._failure()

    async def _look(self, after: str) -> PoolReport:
        return await self._patience.reaching(lambda: self._look_once(after))

    async def _look_once(self, after: str) -> PoolReport:
        component, pool = self._rollout.component, self._rollout.pool
        return await workflow.execute_activity_method(
            NodeActivities.look_at_pool,
            PoolRequest(**self._asker(), component=component, pool=pool, after=after, noted=self._result.noted),
            summary=f"look at {pool.value} for {component.name} {component.version}",
            **activity_options.within(activity_options.READ, self._rollout.deadline - self._patience.now()),
        )

    def _note(self, report: PoolReport) -> None:
        noted = max(self._result.noted, report.last)
        self._result = self._result.with_already(report.settled).model_copy(
            update={"left_out": report.left_out, "noted": noted}
        )
        self._control_plane = report.control_plane
        self._board.found(report.settled.kept())
        self._board.total = report.total
        self._board.show(self._result)

    async def _continue_when_long(self, nodes: int) -> None:
        """Before a wave, while nothing is in hand."""
        info = workflow.info()
        length = info.get_current_history_length()
        may_pass = length > MAX_EVENTS // 4 and length + nodes * EVENTS_PER_NODE > MAX_WITH_WAVE
        if not (length >= MAX_EVENTS or may_pass or info.is_continue_as_new_suggested()):
            return
        await self._finish_telling()
        deadline = self._rollout.deadline + self._patience.lost
        so_far = self._result
        if self._rollout.pool is Pool.CONTROL_PLANE:
            # Its order is not that of the names: the next look tells who is left.
            so_far = so_far.model_copy(update={"after": ""})
        carried = {"so_far": so_far, "done": self._board.names(), "deadline": deadline}
        workflow.continue_as_new(self._rollout.model_copy(update=carried))

    async def _finish_telling(self) -> None:
        await self._board.finish()
        await workflow.wait_condition(workflow.all_handlers_finished)

    def _wait_for_target(self, reason: str) -> None:
        self._board.away = reason
        self._board.show(self._result)

    def _asker(self) -> dict[str, Any]:
        rollout = self._rollout
        return {
            "cluster": rollout.cluster,
            "workflow_id": rollout.parent_id or workflow.info().workflow_id,
            "run_id": rollout.run_id,
            "management_uid": rollout.management_uid,
        }
