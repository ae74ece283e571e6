"""What the custom resources show of a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain import projection, status
from hopline.domain.plan import Action, ComponentType, HopOutline, HopPlan, PlannedComponent, PlanOutline
from hopline.domain.status import Failure, RunState, UpgradeStatus
from hopline.domain.timestamps import timestamp
from hopline.domain.wire import ClusterKey

NOW = datetime(2026, 8, 1, 2, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
EAST = ClusterKey(kube_namespace="east", name="east")


def hop_plan() -> HopPlan:
    def component(name: str, action: Action = Action.RUN, kind: ComponentType = ComponentType.MANIFEST):
        return PlannedComponent(
            name=name, version="v2", current="v1", type=kind, action=action, record_version="v2", reason="because"
        )

    return HopPlan(
        from_version="v26.06-rc.2",
        to_version="v26.06-rc.3",
        release_name="release-v26.06-rc.3",
        batches=(("provider",), ("coredns", "etcd")),
        components=(
            component("provider"),
            component("coredns"),
            component("etcd", Action.SKIP, ComponentType.NODE),
        ),
        targets={"openFuyaoVersion": "v26.06-rc.3", "kubernetesVersion": "v1.34.4-of.1"},
    )


def fresh() -> UpgradeStatus:
    return UpgradeStatus(cluster=EAST, to_version="v26.06", started_at=NOW, since=NOW)


OUTLINE = PlanOutline(
    digest="d" * 64,
    hops=(
        HopOutline(from_version="v26.06-rc.2", to_version="v26.06-rc.3"),
        HopOutline(from_version="v26.06-rc.3", to_version="v26.06"),
    ),
)


def in_hop() -> UpgradeStatus:
    planned = status.planned(fresh(), OUTLINE, mode="batches", findings=(), now=NOW)
    entered = status.hop_entered(planned, hop_plan(), number=1, total=2, now=NOW)
    return status.hop_opened(status.running(entered, NOW, "hop 1 of 2"))


def between_hops() -> UpgradeStatus:
    return status.hop_ahead(status.hop_finished(in_hop(), LATER), OUTLINE, 1)


def version(current: str = "v26.06-rc.2", desired: str = "v26.06", **body: Any) -> dict[str, Any]:
    return {"spec": {"desiredVersion": desired}, "status": {"currentVersion": current, "phase": "Ready", **body}}


def condition(patch: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(c for c in patch["conditions"] if c["type"] == kind)


def failed() -> UpgradeStatus:
    begun = status.component_started(in_hop(), "provider", NOW)
    failure = Failure(component="provider", version="v2", error="image not found", attempt=1, failed_at=LATER)
    return status.held(
        status.component_failed(begun, failure), LATER, reason="ComponentFailed", message="held", failure=failure
    )


class TestClusterVersion:
    @pytest.mark.parametrize(
        ("made", "phase", "ready", "progressing", "failing"),
        [
            (fresh(), "PreChecking", "False", "True", "False"),
            (in_hop(), "Upgrading", "False", "True", "False"),
            (failed(), "Failed", "False", "False", "True"),
            (status.done(in_hop(), LATER), "Ready", "True", "False", "False"),
            (
                status.ended(fresh(), RunState.REFUSED, LATER, reason="Blocked", message="no way"),
                "PreCheckFailed",
                "False",
                "False",
                "False",
            ),
            (
                status.ended(in_hop(), RunState.ABORTED, LATER, reason="Aborted", message="enough"),
                "Failed",
                "False",
                "False",
                "True",
            ),
        ],
    )
    def test_phase_and_conditions_follow_the_table(
        self, made: UpgradeStatus, phase: str, ready: str, progressing: str, failing: str
    ) -> None:
        patch = projection.cluster_version_status(made, version(phase="Installing"), LATER)
        assert patch["phase"] == phase
        seen = {kind: condition(patch, kind)["status"] for kind in ("Ready", "Progressing", "Failing")}
        assert seen == {"Ready": ready, "Progressing": progressing, "Failing": failing}

    def test_nothing_is_written_when_the_object_says_it_already(self) -> None:
        found = version()
        found["status"] |= projection.cluster_version_status(in_hop(), found, NOW)
        assert projection.cluster_version_status(in_hop(), found, LATER) == {}

    def test_transition_time_moves_only_with_the_status(self) -> None:
        found = version()
        found["status"] |= projection.cluster_version_status(in_hop(), found, NOW)
        patch = projection.cluster_version_status(failed(), found, LATER)
        assert condition(patch, "Ready")["lastTransitionTime"] == timestamp(NOW)
        assert condition(patch, "Failing")["lastTransitionTime"] == timestamp(LATER)

    def test_conditions_of_others_are_kept(self) -> None:
        other = {"type": "Certified", "status": "True", "reason": "Yes", "message": "", "lastTransitionTime": "x"}
        patch = projection.cluster_version_status(in_hop(), version(conditions=[other]), NOW)
        assert other in patch["conditions"]

    def test_a_finished_hop_moves_the_current_version_and_the_history(self) -> None:
        patch = projection.cluster_version_status(status.hop_finished(in_hop(), LATER), version(), LATER)
        assert patch["currentVersion"] == "v26.06-rc.3"
        assert patch["upgradeHistory"] == [
            {
                "from": "v26.06-rc.2",
                "to": "v26.06-rc.3",
                "status": "Succeeded",
                "startedAt": "2026-08-01T02:00:00Z",
                "completedAt": "2026-08-01T02:05:00Z",
            }
        ]

    def test_history_keeps_fifty_entries_and_never_repeats_one(self) -> None:
        old = [{"from": f"v{i}", "to": f"v{i + 1}", "completedAt": str(i), "status": "Succeeded"} for i in range(60)]
        found = version(upgradeHistory=old)
        done = status.hop_finished(in_hop(), LATER)
        found["status"] |= projection.cluster_version_status(done, found, LATER)
        assert len(found["status"]["upgradeHistory"]) == status.MAX_HISTORY
        assert found["status"]["upgradeHistory"][-1]["to"] == "v26.06-rc.3"
        assert "upgradeHistory" not in projection.cluster_version_status(done, found, LATER)

    def test_a_hop_that_never_began_is_no_entry(self) -> None:
        held = status.held(between_hops(), LATER, reason="Blocked", message="the edge is blocked", failure=None)
        ended = status.ended(held, RunState.ABORTED, LATER, reason="Aborted", message="enough")
        patch = projection.cluster_version_status(ended, version(), LATER)
        assert [(entry["to"], entry["status"]) for entry in patch["upgradeHistory"]] == [("v26.06-rc.3", "Succeeded")]
        assert patch["currentVersion"] == "v26.06-rc.3"
        assert projection.bke_cluster_status(ended, {}, LATER) == {}

    def test_an_aborted_hop_is_a_failed_entry(self) -> None:
        ended = status.ended(in_hop(), RunState.ABORTED, LATER, reason="Aborted", message="enough")
        patch = projection.cluster_version_status(ended, version(), LATER)
        assert [entry["status"] for entry in patch["upgradeHistory"]] == ["Failed"]

    def test_a_newer_wish_is_answered_and_the_answer_is_taken_back(self) -> None:
        waiting = status.wish_seen(in_hop(), "v26.09")
        found = version(desired="v26.09")
        merge(found["status"], projection.cluster_version_status(waiting, found, NOW))
        answer = condition(found["status"], "DesiredVersionAccepted")
        assert (answer["status"], answer["reason"]) == ("False", "AnotherUpgradeRuns")
        assert "v26.09 is asked for while the upgrade to v26.06 is under way" in answer["message"]
        assert "hopline abort east -n east" in answer["message"]
        again = status.wish_seen(waiting, "v26.06")
        answer = condition(projection.cluster_version_status(again, found, LATER), "DesiredVersionAccepted")
        assert (answer["status"], answer["reason"]) == ("True", "Accepted")

    def test_a_newer_wish_that_is_refused_in_its_turn_is_still_not_accepted(self) -> None:
        found = version(conditions=[{"type": "DesiredVersionAccepted", "status": "False"}])
        refused = status.ended(fresh(), RunState.REFUSED, LATER, reason="Blocked", message="no way")
        answer = condition(projection.cluster_version_status(refused, found, LATER), "DesiredVersionAccepted")
        assert (answer["status"], answer["reason"]) == ("False", "Refused")

    def test_a_wish_that_nothing_contradicts_has_no_such_condition(self) -> None:
        patch = projection.cluster_version_status(in_hop(), version(), NOW)
        assert "DesiredVersionAccepted" not in [one["type"] for one in patch["conditions"]]

    def test_a_refused_wish_of_the_terminal_leaves_no_trace_on_the_cluster_version(self) -> None:
        refused = status.ended(fresh(), RunState.REFUSED, LATER, reason="Blocked", message="no way")
        assert projection.cluster_version_status(refused, version(desired="v26.06-rc.2"), LATER) == {}


class TestBkeCluster:
    def test_before_the_first_write_nothing_is_shown(self) -> None:
        assert projection.bke_cluster_status(fresh(), {"status": {}}, NOW) == {}

    def test_a_hop_begins_with_its_target_and_start(self) -> None:
        before = {"declarativeUpgrade": {"targetVersion": "v26.03", "startedAt": "x", "completed": [{"name": "a"}]}}
        patch = projection.bke_cluster_status(in_hop(), {"status": before}, NOW)
        assert patch["clusterStatus"] == patch["clusterHealthState"] == "Upgrading"
        assert patch["declarativeUpgrade"] == {
            "targetVersion": "v26.06-rc.3",
            "startedAt": "2026-08-01T02:00:00Z",
            "completed": [],
        }

    def test_progress_is_recorded_after_each_component_and_merged_by_key(self) -> None:
        one = status.component_finished(status.component_started(in_hop(), "provider", NOW), "provider", NOW)
        kept = {"name": "pre-upgrade-resources", "version": "v1.0.0", "completedAt": "2026-08-01T01:00:00Z"}
        before = {"targetVersion": "v26.06-rc.3", "startedAt": "2026-08-01T01:00:00Z", "completed": [kept]}
        patch = projection.bke_cluster_status(one, {"status": {"declarativeUpgrade": before}}, NOW)
        recorded = {"name": "provider", "version": "v2", "completedAt": "2026-08-01T02:00:00Z"}
        assert patch["declarativeUpgrade"] == {"completed": [kept, recorded]}
        assert patch["clusterComponentStatuses"]["provider"]["phase"] == "Installed"

    def test_a_skipped_component_is_not_recorded_as_completed(self) -> None:
        patch = projection.bke_cluster_status(in_hop(), {"status": {}}, NOW)
        assert "etcd" not in patch["clusterComponentStatuses"]
        assert patch["declarativeUpgrade"]["completed"] == []

    def test_a_failure_is_shown_and_a_retry_clears_it(self) -> None:
        held = projection.bke_cluster_status(failed(), {"status": {}}, LATER)
        assert held["clusterStatus"] == held["clusterHealthState"] == "UpgradeFailed"
        assert held["declarativeUpgrade"]["lastFailure"] == {
            "name": "provider",
            "version": "v2",
            "failedAt": "2026-08-01T02:05:00Z",
            "error": "image not found",
            "attempt": 1,
        }
        again = projection.bke_cluster_status(status.running(failed(), LATER, "again"), {"status": held}, LATER)
        assert again["declarativeUpgrade"]["lastFailure"] is None
        assert again["declarativeUpgrade"]["lastError"] == ""

    def test_a_success_beside_a_failure_does_not_erase_it(self) -> None:
        both = status.component_started(failed(), "coredns", NOW)
        both = status.component_finished(both, "coredns", LATER)
        patch = projection.bke_cluster_status(both, {"status": {}}, LATER)
        assert patch["declarativeUpgrade"]["lastFailure"]["name"] == "provider"
        assert [c["name"] for c in patch["declarativeUpgrade"]["completed"]] == ["coredns"]

    def test_a_finished_hop_writes_its_own_versions(self) -> None:
        patch = projection.bke_cluster_status(status.hop_finished(in_hop(), LATER), {"status": {}}, LATER)
        assert patch["openFuyaoVersion"] == "v26.06-rc.3"
        assert patch["kubernetesVersion"] == "v1.34.4-of.1"
        assert patch["clusterHealthState"] == "Healthy"
        assert patch["declarativeUpgrade"]["finishedAt"] == "2026-08-01T02:05:00Z"

    @given(st.lists(st.sampled_from(["provider", "coredns"]), unique=True))
    def test_publishing_twice_is_publishing_once(self, finished: list[str]) -> None:
        made = in_hop()
        for name in finished:
            made = status.component_finished(status.component_started(made, name, NOW), name, NOW)
        found: dict[str, Any] = {"status": {}}
        merge(found["status"], projection.bke_cluster_status(made, found, NOW))
        assert projection.bke_cluster_status(made, found, LATER) == {}


def merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """JSON merge patch, as the API server applies it."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            merge(target.setdefault(key, {}), value)
        else:
            target[key] = value
