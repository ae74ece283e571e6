"""Drains of three masters and five workers on a real API server: its own budgets, scheduler and controllers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from activities.node_drains import NodeDrainActivities
from activities.nodes import NodeActivities
from activities.requests import ManagementFence
from activities.target import TargetActivities
from controlplane.agent_script import AgentScript, Step
from controlplane.agents import NodeAgents
from controlplane.binaries import Binaries
from controlplane.control_plane import ControlPlane
from controlplane.installed_cluster import InstalledCluster, install_cluster
from hopline.domain.node_strategy import DrainPolicy, DrainRules, WaveStrategy
from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.plan import ComponentType, PlannedComponent, Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import ANNOTATION_TAKEN_BY
from hopline.kube.client import connect
from hopline.kube.clusters import KubeClusters
from hopline.kube.credentials import default_source
from hopline.operations.one_controller import OneController
from hopline.sim.scenarios import EXAMPLE_CONTROLLER_IMAGE
from looking import until_enough
from rollout_lab import etcd_activities
from workflows.messages import RolloutInput, RolloutResult
from workflows.node_rollout import NodeRollout

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
VERSION = "v1.34.4-of.1"
RULES = DrainRules(policy=DrainPolicy.WAIT, timeout_seconds=90)
PATIENCE = 90.0


@pytest.fixture(scope="module")
def script() -> AgentScript:
    return AgentScript(seconds=0.2)


@pytest.fixture(scope="module")
def installed(
    control_plane_binaries: Binaries, script: AgentScript, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InstalledCluster]:
    """The example cluster managing itself; the second test goes on from the first one's end."""
    with ControlPlane(control_plane_binaries) as running:
        running.install_crds(CRDS)
        cluster = install_cluster(running, tmp_path_factory.mktemp("installed") / "releases")
        versions = f'{{"spec":{{"clusterConfig":{{"cluster":{{"kubernetesVersion":"{VERSION}"}}}}}}}}'
        where = ("-n", cluster.key.kube_namespace)
        running.kubectl("patch", "bkecluster", cluster.key.name, *where, "--type=merge", "-p", versions)
        with NodeAgents(running.kubeconfig, cluster.key.kube_namespace, cluster.nodes, script):
            yield cluster


class Site:
    """Rollouts with drains on the installed cluster."""

    def __init__(self, client: Client, task_queue: str, installed: InstalledCluster, clusters: KubeClusters) -> None:
        self.client, self.task_queue, self.clusters = client, task_queue, clusters
        self.key, self.server = installed.key, installed.management

    def worker(self) -> Worker:
        management = self.clusters.management
        alone = OneController(management, ControllerPolicy(own_images=(EXAMPLE_CONTROLLER_IMAGE,)))
        fence = ManagementFence(management)
        acts, drains = NodeActivities(self.clusters, fence, alone), NodeDrainActivities(self.clusters, fence, alone)
        reach = TargetActivities(acts.reach, fence)
        etcd = etcd_activities(self.clusters, fence, required=False, alone=alone)
        return Worker(
            self.client,
            task_queue=self.task_queue,
            workflows=[NodeRollout],
            activities=[
                acts.look_at_pool, acts.begin_node, acts.watch_node, acts.end_node,
                drains.cordon_node, drains.drain_node, reach.wait_for_target, *etcd.all,
            ],
            max_heartbeat_throttle_interval=timedelta(seconds=0.5),
        )  # fmt: skip

    async def start(
        self, handler: InlineHandler, pool: Pool, strategy: WaveStrategy
    ) -> WorkflowHandle[NodeRollout, RolloutResult]:
        component = PlannedComponent(
            name=handler.value, version=VERSION, type=ComponentType.NODE, handler=handler.value
        )
        request = RolloutInput(
            cluster=self.key, component=component, pool=pool, hop_version="v26.06-rc.3", drain=RULES,
            strategy=strategy, deadline=datetime.now(UTC) + timedelta(seconds=240), parent_id=f"run-{uuid4()}",
        )  # fmt: skip
        return await self.client.start_workflow(
            NodeRollout.run, request, id=f"rollout-{uuid4()}", task_queue=self.task_queue
        )

    def apply(self, *documents: dict[str, Any]) -> None:
        self.server.apply(*documents)

    def nodes(self) -> dict[str, dict[str, Any]]:
        return {one["metadata"]["name"]: one for one in self.server.get("nodes")["items"]}

    def cordoned(self) -> set[str]:
        return {
            name
            for name, node in self.nodes().items()
            if node["spec"].get("unschedulable") or ANNOTATION_TAKEN_BY in node["metadata"].get("annotations", {})
        }

    @staticmethod
    async def until(look: Callable[[], Awaitable[Any]], enough: Callable[[Any], bool]) -> Any:
        return await until_enough(look, enough, PATIENCE)


@pytest_asyncio.fixture
async def site(temporal_client: Client, task_queue: str, installed: InstalledCluster) -> AsyncIterator[Site]:
    management = await connect(default_source(installed.management.kubeconfig))
    opened = KubeClusters(management, management_cluster=installed.key)
    yield Site(temporal_client, task_queue, installed, opened)
    await opened.aclose()


async def test_three_masters_are_drained_one_at_a_time(site: Site, script: AgentScript) -> None:
    async with site.worker():
        handle = await site.start(InlineHandler.MASTER, Pool.CONTROL_PLANE, WaveStrategy(batch_size=3))
        result = await handle.result()
    assert (result.upgraded, result.waves) == (("m1", "m2", "m3"), 3)
    assert [one.node for one in script.executions if one.step is Step.UPGRADE_CONTROL_PLANE] == ["m1", "m2", "m3"]
    assert site.cordoned() == set()


def pinned_shop(node: str) -> list[dict[str, Any]]:
    """Two pods that only one node takes, and a budget that lets one of them go."""
    labels = {"app": "pinned"}
    metadata = {"name": "pinned", "namespace": "default"}
    spec = {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [{"name": "c", "image": "i:1"}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
         "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata,
         "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}},
    ]  # fmt: skip


async def test_five_workers_are_drained_and_a_budget_really_blocks(site: Site, script: AgentScript) -> None:
    site.apply(*pinned_shop("w1"))
    site.server.kubectl("rollout", "status", "deployment/pinned", "-n", "default", "--timeout=60s")

    async def budget() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(site.server.kubectl("get", "pdb", "pinned", "-n", "default", "-o", "json"))
        return found.get("status") or {}

    await site.until(budget, lambda status: status.get("disruptionsAllowed") == 1)
    async with site.worker():
        handle = await site.start(InlineHandler.WORKER, Pool.WORKERS, WaveStrategy(batch_size=2))
        blocked = "its disruption budget does not allow it now"
        seen = await site.until(lambda: handle.query(NodeRollout.progress), lambda one: blocked in one.message)
        shown = next(one for one in seen.shown if one.name == "w1")
        assert "The disruption budget pinned needs 1 healthy pods and has 1 currently" in shown.message
        assert "w1" in site.cordoned()
        assert "w1" not in [one.node for one in script.executions if one.step is Step.UPGRADE_WORKER]
        site.server.kubectl("delete", "pdb", "pinned", "-n", "default")
        result = await handle.result()
    assert sorted(result.upgraded) == ["w1", "w2", "w3", "w4", "w5"]
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in site.nodes().values()} == {VERSION}
    assert site.cordoned() == set()
    assert script.overlaps() == []
    site.server.kubectl("rollout", "status", "deployment/pinned", "-n", "default", "--timeout=60s")
