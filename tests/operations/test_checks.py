"""Checks before and after a hop, each refusal by its message: object, field, value, remedy."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.errors import HoplineError
from hopline.domain.etcd import EtcdAlarmType
from hopline.domain.plan import CheckResult, CheckStage, PlannedCheck
from hopline.domain.resources import BKE_CLUSTER, CLUSTER_VERSION, NODE, POD, SECRET, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.operations import checks as checks_module
from hopline.operations.checks import ClusterChecks

RUN = "cluster-upgrade/east/east"
NODE_W1 = ObjectRef(kind=NODE, name="w1")
SCHEDULER = ObjectRef(kind=POD, name="kube-scheduler-m2", kube_namespace="kube-system")
NOT_READY = {"status": {"conditions": [{"type": "Ready", "status": "False", "message": "PLEG is not healthy"}]}}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks_module, "REACH_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(checks_module, "LOOK_AGAIN_SECONDS", 0.02)


def check(name: str, *, required: bool = True, stage: CheckStage = CheckStage.BEFORE, edge: str = "") -> PlannedCheck:
    return PlannedCheck(name=name, required=required, stage=stage, edge=edge)


async def before(east: Any, *checks: PlannedCheck) -> tuple[tuple[PlannedCheck, ...], HoplineError | None]:
    return await ClusterChecks(east.clusters).before(east.key, checks, RUN)


async def refusal(east: Any, *checks: PlannedCheck) -> HoplineError:
    _, found = await before(east, *checks)
    assert found is not None
    assert found.subject
    assert found.field
    assert found.remedy
    return found


async def test_a_healthy_cluster_passes_and_the_checks_say_ok(east: Any) -> None:
    seen, found = await before(east, check("cluster-health"), check("nodes-ready"))
    assert found is None
    assert [one.result for one in seen] == [CheckResult.OK, CheckResult.OK]


async def test_an_unknown_cluster(east: Any) -> None:
    _, found = await ClusterChecks(east.clusters).before(ClusterKey(kube_namespace="east", name="west"), (), RUN)
    assert found is not None
    assert "west" in str(found)


@pytest.mark.parametrize("kind", [BKE_CLUSTER, CLUSTER_VERSION])
async def test_a_cluster_that_is_being_deleted(east: Any, kind: Any) -> None:
    ref = east.ref(kind, "east")
    await east.management.patch(ref, {"metadata": {"finalizers": ["example.test/keep"]}})
    await east.management.delete(ref)
    found = await refusal(east)
    assert f"{kind.kind} east/east metadata.deletionTimestamp" in str(found)


async def test_a_paused_cluster_says_who_and_the_command_that_ends_it(east: Any) -> None:
    document = {
        "apiVersion": BKE_CLUSTER.api_version,
        "kind": "BKECluster",
        "metadata": {"name": "east", "namespace": "east"},
        "spec": {"pause": True},
    }
    await east.management.apply(document, kind=BKE_CLUSTER, field_manager="alice", force=True)
    found = await refusal(east)
    assert "paused by alice since 20" in found.message
    assert (found.field, found.value) == ("spec.pause", "true")
    assert found.remedy == """kubectl patch bkecluster east -n east --type merge -p '{"spec":{"pause":false}}'"""


async def test_a_cluster_paused_by_annotation(east: Any) -> None:
    await east.patch_cluster({"metadata": {"annotations": {"cluster.x-k8s.io/paused": "true"}}})
    found = await refusal(east)
    assert found.field == "metadata.annotations[cluster.x-k8s.io/paused]"
    assert found.remedy == "kubectl annotate bkecluster east -n east cluster.x-k8s.io/paused-"


@pytest.mark.parametrize("field", ["dryRun", "reset"])
async def test_modes_in_which_nothing_is_upgraded(east: Any, field: str) -> None:
    await east.patch_cluster({"spec": {field: True}})
    found = await refusal(east)
    assert (found.field, found.value) == (f"spec.{field}", "true")
    assert f'{{"spec":{{"{field}":false}}}}' in found.remedy


@pytest.mark.parametrize("state", ["ScalingWorkerNodesUp", "Deleting", "Managing", "Initializing", "DeployingAddon"])
async def test_a_busy_cluster(east: Any, state: str) -> None:
    await east.patch_cluster({"status": {"clusterStatus": state}}, subresource="status")
    found = await refusal(east)
    assert (found.field, found.value) == ("status.clusterStatus", state)


@pytest.mark.parametrize("state", ["Unhealthy", "DeployFailed", "ManageFailed", ""])
async def test_an_unhealthy_cluster_is_refused_however_well_it_looks(east: Any, state: str) -> None:
    await east.patch_cluster({"status": {"clusterHealthState": state or None}}, subresource="status")
    found = await refusal(east)
    assert (found.field, found.value) == ("status.clusterHealthState", state or "none")


@pytest.mark.parametrize("state", ["Upgrading", "UpgradeFailed"])
async def test_leftovers_of_a_run_are_told_from_ill_health(east: Any, state: str) -> None:
    await east.patch_cluster({"status": {"clusterHealthState": state}}, subresource="status")
    assert (await before(east))[1] is None
    await (await east.target()).patch(NODE_W1, NOT_READY, subresource="status")
    found = await refusal(east)
    assert "Node w1 is not Ready: PLEG is not healthy" in found.message


async def test_a_hop_of_another_controller(east: Any) -> None:
    await east.patch_cluster({"metadata": {"annotations": {"cvo.openfuyao.cn/upgrade-ready": "v26.06"}}})
    found = await refusal(east)
    assert (found.field, found.value) == ("metadata.annotations[cvo.openfuyao.cn/upgrade-ready]", "v26.06")
    assert "kubectl annotate bkecluster east -n east cvo.openfuyao.cn/upgrade-ready-" in found.remedy
    await east.patch_cluster({"metadata": {"annotations": {"hopline.dev/taken-by": RUN}}})
    assert (await before(east))[1] is None
    await east.patch_cluster({"metadata": {"annotations": {"hopline.dev/taken-by": "somebody"}}})
    assert "somebody has already started" in str(await refusal(east))


async def test_a_target_out_of_reach(east: Any) -> None:
    east.clusters.script.unreachable(east.key)
    found = await refusal(east, check("cluster-health", required=False))
    assert "cannot be reached" in found.message
    assert "connection refused" in found.value
    assert "east-kubeconfig" in found.remedy


async def test_a_target_without_kubeconfig(east: Any) -> None:
    await east.management.delete(east.ref(SECRET, "east-kubeconfig"))
    found = await refusal(east)
    assert "east-kubeconfig" in str(found)


async def test_a_target_that_misses_a_beat_is_asked_again(east: Any) -> None:
    east.clusters.script.unreachable(east.key, times=2)
    assert (await before(east))[1] is None


async def test_cluster_health_names_what_is_wrong(east: Any) -> None:
    await (await east.target()).patch(SCHEDULER, NOT_READY, subresource="status")
    found = await refusal(east, check("cluster-health", edge="v26.06-rc.2 -> v26.06-rc.3"))
    assert "cluster-health" in found.message
    assert "kube-system/kube-scheduler-m2 is not ready" in found.message
    assert found.field == "UpgradePath spec.paths[v26.06-rc.2 -> v26.06-rc.3].preCheck"


async def test_nodes_ready_looks_at_agents_failures_and_states(east: Any) -> None:
    await east.set_node("w1", stateCode=527 & ~2)
    await east.set_node("w2", stateCode=527 | 128)
    await east.set_node("w3", state="Deleting")
    found = await refusal(east, check("nodes-ready"))
    for part in ("its agent is not ready", "failed earlier", "is Deleting", "east -n east bke.bocloud.com/retry="):
        assert part in found.message


async def test_an_optional_check_only_warns(east: Any) -> None:
    await (await east.target()).patch(NODE_W1, NOT_READY, subresource="status")
    seen, found = await before(east, check("nodes-ready", required=False))
    assert found is None
    assert seen[0].result is CheckResult.FAILED
    assert "w1" in seen[0].message


async def test_an_unknown_check_refuses_when_it_is_required(east: Any) -> None:
    seen, found = await before(east, check("phase-of-the-moon", required=False))
    assert found is None
    assert seen[0].result is CheckResult.UNKNOWN_CHECK
    required = await refusal(east, check("phase-of-the-moon"))
    assert "phase-of-the-moon" in required.message
    assert "known checks are cluster-health, disk-space, etcd-health, nodes-ready" in required.message
    assert "required: false" in required.remedy


async def test_etcd_health_and_disk_space_of_a_healthy_cluster_are_ok(east: Any) -> None:
    seen, found = await before(east, check("etcd-health"), check("disk-space"))
    assert found is None
    assert [one.result for one in seen] == [CheckResult.OK, CheckResult.OK]


async def test_etcd_health_names_the_member_and_the_alarm(east: Any) -> None:
    east.clusters.script.etcd_member_down("m2")
    east.clusters.script.etcd_alarm("m3", EtcdAlarmType.NOSPACE)
    found = await refusal(east, check("etcd-health", edge="v26.06-rc.2 -> v26.06-rc.3"))
    assert "etcd member m2 does not serve: Connection refused" in found.message
    assert "etcd member m3 has raised the alarm NOSPACE" in found.message
    assert found.field == "UpgradePath spec.paths[v26.06-rc.2 -> v26.06-rc.3].preCheck"


async def test_etcd_health_without_a_quorum(east: Any) -> None:
    for name in ("m2", "m3"):
        east.clusters.script.etcd_member_down(name)
    assert "etcd has no quorum: 0 of 3 members serve" in (await refusal(east, check("etcd-health"))).message


async def _drop_credentials(east: Any) -> None:
    await east.management.delete(east.ref(SECRET, "east-etcd-healthcheck-client"))


async def _break_credentials(east: Any) -> None:
    await east.management.patch(east.ref(SECRET, "east-etcd-healthcheck-client"), {"data": {"tls.crt": "bm8="}})


async def _stop_etcd(east: Any) -> None:
    for name in ("m1", "m2", "m3"):
        east.clusters.script.etcd_member_down(name)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (_drop_credentials, "Secret east/east-etcd-healthcheck-client"),
        (_break_credentials, "its members do not take this certificate"),
        (_stop_etcd, "no member of etcd answers"),
    ],
)
async def test_an_etcd_that_nobody_can_look_at_refuses_when_it_is_required(east: Any, harm: Any, told: str) -> None:
    await harm(east)
    seen, found = await before(east, check("etcd-health", required=False), check("disk-space"))
    assert found is None
    assert [one.result for one in seen] == [CheckResult.COULD_NOT_LOOK, CheckResult.OK]
    required = await refusal(east, check("etcd-health"))
    assert "etcd-health of the catalogue says: could not look" in required.message
    assert told in required.message
    assert "let this worker reach etcd" in required.remedy


@pytest.mark.parametrize(("status", "told"), [("True", "has DiskPressure"), ("Unknown", "does not say whether")])
async def test_disk_space_names_nodes_that_are_short_of_it(east: Any, status: str, told: str) -> None:
    conditions = [
        {"type": "Ready", "status": "True"},
        {"type": "DiskPressure", "status": status, "message": "imagefs is at 91 percent"},
    ]
    await (await east.target()).patch(NODE_W1, {"status": {"conditions": conditions}}, subresource="status")
    found = await refusal(east, check("disk-space"))
    assert f"Node w1 {told}" in found.message
    assert "imagefs is at 91 percent" in found.message
    await (await east.target()).patch(NODE_W1, {"status": {"conditions": conditions[:1]}}, subresource="status")
    assert "Node w1 does not say whether it has DiskPressure" in (await refusal(east, check("disk-space"))).message


async def test_after_a_hop_the_target_must_be_well_whatever_the_catalogue_names(east: Any) -> None:
    await (await east.target()).patch(NODE_W1, NOT_READY, subresource="status")
    seen, found = await ClusterChecks(east.clusters).after(east.key, ())
    assert found is not None
    assert "w1 is not Ready" in found.value
    assert seen == ()


async def test_after_a_hop_a_node_that_is_late_by_a_moment_is_waited_for(east: Any) -> None:
    target = await east.target()
    await target.patch(NODE_W1, NOT_READY, subresource="status")

    class Mending(ClusterChecks):
        async def _look(self, facts: Any) -> Any:
            seen = await super()._look(facts)
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            await target.patch(NODE_W1, ready, subresource="status")
            return seen

    stage = CheckStage.AFTER
    seen, found = await Mending(east.clusters).after(
        east.key, (check("nodes-ready", stage=stage),), patience_seconds=10
    )
    assert found is None
    assert seen[0].result is CheckResult.OK


async def test_health_of_names_every_problem(east: Any) -> None:
    target = await east.target()
    await target.patch(NODE_W1, NOT_READY, subresource="status")
    await target.delete(SCHEDULER)
    health = await ClusterChecks(east.clusters).health_of(await east.facts())
    assert health.problems == (
        "Node w1 is not Ready: PLEG is not healthy",
        "pod kube-system/kube-scheduler-m2 is not there",
    )
    assert not health.is_good
