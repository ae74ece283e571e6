"""The fault table of a node's turn on the simulated cluster: what is said, and what is left afterwards.

Drains that are blocked stand in `test_node_drains.py`, a killed worker in `test_killed_at_every_stage.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client

from hopline.domain.resources import BKE_NODE, COMMAND, NODE, Document, ObjectRef
from hopline.sim.journal import EffectType
from hopline.sim.script import ALWAYS
from rollout_lab import RolloutLab, failure_of

pytestmark = pytest.mark.slow

W1 = ObjectRef(kind=NODE, name="w1")


@pytest_asyncio.fixture
async def lab(temporal_client: Client, task_queue: str, tmp_path: Path) -> AsyncIterator[RolloutLab]:
    made = RolloutLab(temporal_client, task_queue, tmp_path / "simulation.db", nodes=(1, 2))
    await made.declare()
    await made.raise_api_servers()
    await made.deploy(4)
    yield made
    await made.clusters.aclose()


async def commands(lab: RolloutLab) -> list[Document]:
    return (await lab.clusters.management.list(COMMAND, kube_namespace=lab.key.kube_namespace)).items


async def begun(lab: RolloutLab) -> int:
    """How many instructions have begun on nodes."""
    return len(lab.runs())


async def nothing_is_left(lab: RolloutLab) -> None:
    assert await lab.cordoned() == set()
    assert lab.clusters.journal(EffectType.VIOLATION) == []


async def ready(lab: RolloutLab, status: str) -> None:
    condition = {"type": "Ready", "status": status, "reason": "KubeletNotReady", "message": "PLEG is not healthy"}
    target = await lab.clusters.target(lab.key)
    await target.patch(W1, {"status": {"conditions": [condition]}}, subresource="status")


async def test_an_agent_that_never_answers_is_named_and_its_command_does_nothing_later(lab: RolloutLab) -> None:
    lab.script.agent_down("198.18.0.2")
    async with lab.worker():
        details = await failure_of(await lab.start(seconds=3))
        assert "failed on w1: not done within 3 s" in details.message
        assert "no agent has begun Command east/upgrade-node-198.18.0.2-" in details.message
        assert "look at the node agent on w1 (198.18.0.2): journalctl -u bkeagent" in details.remedy
        assert (lab.runs(), await commands(lab)) == ([], [])
        await nothing_is_left(lab)
        lab.script.clear_all()
        result = await (await lab.start()).result()
    assert result.upgraded == ("w1", "w2")
    assert lab.runs() == ["w1", "w2"]
    await nothing_is_left(lab)


async def test_a_command_that_failed_once_is_followed_by_one_that_ends_well(lab: RolloutLab) -> None:
    lab.script.fail_command("no space left on device", node="w1", times=1)
    async with lab.worker():
        result = await (await lab.start()).result()
    assert (result.upgraded, result.failures) == (("w1", "w2"), 0)
    assert lab.runs() == ["w1", "w1", "w2"]
    names = [one["metadata"]["name"].rpartition("-")[0] for one in await commands(lab)]
    assert sorted(names) == ["upgrade-node-198.18.0.2", "upgrade-node-198.18.0.3"]
    await nothing_is_left(lab)


async def test_a_command_that_fails_for_good_fails_its_node_and_a_retry_goes_on_there(lab: RolloutLab) -> None:
    number = lab.script.fail_command("no space left on device", node="w1", times=ALWAYS)
    async with lab.worker():
        details = await failure_of(await lab.start())
        assert "no space left on device" in details.message
        assert (lab.runs(), lab.script.hits(number)) == (["w1", "w1"], 2)
        assert (await lab.states())["w1"][0] == "UpgradeFailed"
        await nothing_is_left(lab)
        lab.script.clear_all()
        result = await (await lab.start()).result()
    assert result.upgraded == ("w1", "w2")
    assert lab.runs() == ["w1", "w1", "w1", "w2"]
    await nothing_is_left(lab)


async def test_a_kubelet_that_is_not_ready_is_waited_for_and_named(lab: RolloutLab) -> None:
    held = lab.script.hold_commands(node="w1")
    async with lab.worker():
        handle = await lab.start()
        await lab.until(lambda: begun(lab), lambda count: count == 1)
        await ready(lab, "False")
        lab.script.clear(held)
        await lab.until_progress(handle, lambda seen: "Node w1 is not Ready: PLEG is not healthy" in seen.message)
        await ready(lab, "True")
        result = await handle.result()
    assert result.upgraded == ("w1", "w2")
    assert lab.runs() == ["w1", "w2"]
    await nothing_is_left(lab)


async def test_a_kubelet_that_never_gets_ready_fails_its_node(lab: RolloutLab) -> None:
    held = lab.script.hold_commands(node="w1")
    async with lab.worker():
        handle = await lab.start(seconds=6)
        await lab.until(lambda: begun(lab), lambda count: count == 1)
        await ready(lab, "False")
        lab.script.clear(held)
        details = await failure_of(handle)
    assert "still waiting for: Node w1 is not Ready: PLEG is not healthy" in details.message
    assert lab.runs() == ["w1"]
    await nothing_is_left(lab)


async def test_a_node_that_is_lost_in_mid_command_fails_and_the_others_keep_their_cordons(lab: RolloutLab) -> None:
    held = lab.script.hold_commands(node="w1")
    async with lab.worker():
        handle = await lab.start(seconds=6)
        await lab.until(lambda: begun(lab), lambda count: count == 1)
        await (await lab.clusters.target(lab.key)).delete(W1)
        lab.script.clear(held)
        details = await failure_of(handle)
    assert "failed on w1" in details.message
    assert "there is no Node w1 in the cluster" in details.message
    assert lab.runs() == ["w1"]
    await nothing_is_left(lab)


async def test_a_node_that_is_taken_out_of_the_cluster_before_its_turn_fails_with_what_to_do(lab: RolloutLab) -> None:
    await lab.budget(maxUnavailable=0)
    async with lab.worker():
        handle = await lab.start()
        await lab.until_progress(handle, lambda seen: "nothing is evicted" in seen.message)
        found = (await lab.clusters.management.list(BKE_NODE, kube_namespace=lab.key.kube_namespace)).items
        name = next(one["metadata"]["name"] for one in found if one["spec"]["hostname"] == "w1")
        where = ObjectRef(kind=BKE_NODE, name=name, kube_namespace=lab.key.kube_namespace)
        await lab.clusters.management.delete(where)
        await lab.drop_budget()
        details = await failure_of(handle)
    assert "the node was taken out of the cluster while it was being upgraded" in details.message
    assert details.subject == f"BKENode {lab.key.kube_namespace}/{name}"
    assert lab.runs() == []
    await nothing_is_left(lab)
