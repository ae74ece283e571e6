"""What may be said about the health of a cluster between upgrades."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hopline.domain.resting_health import resting_health

NOW = datetime(2026, 8, 1, 2, 0, tzinfo=UTC)
ILL = ("Node w1 is not Ready",)


def bke(health: str, work: str = "Ready", **status: Any) -> dict[str, Any]:
    return {"status": {"clusterHealthState": health, "clusterStatus": work, **status}}


def test_a_cluster_that_falls_ill_is_unhealthy_and_says_why() -> None:
    patch = resting_health(bke("Healthy"), ILL, NOW)
    assert (patch["clusterHealthState"], patch["clusterStatus"]) == ("Unhealthy", "Unhealthy")
    (condition,) = patch["conditions"]
    assert (condition["type"], condition["status"], condition["message"]) == ("ClusterHealthyState", "False", ILL[0])


def test_what_is_said_already_is_not_said_again() -> None:
    found = bke("Healthy")
    found["status"] |= resting_health(found, ILL, NOW)
    assert resting_health(found, ILL, NOW) == {}
    assert resting_health(found, (), NOW)["clusterHealthState"] == "Healthy"


@pytest.mark.parametrize(
    "found",
    [
        bke("Deploying"),
        bke("Managing"),
        bke("Deleting"),
        bke("Healthy", "ScalingWorkerNodesUp"),
        bke("Upgrading"),
        bke("UpgradeFailed", "UpgradeFailed"),
    ],
)
def test_the_state_of_an_operation_is_left_to_it(found: dict[str, Any]) -> None:
    assert resting_health(found, (), NOW) == {}
    assert resting_health(found, ILL, NOW) == {}


@pytest.mark.parametrize("left", ["Upgrading", "UpgradeFailed"])
def test_what_a_failed_upgrade_has_left_goes_when_nobody_asks_for_one_and_the_cluster_is_well(left: str) -> None:
    found = bke(left, left)
    patch = resting_health(found, (), NOW, withdrawn=True)
    assert (patch["clusterHealthState"], patch["clusterStatus"]) == ("Healthy", "Ready")
    assert resting_health(found, ILL, NOW, withdrawn=True) == {}
