"""One node's turn in a rollout: begin, watch, and end it as a success, a failure, or unfinished."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, RetryState, TimeoutError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.failures import failure_details
    from activities.nodes import (
        WINDOW_SECONDS,
        BegunNode,
        EndedNode,
        EndNode,
        NodeActivities,
        NodeOutcome,
        TakeNode,
        WatchNode,
    )
    from hopline.domain.cluster import NodeFacts
    from hopline.domain.errors import Forbidden
    from hopline.domain.node_commands import NodeStep, steps_of
    from hopline.domain.node_status import NodeStage
    from hopline.domain.node_waves import node_retries
    from hopline.domain.release import InlineHandler
    from hopline.operations.node_watch import NodeObservation, NodePhase
    from workflows import activity_options
    from workflows.cancellation import raise_if_cancelled
    from workflows.etcd_care import EtcdCare
    from workflows.messages import RolloutInput
    from workflows.node_drainage import NodeDrainage
    from workflows.node_failure import NodeFailed
    from workflows.target_patience import TargetPatience

GATE_LIMIT = timedelta(minutes=5)
"""What a node may take to become well after its Command has ended (openfuyao-nodes.md §2.4)."""

RETRY_PAUSE = timedelta(seconds=3)
"""Before a node whose Command has failed is tried again; its agent has paused as long between its own tries."""

PAUSE = timedelta(seconds=2)
"""Before a look is tried again whose failure may pass."""

LAST_LOOK = timedelta(seconds=30)
LAST_LOOK_WINDOW_SECONDS = 5.0

FINISH_LIMIT = timedelta(minutes=5)
"""How long an abort waits for a node that is between two runtimes."""

CLEAN_UP_LIMIT = timedelta(minutes=5)
"""How long the end of a failed or aborted node is tried; then the failure says that it could not be told."""


class NodeTurn:
    """What the rollout knows of the node in hand."""

    def __init__(
        self,
        rollout: RolloutInput,
        node: NodeFacts,
        asker: dict[str, Any],
        say: Callable[[str], None],
        patience: TargetPatience,
        control_plane: tuple[str, ...] = (),
    ) -> None:
        self._rollout = rollout
        self._patience = patience
        self._control_plane = control_plane
        self.node = node
        self.host = node.display_name
        self.message = ""
        self.may_run = ""
        self.note = ""
        self.is_untouched = False
        self._asker = asker
        self._say = say
        self._steps = steps_of(rollout.component.handler)
        self._step = self._steps[-1]
        self._stamp = 0
        self._command = ""
        self._state_before = node.state
        self._is_begun = True
        self._is_marked = False
        self._is_done = False
        self._calls = 0
        self.stage = NodeStage.PENDING
        self._etcd = EtcdCare(rollout, node, self._room_request, self._activity_id, patience)
        self.drainage = NodeDrainage(rollout, self.host, self._room_request, self._activity_id, patience)

    @property
    def remedy(self) -> str:
        """What a person can do after a failure."""
        if self.may_run:
            return f"{self.may_run}; then retry"
        return f"look at the node agent on {self.host} ({self.node.ip}): journalctl -u bkeagent; then retry"

    async def raise_node(self) -> None:
        """Make room, carry out every step, and leave the node as a success. A node whose Command has failed begins
        again from its first step, as often as the strategy allows: it stays cordoned meanwhile.

        Raises NodeFailed, or ActivityError when cancelled.
        """
        allowed = node_retries(self._rollout.strategy, self._rollout.pool)
        for tried in itertools.count(1):
            try:
                await self.make_room()
                for step in self._steps:
                    if await self.carry_out(step):
                        break
                break
            except NodeFailed as failure:
                if not failure.may_retry or tried > allowed or self._patience.now() >= self._rollout.deadline:
                    raise
                self._say(f"to be tried again ({tried + 1} of {allowed + 1}): {failure.message}")
                await workflow.sleep(RETRY_PAUSE, summary=f"{self.host}: {failure.message}"[:200])
                raise_if_cancelled()
        await self.succeed()

    async def make_room(self) -> None:
        """Cordon and drain, where the component's work needs it. Raises NodeFailed, or ActivityError when cancelled."""
        if self.drainage.is_wanted:
            await self._etcd.before(self._say)
            self.stage = NodeStage.DRAINING
            await self.drainage.make_room(self._say)
            self._state_before = self.drainage.state_before or self._state_before

    async def carry_out(self, step: NodeStep) -> bool:
        """Begin a step and return when it is done; True: the node is at the target already, no step is left.

        Raises NodeFailed, or ActivityError when cancelled.
        """
        if step is not NodeStep.REDEPLOY:
            await self._etcd.before(self._say)
        # In state before the Command is made: a second attempt makes the same name.
        self._step, self._stamp = step, self._new_stamp()
        self._command, self._is_begun = "", False
        self.stage = NodeStage.UPGRADING
        begun = await self._begin()
        self._command, self._is_begun = begun.command, True
        if not self._is_marked:
            self._state_before = self.drainage.state_before or begun.state_before or self._state_before
            self._is_marked = True
        raise_if_cancelled()
        if begun.at_target:
            self._step = self._steps[-1]
        await self._watch()
        await self._etcd.after(self._say)
        self._is_done = self._step is self._steps[-1]
        return begun.at_target

    def _new_stamp(self) -> int:
        """Never one whose names may be those of the Command before: that one would count as made by us."""
        last = self._command.rpartition("-")[2]
        used = max(self._stamp, int(last) if last.isdecimal() and len(last) < 12 else 0)
        return max(int(workflow.now().timestamp()), used + 1)

    async def _begin(self) -> BegunNode:
        held = ""
        self._say(f"{self._verb} {self.host}")
        while True:
            begun = await self._patience.reaching(partial(self._begin_once, held))
            if not begun.blocked:
                return begun
            held = begun.blocked
            self._say(held)
            if self._patience.now() >= self._rollout.deadline:
                raise NodeFailed(f"it could not be begun in time: {held}")

    async def _begin_once(self, held: str) -> BegunNode:
        window = max(min(self._left(), activity_options.WAIT_WINDOW), timedelta(0))
        return await workflow.execute_activity_method(
            NodeActivities.begin_node,
            TakeNode(
                **self._request(),
                control_plane=() if self.drainage.is_wanted else self._control_plane,
                told=held,
                window_seconds=window.total_seconds(),
            ),
            activity_id=self._activity_id("begin"),
            summary=f"{self._verb} {self.host}",
            **activity_options.within(activity_options.WAITING_EFFECT, self._left() + activity_options.LAST_LOOK),
        )

    async def _watch(self) -> None:
        seen = NodeObservation(command_over=not self._command and self._step is not NodeStep.INSTALL)
        deadline = self._deadline_of(seen, self._rollout.deadline)
        while seen.phase is NodePhase.WAITING:
            if self._patience.now() >= deadline:
                seen = await self._last_look(seen, deadline)
                continue
            last, seen = seen, await self._observe(seen, deadline)
            self._say(seen.message)
            if seen.command_over and not last.command_over:
                deadline = self._deadline_of(seen, deadline)
        if seen.phase is not NodePhase.DONE:
            raise NodeFailed(seen.message, may_retry=seen.may_retry)

    def _deadline_of(self, seen: NodeObservation, deadline: datetime) -> datetime:
        return min(deadline, self._patience.now() + GATE_LIMIT) if seen.command_over else deadline

    async def _observe(self, last: NodeObservation, deadline: datetime) -> NodeObservation:
        left = max(deadline - self._patience.now(), timedelta(seconds=1))
        try:
            window = min(left.total_seconds(), WINDOW_SECONDS)
            if self._rollout.component.handler in (InlineHandler.MASTER, InlineHandler.ETCD):
                # An outage may be what the step has done to the API server: its deadline has to speak.
                return await self._look(last, window, left + LAST_LOOK)
            return await self._patience.reaching(lambda: self._look(last, window, left + LAST_LOOK))
        except ActivityError as error:
            if is_cancelled_exception(error) or not self._may_pass(error):
                raise
            await workflow.sleep(PAUSE, summary=f"{self.host}: {failure_details(error).message}"[:200])
            return last.model_copy(update={"message": failure_details(error).sentence()})

    def _may_pass(self, error: ActivityError) -> bool:
        """Out of time: the last look decides. Forbidden: an API server that is being replaced says so for a while."""
        is_replacing = self._rollout.component.handler == InlineHandler.MASTER
        forbidden = is_replacing and failure_details(error).kind == Forbidden.__name__
        return error.retry_state is RetryState.TIMEOUT or isinstance(error.cause, TimeoutError) or forbidden

    async def _last_look(self, seen: NodeObservation, deadline: datetime) -> NodeObservation:
        """At a deadline the truth is read once more before anything is called failed (design §8)."""
        last = await self._look(seen, LAST_LOOK_WINDOW_SECONDS, LAST_LOOK)
        if last.phase is not NodePhase.WAITING:
            return last
        limit = f"{self._rollout.component.timeout_seconds} s, the limit of the component"
        if deadline < self._rollout.deadline:
            limit = f"{int(GATE_LIMIT.total_seconds())} s after its Command"
        raise NodeFailed(f"not done within {limit}, still waiting for: {last.message or seen.message}")

    async def _look(self, last: NodeObservation, window_seconds: float, limit: timedelta) -> NodeObservation:
        options = activity_options.PUSH if self._step is NodeStep.INSTALL else activity_options.WAIT
        return await workflow.execute_activity_method(
            NodeActivities.watch_node,
            WatchNode(
                **self._request(),
                command=self._command,
                last=last,
                window_seconds=window_seconds,
                devices=self.drainage.devices,
            ),
            activity_id=self._activity_id("watch"),
            summary=f"wait for {self._rollout.component.name} on {self.host}",
            **activity_options.within(options, limit),
        )

    async def succeed(self) -> None:
        """The node is at the target and well."""
        await self._patience.reaching(lambda: self._end(NodeOutcome.SUCCESS, "", self._left()))

    async def fail(self, message: str) -> None:
        """The node failed: its state says so, and its Command does nothing more."""
        await self._clean_up(NodeOutcome.FAILURE, message)

    async def release(self) -> None:
        """The run was aborted with the node in hand.

        A node that is done is said to be done. One whose runtime was taken away gets its new one first: nothing else
        would bring it back.
        """
        if self._is_done:
            await self._clean_up(NodeOutcome.SUCCESS, "")
            return
        is_redeploying = self._step is NodeStep.REDEPLOY and (self._command or not self._is_begun)
        if self._step is NodeStep.RESET or is_redeploying:
            await self._finish_runtime()
        else:
            await self._clean_up(NodeOutcome.RELEASED, self._aborted)

    async def _finish_runtime(self) -> None:
        if self._step is NodeStep.RESET:
            await self._clean_up(NodeOutcome.RELEASED, self._aborted, keeps_cordon=True)
            if self.is_untouched:
                await self._give_cordon_back()
                return
            self._command = ""
        self._rollout = self._rollout.model_copy(update={"deadline": self._patience.now() + FINISH_LIMIT})
        try:
            if self._step is NodeStep.RESET or not self._is_begun:
                await self.carry_out(NodeStep.REDEPLOY)
            else:
                await self._watch()
            await self.succeed()
        except (NodeFailed, ActivityError) as error:
            why = error.message if isinstance(error, NodeFailed) else failure_details(error).sentence()
            await self._clean_up(NodeOutcome.FAILURE, f"{self._aborted}; its runtime could not be put there: {why}")

    async def _give_cordon_back(self) -> None:
        """Of a node whose Command is gone already."""
        if self.drainage.taken:
            self._command = ""
            await self._clean_up(NodeOutcome.RELEASED, self._aborted)

    @property
    def _aborted(self) -> str:
        return f"{self._rollout.component.name}: the upgrade was aborted"

    async def _clean_up(self, outcome: NodeOutcome, message: str, *, keeps_cordon: bool = False) -> None:
        try:
            ended = await self._end(outcome, message, CLEAN_UP_LIMIT, keeps_cordon=keeps_cordon)
        except ActivityError as error:
            self.may_run = f"the node could not be given back: {failure_details(error).sentence()}"
        else:
            self.may_run, self.is_untouched = ended.may_run, ended.untouched

    async def _end(
        self, outcome: NodeOutcome, message: str, limit: timedelta, *, keeps_cordon: bool = False
    ) -> EndedNode:
        ended: EndedNode = await workflow.execute_activity_method(
            NodeActivities.end_node,
            EndNode(
                **self._request(),
                outcome=outcome,
                command=self._command,
                begun=self._is_begun,
                message=message,
                state_before=self._state_before,
                gives_back=self.drainage.taken and not keeps_cordon,
            ),
            activity_id=self._activity_id("end"),
            summary=f"{outcome.value}: {self._rollout.component.name} on {self.host}",
            **activity_options.within(activity_options.EFFECT, limit),
        )
        self.note = ended.note or self.note
        return ended

    @property
    def _verb(self) -> str:
        name = self._rollout.component.name
        return f"{self._step.value} {name} on"

    def _left(self) -> timedelta:
        return self._rollout.deadline - self._patience.now()

    def _room_request(self) -> dict[str, Any]:
        return {**self._request(), "step": self._steps[0], "control_plane": self._control_plane}

    def _request(self) -> dict[str, Any]:
        return {
            **self._asker,
            "component": self._rollout.component,
            "pool": self._rollout.pool,
            "node": self.node,
            "step": self._step,
            "stamp": self._stamp,
        }

    def _activity_id(self, what: str) -> str:
        self._calls += 1
        return f"{self._rollout.component.name}/{self.host}/{what}/{self._calls}"
