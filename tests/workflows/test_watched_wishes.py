"""Issue of the guide: a wish in mid-run is answered, a refused one is not forgotten; watcher and workflows together."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.resources import (
    BKE_CLUSTER,
    CLUSTER_VERSION,
    DEPLOYMENT,
    RELEASE_IMAGE,
    UPGRADE_PATH,
    Document,
    ObjectRef,
)
from hopline.operations.one_controller import OneController
from hopline.sim.script import Failure, Verb
from small_lab import CATALOGUE_NAME, FINAL, RC2, RC3, SmallLab, SmallLabFactory
from starter.upkeep import Upkeep
from starter.watcher import Watcher
from workflows.messages import AbortRequest, Question, VersionsAnswer

pytestmark = pytest.mark.slow
ACCEPTED = "DesiredVersionAccepted"


@asynccontextmanager
async def watching(lab: SmallLab, first_doubt: float = 600.0) -> AsyncIterator[None]:
    """A watcher that writes, in this process, and a worker."""
    alone = OneController(lab.clusters.management, ControllerPolicy())
    upkeep = Upkeep(lab.clusters, lab.requests, alone)
    watcher = Watcher(lab.clusters.management, lab.requests, upkeep, first_doubt=first_doubt)
    task = asyncio.create_task(watcher.run())
    try:
        async with lab.worker():
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def desire(lab: SmallLab, version: str) -> None:
    await lab.patch(CLUSTER_VERSION, {"spec": {"desiredVersion": version}})


def condition(version: Document, kind: str = ACCEPTED) -> dict[str, Any]:
    found = (version.get("status") or {}).get("conditions") or ()
    return next((dict(one) for one in found if one["type"] == kind), {})


def reject_once(lab: SmallLab) -> None:
    lab.clusters.script.fail_request(Failure.REJECTED, verb=Verb.APPLY, cluster=lab.cluster, name="left", times=1)


async def test_another_version_in_mid_run_is_answered_and_carried_out_after_it(small: SmallLab) -> None:
    reject_once(small)
    async with watching(small):
        await desire(small, RC3)
        await small.until_version(lambda one: one["status"]["phase"] == "Failed")
        await desire(small, FINAL)
        seen = await small.until_version(lambda one: condition(one).get("status") == "False")
        answer = condition(seen)
        assert answer["reason"] == "AnotherUpgradeRuns"
        assert f"{FINAL} is asked for while the upgrade to {RC3} is under way" in answer["message"]
        assert f"hopline abort {small.cluster.name} -n {small.cluster.kube_namespace}" in answer["message"]
        (event,) = await small.events("DesiredVersionRefused")
        assert event["type"] == "Warning"
        assert seen["status"]["phase"] == "Failed", "the run goes on as if nothing had been asked"
        await small.annotate(BKE_CLUSTER, {"bke.bocloud.com/retry": ""})
        seen = await small.until_version(lambda one: small.end_state(one) == (FINAL, "Ready"), 60)
    assert condition(seen)["status"] == "True"
    hops = [(hop["from"], hop["to"], hop["status"]) for hop in seen["status"]["upgradeHistory"]]
    assert hops == [(RC2, RC3, "Succeeded"), (RC3, FINAL, "Succeeded")]


async def test_the_same_version_again_joins_and_takes_the_answer_back(small: SmallLab) -> None:
    reject_once(small)
    async with watching(small):
        await desire(small, FINAL)
        await small.until_version(lambda one: one["status"]["phase"] == "Failed")
        await desire(small, RC3)
        await small.until_version(lambda one: condition(one).get("status") == "False")
        await desire(small, FINAL)
        await small.until_version(lambda one: condition(one).get("status") == "True")
        await small.annotate(BKE_CLUSTER, {"bke.bocloud.com/retry": ""})
        await small.until_version(lambda one: small.end_state(one) == (FINAL, "Ready"), 60)


async def test_a_wish_that_comes_while_the_checks_run_is_kept(make_small: SmallLabFactory) -> None:
    small = await make_small()
    fault = small.clusters.script.unreachable(small.cluster)
    async with watching(small):
        await desire(small, RC3)
        await small.until_version(lambda one: one["status"]["phase"] == "PreChecking")
        await desire(small, FINAL)
        small.clusters.script.clear(fault)
        seen = await small.until_version(lambda one: small.end_state(one) == (FINAL, "Ready"), 60)
    assert seen["spec"]["desiredVersion"] == FINAL
    assert [hop["to"] for hop in seen["status"]["upgradeHistory"]] == [RC3, FINAL]


async def test_back_to_the_current_version_while_held_is_ready_after_the_abort(small: SmallLab) -> None:
    reject_once(small)
    async with watching(small):
        await desire(small, RC3)
        await small.until_version(lambda one: one["status"]["phase"] == "Failed")
        await desire(small, RC2)
        await small.until_version(lambda one: condition(one).get("status") == "False")
        await small.requests.abort(small.cluster, AbortRequest(reason="enough"))
        seen = await small.until_version(lambda one: small.end_state(one) == (RC2, "Ready"))
        await small.until_record(lambda one: one["status"]["clusterHealthState"] == "Healthy")
    assert f"the hop to {RC3} was begun and has not ended" in condition(seen, "Ready")["message"]
    assert condition(seen)["status"] == "True"


async def test_a_refused_wish_starts_by_itself_when_its_release_is_back(small: SmallLab, tmp_path: Path) -> None:
    bundle = small.examples / "releases" / RC3
    shutil.move(bundle, tmp_path / "away")
    async with watching(small, first_doubt=0.3):
        await desire(small, RC3)
        seen = await small.until_version(lambda one: one["status"]["phase"] == "PreCheckFailed")
        assert RC3 in condition(seen, "Ready")["message"]
        shutil.move(tmp_path / "away", bundle)
        await small.until_version(lambda one: small.end_state(one) == (RC3, "Ready"), 60)
    refused = await small.events("UpgradeRefused")
    assert len(refused) == 1, "asking again is not told as long as the answer is the same"


async def test_a_refused_wish_starts_by_itself_when_the_other_controller_is_gone(small: SmallLab) -> None:
    container = {"name": "manager", "image": "registry.example.test/bke-controller-manager:v1"}
    metadata = {"name": "bke-controller-manager", "namespace": "cluster-system"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    small.clusters.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cluster-system"}})
    small.clusters.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    async with watching(small, first_doubt=0.3):
        await desire(small, RC3)
        seen = await small.until_version(lambda one: one["status"]["phase"] == "PreCheckFailed")
        assert "bke-controller-manager" in condition(seen, "Ready")["message"]
        ref = ObjectRef(kind=DEPLOYMENT, name="bke-controller-manager", kube_namespace="cluster-system")
        await small.clusters.management.patch(ref, {"spec": {"replicas": 0}})
        await small.until_version(lambda one: small.end_state(one) == (RC3, "Ready"), 60)


async def test_a_refused_wish_that_is_taken_back_is_ready_and_can_be_declared_again(small: SmallLab) -> None:
    await small.block(RC2, RC3)
    async with watching(small):
        await desire(small, RC3)
        await small.until_version(lambda one: one["status"]["phase"] == "PreCheckFailed")
        await desire(small, RC2)
        await small.until_version(lambda one: one["status"]["phase"] == "Ready")
        await small.block(RC2, RC3, blocked=False)
        await desire(small, RC3)
        await small.until_version(lambda one: small.end_state(one) == (RC3, "Ready"), 60)


async def test_a_platform_that_is_too_old_is_sent_to_the_older_guide(small: SmallLab) -> None:
    await small.patch(CLUSTER_VERSION, {"status": {"currentVersion": "v26.03"}}, "status")
    async with watching(small):
        await desire(small, RC3)
        seen = await small.until_version(lambda one: one["status"]["phase"] == "PreCheckFailed")
        answer = await versions(small)
    ready = condition(seen, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "TooOld")
    assert "v26.03 is older than v26.06-rc.2" in ready["message"]
    assert "the openFuyao upgrade guide for v26.03 to v26.06" in ready["message"]
    assert (answer.reason, answer.versions) == ("TooOld", ())


async def versions(lab: SmallLab) -> VersionsAnswer:
    """`hopline versions NAME -n NS`."""
    result = await lab.requests.inspect(lab.cluster, Question.VERSIONS)
    assert result.versions is not None
    return result.versions


async def test_the_list_of_versions_says_why_it_is_empty(small: SmallLab) -> None:
    async with small.worker():
        assert [entry.version for entry in (await versions(small)).versions] == [RC3, FINAL]
        await small.block(RC2, RC3)
        assert (await versions(small)).reason == "Blocked"
        await small.patch(CLUSTER_VERSION, {"status": {"currentVersion": FINAL}}, "status")
        newest = await versions(small)
        assert (newest.reason, newest.message) == (
            "AlreadyNewest", f"{FINAL} is the newest version of UpgradePath {CATALOGUE_NAME}",
        )  # fmt: skip
        await note_fetch_trouble(small)
        unreachable = await versions(small)
    assert unreachable.reason == "CatalogueUnreachable"
    for text in ("since 2026-08-01T02:00:00Z", "connection refused", "the last good one is from 2026-07-30", "newest"):
        assert text in unreachable.message


async def note_fetch_trouble(lab: SmallLab) -> None:
    """What a fetcher notes on the UpgradePath when its registry does not answer."""
    ref = ObjectRef(kind=UPGRADE_PATH, name=CATALOGUE_NAME)
    fetched = {
        "type": "Fetched",
        "status": "False",
        "reason": "CatalogueUnreachable",
        "message": "connection refused",
        "lastTransitionTime": "2026-08-01T02:00:00Z",
    }
    annotations = {"hopline.dev/fetched-at": "2026-07-30T00:00:00Z"}
    await lab.clusters.management.patch(ref, {"metadata": {"annotations": annotations}})
    await lab.clusters.management.patch(ref, {"status": {"conditions": [fetched]}}, subresource="status")


async def test_a_catalogue_that_cannot_be_read_is_not_an_empty_one(small: SmallLab) -> None:
    script = small.clusters.script
    script.fail_request(Failure.FORBIDDEN, verb=Verb.LIST, kind="UpgradePath", times=1)
    async with small.worker():
        answer = await versions(small)
    assert answer.reason == "CatalogueUnreachable"
    assert "kubectl apply -f deploy/rbac.yaml" in answer.message


async def test_steps_and_agents_are_shown_on_the_cluster(make_sample: Any) -> None:
    sample: SmallLab = await make_sample()
    async with watching(sample):
        await desire(sample, RC3)
        await sample.until_version(lambda one: sample.end_state(one) == (RC3, "Ready"), 120)
    status = (await sample.bke())["status"]
    assert status["phase"] == "EnsureCluster"
    steps = {entry["name"]: entry for entry in status["phaseStatus"]}
    assert steps["EnsureEtcdUpgrade"]["status"] == "Skipped"
    for name in ("EnsureContainerdUpgrade", "EnsureMasterUpgrade", "EnsureWorkerUpgrade", "EnsureCluster"):
        assert steps[name]["status"] == "Succeeded", json.dumps(status["phaseStatus"])
        assert steps[name]["startTime"] <= steps[name]["endTime"]
    assert list(steps)[-1] == "EnsureCluster"
    assert status["agentStatus"] == {"replies": 2, "unavailableReplies": 0, "status": "2/2"}
    ref = ObjectRef(kind=RELEASE_IMAGE, name=f"release-{RC3}", kube_namespace=sample.cluster.kube_namespace)
    assert (await sample.clusters.management.get(ref))["status"]["phase"] == "Valid"
