"""A simulated cluster with workloads, and node rollouts on it: what the tests of drains and waves have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from activities.etcd import EtcdActivities
from activities.failures import ErrorDetails
from activities.node_drains import NodeDrainActivities
from activities.nodes import NodeActivities
from activities.requests import ManagementFence
from activities.target import TargetActivities
from hopline.domain.node_strategy import DrainPolicy, DrainRules, WaveStrategy
from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.plan import ComponentType, PlannedComponent, Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import (
    ANNOTATION_TAKEN_BY,
    BKE_CLUSTER,
    BKE_NODE,
    DEPLOYMENT,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
    Document,
    ObjectRef,
)
from hopline.domain.wire import ClusterKey
from hopline.operations.etcd_care import EtcdCare
from hopline.operations.etcd_snapshots import EtcdSnapshots
from hopline.operations.one_controller import OneController
from hopline.ports import Clusters
from hopline.sim import open_simulation
from hopline.sim.journal import EffectType
from hopline.sim.scenarios import Durations, create_scenario
from hopline.wiring import store_on
from looking import until_enough
from workflows.messages import PoolProgress, RolloutInput, RolloutResult
from workflows.node_rollout import NodeRollout

EXAMPLES = Path(__file__).parent.parent / "deploy" / "examples"
QUICK = Durations(command=0.1, static_pod=0.05, install=0.05)
VERSIONS = {
    InlineHandler.ETCD: "v3.6.8-of.1",
    InlineHandler.MASTER: "v1.34.4-of.1",
    InlineHandler.WORKER: "v1.34.4-of.1",
    InlineHandler.CONTAINERD: "v2.1.2",
}
HOME = "kube-system"
WAIT = DrainRules(policy=DrainPolicy.WAIT, timeout_seconds=30)
Handle = WorkflowHandle[NodeRollout, RolloutResult]


def etcd_activities(
    clusters: Clusters, fence: ManagementFence, *, required: bool = True, alone: OneController | None = None
) -> EtcdActivities:
    """The activities that care for etcd, with a Store on the management cluster."""
    care, management = EtcdCare(clusters, required=required), clusters.management
    snapshots = EtcdSnapshots(clusters, care, store_on(management))
    return EtcdActivities(clusters, fence, care, snapshots, alone or OneController(management, ControllerPolicy()))


def rollout_worker(
    client: Client,
    task_queue: str,
    clusters: Clusters,
    *,
    unsandboxed: bool = False,
    etcd_required: bool = True,
    alone: OneController | None = None,
) -> Worker:
    """A worker for rollouts alone."""
    fence = ManagementFence(clusters.management)
    acts, drains = NodeActivities(clusters, fence, alone), NodeDrainActivities(clusters, fence, alone)
    reach = TargetActivities(acts.reach, fence)
    etcd = etcd_activities(clusters, fence, required=etcd_required, alone=alone)
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[NodeRollout],
        activities=[
            acts.look_at_pool, acts.begin_node, acts.watch_node, acts.end_node,
            drains.cordon_node, drains.drain_node, reach.wait_for_target, *etcd.all,
        ],
        workflow_runner=UnsandboxedWorkflowRunner() if unsandboxed else SandboxedWorkflowRunner(),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        max_heartbeat_throttle_interval=timedelta(seconds=0.5),
    )  # fmt: skip


def rollout_input(key: ClusterKey, handler: InlineHandler, pool: Pool, *, seconds: int, **more: Any) -> RolloutInput:
    """One component on one pool, to the version in VERSIONS; `more` as in `RolloutInput`."""
    component = PlannedComponent(
        name=handler.value, version=VERSIONS[handler], type=ComponentType.NODE, handler=handler.value,
        timeout_seconds=seconds,
    )  # fmt: skip
    deadline = datetime.now(UTC) + timedelta(seconds=seconds)
    return RolloutInput(
        cluster=key, component=component, pool=pool, hop_version="v26.06-rc.3", deadline=deadline, **more
    )


async def start_rollout(client: Client, task_queue: str, request: RolloutInput) -> Handle:
    """Start it, under a name of its own."""
    return await client.start_workflow(NodeRollout.run, request, id=f"rollout-{uuid4()}", task_queue=task_queue)


async def raise_api_servers(clusters: Clusters, key: ClusterKey) -> None:
    """As if the control plane had been upgraded before."""
    target = await clusters.target(key)
    for pod in (await target.list(POD, kube_namespace=HOME, labels="component=kube-apiserver")).items:
        image = str(pod["spec"]["containers"][0]["image"]).rpartition(":")[0]
        tag = VERSIONS[InlineHandler.MASTER].removeprefix("v")
        ref = ObjectRef(kind=POD, name=pod["metadata"]["name"], kube_namespace=HOME)
        containers = [{"name": "kube-apiserver", "image": f"{image}:{tag}"}]
        await target.patch(ref, {"spec": {"containers": containers}})


class RolloutLab:
    """The simulated cluster, and rollouts on it under the name of one run."""

    def __init__(
        self, client: Client, task_queue: str, path: Path, *, nodes: tuple[int, int], durations: Durations = QUICK
    ) -> None:
        self.client, self.task_queue, self.path = client, task_queue, path
        self.key: ClusterKey = create_scenario(path, examples=EXAMPLES, nodes=nodes, durations=durations)
        self.clusters = open_simulation(path)
        self.script = self.clusters.script
        self.run = f"cluster-upgrade/{uuid4()}"

    @asynccontextmanager
    async def worker(self, *, unsandboxed: bool = False, etcd_required: bool = True) -> AsyncIterator[None]:
        """A worker polls while the block lasts."""
        async with rollout_worker(
            self.client, self.task_queue, self.clusters, unsandboxed=unsandboxed, etcd_required=etcd_required
        ):
            yield

    async def start(
        self,
        handler: InlineHandler = InlineHandler.WORKER,
        pool: Pool = Pool.WORKERS,
        *,
        drain: DrainRules = WAIT,
        strategy: WaveStrategy | None = None,
        seconds: int = 60,
    ) -> Handle:
        """Start one rollout."""
        waves = strategy or WaveStrategy()
        request = rollout_input(
            self.key, handler, pool, seconds=seconds, parent_id=self.run, drain=drain, strategy=waves
        )
        return await start_rollout(self.client, self.task_queue, request)

    async def declare(self) -> None:
        """As the opening of a hop does: agents read their versions from there."""
        versions = {
            "etcdVersion": VERSIONS[InlineHandler.ETCD],
            "kubernetesVersion": VERSIONS[InlineHandler.MASTER],
            "containerdVersion": VERSIONS[InlineHandler.CONTAINERD],
        }
        ref = ObjectRef(kind=BKE_CLUSTER, name=self.key.name, kube_namespace=self.key.kube_namespace)
        await self.clusters.management.patch(ref, {"spec": {"clusterConfig": {"cluster": versions}}})

    async def raise_api_servers(self) -> None:
        """As if the control plane had been upgraded before."""
        await raise_api_servers(self.clusters, self.key)

    async def deploy(self, replicas: int, name: str = "web") -> None:
        """A workload whose pods are spread over all nodes."""
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": HOME}}
        await (await self.clusters.target(self.key)).create({**document, "spec": spec}, kind=DEPLOYMENT)
        await self.until(lambda: self._count(name), lambda count: count == replicas)

    async def _count(self, name: str) -> int:
        return len(await self.pods(name))

    async def pods(self, name: str = "web", node: str = "") -> list[Document]:
        """Pods of a workload, on one node or all."""
        target = await self.clusters.target(self.key)
        fields = f"spec.nodeName={node}" if node else ""
        return (await target.list(POD, kube_namespace=HOME, labels=f"app={name}", fields=fields)).items

    async def budget(self, **spec: Any) -> None:
        """A budget over the workload `web`."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": HOME},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        }
        await (await self.clusters.target(self.key)).create(body, kind=POD_DISRUPTION_BUDGET)

    async def drop_budget(self) -> None:
        """Take it away."""
        ref = ObjectRef(kind=POD_DISRUPTION_BUDGET, name="web", kube_namespace=HOME)
        await (await self.clusters.target(self.key)).delete(ref)

    async def node(self, name: str) -> Document:
        """A core Node."""
        return await (await self.clusters.target(self.key)).get(ObjectRef(kind=NODE, name=name))

    async def patch_node(self, name: str, body: Document) -> None:
        """Change a core Node as a person would."""
        await (await self.clusters.target(self.key)).patch(ObjectRef(kind=NODE, name=name), body)

    async def cordoned(self) -> set[str]:
        """Nodes that are cordoned, or carry the mark of a run."""
        nodes = (await (await self.clusters.target(self.key)).list(NODE)).items
        return {
            one["metadata"]["name"]
            for one in nodes
            if one["spec"].get("unschedulable") or ANNOTATION_TAKEN_BY in (one["metadata"].get("annotations") or {})
        }

    async def states(self) -> dict[str, tuple[str, str]]:
        """Hostname → state and message of its BKENode."""
        found = (await self.clusters.management.list(BKE_NODE, kube_namespace=self.key.kube_namespace)).items
        return {one["spec"]["hostname"]: (one["status"]["state"], one["status"].get("message", "")) for one in found}

    def runs(self) -> list[str]:
        """Hostname of every instruction that ran on a node, in order."""
        return [one.node.split("/")[0] for one in self.clusters.journal(EffectType.COMMAND)]

    def evicted(self) -> int:
        """Pods that were evicted."""
        return len([one for one in self.clusters.journal(EffectType.WRITE) if one.verb == "evict"])

    async def until_progress(self, handle: Handle, enough: Callable[[PoolProgress], bool]) -> PoolProgress:
        """Wait until a rollout shows something."""
        return await self.until(lambda: handle.query(NodeRollout.progress), enough)

    @staticmethod
    async def until(look: Callable[[], Any], enough: Callable[[Any], bool], seconds: float = 60.0) -> Any:
        """Look until it is enough."""
        return await until_enough(look, enough, seconds)


async def failure_of(handle: Handle) -> ErrorDetails:
    """How a rollout that must fail has failed."""
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert isinstance(caught.value.cause, ApplicationError)
    return ErrorDetails.model_validate(caught.value.cause.details[0])
