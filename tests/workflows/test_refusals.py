"""Design §8, "Paths and plans" and "Pauses": what refuses, what it names, and that nothing has changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hooked_clusters import Gate, HookedClusters, applying
from hopline.domain.resources import ANNOTATION_PAUSED, BKE_CLUSTER, CLUSTER_VERSION, SECRET, UPGRADE_PATH, ObjectRef
from hopline.domain.status import StepState
from hopline.sim.script import Failure, Verb
from small_lab import CATALOGUE_NAME, FINAL, RC2, RC3, SmallLab, SmallLabFactory, with_checks
from workflows.messages import Question

pytestmark = pytest.mark.slow

Break = Callable[[SmallLab], Awaitable[Any]]


def catalogue(change: Callable[[list[dict[str, Any]]], None]) -> Break:
    return lambda lab: lab.edit_catalogue(change)


async def no_catalogue(lab: SmallLab) -> None:
    await lab.clusters.management.delete(ObjectRef(kind=UPGRADE_PATH, name=CATALOGUE_NAME))


async def empty_catalogue(lab: SmallLab) -> None:
    ref = ObjectRef(kind=UPGRADE_PATH, name=CATALOGUE_NAME)
    await lab.clusters.management.patch(ref, {"spec": {"paths": []}})


async def odd_catalogue(lab: SmallLab) -> None:
    ref = ObjectRef(kind=UPGRADE_PATH, name=CATALOGUE_NAME)
    await lab.clusters.management.patch(ref, {"spec": {"paths": "v26.06-rc.2 -> v26.06"}})


def bke(body: dict[str, Any], subresource: str = "") -> Break:
    return lambda lab: lab.patch(BKE_CLUSTER, body, subresource)


async def paused_by_annotation(lab: SmallLab) -> None:
    await lab.annotate(BKE_CLUSTER, {ANNOTATION_PAUSED: "maintenance"})


async def unreachable(lab: SmallLab) -> None:
    lab.clusters.script.unreachable(lab.cluster)


async def older(lab: SmallLab) -> None:
    await lab.patch(CLUSTER_VERSION, {"status": {"currentVersion": "v26.09"}}, "status")


REFUSALS: dict[str, tuple[Break, tuple[str, ...]]] = {
    "no catalogue": (no_catalogue, ("there is no UpgradePath",)),
    "empty": (empty_catalogue, ("UpgradePath", FINAL)),
    "not a list": (odd_catalogue, ("UpgradePath", "spec.paths")),
    "cycle": (catalogue(lambda paths: paths.append({"from": FINAL, "to": RC2})), ("UpgradePath", RC2, FINAL)),
    "self-loop": (catalogue(lambda paths: paths.append({"from": RC3, "to": RC3})), ("UpgradePath", RC3)),
    "duplicate": (catalogue(lambda paths: paths.append({"from": RC2, "to": RC3})), ("UpgradePath", RC2, RC3)),
    "empty version": (catalogue(lambda paths: paths[0].update(to="")), ("UpgradePath", "spec.paths[0].to")),
    "blocked": (catalogue(lambda paths: paths[1].update(blocked=True)), ("UpgradePath", "blocked")),
    "goes backwards": (older, ("v26.09", FINAL)),
    "paused": (bke({"spec": {"pause": True}}), ("the cluster is paused", "spec.pause", '{"spec":{"pause":false}}')),
    "paused by annotation": (
        paused_by_annotation,
        (ANNOTATION_PAUSED, "maintenance", f"kubectl annotate bkecluster NAME -n east {ANNOTATION_PAUSED}-"),
    ),
    "unhealthy": (
        bke({"status": {"clusterHealthState": "Unhealthy"}}, "status"),
        ("the cluster is not Healthy", "status.clusterHealthState", "Unhealthy"),
    ),
    "busy": (bke({"status": {"clusterStatus": "ScalingWorkerNodesUp"}}, "status"), ("ScalingWorkerNodesUp",)),
    "out of reach": (unreachable, ("the cluster that is to be upgraded cannot be reached", "kubeconfig")),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_what_refuses_names_it_with_a_remedy_and_nothing_has_changed(small: SmallLab, name: str) -> None:
    break_it, expected = REFUSALS[name]
    await break_it(small)
    before = await small.version(), await small.bke()
    writes = len(small.writes())
    async with small.worker():
        await small.start(FINAL)
        end = await small.end()
    assert end.type == "Refused"
    for text in expected:
        assert text.replace("NAME", small.cluster.name) in end.message, end.message
    assert "; remedy: " in end.message
    assert (await small.version(), await small.bke()) == before
    assert all(one.subject.startswith("Event ") for one in small.writes()[writes:])
    assert not small.writes(server=str(small.cluster))


async def test_a_pause_names_who_paused(small: SmallLab) -> None:
    await small.patch(BKE_CLUSTER, {"spec": {"pause": True}})
    async with small.worker():
        await small.start(FINAL)
        end = await small.end()
    assert "the cluster is paused by bke since 20" in end.message


async def test_the_command_that_a_pause_proposes_works(small: SmallLab) -> None:
    await small.annotate(BKE_CLUSTER, {ANNOTATION_PAUSED: "true"})
    async with small.worker():
        await small.start(RC3)
        end = await small.end()
        command = end.message.partition("remedy: ")[2]
        assert command == f"kubectl annotate bkecluster {small.cluster.name} -n east {ANNOTATION_PAUSED}-"
        await small.annotate(BKE_CLUSTER, {command.split()[-1].removesuffix("-"): None})
        await small.start(RC3)
        assert (await small.end()).type == "Done"


@pytest.mark.parametrize("name", ["etcd-health", "no-such-check"])
@pytest.mark.parametrize("required", [True, False])
async def test_a_check_that_could_not_look_refuses_when_it_is_required(
    make_small: SmallLabFactory, name: str, required: bool
) -> None:
    lab = await make_small(versions=(RC2, RC3), prepare=with_checks(preCheck=[{"name": name, "required": required}]))
    secret = ObjectRef(kind=SECRET, name=f"{lab.cluster.name}-etcd-healthcheck-client", kube_namespace="east")
    await lab.clusters.management.delete(secret)
    async with lab.worker():
        await lab.start(RC3)
        end = await lab.end()
        status = await lab.status()
    if required:
        assert end.type == "Refused"
        assert name in end.message
        assert not lab.writes("ReleaseImage")
    else:
        assert end.type == "Done"
        assert [(check.name, check.result.value) for check in status.checks] == [
            (name, "could not look" if name == "etcd-health" else "unknown check")
        ]


async def test_could_not_look_is_never_nothing_to_do(small: SmallLab) -> None:
    """`left` is at its version, but the look of the plan fails: it runs, and finds nothing to write."""
    gate = Gate(applying("top"))
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        handle = await small.start(RC3)
        await gate.reached()
        await handle.terminate("to be started anew")
        script = small.clusters.script
        fault = script.fail_request(Failure.FORBIDDEN, verb=Verb.DRY_RUN, cluster=small.cluster, name="left")
        await small.start(RC3)
        status = await small.until_status(lambda seen: seen.hop is not None)
        gate.open()
        assert (await small.end()).type == "Done"
        last = await small.status()
    assert script.hits(fault) == 1
    assert status.component("right").state is StepState.SKIPPED
    assert status.component("left").reason.startswith("could not look")
    assert last.component("left").state is StepState.DONE
    assert len(small.applied("left")) == 1


async def test_a_plan_that_is_refused_is_refused_as_a_run_and_the_other_way_round(small: SmallLab) -> None:
    await small.block(RC3, FINAL)
    async with small.worker():
        with pytest.raises(Exception) as planned:
            await small.requests.inspect(small.cluster, Question.PLAN, FINAL)
        await small.start(FINAL)
        end = await small.end()
    assert str(planned.value) == end.message
