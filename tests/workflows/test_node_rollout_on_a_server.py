"""`NodeRollout` on a real API server with simulated agents: the same rules as on the simulator, by other means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.worker import Worker

from activities.failures import ErrorDetails
from activities.nodes import NodeActivities
from activities.requests import ManagementFence
from controlplane.agent_script import AgentScript, Step
from controlplane.agents import NodeAgents
from controlplane.binaries import Binaries
from controlplane.control_plane import ControlPlane
from controlplane.installed_cluster import InstalledCluster, install_cluster
from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.plan import ComponentType, PlannedComponent, Pool
from hopline.domain.release import InlineHandler
from hopline.kube.client import connect
from hopline.kube.clusters import KubeClusters
from hopline.kube.credentials import default_source
from hopline.operations.one_controller import OneController
from hopline.sim.scenarios import EXAMPLE_CONTROLLER_IMAGE
from looking import PATIENCE
from rollout_lab import etcd_activities
from workflows.messages import RolloutInput, RolloutResult
from workflows.node_rollout import NodeRollout

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
VERSIONS = {
    InlineHandler.ETCD: "v3.6.8-of.1",
    InlineHandler.MASTER: "v1.34.4-of.1",
    InlineHandler.WORKER: "v1.34.4-of.1",
    InlineHandler.CONTAINERD: "v2.1.2",
}


@pytest.fixture(scope="module")
def script() -> AgentScript:
    return AgentScript(seconds=0.2)


@pytest.fixture(scope="module")
def installed(
    control_plane_binaries: Binaries, script: AgentScript, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InstalledCluster]:
    """The example cluster managing itself; the tests of this file go on from each other's end."""
    with ControlPlane(control_plane_binaries) as running:
        running.install_crds(CRDS)
        cluster = install_cluster(running, tmp_path_factory.mktemp("installed") / "releases")
        with NodeAgents(running.kubeconfig, cluster.key.kube_namespace, cluster.nodes, script):
            yield cluster


@pytest_asyncio.fixture
async def clusters(installed: InstalledCluster) -> AsyncIterator[KubeClusters]:
    management = await connect(default_source(installed.management.kubeconfig))
    opened = KubeClusters(management, management_cluster=installed.key)
    yield opened
    await opened.aclose()


