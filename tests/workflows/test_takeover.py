"""A cluster that the existing controller has left failed: nothing starts by itself, and a person's word brings it home.

What it leaves: openfuyao-api.md §3.5 and observed.md §5.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hopline.domain.cluster import FAILED_BIT
from hopline.domain.resources import (
    ANNOTATION_CLUSTER_VERSION,
    ANNOTATION_HANDLED,
    ANNOTATION_RETRY,
    ANNOTATION_TAKEN_BY,
    ANNOTATION_UPGRADE_PATH,
    ANNOTATION_UPGRADE_READY,
    BKE_CLUSTER,
    BKE_NODE,
    CLUSTER_VERSION,
    COMMAND,
    LABEL_CLUSTER_NAME,
    Document,
    ObjectRef,
)
from hopline.domain.timestamps import timestamp
from small_lab import FINAL, RC2, RC3, SmallLab
from starter.watcher import Watcher

pytestmark = pytest.mark.slow

HOP = (ANNOTATION_UPGRADE_READY, ANNOTATION_CLUSTER_VERSION, ANNOTATION_UPGRADE_PATH)


@asynccontextmanager
async def watching(lab: SmallLab) -> AsyncIterator[None]:
    task = asyncio.create_task(Watcher(lab.clusters.management, lab.requests).run())
    try:
        async with lab.worker():
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def condition(kind: str, status: str, reason: str, message: str, at: str) -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


async def leave_failed(lab: SmallLab, *, component: str, announced: bool = False) -> None:
    """As the existing controller does after its tenth attempt; `announced`: it was stopped before it tidied up."""
    await lab.patch(CLUSTER_VERSION, {"spec": {"desiredVersion": RC3}})
    # A person's wish comes after the failure, or it is the one that failed: seconds must tell.
    at = timestamp(datetime.now(UTC) + timedelta(seconds=1))
    error = f"{component}: component {component}: server-side apply: 404"
    annotations = {ANNOTATION_UPGRADE_READY: RC3, ANNOTATION_CLUSTER_VERSION: lab.cluster.name}
    annotations[ANNOTATION_UPGRADE_PATH] = f"{RC2}->{RC3}"
    spec = {"clusterConfig": {"cluster": {"openFuyaoVersion": RC3}}}
    await lab.patch(BKE_CLUSTER, {"spec": spec, "metadata": {"annotations": annotations if announced else {}}})
    progress = {
        "targetVersion": RC3,
        "startedAt": at,
        "completed": [{"name": "base", "version": RC3, "completedAt": at}],
        "lastError": error,
        "lastFailure": {"name": component, "version": RC3, "failedAt": at, "error": error, "attempt": 9},
    }
    bke: dict[str, Any] = {
        "clusterStatus": "UpgradeFailed",
        "clusterHealthState": "UpgradeFailed",
        "declarativeUpgrade": progress,
        "conditions": [
            condition("ClusterHealthyState", "False", "UpgradeFailed", "UpgradeFailed", at),
            condition("ManualInterventionRequired", "True", "RetryExhausted", "set the retry annotation to resume", at),
        ],
    }
    await lab.patch(BKE_CLUSTER, {"status": bke}, subresource="status")
    version = {
        "phase": "Failed",
        "conditions": [condition("Ready", "False", "UpgradeHopFailed", error, at)],
        "upgradeHistory": [{"from": RC2, "to": RC3, "status": "Failed", "completedAt": at}],
    }
    await lab.patch(CLUSTER_VERSION, {"status": version}, subresource="status")


async def give_up(lab: SmallLab, hostname: str) -> str:
    """A node with the Failed bit and its last Command; its address."""
    management = lab.clusters.management
    labels = f"{LABEL_CLUSTER_NAME}={lab.cluster.name}"
    found = (await management.list(BKE_NODE, kube_namespace="east", labels=labels)).items
    node = next(one for one in found if one["spec"]["hostname"] == hostname)
    ip = str(node["spec"]["ip"])
    ref = ObjectRef(kind=BKE_NODE, name=node["metadata"]["name"], kube_namespace="east")
    status = {"stateCode": node["status"]["stateCode"] | FAILED_BIT, "state": "UpgradeFailed", "retryCount": 10}
    await management.patch(ref, {"status": status}, subresource="status")
    return ip


async def home(lab: SmallLab, mark: str) -> Document:
    """Ready and Healthy, and nothing of the failure shows any more."""
    version = await lab.until_version(
        lambda one: one["metadata"].get("annotations", {}).get(ANNOTATION_HANDLED) == mark
    )
    bke = await lab.bke()
    assert version["status"]["phase"] == "Ready"
    assert (bke["status"]["clusterStatus"], bke["status"]["clusterHealthState"]) == ("Ready", "Healthy")
    states = {one["type"]: one["status"] for one in bke["status"]["conditions"]}
    assert states == {"ClusterHealthyState": "True", "ManualInterventionRequired": "False"}
    assert not {*HOP, ANNOTATION_TAKEN_BY, ANNOTATION_RETRY} & {*bke["metadata"]["annotations"]}
    progress = bke["status"]["declarativeUpgrade"]
    assert (progress.get("lastError", ""), progress.get("lastFailure")) == ("", None)
    return version


async def test_it_is_not_started_by_a_watcher_that_comes_and_the_retry_annotation_takes_it_over(
    small: SmallLab,
) -> None:
    await leave_failed(small, component="left")
    async with watching(small):
        (event,) = await small.until_seen(lambda: small.events("UpgradeLeftFailed"), lambda found: len(found) == 1)
        assert f"kubectl annotate bkecluster {small.cluster.name} -n east {ANNOTATION_RETRY}=" in event["message"]
        assert await small.requests.describe(small.cluster) is None
        generation = (await small.version())["metadata"]["generation"]
        await small.annotate(BKE_CLUSTER, {ANNOTATION_RETRY: ""})
        version = await home(small, f"{generation}/Done")
    assert version["status"]["currentVersion"] == RC3
    (event,) = await small.events("UpgradeTakenOver")
    for part in ("clusterHealthState UpgradeFailed", f"a hop to {RC3} with 1 components", "its failure in left"):
        assert part in event["message"]
    # What is recorded as completed is not believed: nothing of it was there.
    assert len(small.applied("base")) == 1


async def test_a_new_wish_takes_it_over(small: SmallLab) -> None:
    await leave_failed(small, component="left")
    async with watching(small):
        await small.until_seen(lambda: small.events("UpgradeLeftFailed"), lambda found: len(found) == 1)
        found = await small.patch(CLUSTER_VERSION, {"spec": {"desiredVersion": FINAL}})
        version = await home(small, f"{found['metadata']['generation']}/Done")
    assert version["status"]["currentVersion"] == FINAL
    assert [(hop["to"], hop["status"]) for hop in version["status"]["upgradeHistory"]] == [
        (RC3, "Failed"),
        (RC3, "Succeeded"),
        (FINAL, "Succeeded"),
    ]


async def test_annotations_that_it_has_left_are_taken_over_and_not_given_back(small: SmallLab) -> None:
    await leave_failed(small, component="left", announced=True)
    async with small.worker():
        await small.start(RC3)
        assert (await small.end()).type == "Done"
    assert not {*HOP} & {*await small.annotations()}
    (event,) = await small.events("UpgradeTakenOver")
    assert ANNOTATION_UPGRADE_READY in event["message"]


async def test_a_hop_that_was_stopped_in_the_middle_is_taken_over_at_a_persons_word(small: SmallLab) -> None:
    annotations = {ANNOTATION_UPGRADE_READY: RC3, ANNOTATION_CLUSTER_VERSION: small.cluster.name}
    await small.annotate(BKE_CLUSTER, annotations)
    await small.patch(BKE_CLUSTER, {"status": {"clusterHealthState": "Upgrading"}}, subresource="status")
    async with watching(small):
        found = await small.patch(CLUSTER_VERSION, {"spec": {"desiredVersion": RC3}})
        mark = f"{found['metadata']['generation']}"
        await small.until_version(
            lambda one: one["metadata"].get("annotations", {}).get(ANNOTATION_HANDLED) == f"{mark}/Refused"
        )
        (event,) = await small.events("UpgradeRefused")
        assert f"or take its hop over: kubectl annotate bkecluster {small.cluster.name} -n east" in event["message"]
        await small.annotate(BKE_CLUSTER, {ANNOTATION_RETRY: ""})
        await small.until_version(
            lambda one: one["metadata"].get("annotations", {}).get(ANNOTATION_HANDLED) == f"{mark}/Done"
        )
    assert not {*HOP, ANNOTATION_RETRY} & {*await small.annotations()}
    assert len(await small.events("UpgradeTakenOver")) == 1


async def test_a_node_that_was_given_up_is_named_and_takes_part_after_the_annotation(sample: SmallLab) -> None:
    await leave_failed(sample, component="kubernetes-worker")
    address = await give_up(sample, "w1")
    async with watching(sample):
        await sample.until_seen(lambda: sample.events("UpgradeLeftFailed"), lambda found: len(found) == 1)
        generation = (await sample.version())["metadata"]["generation"]
        await sample.annotate(BKE_CLUSTER, {ANNOTATION_RETRY: address})
        await home(sample, f"{generation}/Done")
    (event,) = await sample.events("NodesRevived")
    assert address in event["message"]
    assert sample.writes(COMMAND.kind, verb="create")
    assert not await sample.events("NodesLeftOut")


async def test_a_new_wish_names_the_nodes_that_need_the_annotation(sample: SmallLab) -> None:
    """Never left out in silence: the catalogue's check refuses, and the annotation that it names is all it takes."""
    await leave_failed(sample, component="kubernetes-worker")
    address = await give_up(sample, "w1")
    async with watching(sample):
        await sample.until_seen(lambda: sample.events("UpgradeLeftFailed"), lambda found: len(found) == 1)
        found = await sample.patch(CLUSTER_VERSION, {"spec": {"desiredVersion": FINAL}})
        (event,) = await sample.until_seen(lambda: sample.events("UpgradeRefused"), lambda found: len(found) == 1)
        command = f"kubectl annotate bkecluster {sample.cluster.name} -n east {ANNOTATION_RETRY}={address}"
        assert command in event["message"]
        await sample.annotate(BKE_CLUSTER, {ANNOTATION_RETRY: address})
        await home(sample, f"{found['metadata']['generation']}/Done")
    assert len(await sample.events("UpgradeTakenOver")) == 1
