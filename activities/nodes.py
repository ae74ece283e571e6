"""Nodes of one pool, one step on one node at a time: look, begin, watch, end."""

from __future__ import annotations

from pydantic import Field
from temporalio import activity

from activities.failures import translated
from activities.heartbeats import Pulse, heartbeating
from activities.held_nodes import when_free
from activities.pool_reports import PoolReport, PoolRequest, stretch_of
from activities.requests import ManagementFence, RunRequest
from activities.target import minding_target
from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.errors import Blocked, ComponentFailed, NotFound
from hopline.domain.node_commands import NodeCommand, NodeStep, node_command
from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.plan import PlannedComponent, Pool
from hopline.domain.release import InlineHandler
from hopline.domain.version_skew import kubelet_ahead
from hopline.domain.wire import WireEnum, WireModel
from hopline.operations import agent_installation, nodes
from hopline.operations.node_cordons import uncordon
from hopline.operations.node_sightings import api_servers, look_at_node, look_at_pool
from hopline.operations.node_watch import NodeObservation, NodeWatch
from hopline.operations.one_controller import OneController
from hopline.operations.reading import read_cluster, read_node
from hopline.operations.shared_lists import SharedLists
from hopline.operations.target_reach import TargetReach
from hopline.ports import ClusterClient, Clusters, NodeAgentInstaller

WINDOW_SECONDS = 240.0
"""A wait returns at the latest after this long (workflows/activity_options.WAIT_WINDOW)."""

QUIET_SECONDS = 10.0
"""A wait that only has another sentence to tell returns at most this often."""


class NodeRequest(RunRequest):
    """One step of one component on one node; `stamp` is the unix second of a new Command's name.

    `control_plane`: hostnames of the nodes whose API servers no kubelet may get ahead of; none: not looked at.
    """

    component: PlannedComponent
    pool: Pool
    node: NodeFacts
    step: NodeStep
    stamp: int = 0
    control_plane: tuple[str, ...] = ()


class TakeNode(NodeRequest):
    """Take a node in hand, as soon as nothing else holds it.

    `told`: what holds it, as far as the workflow knows; `window_seconds`: how long nothing new may be told.
    """

    told: str = ""
    window_seconds: float = WINDOW_SECONDS


class BegunNode(WireModel):
    """What the beginning saw.

    Attributes:
        command: the Command in force; empty where a step has none.
        at_target: the node is at the target and nothing works on it: nothing was begun, only its health counts.
        blocked: why nothing could be begun yet; ask again.
        state_before: the BKENode's state before ours.
    """

    command: str = ""
    adopted: bool = False
    at_target: bool = False
    blocked: str = ""
    state_before: str = ""


class WatchNode(NodeRequest):
    """Watch on; `last` is what the workflow already knows; without `command` only the gate is watched."""

    command: str = ""
    last: NodeObservation = NodeObservation()
    window_seconds: float = WINDOW_SECONDS
    devices: dict[str, str] = Field(default_factory=dict)
    """Allocatable devices before the work began; the node has to offer them again."""


class NodeOutcome(WireEnum):
    """How a node leaves our hands."""

    SUCCESS = "success"
    FAILURE = "failure"
    RELEASED = "released"
    """Aborted: nothing is known to be wrong with it."""
    UNKNOWN = "unknown"


class EndNode(NodeRequest):
    """End the work on a node; with `begun` False the Command may or may not have been made."""

    outcome: NodeOutcome
    command: str = ""
    begun: bool = True
    message: str = ""
    state_before: str = ""
    gives_back: bool = False
    """The node may carry our cordon."""


class EndedNode(WireModel):
    """What a node that was given up is left with.

    Attributes:
        may_run: what may still be running on the node, as a sentence; empty: nothing.
        untouched: no agent had begun anything there.
        note: what a person has done to our cordon meanwhile.
    """

    may_run: str = ""
    untouched: bool = False
    note: str = ""


