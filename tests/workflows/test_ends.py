"""An abort and a deletion end a run wherever it is, and nothing of it goes on afterwards (design §2.7, §8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from hooked_clusters import Call, Gate, HookedClusters, applying
from hopline.domain.errors import Refusal
from hopline.domain.resources import ANNOTATION_TAKEN_BY, BKE_CLUSTER, CLUSTER_VERSION
from hopline.sim.journal import EffectType
from hopline.sim.script import Failure, Verb
from small_lab import FINAL, GRAPH, RC2, RC3, SmallLab, SmallLabFactory
from workflows import activity_options
from workflows.identifiers import rollout_workflow_id
from workflows.messages import AbortRequest

pytestmark = pytest.mark.slow


def declaring(call: Call) -> bool:
    """The patch that declares versions for the node agents."""
    return call.verb == "patch" and call.writes("spec", "clusterConfig")


@pytest.mark.parametrize("place", ["open_hop", "apply"])
async def test_an_abort_that_meets_an_effect_which_ends_well_is_not_swallowed(small: SmallLab, place: str) -> None:
    """The activity has written and answers before it hears of the cancellation: nothing may follow all the same."""
    gate = Gate(applying("base") if place == "apply" else declaring)
    async with small.worker(clusters=HookedClusters(small.clusters, after=gate)):
        await small.start(FINAL)
        await gate.reached()
        await small.requests.abort(small.cluster, AbortRequest())
        gate.open()
        assert (await small.end()).type == "Aborted"
    assert [len(small.applied(name)) for name in GRAPH] == [1 if place == "apply" else 0, 0, 0, 0]
    assert small.end_state(await small.version()) == (RC2, "Failed")


def giving_back(hop: int) -> Gate:
    """Waits after the patch that removes our marks at the end of a hop."""
    seen = 0

    def fits(call: Call) -> bool:
        nonlocal seen
        removed = call.body.get("metadata", {}).get("annotations", {}).get(ANNOTATION_TAKEN_BY, "kept") is None
        seen += removed
        return removed and seen == hop

    return Gate(fits)


async def test_an_abort_that_meets_the_end_of_the_first_hop_keeps_it_and_ends_there(small: SmallLab) -> None:
    gate = giving_back(1)
    async with small.worker(clusters=HookedClusters(small.clusters, after=gate)):
        await small.start(FINAL)
        await gate.reached()
        await small.requests.abort(small.cluster, AbortRequest())
        gate.open()
        assert (await small.end()).type == "Aborted"
        status = await small.status()
    assert [finished.to_version for finished in status.finished_hops] == [RC3]
    assert small.end_state(await small.version()) == (RC3, "Failed")
    assert (await small.bke())["status"]["clusterHealthState"] == "Healthy"
    assert [len(small.applied(name)) for name in GRAPH] == [1, 1, 1, 1]


async def test_after_the_last_word_there_is_nothing_to_abort_or_cancel(small: SmallLab) -> None:
    gate = giving_back(2)
    async with small.worker(clusters=HookedClusters(small.clusters, after=gate)):
        await small.start(FINAL)
        await gate.reached()
        with pytest.raises(Refusal, match=r"nothing to abort: the upgrade of .* is Done"):
            await small.requests.abort(small.cluster, AbortRequest())
        await small.handle.cancel()
        gate.open()
        assert (await small.end()).type == "Done"
    assert small.end_state(await small.version()) == (FINAL, "Ready")
    assert not await small.events("UpgradeAborted")


@pytest.mark.parametrize("kind", [BKE_CLUSTER, CLUSTER_VERSION], ids=lambda kind: kind.kind)
async def test_deletion_in_mid_hop_cleans_up_and_ends_aborted(small: SmallLab, kind: Any) -> None:
    gate = Gate(applying("left"))
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        await small.start(FINAL)
        await gate.reached()
        await small.delete(kind)
        gate.open()
        end = await small.end()
    assert end.type == "Aborted"
    assert f"{kind.kind} {small.cluster}" in end.message
    # What was ready to start may still have started beside the publication that heard of it; the next hop never does.
    assert not small.writes(f"ReleaseImage east/release-{FINAL}")
    if kind is CLUSTER_VERSION:
        assert not [key for key in await small.annotations() if key.startswith(("cvo.", "hopline."))]
        bke = await small.bke()
        assert bke["status"]["clusterHealthState"] == "UpgradeFailed"
        assert small.declared(bke)["openFuyaoVersion"] == RC3
        assert len(await small.events("UpgradeAborted")) == 1


@pytest.mark.parametrize("finalizer", [False, True])
async def test_deletion_of_a_held_hop_is_noticed(
    make_small: SmallLabFactory, monkeypatch: pytest.MonkeyPatch, finalizer: bool
) -> None:
    """Nothing is published while a hop is held, so the run looks from time to time."""
    monkeypatch.setattr(activity_options, "FIRST_LOOK", timedelta(seconds=0.2))
    monkeypatch.setattr(activity_options, "LONGEST_LOOK", timedelta(seconds=0.2))
    lab = await make_small()
    if finalizer:
        await lab.patch(BKE_CLUSTER, {"metadata": {"finalizers": ["example.test/keep"]}})
    lab.clusters.script.fail_request(Failure.REJECTED, verb=Verb.APPLY, cluster=lab.cluster, name="left")
    async with lab.worker():
        await lab.start(FINAL)
        await lab.held()
        await lab.delete(BKE_CLUSTER)
        end = await lab.end()
    assert end.type == "Aborted"
    assert f"BKECluster {lab.cluster}" in end.message
    if finalizer:
        assert "is being deleted since" in end.message
        assert not [key for key in await lab.annotations() if key.startswith(("cvo.", "hopline."))]


async def cancel_requested(lab: SmallLab, workflow_id: str) -> None:
    """Wait until a rollout has been asked to stop."""
    handle = lab.client.get_workflow_handle(workflow_id)

    async def look() -> dict[str, Any]:
        return {"types": [event.event_type for event in (await handle.fetch_history()).events]}

    asked = EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED
    await lab.until_seen(look, lambda seen: asked in seen["types"])


async def test_an_abort_that_meets_the_begin_of_a_node_takes_no_other_one(
    make_sample: Callable[..., Awaitable[SmallLab]],
) -> None:
    """The Command is made, and its activity answers before it hears of the cancellation."""
    lab = await make_sample(nodes=(3, 2))
    gate = Gate(lambda call: call.verb == "create" and call.subject.startswith("Command "))

    async def made() -> list[str]:
        return [one.subject for one in lab.writes("Command", verb="create")]

    async with lab.worker(clusters=HookedClusters(lab.clusters, after=gate)):
        await lab.start(FINAL)
        # Two pools are rolled out side by side: each waits with its first Command.
        await lab.until_seen(made, lambda names: len(names) == 2)
        await lab.requests.abort(lab.cluster, AbortRequest())
        await cancel_requested(lab, rollout_workflow_id(lab.cluster, RC3, "containerd", "control-plane"))
        gate.open()
        assert (await lab.end()).type == "Aborted"
    begun = {effect.node.split("/")[0] for effect in lab.clusters.journal(EffectType.COMMAND)}
    assert begun <= {"m1", "w1"}
    assert begun
