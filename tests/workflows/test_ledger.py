"""Design §2.6: what a run takes is marked, known before it is taken, and given back whatever the end is."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import pytest

from hooked_clusters import Gate, HookedClusters, applying
from hopline.domain.resources import (
    ANNOTATION_CLUSTER_VERSION,
    ANNOTATION_LAST_UPDATE,
    ANNOTATION_TAKEN_BEFORE,
    ANNOTATION_TAKEN_BY,
    ANNOTATION_UPGRADE_PATH,
    ANNOTATION_UPGRADE_READY,
    BKE_CLUSTER,
)
from hopline.sim.script import Failure, Verb
from small_lab import FINAL, RC2, RC3, SmallLab
from workflows.messages import AbortRequest, OnFailure

pytestmark = pytest.mark.slow

OURS = {
    ANNOTATION_UPGRADE_READY,
    ANNOTATION_CLUSTER_VERSION,
    ANNOTATION_UPGRADE_PATH,
    ANNOTATION_TAKEN_BY,
    ANNOTATION_TAKEN_BEFORE,
}
FOREIGN = {ANNOTATION_CLUSTER_VERSION: "somebody", "example.test/mine": "kept"}


async def abort(lab: SmallLab) -> None:
    await lab.requests.abort(lab.cluster, AbortRequest(reason="the window is over"))


async def cancel(lab: SmallLab) -> None:
    await lab.handle.cancel()


def without_last_update(annotations: dict[str, str]) -> dict[str, str]:
    """What an upgrade leaves for good is only `last-update-configuration`."""
    return {key: value for key, value in annotations.items() if key != ANNOTATION_LAST_UPDATE}


@pytest.mark.parametrize(("end_it", "reason"), [(abort, "aborted: the window is over"), (cancel, "cancelled")])
async def test_an_end_in_mid_hop_gives_back_what_stood_there_before(
    small: SmallLab, end_it: Callable[[SmallLab], Awaitable[None]], reason: str
) -> None:
    await small.annotate(BKE_CLUSTER, FOREIGN)
    before = await small.annotations()
    gate = Gate(applying("left"))
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        await small.start(FINAL)
        await gate.reached()
        taken = await small.annotations()
        assert taken.keys() >= OURS
        assert taken[ANNOTATION_TAKEN_BY] == small.handle.id
        assert taken[ANNOTATION_UPGRADE_READY] == RC3
        assert taken[ANNOTATION_UPGRADE_PATH] == f"{RC2}->{RC3},{RC3}->{FINAL}"
        assert json.loads(taken[ANNOTATION_TAKEN_BEFORE])[ANNOTATION_CLUSTER_VERSION] == "somebody"
        await end_it(small)
        end = await small.end()
        gate.open()
    assert (end.type, reason in end.message) == ("Aborted", True)
    assert without_last_update(await small.annotations()) == before
    assert small.end_state(await small.version()) == (RC2, "Failed")
    assert len(await small.events("UpgradeAborted")) == 1


async def test_success_and_failure_give_back_too(small: SmallLab) -> None:
    await small.annotate(BKE_CLUSTER, FOREIGN)
    before = await small.annotations()
    script = small.clusters.script
    script.fail_request(Failure.REJECTED, verb=Verb.APPLY, cluster=small.cluster, name="left")
    async with small.worker():
        await small.start(FINAL, on_failure=OnFailure.FAIL)
        assert (await small.end()).type == "HopFailed"
        assert without_last_update(await small.annotations()) == before
        await small.start(FINAL)
        assert (await small.end()).type == "Done"
    assert without_last_update(await small.annotations()) == before


async def terminated_in_hop_one(lab: SmallLab) -> None:
    """A run that could give nothing back."""
    gate = Gate(applying("left"))
    async with lab.worker(clusters=HookedClusters(lab.clusters, before=gate)):
        handle = await lab.start(FINAL)
        await gate.reached()
        await handle.terminate("somebody was in a hurry")
    assert (await lab.annotations()).keys() >= OURS


async def test_a_new_run_adopts_the_marks_of_a_terminated_one(small: SmallLab) -> None:
    await small.annotate(BKE_CLUSTER, FOREIGN)
    before = await small.annotations()
    await terminated_in_hop_one(small)
    async with small.worker():
        await small.start(FINAL)
        assert (await small.end()).type == "Done"
    assert without_last_update(await small.annotations()) == before
    assert len(await small.events("LeftoversAdopted")) == 1


async def test_an_abort_after_an_adoption_restores_what_the_first_run_found(small: SmallLab) -> None:
    await terminated_in_hop_one(small)
    assert small.declared(await small.bke())["openFuyaoVersion"] == RC3
    gate = Gate(lambda call: call.subresource == "status" and call.subject.startswith("ReleaseImage"))
    await small.forget_release_image(RC3)
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        await small.start(FINAL)
        await gate.reached()
        assert (await small.annotations()).keys() >= OURS
        await abort(small)
        gate.open()
        assert (await small.end()).type == "Aborted"
    assert small.declared(await small.bke())["openFuyaoVersion"] == RC2
    assert not OURS & set(await small.annotations())


async def test_a_refused_run_gives_back_what_a_terminated_one_has_left(small: SmallLab) -> None:
    before = await small.annotations()
    await terminated_in_hop_one(small)
    await small.patch(BKE_CLUSTER, {"spec": {"pause": True}})
    async with small.worker():
        await small.start(FINAL)
        end = await small.end()
    assert end.type == "Refused"
    assert "the cluster is paused" in end.message
    assert without_last_update(await small.annotations()) == before
    assert len(await small.events("LeftoversGivenBack")) == 1


async def test_a_hop_of_another_controller_is_refused_and_left_alone(small: SmallLab) -> None:
    foreign = {ANNOTATION_UPGRADE_READY: "v26.05", ANNOTATION_CLUSTER_VERSION: "theirs"}
    await small.annotate(BKE_CLUSTER, foreign)
    before = await small.annotations()
    async with small.worker():
        await small.start(FINAL)
        end = await small.end()
    assert end.type == "Refused"
    assert "has already started a hop of this cluster" in end.message
    assert f"kubectl annotate bkecluster {small.cluster.name} -n east {ANNOTATION_UPGRADE_READY}-" in end.message
    assert await small.annotations() == before


async def test_a_hop_announced_by_another_controller_after_the_checks_is_held_and_left_alone(small: SmallLab) -> None:
    """Between the check and the first write somebody else announces a hop: theirs stays, ours waits for a person."""
    foreign = {ANNOTATION_UPGRADE_READY: "v26.05"}
    gate = Gate(lambda call: call.verb == "create" and call.subject.startswith("ReleaseImage"))
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        await small.start(FINAL)
        await gate.reached()
        await small.annotate(BKE_CLUSTER, foreign)
        gate.open()
        status = await small.held_and_told()
        assert "another controller has already started a hop" in status.message
        assert (await small.bke())["status"]["clusterHealthState"] == "Healthy"
        await abort(small)
        assert (await small.end()).type == "Aborted"
    assert (await small.annotations())[ANNOTATION_UPGRADE_READY] == "v26.05"
    assert small.declared(await small.bke())["openFuyaoVersion"] == RC2


async def test_a_mark_that_cannot_be_given_back_is_told_and_does_not_keep_the_run_open(small: SmallLab) -> None:
    gate = Gate(applying("left"))
    script = small.clusters.script
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        await small.start(FINAL)
        await gate.reached()
        fault = script.fail_request(Failure.FORBIDDEN, verb=Verb.PATCH, kind="BKECluster", text="no longer allowed")
        await abort(small)
        assert (await small.end()).type == "Aborted"
        gate.open()
    assert script.hits(fault) == 1
    (event,) = await small.events("NotGivenBack")
    assert "no longer allowed" in event["message"]
    assert (await small.annotations()).keys() >= OURS
