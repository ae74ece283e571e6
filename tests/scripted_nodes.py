"""`NodeRollout` with scripted activities: every call is noted, answers are what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from activities.failures import ErrorDetails
from activities.nodes import (
    BegunNode,
    EndedNode,
    EndNode,
    NodeRequest,
    WatchNode,
)
from activities.pool_reports import PoolReport, PoolRequest
from etcd_stand_in import EtcdStandIn
from hopline.domain.cluster import NodeFacts
from hopline.domain.name_lists import NameList
from hopline.domain.node_strategy import WaveStrategy
from hopline.domain.node_versions import NodeSighting
from hopline.domain.plan import ComponentType, PlannedComponent, Pool
from hopline.domain.release import InlineHandler
from hopline.domain.wire import ClusterKey
from hopline.operations.node_watch import NodeObservation, NodePhase
from workflows.messages import RolloutInput, RolloutResult
from workflows.node_rollout import NodeRollout

CLUSTER = ClusterKey(kube_namespace="east", name="east")
DONE = NodeObservation(phase=NodePhase.DONE, message="at v2", command_over=True)

Watching = Callable[[WatchNode, int], NodeObservation]


class ScriptedNodes:
    """Stands in for `NodeActivities`: every call is noted, answers are scripted."""

    def __init__(self, sightings: list[NodeSighting]) -> None:
        self.sightings = sightings
        self.calls: list[str] = []
        self.begun: list[NodeRequest] = []
        self.etcd = EtcdStandIn()
        self.ended: list[EndNode] = []
        self.watched: list[WatchNode] = []
        self.watching: Watching = lambda request, count: DONE
        self.beginning: Callable[[NodeRequest], BegunNode] = lambda request: BegunNode(
            command=f"upgrade-node-{request.node.ip}-{request.stamp}", state_before="Ready"
        )
        self.holding: asyncio.Event | None = None
        self.ending: asyncio.Event | None = None

    @activity.defn(name="look_at_pool")
    async def look_at_pool(self, request: PoolRequest) -> PoolReport:
        ahead = [one for one in self.sightings if one.node.name > request.after]
        todo = [one for one in ahead if not one.settled][:2]
        stretch = [one for one in ahead if len(todo) < 2 or one.node.name <= todo[-1].node.name]
        settled = [one.node.display_name for one in stretch if one.settled and one.node.name > request.noted]
        more, last = len(stretch) < len(ahead), stretch[-1].node.name if stretch else ""
        names = NameList.of(settled)
        return PoolReport(todo=tuple(todo), settled=names, total=len(self.sightings), more=more, last=last)

    @activity.defn(name="begin_node")
    async def begin_node(self, request: NodeRequest) -> BegunNode:
        self.calls.append(f"begin {request.step.value} {request.node.hostname}")
        self.begun.append(request)
        return self.beginning(request)

    @activity.defn(name="watch_node")
    async def watch_node(self, request: WatchNode) -> NodeObservation:
        self.calls.append(f"watch {request.node.hostname}")
        self.watched.append(request)
        if self.holding is not None:
            self.holding.set()
            while True:
                activity.heartbeat()
                await asyncio.sleep(0.1)
        return self.watching(request, len(self.watched))

    @activity.defn(name="end_node")
    async def end_node(self, request: EndNode) -> EndedNode:
        self.calls.append(f"{request.outcome.value} {request.node.hostname}")
        self.ended.append(request)
        if self.ending is not None and not self.ending.is_set():
            self.ending.set()
            while True:
                activity.heartbeat()
                await asyncio.sleep(0.1)
        return EndedNode()


def sighting(number: int, *, at_target: bool | None = False, settled: bool = False) -> NodeSighting:
    node = NodeFacts(
        name=f"east-m{number}", ip=f"192.0.2.{number}", hostname=f"m{number}", roles=("master",), state="Ready"
    )
    return NodeSighting(node=node, at_target=at_target, settled=settled)


def rollout(handler: InlineHandler = InlineHandler.MASTER, *, seconds: float = 60, parent_id: str = "") -> RolloutInput:
    component = PlannedComponent(
        name=handler.value, version="v2", type=ComponentType.NODE, handler=handler.value, timeout_seconds=int(seconds)
    )
    deadline = datetime.now(UTC) + timedelta(seconds=seconds)
    return RolloutInput(
        cluster=CLUSTER,
        component=component,
        pool=Pool.CONTROL_PLANE,
        hop_version="v26.06",
        deadline=deadline,
        parent_id=parent_id,
    )


@asynccontextmanager
async def running(
    client: Client, task_queue: str, nodes: ScriptedNodes, request: RolloutInput, *, unsandboxed: bool = False
) -> AsyncIterator[WorkflowHandle[NodeRollout, RolloutResult]]:
    async with Worker(
        client,
        task_queue=task_queue,
        workflows=[NodeRollout],
        workflow_runner=UnsandboxedWorkflowRunner() if unsandboxed else SandboxedWorkflowRunner(),
        activities=[nodes.look_at_pool, nodes.begin_node, nodes.watch_node, nodes.end_node, *nodes.etcd.all],
    ):
        yield await client.start_workflow(
            NodeRollout.run, request, id=f"rollout-{uuid4()}", task_queue=task_queue, execution_timeout=timedelta(60)
        )


async def failure_of(handle: WorkflowHandle[NodeRollout, RolloutResult]) -> ErrorDetails:
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    cause = caught.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == "ComponentFailed"
    assert cause.non_retryable
    return ErrorDetails.model_validate(cause.details[0])


def workers(
    count: int, *, retries: int = -1, budget: str = "", seconds: float = 60
) -> tuple[RolloutInput, list[NodeSighting]]:
    """A rollout of worker nodes, and the nodes."""
    strategy = WaveStrategy(node_retries=retries, failure_budget=budget)
    request = rollout(InlineHandler.WORKER, seconds=seconds)
    nodes = [
        NodeSighting(
            node=NodeFacts(name=f"east-w{n}", ip=f"192.0.2.{n}", hostname=f"w{n}", roles=("node",)), at_target=False
        )
        for n in range(1, count + 1)
    ]
    return request.model_copy(update={"pool": Pool.WORKERS, "strategy": strategy}), nodes
