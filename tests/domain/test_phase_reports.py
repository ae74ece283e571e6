"""What BKECluster shows of steps and agents."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hopline.domain import phase_reports, status
from hopline.domain.cluster import NodeFacts
from hopline.domain.plan import Action, ComponentType, HopPlan, PlannedComponent
from hopline.domain.projection import bke_cluster_status
from hopline.domain.status import Failure, UpgradeStatus
from hopline.domain.wire import ClusterKey

NOW = datetime(2026, 8, 1, 2, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
T0, T5 = "2026-08-01T02:00:00Z", "2026-08-01T02:05:00Z"
STEPS = (
    ("pre-upgrade-resources", "EnsurePreUpgradeResources", Action.SKIP),
    ("provider", "", Action.RUN),
    ("etcd", "EnsureEtcdUpgrade", Action.RUN),
    ("kubernetes-master", "EnsureMasterUpgrade", Action.RUN),
)


def in_hop() -> UpgradeStatus:
    components = tuple(
        PlannedComponent(name=name, version="v2", type=ComponentType.NODE, handler=handler, action=action, reason="why")
        for name, handler, action in STEPS
    )
    batches = tuple((name,) for name, _, _ in STEPS)
    plan = HopPlan(from_version="v1", to_version="v2", batches=batches, components=components)
    cluster = ClusterKey(kube_namespace="east", name="east")
    entered = status.hop_entered(UpgradeStatus(cluster=cluster, to_version="v2"), plan, number=1, total=1, now=NOW)
    return status.hop_opened(status.running(entered, NOW, "hop 1 of 1"))


def done(made: UpgradeStatus, *names: str) -> UpgradeStatus:
    for name in names:
        made = status.component_finished(status.component_started(made, name, NOW), name, LATER)
    return made


def shown(made: UpgradeStatus, before: tuple[dict[str, Any], ...] = ()) -> list[tuple[str, str]]:
    return [(entry["name"], entry["status"]) for entry in phase_reports.phase_status(made, before)]


def test_steps_are_told_with_their_times_and_manifests_are_not() -> None:
    made = status.component_started(done(in_hop(), "provider", "etcd"), "kubernetes-master", LATER)
    assert phase_reports.current_phase(made) == "EnsureMasterUpgrade"
    assert phase_reports.phase_status(made, ()) == [
        {"name": "EnsurePreUpgradeResources", "status": "Skipped", "message": "why"},
        {"name": "EnsureEtcdUpgrade", "status": "Succeeded", "startTime": T0, "endTime": T5},
        {"name": "EnsureMasterUpgrade", "status": "Running", "startTime": T5},
    ]


def test_while_only_a_manifest_runs_the_phase_stays_as_it_was() -> None:
    made = status.component_started(in_hop(), "provider", NOW)
    assert phase_reports.current_phase(made) == ""
    assert "phase" not in bke_cluster_status(made, {"status": {"phase": "EnsureCluster"}}, NOW)


def test_a_failed_step_says_why_and_stays_the_phase_beside_a_running_one() -> None:
    made = status.component_started(status.component_started(in_hop(), "etcd", NOW), "kubernetes-master", NOW)
    failure = Failure(component="kubernetes-master", error="disk full", failed_at=LATER)
    made = status.component_failed(made, failure)
    assert phase_reports.current_phase(made) == "EnsureMasterUpgrade"
    entry = phase_reports.phase_status(made, ())[-1]
    assert (entry["status"], entry["message"], entry["endTime"]) == ("Failed", "disk full", T5)


def test_entries_are_merged_by_name_and_those_of_others_are_kept() -> None:
    others = {"name": "EnsureFinalizer", "status": "Succeeded"}
    old = {"name": "EnsureEtcdUpgrade", "status": "Failed", "startTime": "2026-07-01T00:00:00Z", "message": "no"}
    assert shown(done(in_hop(), "etcd"), (old, others)) == [
        ("EnsureFinalizer", "Succeeded"),
        ("EnsurePreUpgradeResources", "Skipped"),
        ("EnsureEtcdUpgrade", "Succeeded"),
    ]


def test_at_most_twenty_entries_stay_and_ours_are_among_them() -> None:
    others = tuple({"name": f"Ensure{n}", "status": "Succeeded"} for n in range(30))
    kept = shown(done(in_hop(), "etcd"), others)
    assert len(kept) == phase_reports.MAX_ENTRIES
    assert kept[-1] == ("EnsureEtcdUpgrade", "Succeeded")
    assert kept[0] == ("Ensure12", "Succeeded")


def test_the_health_check_is_a_step_with_a_start_and_an_end() -> None:
    checking = status.checking_health(done(in_hop(), "provider", "etcd", "kubernetes-master"), NOW, "looking")
    assert phase_reports.current_phase(checking) == "EnsureCluster"
    running = phase_reports.phase_status(checking, ())
    assert running[-1] == {"name": "EnsureCluster", "status": "Running", "startTime": T0}
    finished = phase_reports.phase_status(status.hop_finished(checking, LATER), running)
    assert finished == phase_reports.phase_status(status.hop_finished(checking, LATER), ()), "no look was published"
    assert finished[-1] == {"name": "EnsureCluster", "status": "Succeeded", "startTime": T0, "endTime": T5}
    assert phase_reports.phase_status(status.hop_finished(checking, LATER), finished) == finished


def test_a_health_check_that_says_no_is_the_failed_step() -> None:
    checking = status.checking_health(done(in_hop(), "provider", "etcd", "kubernetes-master"), NOW, "looking")
    running = phase_reports.phase_status(checking, ())
    held = status.held(checking, LATER, reason="ClusterNotReady", message="w1 is not ready", failure=None)
    assert phase_reports.current_phase(held) == "EnsureCluster"
    assert phase_reports.phase_status(held, running)[-1] == {
        "name": "EnsureCluster",
        "status": "Failed",
        "startTime": T0,
        "endTime": T5,
        "message": "w1 is not ready",
    }


def test_agents_are_counted() -> None:
    nodes = [NodeFacts(name=f"n{code}", ip="", state_code=code) for code in (575, 527, 525)]
    assert phase_reports.agent_status(nodes) == {"replies": 3, "unavailableReplies": 1, "status": "2/3"}
    patch = bke_cluster_status(in_hop(), {"status": {}}, NOW, nodes)
    assert patch["agentStatus"]["status"] == "2/3"
    assert "agentStatus" not in bke_cluster_status(in_hop(), {"status": {}}, NOW)
