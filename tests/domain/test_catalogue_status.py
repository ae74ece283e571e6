"""What an UpgradePath says of itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hopline.domain.catalogue_status import ANNOTATION_DIGEST, ANNOTATION_FETCHED_AT, catalogue_status, fetch_trouble

NOW = datetime(2026, 8, 1, 2, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
T0 = "2026-08-01T02:00:00Z"
EDGE = {"from": "v26.06-rc.2", "to": "v26.06"}


def catalogue(*paths: dict[str, Any], status: dict[str, Any] | None = None, **annotations: str) -> dict[str, Any]:
    metadata = {"name": "paths", "generation": 3, "annotations": annotations}
    return {"metadata": metadata, "spec": {"paths": list(paths)}, "status": status or {}}


def test_a_sound_catalogue_is_active_and_counted() -> None:
    assert catalogue_status(catalogue(EDGE, **{ANNOTATION_DIGEST: "sha256:1"}), NOW) == {
        "phase": "Active",
        "pathCount": 1,
        "lastDigest": "sha256:1",
        "lastCheckedAt": T0,
        "conditions": [
            {
                "type": "Validated",
                "status": "True",
                "reason": "ValidRules",
                "message": "every rule of the catalogue holds",
                "lastTransitionTime": T0,
                "observedGeneration": 3,
            }
        ],
    }


def test_what_is_written_already_is_not_written_again() -> None:
    found = catalogue(EDGE)
    found["status"] = catalogue_status(found, NOW)
    assert catalogue_status(found, LATER) == {}


def test_a_rule_that_is_broken_is_named_and_the_time_moves() -> None:
    found = catalogue({"from": "v26.06", "to": "v26.06"})
    found["status"] = catalogue_status(catalogue(EDGE), NOW)
    patch = catalogue_status(found, LATER)
    (condition,) = patch["conditions"]
    assert (patch["phase"], condition["status"], condition["reason"]) == ("Invalid", "False", "InvalidRules")
    assert "spec.paths[0]" in condition["message"]
    assert condition["lastTransitionTime"] == patch["lastCheckedAt"] == "2026-08-01T02:05:00Z"
    assert "pathCount" not in patch


def test_a_value_of_the_wrong_type_is_a_broken_rule() -> None:
    assert catalogue_status(catalogue({"from": 26.06, "to": "v26.09"}), NOW)["phase"] == "Invalid"
    assert catalogue_status({"metadata": {"name": "paths"}, "spec": {"paths": "none"}}, NOW)["pathCount"] == 0


def test_conditions_of_others_and_an_empty_catalogue_are_kept() -> None:
    other = {"type": "Fetched", "status": "True"}
    patch = catalogue_status(catalogue(status={"conditions": [other]}), NOW)
    assert [one["type"] for one in patch["conditions"]] == ["Fetched", "Validated"]
    assert (patch["phase"], patch["pathCount"]) == ("Active", 0)


def test_a_registry_that_does_not_answer_is_told_with_since_error_and_age() -> None:
    fetched = {"type": "Fetched", "status": "False", "message": "connection refused", "lastTransitionTime": T0}
    found = catalogue(EDGE, status={"conditions": [fetched]}, **{ANNOTATION_FETCHED_AT: "2026-07-30T00:00:00Z"})
    trouble = fetch_trouble(found)
    assert trouble is not None
    assert trouble.sentence() == (
        f"the catalogue cannot be fetched since {T0} (connection refused); the last good one is from "
        "2026-07-30T00:00:00Z"
    )
    assert fetch_trouble(catalogue(EDGE)) is None