class Road:
    """Rollouts on the installed cluster."""

    def __init__(self, client: Client, task_queue: str, installed: InstalledCluster, clusters: KubeClusters) -> None:
        self.client, self.task_queue, self.installed, self.clusters = client, task_queue, installed, clusters
        self.where = ("-n", installed.key.kube_namespace)

    def worker(self) -> Worker:
        management = self.clusters.management
        alone = OneController(management, ControllerPolicy(own_images=(EXAMPLE_CONTROLLER_IMAGE,)))
        fence = ManagementFence(management)
        acts = NodeActivities(self.clusters, fence, alone)
        # Nodes of kwok have no etcd at their addresses, so an operator would have to look.
        etcd = etcd_activities(self.clusters, fence, required=False, alone=alone)
        return Worker(
            self.client,
            task_queue=self.task_queue,
            workflows=[NodeRollout],
            activities=[acts.look_at_pool, acts.begin_node, acts.watch_node, acts.end_node, *etcd.all],
            max_heartbeat_throttle_interval=timedelta(seconds=0.5),
        )

    async def start(self, handler: InlineHandler, pool: Pool) -> WorkflowHandle[NodeRollout, RolloutResult]:
        component = PlannedComponent(
            name=handler.value, version=VERSIONS[handler], type=ComponentType.NODE, handler=handler.value
        )
        request = RolloutInput(
            cluster=self.installed.key,
            component=component,
            pool=pool,
            hop_version="v26.06-rc.3",
            deadline=datetime.now(UTC) + timedelta(seconds=120),
        )
        return await self.client.start_workflow(
            NodeRollout.run, request, id=f"rollout-{uuid4()}", task_queue=self.task_queue
        )

    def declare(self) -> None:
        """As the opening of a hop does: agents read their versions from there."""
        field = ("etcdVersion", "kubernetesVersion", "containerdVersion")
        value = (VERSIONS[InlineHandler.ETCD], VERSIONS[InlineHandler.MASTER], VERSIONS[InlineHandler.CONTAINERD])
        pairs = ",".join(f'"{name}":"{version}"' for name, version in zip(field, value, strict=True))
        body = f'{{"spec":{{"clusterConfig":{{"cluster":{{{pairs}}}}}}}}}'
        name = self.installed.key.name
        self.installed.management.kubectl("patch", "bkecluster", name, *self.where, "--type=merge", "-p", body)

    def commands(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.installed.management.get("commands", *self.where)["items"]
        return found

    def states(self) -> dict[str, tuple[str, str]]:
        found = self.installed.management.get("bkenodes", *self.where)["items"]
        return {one["spec"]["hostname"]: (one["status"]["state"], one["status"].get("message", "")) for one in found}


@pytest.fixture
def road(temporal_client: Client, task_queue: str, installed: InstalledCluster, clusters: KubeClusters) -> Road:
    made = Road(temporal_client, task_queue, installed, clusters)
    made.declare()
    return made


async def test_etcd_stops_at_a_node_that_fails_and_goes_on_there(road: Road, script: AgentScript) -> None:
    script.fail("m2", Step.UPGRADE_ETCD, times=4)
    async with road.worker():
        with pytest.raises(WorkflowFailureError) as caught:
            await (await road.start(InlineHandler.ETCD, Pool.CONTROL_PLANE)).result()
        details = ErrorDetails.model_validate(caught.value.cause.details[0])  # type: ignore[union-attr]
        assert details.subject == "BKENode east/east-192-0-2-12"
        assert "UpgradeEtcd failed on m2, as the test asked" in details.message
        states = road.states()
        assert (states["m1"], states["m2"][0], states["m3"][0]) == (
            ("Ready", "Upgrading success"),
            "UpgradeFailed",
            "Ready",
        )
        result = await (await road.start(InlineHandler.ETCD, Pool.CONTROL_PLANE)).result()
    assert (result.upgraded, result.already) == (("m2", "m3"), ("m1",))
    assert [e.node for e in script.executions if e.step is Step.UPGRADE_ETCD] == [
        "m1", "m1", *["m2"] * 4,
        "m1", "m2", "m3",
    ], "each attempt begins with a snapshot"  # fmt: skip
    assert {state for state, _ in road.states().values()} == {"Ready"}


async def test_containerd_goes_node_by_node_and_leaves_no_command(road: Road, script: AgentScript) -> None:
    async with road.worker():
        result = await (await road.start(InlineHandler.CONTAINERD, Pool.WORKERS)).result()
    assert result.upgraded == ("w1", "w2", "w3", "w4", "w5")
    steps = [(e.node, e.step) for e in script.executions if e.step in (Step.RESET, Step.ENVIRONMENT)]
    assert steps == [(f"w{n}", step) for n in range(1, 6) for step in (Step.RESET, Step.ENVIRONMENT)]
    async with asyncio.timeout(PATIENCE):
        while [one for one in road.commands() if "containerd" in one["metadata"]["name"]]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def test_a_terminated_rollout_is_taken_over_with_its_command(road: Road, script: AgentScript) -> None:
    script.hold("m1", Step.UPGRADE_CONTROL_PLANE)
    async with road.worker():
        first = await road.start(InlineHandler.MASTER, Pool.CONTROL_PLANE)
        async with asyncio.timeout(PATIENCE):
            while not [e for e in script.executions if e.step is Step.UPGRADE_CONTROL_PLANE]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await first.terminate("as a person would")
        second = await road.start(InlineHandler.MASTER, Pool.CONTROL_PLANE)
        async with asyncio.timeout(PATIENCE):
            while (await second.query(NodeRollout.progress)).nodes.in_hand != ("m1",):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        script.release("m1", Step.UPGRADE_CONTROL_PLANE)
        result = await second.result()
    assert result.upgraded == ("m1", "m2", "m3")
    assert [e.node for e in script.executions if e.step is Step.UPGRADE_CONTROL_PLANE] == ["m1", "m2", "m3"]
    assert script.overlaps() == []


async def test_an_abort_keeps_the_lock_of_what_may_still_run(road: Road, script: AgentScript) -> None:
    script.hold("w1", Step.UPGRADE_WORKER)
    async with road.worker():
        first = await road.start(InlineHandler.WORKER, Pool.WORKERS)
        async with asyncio.timeout(PATIENCE):
            while not [e for e in script.executions if e.step is Step.UPGRADE_WORKER]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await first.cancel()
        with pytest.raises(WorkflowFailureError):
            await first.result()
        state, message = road.states()["w1"]
        assert state == "UpgradeFailed"
        assert "may still be running on w1" in message
        second = await road.start(InlineHandler.WORKER, Pool.WORKERS)
        script.release("w1", Step.UPGRADE_WORKER)
        result = await second.result()
    assert len(result.upgraded) + len(result.already) == 5
    assert script.overlaps() == []
    assert {state for state, _ in road.states().values()} == {"Ready"}
    assert not [one for one in road.commands() if one["spec"]["suspend"]]
