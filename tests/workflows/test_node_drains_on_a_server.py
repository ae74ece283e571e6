"""Drains of three masters and five workers on a real API server: its own budgets, scheduler and controllers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.client import Client

from controlplane.agent_script import AgentScript, Step
from controlplane.binaries import Binaries
from controlplane.installed_cluster import InstalledCluster
from hopline.domain.node_strategy import DrainPolicy, DrainRules, WaveStrategy
from hopline.domain.plan import Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import ANNOTATION_TAKEN_BY
from looking import until_enough
from rollout_lab import VERSIONS, Handle
from server_rollouts import ServerRollouts, installed_with_agents, opened
from workflows.node_rollout import NodeRollout

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]

VERSION = VERSIONS[InlineHandler.WORKER]
RULES = DrainRules(policy=DrainPolicy.WAIT, timeout_seconds=90)
PATIENCE = 90.0


@pytest.fixture(scope="module")
def script() -> AgentScript:
    return AgentScript(seconds=0.2)


@pytest.fixture(scope="module")
def installed(
    control_plane_binaries: Binaries, script: AgentScript, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InstalledCluster]:
    """The second test goes on from the first one's end."""
    with installed_with_agents(control_plane_binaries, script, tmp_path_factory.mktemp("installed")) as cluster:
        yield cluster


class Site(ServerRollouts):
    """Rollouts with drains on the installed cluster."""

    async def drained(self, handler: InlineHandler, pool: Pool, batch_size: int) -> Handle:
        """Start one rollout, under the name of a run."""
        strategy, run = WaveStrategy(batch_size=batch_size), f"run-{uuid4()}"
        return await self.start(handler, pool, seconds=240, drain=RULES, strategy=strategy, parent_id=run)

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
    async with opened(installed) as clusters:
        made = Site(temporal_client, task_queue, installed, clusters)
        made.declare()
        yield made


async def test_three_masters_are_drained_one_at_a_time(site: Site, script: AgentScript) -> None:
    async with site.worker():
        handle = await site.drained(InlineHandler.MASTER, Pool.CONTROL_PLANE, 3)
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
    site.server.apply(*pinned_shop("w1"))
    site.server.kubectl("rollout", "status", "deployment/pinned", "-n", "default", "--timeout=60s")

    async def budget() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(site.server.kubectl("get", "pdb", "pinned", "-n", "default", "-o", "json"))
        return found.get("status") or {}

    await site.until(budget, lambda status: status.get("disruptionsAllowed") == 1)
    async with site.worker():
        handle = await site.drained(InlineHandler.WORKER, Pool.WORKERS, 2)
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