class NodeActivities:
    """Effects of `NodeRollout`, the one writer of BKENode and Command while a run is open."""

    def __init__(self, clusters: Clusters, fence: ManagementFence, one_controller: OneController | None = None) -> None:
        self._clusters = clusters
        self._one_controller = one_controller or OneController(clusters.management, ControllerPolicy())
        self._management = clusters.management
        self._lists = SharedLists(clusters.management)
        self.reach = TargetReach(clusters)
        self._fence = fence

    @activity.defn
    @translated
    @minding_target
    async def look_at_pool(self, request: PoolRequest) -> PoolReport:
        """Which nodes are left to do, in their order."""
        await self._fence.check(request)
        async with heartbeating():
            facts = await read_cluster(self._management, request.cluster)
            target = await self._clusters.target(request.cluster)
            seen = await look_at_pool(target, facts, request.component, request.pool)
        names = [node.display_name for node in facts.nodes if node.is_control_plane]
        guarded = request.component.handler == InlineHandler.WORKER
        return stretch_of(request, seen).model_copy(update={"control_plane": tuple(names) if guarded else ()})

    @activity.defn
    @translated
    @minding_target
    async def begin_node(self, request: TakeNode) -> BegunNode:
        """Adopt or create the node's Command, or say what holds the node."""
        await self._fence.check(request)
        async with heartbeating() as pulse:
            # A node whose runtime was taken away gets its new one, whoever has come meanwhile.
            if request.step is not NodeStep.REDEPLOY:
                await self._one_controller.require_alone()
            begun = await when_free(
                lambda: self._begin(request),
                self._management,
                request.cluster,
                pulse,
                told=request.told,
                window_seconds=request.window_seconds,
            )
        return BegunNode(blocked=begun) if isinstance(begun, str) else begun

    async def _begin(self, request: NodeRequest) -> BegunNode:
        if request.step is NodeStep.INSTALL:
            # The installation itself belongs to the watch: it takes longer than a beginning may.
            self._installer(request)
            await agent_installation.begin(self._management, request.cluster, request.node)
            return BegunNode()
        facts = await read_node_of(self._management, request)
        node, command = fresh_node(facts, request), self._command(facts, request)
        claimed = await nodes.claim_node(self._management, facts, node, command, request.stamp, self._lists)
        if claimed is None:
            if request.step is not NodeStep.REDEPLOY and await self._is_at_target(facts, request):
                return BegunNode(at_target=True, state_before=node.state)
            check_agent(request, node)
            await check_skew(await self._clusters.target(request.cluster), request)
        before = await nodes.mark_node(
            self._management, request.cluster, node, nodes.STATE_UPGRADING, nodes.MESSAGE_UPGRADING
        )
        begun = claimed or await nodes.create_command(self._management, facts, node, command, request.stamp)
        return BegunNode(command=begun.name, adopted=begun.adopted, state_before=before)

    async def _is_at_target(self, facts: ClusterFacts, request: NodeRequest) -> bool:
        target = await self._clusters.target(request.cluster)
        node = fresh_node(facts, request)
        return bool((await look_at_node(target, request.component, request.pool, node)).at_target)

    @activity.defn
    @translated
    @minding_target
    async def watch_node(self, request: WatchNode) -> NodeObservation:
        """Return when the node is done or failed, or when what it waits for has changed."""
        await self._fence.check(request)
        async with heartbeating() as pulse:
            if request.step is NodeStep.INSTALL:
                return await self._install(request, pulse)
            return await self._watch(request, pulse)

    async def _install(self, request: WatchNode, pulse: Pulse) -> NodeObservation:
        await self._one_controller.require_alone()
        installer, version = self._installer(request), request.component.version

        def tell(message: str) -> None:
            pulse.message = message

        return await agent_installation.watch(
            installer, request.cluster, request.node, version, request.window_seconds, tell
        )

    async def _watch(self, request: WatchNode, pulse: Pulse) -> NodeObservation:
        target = await self._clusters.target(request.cluster)
        watch = NodeWatch(
            request.cluster, request.component, request.node, request.step, request.command, request.devices
        )

        def tell(message: str) -> None:
            pulse.message = message

        return await watch.wait(
            self._management,
            target,
            request.last,
            timeout_seconds=request.window_seconds,
            quiet_seconds=QUIET_SECONDS,
            on_seen=tell,
        )

    @activity.defn
    @translated
    async def end_node(self, request: EndNode) -> EndedNode:
        """Leave the node: its state says how it went, and nothing of ours begins on it later."""
        await self._fence.check(request)
        async with heartbeating():
            if request.step is NodeStep.INSTALL:
                return EndedNode()
            facts = await read_node_of(self._management, request)
            command = self._command(facts, request)
            if request.outcome is NodeOutcome.SUCCESS:
                node = fresh_node(facts, request)
                note = await self._uncordon(request)
                message = f"{nodes.MESSAGE_DONE}; {note}" if note else nodes.MESSAGE_DONE
                await self._mark(request, node, nodes.STATE_READY, message)
                if command.remove_after_wait and request.command:
                    await nodes.remove_command(self._management, request.cluster, request.command)
                return EndedNode(note=note)
            # A node that was taken out of the cluster meanwhile has no state any more, but it may carry our cordon.
            ended = await self._give_up(request, facts, _found(facts, request) or request.node, command)
            return ended.model_copy(update={"note": await self._uncordon(request)})

    async def _uncordon(self, request: EndNode) -> str:
        """Give our cordon back; what a person has done to it meanwhile stays, and is the answer."""
        if not request.gives_back:
            return ""
        target = await self._clusters.target(request.cluster)
        return (await uncordon(target, request.node.display_name, owner_of(request))).note

    async def _give_up(self, request: EndNode, facts: ClusterFacts, node: NodeFacts, command: NodeCommand) -> EndedNode:
        name = request.command
        if not request.begun:
            name = await nodes.created_command(self._management, facts, node, command, request.stamp)
        released = nodes.ReleasedNode(gone=True)
        if name:
            released = await nodes.suspend_command(self._management, request.cluster, node, name)
        untouched = not name or released.untouched
        if request.outcome is NodeOutcome.RELEASED and untouched:
            if node.state == nodes.STATE_UPGRADING:
                await self._mark(request, node, request.state_before or nodes.STATE_READY, request.message)
        else:
            message = f"{request.message}; {released.may_run}" if released.may_run else request.message
            await self._mark(request, node, nodes.STATE_FAILED, message)
        if name and not released.may_run:
            await nodes.remove_command(self._management, request.cluster, name)
        return EndedNode(may_run=released.may_run, untouched=untouched)

    async def _mark(self, request: EndNode, node: NodeFacts, state: str, message: str) -> None:
        try:
            await nodes.mark_node(self._management, request.cluster, node, state, message)
        except NotFound:
            if request.outcome is NodeOutcome.SUCCESS:
                raise

    def _command(self, facts: ClusterFacts, request: NodeRequest) -> NodeCommand:
        component = request.component
        return node_command(facts, component.handler, component.version, request.node, request.step)

    def _installer(self, request: NodeRequest) -> NodeAgentInstaller:
        installer = self._clusters.agents
        if installer is None:
            raise ComponentFailed(
                "this worker cannot install node agents",
                subject=f"component {request.component.name}",
                field="version",
                value=request.component.version,
                remedy="name a Secret for SSH in HOPLINE_AGENT_SSH_SECRET of the worker, then retry; or take the"
                " component out of the release, and install the agents by hand",
            )
        return installer


