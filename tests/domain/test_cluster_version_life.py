"""What a ClusterVersion needs apart from upgrades."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from hopline.domain.cluster_version_life import (
    Care,
    care_for,
    completed_status,
    new_cluster_version,
    old_trigger,
    settled_status,
)

NOW = datetime(2026, 8, 1, 2, 0, tzinfo=UTC)
PLACE = {"name": "east", "namespace": "east"}


def bke(spec: str = "v1", declared: str = "", metadata: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    annotations = {}
    if declared:
        last = {"spec": {"clusterConfig": {"cluster": {"openFuyaoVersion": declared}}}}
        annotations["bke.bocloud.com/last-update-configuration"] = json.dumps(last)
    shown = {"openFuyaoVersion": "v1", "clusterStatus": "Ready", **status}
    spec_body = {"clusterConfig": {"cluster": {"openFuyaoVersion": spec}}}
    return {
        "metadata": {**PLACE, "uid": "u1", "annotations": annotations, **(metadata or {})},
        "spec": spec_body,
        "status": shown,
    }


def version(desired: str = "v1", **status: Any) -> dict[str, Any]:
    return {"metadata": {**PLACE}, "spec": {"desiredVersion": desired}, "status": status}


READY = {"currentVersion": "v1", "phase": "Ready"}
DELETED = {"deletionTimestamp": "2026-08-01T00:00:00Z"}
REFUSED_WISH = [{"type": "DesiredVersionAccepted", "status": "False"}]


@pytest.mark.parametrize(
    ("seen", "cluster", "care"),
    [
        (None, bke(), Care.MAKE),
        (None, bke(openFuyaoVersion=""), Care.MAKE),
        (None, bke(openFuyaoVersion="", clusterStatus="Initializing"), Care.NOTHING),
        (None, bke(metadata=DELETED), Care.NOTHING),
        (version(), None, Care.NOTHING),
        (version(), bke(), Care.COMPLETE),
        (version(), bke(openFuyaoVersion="", clusterStatus=""), Care.NOTHING),
        (version(**READY), bke(), Care.NOTHING),
        (version("v2", **READY), bke(), Care.NOTHING),
        (version("v2", currentVersion="v1", phase="PreCheckFailed"), bke(), Care.NOTHING),
        (version(currentVersion="v1", phase="PreCheckFailed"), bke(), Care.SETTLE),
        (version(" v1 ", currentVersion="v1", phase="Failed"), bke(clusterStatus="UpgradeFailed"), Care.SETTLE),
        (version(conditions=REFUSED_WISH, **READY), bke(), Care.SETTLE),
    ],
)
def test_what_a_pair_needs(seen: dict[str, Any] | None, cluster: dict[str, Any] | None, care: Care) -> None:
    assert care_for(seen, cluster) is care


def test_a_cluster_version_that_is_being_deleted_is_left_alone() -> None:
    gone = version()
    gone["metadata"] |= DELETED
    assert care_for(gone, bke()) is Care.NOTHING


def test_a_new_one_has_name_owner_and_the_installed_version() -> None:
    made = new_cluster_version(bke(openFuyaoVersion="v1"))
    assert made["metadata"] == {
        **PLACE,
        "ownerReferences": [
            {
                "apiVersion": "bke.bocloud.com/v1beta1",
                "kind": "BKECluster",
                "name": "east",
                "uid": "u1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert made["spec"] == {"desiredVersion": "v1"}
    status = completed_status(made, bke(), NOW)
    assert (status["currentVersion"], status["phase"]) == ("v1", "Ready")
    ready = status["conditions"][0]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "InstallComplete")


def test_completing_one_with_a_wish_leaves_the_wish_to_be_carried_out() -> None:
    assert completed_status(version("v2"), bke(), NOW) == {"currentVersion": "v1"}


def test_a_wish_that_was_taken_back_is_ready_and_says_what_was_left() -> None:
    failing = [{"type": "Failing", "status": "True"}, *REFUSED_WISH, {"type": "Certified", "status": "True"}]
    seen = version(currentVersion="v1", phase="Failed", conditions=failing)
    begun = bke(clusterStatus="UpgradeFailed", declarativeUpgrade={"targetVersion": "v2"})
    status = settled_status(seen, begun, NOW)
    shown = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert status["phase"] == "Ready"
    assert [kind for kind, value in shown.items() if value == "False"] == ["Failing", "Progressing"]
    assert [kind for kind, value in shown.items() if value == "True"] == [
        "DesiredVersionAccepted",
        "Certified",
        "Ready",
    ]
    ready = next(one for one in status["conditions"] if one["type"] == "Ready")
    assert ready["message"] == (
        "at v1, and no other version is asked for; the hop to v2 was begun and has not ended, what it has changed stays"
    )
    ended = bke(declarativeUpgrade={"targetVersion": "v1", "finishedAt": "2026-08-01T00:00:00Z"})
    assert "begun" not in json.dumps(settled_status(seen, ended, NOW))


def test_the_old_trigger_is_answered_with_the_right_command() -> None:
    said = old_trigger(version(**READY), bke("v2"))
    assert said.startswith("spec.clusterConfig.cluster.openFuyaoVersion was set to v2: that starts no upgrade")
    assert """kubectl patch clusterversion east -n east --type merge -p '{"spec":{"desiredVersion":"v2"}}'""" in said
    assert "kubectl patch bkecluster east -n east" in said
    assert '"openFuyaoVersion":"v1"' in said


def test_the_old_trigger_names_who_wrote_it() -> None:
    fields = {"f:spec": {"f:clusterConfig": {"f:cluster": {"f:openFuyaoVersion": {}}}}}
    writer = {"manager": "kubectl-edit", "time": "2026-08-01T01:00:00Z", "fieldsV1": fields}
    assert "v2 by kubectl-edit since 2026-08-01T01:00:00Z" in old_trigger(
        None, bke("v2", metadata={"managedFields": [writer]})
    )


def test_an_older_version_in_the_spec_is_not_offered_as_an_upgrade() -> None:
    said = old_trigger(version(currentVersion="v26.06"), bke("v26.03", openFuyaoVersion="v26.06"))
    assert "a platform is never downgraded" in said
    assert "clusterversion" not in said


@pytest.mark.parametrize(
    "cluster",
    [
        bke("v1"),
        bke("v2", declared="v2"),
        bke("v2", openFuyaoVersion="", clusterStatus="Initializing"),
        bke(""),
    ],
)
def test_what_is_no_old_trigger(cluster: dict[str, Any]) -> None:
    assert old_trigger(version(**READY), cluster) == ""
