"""Design §2.10: a hop declares its own versions while the cluster is Healthy, and an abort gives back what it can."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from hooked_clusters import Call, Gate, HookedClusters, applying
from hopline.domain.errors import Rejected
from hopline.domain.resources import ANNOTATION_LAST_UPDATE, Document
from hopline.domain.status import RunState
from hopline.domain.versions import parse_version
from hopline.sim.journal import Effect
from hopline.sim.kinds import MANAGEMENT
from hopline.sim.script import Failure, Verb
from looking import until_enough
from small_lab import FINAL, RC2, RC3, SmallLab
from workflows.messages import AbortRequest, OnFailure

pytestmark = pytest.mark.slow

AT_RC2 = {
    "openFuyaoVersion": RC2,
    "kubernetesVersion": "v1.34.3-of.1",
    "etcdVersion": "v3.6.7-of.1",
    "containerdVersion": "v2.1.1",
}
AT_RC3 = {**AT_RC2, "openFuyaoVersion": RC3, "kubernetesVersion": "v1.34.4-of.1", "containerdVersion": "v2.1.2"}
AT_FINAL = {
    "openFuyaoVersion": FINAL,
    "kubernetesVersion": "v1.34.5-of.1",
    "etcdVersion": "v3.6.8-of.1",
    "containerdVersion": "v2.1.3",
}


class Webhook:
    """The existing validating webhook of BKECluster (openfuyao-api.md §7.1): newer only while Healthy, never older."""

    def __init__(self, lab: SmallLab) -> None:
        self._lab = lab
        self.asked = 0
        self.denied: list[str] = []

    async def __call__(self, call: Call) -> None:
        if not call.subject.startswith("BKECluster") or not call.writes("spec", "clusterConfig", "cluster"):
            return
        self.asked += 1
        bke = await self._lab.bke()
        wanted = call.body["spec"]["clusterConfig"]["cluster"]
        for field in ("kubernetesVersion", "etcdVersion"):
            self._judge(field, self._lab.declared(bke)[field], wanted.get(field, ""), bke)

    def _judge(self, field: str, now: str, wanted: str, bke: Document) -> None:
        if not wanted or wanted == now:
            return
        health = bke["status"]["clusterHealthState"]
        if parse_version(wanted) < parse_version(now):
            self._deny(f"spec.clusterConfig.cluster.{field} must not go back from {now} to {wanted}")
        if health != "Healthy":
            self._deny(f"spec.clusterConfig.cluster.{field} may change only while Healthy, not {health}")

    def _deny(self, text: str) -> None:
        self.denied.append(text)
        raise Rejected(f"admission webhook vbkecluster.kb.io denied the request: {text}", subject="BKECluster")


def versions(bke: Document, part: str) -> dict[str, str]:
    fields: dict[str, Any] = bke["spec"]["clusterConfig"]["cluster"] if part == "spec" else bke["status"]
    return {field: fields[field] for field in AT_RC2}


def declarations(lab: SmallLab) -> list[Effect]:
    return [one for one in lab.writes("BKECluster", verb="patch") if any(".spec." in field for field in one.fields)]


async def test_each_hop_declares_only_its_own_versions_while_the_cluster_is_healthy(sample: SmallLab) -> None:
    webhook = Webhook(sample)
    seen: list[tuple[dict[str, str], dict[str, Any]]] = []

    async def look(call: Call) -> None:
        if call.subject.startswith("BKECluster") and call.writes("spec", "clusterConfig"):
            bke = await sample.bke()
            seen.append((versions(bke, "spec"), json.loads(bke["metadata"]["annotations"][ANNOTATION_LAST_UPDATE])))

    async with sample.worker(clusters=HookedClusters(sample.clusters, before=webhook, after=look)):
        await sample.start(FINAL)
        assert (await sample.end()).type == "Done"
    assert (webhook.asked, webhook.denied) == (2, [])
    assert [declared for declared, _ in seen] == [AT_RC3, AT_FINAL]
    for declared, last in seen:
        assert {field: last["spec"]["clusterConfig"]["cluster"][field] for field in AT_RC2} == declared
    bke = await sample.bke()
    assert versions(bke, "spec") == versions(bke, "status") == AT_FINAL
    for declaration in declarations(sample):
        assert any(ANNOTATION_LAST_UPDATE in field for field in declaration.fields)


async def test_health_is_upgrading_only_after_the_declaration_and_healthy_before_the_next(small: SmallLab) -> None:
    states: list[str] = []

    async def look(call: Call) -> None:
        if not call.subject.startswith("BKECluster") or call.verb != "patch":
            return
        if call.writes("spec", "clusterConfig"):
            states.append("declared " + call.body["spec"]["clusterConfig"]["cluster"]["openFuyaoVersion"])
        status = call.body.get("status", {})
        if "clusterHealthState" in status or "clusterStatus" in status:
            found = (await small.bke())["status"]
            states.append(f"{found['clusterStatus']}/{found['clusterHealthState']}")

    looks: set[datetime] = set()

    async def shown() -> int:
        return states.count("Checking/Upgrading")

    async def until_shown(call: Call) -> None:
        """A small cluster is looked at faster than it is told: the look waits here for the picture of itself."""
        status = await small.requests.status(small.cluster) if call.server != MANAGEMENT else None
        if status is not None and status.state is RunState.CHECKING and status.health_check_started is not None:
            looks.add(status.health_check_started)
            await until_enough(shown, lambda count: count == len(looks))

    async with small.worker(clusters=HookedClusters(small.clusters, before=until_shown, after=look)):
        await small.start(FINAL)
        assert (await small.end()).type == "Done"
    hop = ["Upgrading/Upgrading", "Checking/Upgrading", "Ready/Healthy"]
    assert states == [f"declared {RC3}", *hop, f"declared {FINAL}", *hop]


async def test_a_run_after_a_failed_one_may_declare_newer_versions(sample: SmallLab) -> None:
    """The failed run left UpgradeFailed; the webhook lets nothing newer in until somebody has seen the cluster well."""
    script = sample.clusters.script
    script.fail_request(Failure.REJECTED, verb=Verb.APPLY, cluster=sample.cluster)
    webhook = Webhook(sample)
    async with sample.worker(clusters=HookedClusters(sample.clusters)):
        await sample.start(FINAL, on_failure=OnFailure.FAIL)
        assert (await sample.end()).type == "HopFailed"
    bke = await sample.bke()
    assert bke["status"]["clusterHealthState"] == "UpgradeFailed"
    assert versions(bke, "spec") == {**AT_RC2, "openFuyaoVersion": RC3}
    async with sample.worker(clusters=HookedClusters(sample.clusters, before=webhook)):
        await sample.start(RC3)
        assert (await sample.end()).type == "Done"
    assert (webhook.asked, webhook.denied) == (1, [])
    assert versions(await sample.bke(), "spec") == AT_RC3


async def test_an_abort_restores_the_versions_of_components_that_were_never_started(sample: SmallLab) -> None:
    gate = Gate(lambda call: call.verb == "apply")
    async with sample.worker(clusters=HookedClusters(sample.clusters, before=gate)):
        await sample.start(FINAL)
        await gate.reached()
        assert versions(await sample.bke(), "spec") == AT_RC3
        await sample.requests.abort(sample.cluster, AbortRequest())
        assert (await sample.end()).type == "Aborted"
        gate.open()
    bke = await sample.bke()
    # The provider had begun, and it belongs to openFuyaoVersion: that one stays.
    assert versions(bke, "spec") == {**AT_RC2, "openFuyaoVersion": RC3}
    assert versions(bke, "status") == AT_RC2
    last = json.loads(bke["metadata"]["annotations"][ANNOTATION_LAST_UPDATE])
    assert last["spec"]["clusterConfig"]["cluster"]["kubernetesVersion"] == AT_RC2["kubernetesVersion"]
    assert not await sample.events("VersionsNotRestored")


async def test_a_webhook_that_refuses_the_old_versions_is_told_and_does_not_keep_the_run_open(sample: SmallLab) -> None:
    webhook = Webhook(sample)
    gate = Gate(lambda call: call.verb == "apply")

    async def before(call: Call) -> None:
        await webhook(call)
        await gate(call)

    async with sample.worker(clusters=HookedClusters(sample.clusters, before=before)):
        await sample.start(FINAL)
        await gate.reached()
        await sample.requests.abort(sample.cluster, AbortRequest())
        assert (await sample.end()).type == "Aborted"
        gate.open()
    (event,) = await sample.events("VersionsNotRestored")
    assert "must not go back from v1.34.4-of.1 to v1.34.3-of.1" in event["message"]
    assert versions(await sample.bke(), "spec") == AT_RC3
    assert not [key for key in await sample.annotations() if key.startswith(("cvo.", "hopline."))]
    assert (await sample.version())["metadata"]["annotations"]["hopline.dev/handled"].endswith("/Aborted")


async def test_a_hop_that_cannot_declare_is_held_and_goes_on_when_it_can(small: SmallLab) -> None:
    denied = Gate(applying("base"))

    def refuse(call: Call) -> None:
        if call.writes("spec", "clusterConfig") and not denied.is_open:
            raise Rejected(
                "admission webhook denied the request: customExtra.containerd is missing", subject="BKECluster"
            )

    async with small.worker(clusters=HookedClusters(small.clusters, before=refuse)):
        handle = await small.start(RC3)
        status = await small.held_and_told()
        assert "customExtra.containerd is missing" in status.message
        assert (await small.bke())["status"]["clusterHealthState"] == "Healthy"
        assert not small.writes(server=str(small.cluster))
        denied.open()
        await handle.execute_update("retry", {})
        await handle.result()
