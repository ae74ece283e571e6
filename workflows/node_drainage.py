"""Cordon and drain of the node in hand, before anything on it is changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.node_drains import CordonedNode, DrainNode, NodeDrainActivities
    from activities.nodes import TakeNode
    from hopline.domain.node_commands import DRAINING_HANDLERS, handler_named
    from hopline.operations.node_drain import DrainObservation
    from hopline.operations.node_watch import NodePhase
    from workflows import activity_options
    from workflows.cancellation import raise_if_cancelled
    from workflows.messages import RolloutInput
    from workflows.node_failure import NodeFailed
    from workflows.target_patience import TargetPatience

REMEDY = (
    "remove what is in the way (the message names it), then retry; or say in upgradeStrategy.drain of the component,"
    " or in HOPLINE_DRAIN of the worker, that such pods are left (skip) or deleted (force)"
)

LAST_LOOK = timedelta(seconds=5)
"""At the deadline the truth is read once more."""

AFTER_DEADLINE = timedelta(minutes=2)
"""How long the last look at a drain may take, and pods that were deleted past their budgets."""


class NodeDrainage:
    """What the rollout knows of the room that it makes on a node.

    Attributes:
        taken: the node may carry our cordon: set before it is asked for.
        devices: allocatable devices before the work.
        left: pods that stayed on the node although they run.
    """

    def __init__(
        self,
        rollout: RolloutInput,
        host: str,
        request: Callable[[], dict[str, Any]],
        activity_id: Callable[[str], str],
        patience: TargetPatience,
    ) -> None:
        self._rollout = rollout
        self._host = host
        self._request = request
        self._activity_id = activity_id
        self._patience = patience
        self.taken = False
        self.devices: dict[str, str] = {}
        self.state_before = ""
        self.left: tuple[str, ...] = ()

    @property
    def is_wanted(self) -> bool:
        """Whether the component's nodes are drained at all."""
        return self._rollout.drain.is_on and handler_named(self._rollout.component.handler) in DRAINING_HANDLERS

    async def make_room(self, say: Callable[[str], None]) -> None:
        """Return when the node is drained, or needs no room. Raises NodeFailed, or ActivityError when cancelled."""
        self.taken = True
        say(f"cordon {self._host}")
        cordoned = await self._cordon(say)
        if not self.state_before:
            # A node that is tried again offers and says what its first Command has left.
            self.devices, self.state_before = cordoned.devices, cordoned.state_before
        raise_if_cancelled()
        if not cordoned.cordoned:
            return
        began, lost = workflow.now(), self._patience.lost
        until = min(began + timedelta(seconds=self._rollout.drain.timeout_seconds), self._rollout.deadline + lost)
        say(f"drain {self._host}")
        seen = DrainObservation()
        while seen.phase is NodePhase.WAITING:
            seen = await self._drain(seen, until + (self._patience.lost - lost))
            say(seen.message)
            raise_if_cancelled()
        if seen.phase is not NodePhase.DONE:
            raise NodeFailed(seen.message, REMEDY)
        self.left = seen.left

    async def _cordon(self, say: Callable[[str], None]) -> CordonedNode:
        held = ""
        while True:
            cordoned = await self._patience.reaching(partial(self._cordon_once, held))
            if not cordoned.blocked:
                return cordoned
            held = cordoned.blocked
            say(held)
            raise_if_cancelled()
            if self._patience.now() >= self._rollout.deadline:
                raise NodeFailed(f"it could not be cordoned in time: {held}")

    async def _cordon_once(self, held: str) -> CordonedNode:
        left = self._rollout.deadline - self._patience.now()
        window = max(min(left, activity_options.WAIT_WINDOW), timedelta(0))
        return await workflow.execute_activity_method(
            NodeDrainActivities.cordon_node,
            TakeNode(**self._request(), told=held, window_seconds=window.total_seconds()),
            activity_id=self._activity_id("cordon"),
            summary=f"cordon {self._host}",
            **activity_options.within(activity_options.WAITING_EFFECT, left + activity_options.LAST_LOOK),
        )

    async def _drain(self, last: DrainObservation, until: datetime) -> DrainObservation:
        left = max(until - workflow.now(), timedelta(seconds=1))
        window = min(left + LAST_LOOK, activity_options.WAIT_WINDOW)

        async def once() -> DrainObservation:
            return await workflow.execute_activity_method(
                NodeDrainActivities.drain_node,
                DrainNode(
                    **self._request(),
                    rules=self._rollout.drain,
                    until=until,
                    last=last,
                    window_seconds=window.total_seconds(),
                ),
                activity_id=self._activity_id("drain"),
                summary=f"drain {self._host}",
                **activity_options.within(activity_options.WAITING_EFFECT, left + AFTER_DEADLINE),
            )

        return await self._patience.reaching(once)
