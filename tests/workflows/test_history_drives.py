"""Design §2.2 and §2.4: history and observation decide what is done; records are claims; effects happen once."""

from __future__ import annotations

from typing import Any

import pytest

from hooked_clusters import Call, Gate, HookedClusters, applying
from hopline.domain.errors import Transient
from hopline.domain.resources import BKE_CLUSTER, CLUSTER_VERSION
from hopline.domain.status import RunState, StepState
from hopline.sim.journal import EffectType
from small_lab import FINAL, GRAPH, RC3, SmallLab, SmallLabFactory, seeded
from starter.requests import Requests
from upgrade_lab import LabFactory
from workflows.messages import Question

pytestmark = pytest.mark.slow


async def test_a_record_of_completed_components_skips_nothing(make_small: SmallLabFactory) -> None:
    def lie(bke: dict[str, Any], version: dict[str, Any]) -> None:
        done = [{"name": name, "version": RC3, "completedAt": "2026-07-30T08:12:00Z"} for name in GRAPH]
        bke["status"]["declarativeUpgrade"] = {"targetVersion": RC3, "completed": done}

    lab = await make_small(prepare=seeded(lie))
    gate = Gate(applying("base"))
    async with lab.worker(clusters=HookedClusters(lab.clusters, before=gate)):
        handle = await lab.start(RC3)
        await gate.reached()
        status = await lab.until_status(lambda seen: seen.component("base").state is StepState.RUNNING)
        assert {component.state for component in status.components} == {StepState.RUNNING, StepState.PENDING}
        await lab.until_record(lambda bke: bke["status"]["declarativeUpgrade"].get("completed") == [])
        gate.open()
        await handle.result()
    assert [len(lab.applied(name)) for name in GRAPH] == [1, 1, 1, 1]


async def test_recorded_versions_that_lie_do_not_skip_nodes(make_lab: LabFactory) -> None:
    lab = await make_lab(nodes=(1, 1))
    lie = {"kubernetesVersion": "v1.34.4-of.1", "containerdVersion": "v2.1.2", "openFuyaoVersion": RC3}
    await lab.patch(BKE_CLUSTER, {"status": lie}, "status")
    async with lab.worker():
        await (await lab.start(RC3)).result()
    commands = lab.clusters.journal(EffectType.COMMAND)
    assert {effect.node.split("/")[0] for effect in commands if effect.outcome == "done"} == {"m1", "w1"}
    assert len([effect for effect in commands if any("phase=" in argument for argument in effect.arguments)]) >= 2


async def test_already_there_is_seen_and_not_read_from_a_record(small: SmallLab) -> None:
    async with small.worker():
        await (await small.start(RC3)).result()
        await (await small.start(RC3)).result()
        assert small.end_state(await small.version()) == (RC3, "Ready")
        await small.patch(CLUSTER_VERSION, {"status": {"currentVersion": FINAL}}, "status")
        await small.start(FINAL)
        end = await small.end()
    assert end.type == "Refused"
    assert f"{FINAL} is recorded, but base is not at {FINAL}" in end.message
    assert "status.currentVersion" in end.message


async def test_agents_that_tell_no_version_are_no_reason_to_doubt_what_is_there(make_lab: LabFactory) -> None:
    lab = await make_lab(nodes=(1, 1))
    async with lab.worker():
        await (await lab.start(RC3)).result()
        plan = (await Requests(lab.client, lab.task_queue).inspect(lab.cluster, Question.PLAN, RC3)).plan
        assert plan is not None
        assert [one.message for one in plan.blocking] == []
        assert [one.message for one in plan.findings if "bkeagent" in one.message] == [
            f"{RC3} is recorded, and whether bkeagent is at v1.0.2 cannot be seen: "
            "no node tells the version of its agent"
        ]
        await (await lab.start(RC3)).result()


async def test_nobody_looked_is_not_already_there(small: SmallLab) -> None:
    fault = small.clusters.script.unreachable(small.cluster)
    async with small.worker():
        await small.start("v26.06-rc.2")
        end = await small.end()
    assert small.clusters.script.hits(fault) > 0
    assert end.type == "Refused"
    assert "could not look" in end.message


async def test_a_run_started_after_a_terminated_one_skips_by_observation(small: SmallLab) -> None:
    gate = Gate(applying("top"))
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        first = await small.start(FINAL)
        await gate.reached()
        await first.terminate("a person did it")
        second = await small.start(FINAL)
        status = await small.until_status(lambda seen: seen.hop is not None)
        seen = {component.name: component for component in status.components}
        assert [seen[name].state for name in ("base", "left", "right")] == [StepState.SKIPPED] * 3
        assert all(f"already at {RC3}" in seen[name].reason for name in ("base", "left", "right"))
        gate.open()
        assert (await second.result()).hops == 2
    assert [len(small.applied(name)) for name in GRAPH] == [2, 2, 2, 2]
    assert second.first_execution_run_id != first.first_execution_run_id


async def test_an_attempt_that_fails_after_its_effect_repeats_nothing(small: SmallLab) -> None:
    """Each of these writes is done, and then its activity fails: the next attempt must find it done."""
    failed: set[str] = set()

    def after(call: Call) -> None:
        for name, fits in {
            "release image": call.verb == "create" and call.subject.startswith("ReleaseImage"),
            "annotations": call.subject.startswith("BKECluster") and call.writes("metadata", "annotations"),
            "versions": call.subject.startswith("BKECluster") and call.writes("spec"),
            "apply": applying("base")(call),
            "status": call.subresource == "status" and call.subject.startswith("BKECluster"),
            "event": call.verb == "create" and call.subject.startswith("Event"),
        }.items():
            if fits and name not in failed:
                failed.add(name)
                raise Transient(f"the connection broke after the write of: {name}", subject=call.subject)

    async with small.worker(clusters=HookedClusters(small.clusters, after=after)):
        await (await small.start(RC3)).result()
    assert failed == {"release image", "annotations", "versions", "apply", "status", "event"}
    assert [len(small.applied(name)) for name in GRAPH] == [1, 1, 1, 1]
    created = [effect.subject for effect in small.writes(verb="create")]
    assert len(created) == len(set(created))
    events = [(event["reason"], event["message"]) for event in await small.events()]
    assert len(events) == len(set(events))
    assert {"UpgradeReady", "ComponentUpgrading", "ComponentUpgraded", "HopSucceeded"} == {name for name, _ in events}
    history = (await small.version())["status"]["upgradeHistory"]
    assert [(entry["to"], entry["status"]) for entry in history] == [(RC3, "Succeeded")]
    declared = [one for one in small.writes("BKECluster", verb="patch") if any(".spec." in f for f in one.fields)]
    assert len(declared) == 1


async def test_a_worker_that_dies_after_an_effect_repeats_nothing(small: SmallLab) -> None:
    """The first worker goes away while its write is done and its answer is not: another one goes on."""
    gate = Gate(applying("left"))
    async with small.worker(clusters=HookedClusters(small.clusters, after=gate)):
        handle = await small.start(RC3)
        await gate.reached()
    assert (await handle.describe()).close_time is None
    async with small.worker():
        await handle.result()
        assert (await small.status()).state is RunState.DONE
        assert (await small.status()).component("left").attempt == 1
    assert [len(small.applied(name)) for name in GRAPH] == [1, 1, 1, 1]
