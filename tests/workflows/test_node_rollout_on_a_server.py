"""`NodeRollout` on a real API server with simulated agents: the same rules as on the simulator, by other means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowFailureError

from activities.failures import ErrorDetails
from controlplane.agent_script import AgentScript, Step
from controlplane.binaries import Binaries
from controlplane.installed_cluster import InstalledCluster
from hopline.domain.plan import Pool
from hopline.domain.release import InlineHandler
from hopline.kube.clusters import KubeClusters
from looking import PATIENCE
from server_rollouts import ServerRollouts, installed_with_agents, opened
from workflows.node_rollout import NodeRollout

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]


@pytest.fixture(scope="module")
def script() -> AgentScript:
    return AgentScript(seconds=0.2)


@pytest.fixture(scope="module")
def installed(
    control_plane_binaries: Binaries, script: AgentScript, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InstalledCluster]:
    """The tests of this file go on from each other's end."""
    with installed_with_agents(control_plane_binaries, script, tmp_path_factory.mktemp("installed")) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def clusters(installed: InstalledCluster) -> AsyncIterator[KubeClusters]:
    async with opened(installed) as clients:
        yield clients


class Road(ServerRollouts):
    """Rollouts on the installed cluster."""

    def commands(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.server.get("commands", *self.where)["items"]
        return found

    def states(self) -> dict[str, tuple[str, str]]:
        found = self.server.get("bkenodes", *self.where)["items"]
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
