"""`NodeRollout` with drains and waves on the simulated cluster: the fault table, each row with its aftermath."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import CancelledError

from hopline.domain.node_status import NodeStage
from hopline.domain.node_strategy import DrainPolicy, DrainRules, WaveStrategy
from hopline.domain.plan import Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import NODE, ObjectRef
from hopline.sim.journal import EffectType
from hopline.sim.script import ALWAYS, Failure, Verb
from rollout_lab import RolloutLab, failure_of
from workflows import node_rollout
from workflows.messages import NodePageRequest
from workflows.node_rollout import NodeRollout

pytestmark = pytest.mark.slow


@pytest_asyncio.fixture
async def lab(temporal_client: Client, task_queue: str, tmp_path: Path) -> AsyncIterator[RolloutLab]:
    made = RolloutLab(temporal_client, task_queue, tmp_path / "simulation.db", nodes=(3, 5))
    await made.declare()
    await made.raise_api_servers()
    await made.deploy(16)
    yield made
    await made.clusters.aclose()


async def test_each_worker_is_drained_before_its_command_and_given_back(lab: RolloutLab) -> None:
    async with lab.worker():
        result = await (await lab.start()).result()
    assert result.upgraded == ("w1", "w2", "w3", "w4", "w5")
    assert lab.evicted() > 0
    assert await lab.cordoned() == set()
    assert len(await lab.pods()) == 16
    story = [
        effect.verb
        for effect in lab.clusters.journal(EffectType.WRITE)
        if effect.subject == "Node w1" or (effect.verb == "create" and effect.subject.startswith("Command "))
    ]
    assert story[:3] == ["patch", "create", "patch"]


async def test_the_control_plane_is_drained_one_node_at_a_time(lab: RolloutLab) -> None:
    async with lab.worker():
        strategy = WaveStrategy(batch_size=3)
        result = await (await lab.start(InlineHandler.MASTER, Pool.CONTROL_PLANE, strategy=strategy)).result()
    assert (result.upgraded, result.waves) == (("m1", "m2", "m3"), 3)
    assert await lab.cordoned() == set()
    assert not lab.clusters.journal(EffectType.VIOLATION)


async def test_a_wave_has_its_nodes_in_hand_together(lab: RolloutLab) -> None:
    await lab.budget(maxUnavailable=0)
    async with lab.worker():
        handle = await lab.start(strategy=WaveStrategy(max_unavailable="40%"))
        seen = await lab.until_progress(handle, lambda progress: len(progress.nodes.in_hand) == 2)
        assert seen.nodes.in_hand == ("w1", "w2")
        assert {one.wave for one in seen.shown} == {1}
        await lab.drop_budget()
        result = await handle.result()
    assert (sorted(result.upgraded), result.waves) == (["w1", "w2", "w3", "w4", "w5"], 3)
    assert await lab.cordoned() == set()


async def test_a_budget_that_blocks_is_shown_and_the_node_goes_on_when_it_allows(lab: RolloutLab) -> None:
    await lab.budget(maxUnavailable=0)
    async with lab.worker():
        handle = await lab.start()
        seen = await lab.until_progress(handle, lambda progress: "PodDisruptionBudget" in progress.message)
        assert "PodDisruptionBudget kube-system/web: it needs 16 healthy pods" in seen.message
        [shown] = seen.shown
        assert (shown.name, shown.state, shown.roles) == ("w1", NodeStage.DRAINING, ("node",))
        assert (lab.evicted(), lab.runs()) == (0, [])
        await lab.drop_budget()
        result = await handle.result()
    assert len(result.upgraded) == 5
    assert await lab.cordoned() == set()


async def test_a_drain_that_runs_out_of_time_gives_the_node_back_untouched(lab: RolloutLab) -> None:
    await lab.budget(maxUnavailable=0)
    async with lab.worker():
        rules = DrainRules(policy=DrainPolicy.WAIT, timeout_seconds=1)
        details = await failure_of(await lab.start(drain=rules))
    assert "failed on w1: not drained within 1 s" in details.message
    assert "HOPLINE_DRAIN" in details.remedy
    assert await lab.cordoned() == set()
    assert (lab.runs(), lab.evicted()) == ([], 0)
    assert (await lab.states())["w1"][0] == "UpgradeFailed"


@pytest.mark.parametrize("policy", [DrainPolicy.SKIP, DrainPolicy.FORCE])
async def test_a_policy_goes_past_the_budget(lab: RolloutLab, policy: DrainPolicy) -> None:
    await lab.budget(maxUnavailable=0)
    async with lab.worker():
        result = await (await lab.start(drain=DrainRules(policy=policy, timeout_seconds=1))).result()
    assert len(result.upgraded) == 5
    assert lab.evicted() == 0
    assert await lab.cordoned() == set()


async def test_a_failed_node_is_put_aside_within_the_budget_and_named_at_the_end(lab: RolloutLab) -> None:
    lab.script.fail_command("fails for good", node="w2", times=ALWAYS)
    async with lab.worker():
        handle = await lab.start(strategy=WaveStrategy(failure_budget="1"))
        details = await failure_of(handle)
        page = await handle.query(NodeRollout.nodes, NodePageRequest(limit=3))
    assert "failed on w2" in details.message
    assert details.subject.startswith("BKENode east/")
    states = await lab.states()
    assert {name: states[name][0] for name in ("w1", "w2", "w3", "w4", "w5")} == {
        "w1": "Ready", "w2": "UpgradeFailed", "w3": "Ready", "w4": "Ready", "w5": "Ready",
    }  # fmt: skip
    assert [(one.name, one.state) for one in page.nodes] == [
        ("w1", NodeStage.DONE),
        ("w2", NodeStage.FAILED),
        ("w3", NodeStage.DONE),
    ]
    assert (page.more, page.total) == (True, 5)
    assert await lab.cordoned() == set()


async def test_one_failure_more_than_the_budget_stops_after_the_wave(lab: RolloutLab) -> None:
    for name in ("w1", "w2"):
        lab.script.fail_command("fails for good", node=name, times=ALWAYS)
    async with lab.worker():
        strategy = WaveStrategy(batch_size=2, failure_budget="1")
        details = await failure_of(await lab.start(strategy=strategy))
    assert "failed before it" in details.message
    assert set(lab.runs()) == {"w1", "w2"}
    assert await lab.cordoned() == set()


async def test_canaries_go_first_and_alone(lab: RolloutLab) -> None:
    async with lab.worker():
        strategy = WaveStrategy(batch_size=4, canary=1, soak_seconds=0.5)
        result = await (await lab.start(strategy=strategy)).result()
    assert (result.upgraded[0], result.waves, len(result.upgraded)) == ("w1", 2, 5)


async def test_an_abort_in_a_drain_gives_the_node_back(lab: RolloutLab) -> None:
    await lab.budget(maxUnavailable=0)
    async with lab.worker():
        handle = await lab.start(strategy=WaveStrategy(batch_size=2))
        await lab.until_progress(handle, lambda progress: "w1: nothing is evicted" in progress.message)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    assert isinstance(caught.value.cause, CancelledError)
    assert await lab.cordoned() == set()
    assert {state for state, _ in (await lab.states()).values()} == {"Ready"}


async def test_a_cordon_that_a_terminated_run_left_is_given_back_by_the_next_one(lab: RolloutLab) -> None:
    await lab.budget(maxUnavailable=0)
    async with lab.worker():
        first = await lab.start()
        await lab.until_progress(first, lambda progress: "nothing is evicted" in progress.message)
        await first.terminate("as a person would")
        assert await lab.cordoned() == {"w1"}
        await lab.drop_budget()
        result = await (await lab.start()).result()
    assert len(result.upgraded) == 5
    assert await lab.cordoned() == set()
    assert sorted(lab.runs()) == ["w1", "w2", "w3", "w4", "w5"]


async def test_a_worker_that_dies_in_a_drain_is_followed_by_one_that_goes_on(lab: RolloutLab) -> None:
    await lab.budget(maxUnavailable=0)
    async with lab.worker():
        handle = await lab.start()
        await lab.until_progress(handle, lambda progress: "nothing is evicted" in progress.message)
    assert await lab.cordoned() == {"w1"}
    await lab.drop_budget()
    async with lab.worker():
        result = await handle.result()
    assert len(result.upgraded) == 5
    assert await lab.cordoned() == set()
    assert sorted(lab.runs()) == ["w1", "w2", "w3", "w4", "w5"]


async def test_the_cordon_of_a_person_holds_the_node_and_is_named(lab: RolloutLab) -> None:
    target = await lab.clusters.target(lab.key)
    cordon = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}, "spec": {"unschedulable": True}}
    await target.apply(cordon, kind=NODE, field_manager="kubectl")
    async with lab.worker():
        details = await failure_of(await lab.start(seconds=3))
    assert "kubectl" in details.message
    assert await lab.cordoned() == {"w1"}
    assert lab.runs() == []


async def test_a_kubelet_never_gets_ahead_of_an_api_server(
    temporal_client: Client, task_queue: str, tmp_path: Path
) -> None:
    lab = RolloutLab(temporal_client, task_queue, tmp_path / "behind.db", nodes=(1, 1))
    await lab.declare()
    async with lab.worker():
        details = await failure_of(await lab.start(seconds=3))
    assert "kubelet v1.34.4-of.1 would be newer than the API server of m1" in details.message
    assert (lab.runs(), await lab.cordoned()) == ([], set())
    await lab.clusters.aclose()


async def test_containerd_is_drained_once_per_node(lab: RolloutLab) -> None:
    async with lab.worker():
        result = await (await lab.start(InlineHandler.CONTAINERD)).result()
    assert len(result.upgraded) == 5
    writes = [one for one in lab.clusters.journal(EffectType.WRITE) if one.subject == "Node w1"]
    assert len(writes) == 2
    assert await lab.cordoned() == set()


async def test_a_one_node_cluster_is_drained_and_its_pods_come_back(
    temporal_client: Client, task_queue: str, tmp_path: Path
) -> None:
    lab = RolloutLab(temporal_client, task_queue, tmp_path / "one.db", nodes=(1, 0))
    await lab.declare()
    await lab.deploy(2)
    async with lab.worker():
        result = await (await lab.start(InlineHandler.MASTER, Pool.CONTROL_PLANE)).result()
    assert result.upgraded == ("m1",)
    assert len(await lab.pods(node="m1")) == 2
    await lab.clusters.aclose()


async def test_evictions_that_fail_for_a_while_are_tried_again(lab: RolloutLab) -> None:
    lab.script.fail_request(Failure.TRANSIENT, verb=Verb.EVICT, cluster=lab.key, times=2)
    async with lab.worker():
        result = await (await lab.start()).result()
    assert len(result.upgraded) == 5


async def test_a_long_rollout_continues_between_waves(lab: RolloutLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_rollout, "MAX_EVENTS", 60)
    async with lab.worker(unsandboxed=True):
        handle = await lab.start(strategy=WaveStrategy(batch_size=2))
        result = await handle.result()
        first = lab.client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id)
        events = [event async for event in first.fetch_history_events()]
    assert sorted((*result.upgraded, *result.already)) == ["w1", "w2", "w3", "w4", "w5"]
    assert events[-1].HasField("workflow_execution_continued_as_new_event_attributes")
    assert sorted(lab.runs()) == ["w1", "w2", "w3", "w4", "w5"]


async def test_a_node_is_done_when_it_offers_its_devices_again(lab: RolloutLab) -> None:
    async def offer(count: str) -> None:
        target = await lab.clusters.target(lab.key)
        allocatable = {"status": {"allocatable": {"example.com/gpu": count}}}
        await target.patch(ObjectRef(kind=NODE, name="w1"), allocatable, subresource="status")

    await offer("2")
    await lab.budget(maxUnavailable=0)
    async with lab.worker():
        handle = await lab.start()
        await lab.until_progress(handle, lambda progress: "nothing is evicted" in progress.message)
        await offer("1")
        await lab.drop_budget()
        await lab.until_progress(handle, lambda progress: "offers 1 of 2 example.com/gpu" in progress.message)
        assert lab.runs() == ["w1"]
        await offer("2")
        result = await handle.result()
    assert result.upgraded[0] == "w1"
    assert await lab.cordoned() == set()


async def test_a_person_who_cordons_or_uncordons_in_mid_run_is_noticed_and_has_the_last_word(lab: RolloutLab) -> None:
    held = lab.script.hold_commands()
    target = await lab.clusters.target(lab.key)
    cordon = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w2"}, "spec": {"unschedulable": True}}
    async with lab.worker():
        handle = await lab.start(strategy=WaveStrategy(batch_size=2))
        await lab.until(lambda: _begun(lab), lambda running: {"w1", "w2"} <= running)
        await lab.patch_node("w1", {"spec": {"unschedulable": None}})
        await target.apply(cordon, kind=NODE, field_manager="kubectl", force=True)
        lab.script.clear(held)
        result = await handle.result()
    uncordoned, cordoned = sorted(result.notes, reverse=True)
    assert uncordoned == "somebody has uncordoned w1 in the meantime"
    assert cordoned.startswith("kubectl at ")
    assert cordoned.endswith("has cordoned w2 in the meantime; it stays cordoned")
    assert await lab.cordoned() == {"w2"}
    assert "has cordoned w2" in (await lab.states())["w2"][1]


async def _begun(lab: RolloutLab) -> set[str]:
    """Nodes on which a Command has begun."""
    return {one.node.split("/")[0] for one in lab.clusters.journal(EffectType.COMMAND)}
