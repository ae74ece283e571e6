"""Making room on a node before its kubelet or runtime is changed: cordon, then drain."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field
from temporalio import activity

from activities.failures import translated
from activities.heartbeats import heartbeating
from activities.held_nodes import when_free
from activities.nodes import (
    QUIET_SECONDS,
    NodeRequest,
    TakeNode,
    check_agent,
    check_skew,
    fresh_node,
    owner_of,
    read_node_of,
)
from activities.requests import ManagementFence
from activities.target import minding_target
from hopline.domain.drains import devices_offered
from hopline.domain.node_commands import node_command
from hopline.domain.node_strategy import DrainRules
from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.wire import WireModel
from hopline.operations import nodes
from hopline.operations.node_cordons import cordon
from hopline.operations.node_drain import DrainObservation, NodeDrain
from hopline.operations.node_sightings import look_at_node
from hopline.operations.one_controller import OneController
from hopline.operations.shared_lists import SharedLists
from hopline.operations.target_reach import TargetReach
from hopline.ports import Clusters


class CordonedNode(WireModel):
    """What the beginning of a node's turn saw.

    Attributes:
        cordoned: the node is cordoned by this run, and to be drained; False: nothing has to make room.
        devices: its allocatable devices before the work.
        blocked: why it could not be cordoned yet; ask again.
        state_before: the BKENode's state before ours.
    """

    cordoned: bool = False
    devices: dict[str, str] = Field(default_factory=dict)
    blocked: str = ""
    state_before: str = ""


class DrainNode(NodeRequest):
    """Drain on; `until` is the deadline, `last` is what the workflow already knows."""

    rules: DrainRules
    until: datetime
    last: DrainObservation = DrainObservation()
    window_seconds: float


class NodeDrainActivities:
    """Effects on core Nodes and pods, for `NodeRollout`."""

    def __init__(self, clusters: Clusters, fence: ManagementFence, one_controller: OneController | None = None) -> None:
        self._clusters = clusters
        self._management = clusters.management
        self._lists = SharedLists(clusters.management)
        self._one_controller = one_controller or OneController(clusters.management, ControllerPolicy())
        self.reach = TargetReach(clusters)
        self._fence = fence

    @activity.defn
    @translated
    @minding_target
    async def cordon_node(self, request: TakeNode) -> CordonedNode:
        """Cordon a node that has work, or say what holds it."""
        await self._fence.check(request)
        async with heartbeating() as pulse:
            await self._one_controller.require_alone()
            cordoned = await when_free(
                lambda: self._cordon(request),
                self._management,
                request.cluster,
                pulse,
                told=request.told,
                window_seconds=request.window_seconds,
            )
        return CordonedNode(blocked=cordoned) if isinstance(cordoned, str) else cordoned

    async def _cordon(self, request: NodeRequest) -> CordonedNode:
        facts = await read_node_of(self._management, request)
        node, component = fresh_node(facts, request), request.component
        command = node_command(facts, component.handler, component.version, request.node, request.step)
        if await nodes.claim_node(self._management, facts, node, command, lists=self._lists) is not None:
            return CordonedNode(state_before=node.state)
        target = await self._clusters.target(request.cluster)
        if (await look_at_node(target, component, request.pool, node)).at_target:
            return CordonedNode(state_before=node.state)
        check_agent(request, node)
        await check_skew(target, request)
        found = await cordon(target, node.display_name, owner_of(request))
        before = await nodes.mark_node(
            self._management, request.cluster, node, nodes.STATE_UPGRADING, nodes.MESSAGE_UPGRADING
        )
        return CordonedNode(cordoned=True, devices=devices_offered(found), state_before=before)

    @activity.defn
    @translated
    @minding_target
    async def drain_node(self, request: DrainNode) -> DrainObservation:
        """Evict the pods of a node, and return when they are gone, or when what it waits for has changed."""
        await self._fence.check(request)
        async with heartbeating() as pulse:
            await self._one_controller.require_alone()
            target = await self._clusters.target(request.cluster)
            drain = NodeDrain(target, request.node.display_name, request.rules, request.until, owner_of(request))

            def tell(message: str) -> None:
                pulse.message = message

            return await drain.carry_on(
                request.last, timeout_seconds=request.window_seconds, quiet_seconds=QUIET_SECONDS, on_seen=tell
            )
