from dataclasses import replace
from typing import Any

import pytest

from hopline.domain.errors import ClusterNotReady
from starter.wishes import Memory, Move, Sight, Wish, is_watched, next_move

V1 = "config.openfuyao.com/v1alpha1"


def version(generation: int = 2, desired: str = "v2", handled: str = "", **status: Any) -> dict[str, Any]:
    annotations = {"hopline.dev/handled": handled} if handled else {}
    metadata = {"name": "east", "namespace": "east", "generation": generation, "annotations": annotations}
    return {"metadata": metadata, "spec": {"desiredVersion": desired}, "status": {"currentVersion": "v1", **status}}


def cluster(generation: int = 1, health: str = "Healthy", retry: str | None = None, **spec: Any) -> dict[str, Any]:
    annotations = {} if retry is None else {"bke.bocloud.com/retry": retry}
    metadata = {"name": "east", "namespace": "east", "generation": generation, "annotations": annotations}
    return {"metadata": metadata, "spec": spec, "status": {"clusterHealthState": health}}


def catalogue(generation: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": "paths", "uid": "u", "generation": generation}}


def sight(seen: dict[str, Any] | None = None, bke: dict[str, Any] | None = None, paths: int = 1) -> Sight:
    return Sight(seen or version(), bke or cluster(), catalogues=(catalogue(paths),))


ASKED = Memory(wish=Wish(2, "v2"))


def refused(at: Sight, contradicted: str | None = None) -> Memory:
    return Memory(wish=at.wish, refused_at=at.circumstances, contradicted=contradicted)


def test_a_new_wish_starts_and_is_asked_once() -> None:
    assert next_move(sight(), Memory()) is Move.START
    assert next_move(sight(), ASKED) is Move.NOTHING
    assert next_move(sight(version(generation=3, desired="v3")), ASKED) is Move.START


def test_a_wish_that_is_fulfilled_or_being_deleted_is_left_alone() -> None:
    assert next_move(sight(version(currentVersion="v2")), Memory()) is Move.NOTHING
    deleted = version()
    deleted["metadata"]["deletionTimestamp"] = "2026-08-01T00:00:00Z"
    assert next_move(sight(deleted), Memory()) is Move.NOTHING


def test_what_is_missing_is_told() -> None:
    assert next_move(sight(version(desired="")), Memory()) is Move.TELL_NO_VERSION
    assert next_move(Sight(version(), None), Memory()) is Move.TELL_NO_CLUSTER
    assert next_move(Sight(version(desired="v1"), None), Memory()) is Move.NOTHING


@pytest.mark.parametrize("outcome", ["Failed", "Aborted", "Done", "SomethingNew"])
def test_what_has_ended_is_not_started_again(outcome: str) -> None:
    ended = sight(version(handled=f"2/{outcome}"))
    assert next_move(ended, Memory()) is Move.NOTHING
    assert next_move(ended, ASKED) is Move.NOTHING


@pytest.mark.parametrize("outcome", ["Failed", "Aborted", "Refused", "Done"])
def test_a_new_generation_is_a_new_wish(outcome: str) -> None:
    assert next_move(sight(version(generation=3, handled=f"2/{outcome}")), ASKED) is Move.START


@pytest.mark.parametrize("outcome", ["Failed", "Aborted"])
def test_the_retry_annotation_starts_what_has_ended(outcome: str) -> None:
    wanted = sight(version(handled=f"2/{outcome}"), cluster(retry="true"))
    assert next_move(wanted, Memory()) is Move.START
    assert next_move(wanted, Memory(wish=Wish(2, "v2"), retried="true")) is Move.NOTHING


def test_the_retry_annotation_goes_on_with_what_is_held_and_only_once() -> None:
    held = sight(version(phase="Failed"), cluster(retry=""))
    assert next_move(held, ASKED) is Move.RETRY
    assert next_move(held, Memory(wish=Wish(2, "v2"), retried="set")) is Move.NOTHING


def test_the_same_retry_annotation_is_another_one_after_it_was_seen_removed() -> None:
    again = replace(sight(version(phase="Failed"), cluster(retry="")), retry_gap=1)
    assert next_move(again, Memory(wish=Wish(2, "v2"), retried="set")) is Move.RETRY


@pytest.mark.parametrize(
    "seen",
    [version(phase="Upgrading"), version(currentVersion="v2"), version(desired=""), version(handled="2/Done")],
)
def test_a_retry_annotation_is_answered_whatever_the_cluster_is_at(seen: dict[str, Any]) -> None:
    assert next_move(sight(seen, cluster(retry="")), ASKED) is Move.RETRY


def test_the_retry_annotation_of_a_cluster_that_is_being_installed_is_left_to_its_installer() -> None:
    bke = cluster(retry="192.0.2.1")
    assert next_move(sight(version(currentVersion=""), bke), ASKED) is Move.NOTHING


def test_a_refused_wish_is_planned_again_for_the_retry_annotation() -> None:
    before = sight()
    wanted = sight(bke=cluster(retry=""))
    assert wanted.circumstances == before.circumstances
    assert next_move(wanted, refused(before)) is Move.START
    assert next_move(wanted, replace(refused(before), contradicted="")) is Move.RETRY, "the other run answers"


@pytest.mark.parametrize(
    ("subject", "field", "value", "watched"),
    [
        ("BKECluster east/east", "status.clusterHealthState", "Unhealthy", True),
        ("BKECluster east/east", "spec.pause", "true", True),
        ("BKECluster east/east", "metadata.annotations[cvo.openfuyao.cn/upgrade-ready]", "v2", True),
        ("BKECluster east/east", "status.clusterHealthState", "UpgradeFailed", False),
        ("BKECluster east/east", "kubeconfig", "", False),
        ("BKECluster east/east", "UpgradePath spec.paths[v26.06-rc.2 -> v26.06-rc.3].preCheck", "nodes-ready", False),
        ("Deployment cluster-system/bke-controller-manager", "spec.replicas", "1", False),
        ("ReleaseImage v2", "spec.version", "v3", False),
    ],
)
def test_what_is_watched_needs_no_second_look(subject: str, field: str, value: str, watched: bool) -> None:
    assert is_watched(ClusterNotReady("no", subject=subject, field=field, value=value)) is watched


CHANGES = [
    sight(paths=2),
    sight(bke=cluster(generation=2)),
    sight(bke=cluster(health="Unhealthy")),
    sight(bke=cluster(pause=True)),
    Sight(version(), cluster(), (catalogue(),), ({"metadata": {"name": "r"}, "status": {"phase": "Valid"}},)),
]


@pytest.mark.parametrize("changed", CHANGES)
def test_a_refused_wish_is_looked_at_again_when_something_changes(changed: Sight) -> None:
    before = sight()
    assert next_move(before, refused(before)) is Move.NOTHING
    assert next_move(changed, refused(before)) is Move.START


def test_the_mark_of_a_refusal_is_not_a_change() -> None:
    before = sight()
    assert next_move(sight(version(handled="2/Refused")), refused(before)) is Move.NOTHING


def test_a_contradicted_wish_is_asked_again_when_the_other_run_has_ended() -> None:
    before = sight(version(generation=3, desired="v3", handled="1/Done"))
    memory = refused(before, contradicted="1/Done")
    assert next_move(before, memory) is Move.NOTHING
    assert next_move(sight(version(generation=3, desired="v3", handled="2/Done")), memory) is Move.START


def test_a_restarted_watcher_asks_once_about_a_refused_wish() -> None:
    assert next_move(sight(version(handled="2/Refused")), Memory()) is Move.START


def test_when_the_wish_was_written_comes_from_its_field_manager() -> None:
    seen = version()
    seen["metadata"]["managedFields"] = [
        {"manager": "kubectl", "time": "2026-08-01T02:00:00Z", "fieldsV1": {"f:spec": {"f:desiredVersion": {}}}},
        {"manager": "bke", "time": "2026-08-01T03:00:00Z", "fieldsV1": {"f:status": {"f:phase": {}}}},
    ]
    wished_at = sight(seen).wished_at
    assert wished_at is not None
    assert wished_at.isoformat() == "2026-08-01T02:00:00+00:00"
    assert sight().wished_at is None