async def read_node_of(management: ClusterClient, request: NodeRequest) -> ClusterFacts:
    """What the work on one node needs to know of its cluster: in a pool of thousands not all of it."""
    members = request.component.handler in (InlineHandler.ETCD, InlineHandler.MASTER)
    return await read_node(management, request.cluster, request.node.name, members=members)


async def check_skew(target: ClusterClient, request: NodeRequest) -> None:
    """No kubelet newer than an API server, looked at again before each node (openfuyao-nodes.md §5). Raises Blocked."""
    if not request.control_plane:
        return
    if ahead := kubelet_ahead(request.component.version, await api_servers(target, request.control_plane)):
        raise Blocked(
            ahead,
            subject=f"BKENode {request.cluster.kube_namespace}/{request.node.name}",
            remedy="bring the control plane to this version first",
        )


def _found(facts: ClusterFacts, request: NodeRequest) -> NodeFacts | None:
    return next((node for node in facts.nodes if node.name == request.node.name), None)


def fresh_node(facts: ClusterFacts, request: NodeRequest) -> NodeFacts:
    """The node as it is now. Raises ComponentFailed when it is no longer part of the cluster."""
    found = _found(facts, request)
    if found is None:
        raise ComponentFailed(
            "the node was taken out of the cluster while it was being upgraded",
            subject=f"BKENode {request.cluster.kube_namespace}/{request.node.name}",
            remedy="retry: the nodes that are left are looked at anew",
        )
    return found


def owner_of(request: RunRequest) -> str:
    """Whose cordon it is: the run of the cluster, which is the same for every execution of it."""
    return request.workflow_id or str(request.cluster)


def check_agent(request: NodeRequest, node: NodeFacts) -> None:
    """Raise Blocked while the agent does not answer (bit 2)."""
    if node.agent_ready:
        return
    raise Blocked(
        f"the node agent of {node.display_name} is not ready",
        subject=f"BKENode {request.cluster.kube_namespace}/{node.name}",
        field="status.stateCode",
        value=f"{node.state_code} without bit 2",
        remedy=f"look at it on the node: systemctl status bkeagent ({node.ip})",
    )
