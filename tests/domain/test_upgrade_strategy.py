"""`upgradeStrategy` of node-level components: what is read, and every field that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from builders_domain import component, release
from hopline.domain.component_rules import component_errors
from hopline.domain.node_strategy import DrainPolicy, DrainRules, DrainWish, WaveStrategy
from hopline.domain.release import UpgradeStrategy
from hopline.domain.upgrade_strategy import drain_of, mistakes, waves_of

FULL = {
    "batchSize": 4,
    "maxUnavailable": "25%",
    "canary": 1,
    "soak": "90s",
    "failureBudget": 2,
    "nodeRetries": 3,
    "drain": {"policy": "skip", "timeout": "5m", "graceSeconds": 30},
}


def test_everything_is_read() -> None:
    strategy = UpgradeStrategy.model_validate(FULL)
    assert list(mistakes(strategy)) == []
    assert waves_of(strategy) == WaveStrategy(
        batch_size=4, max_unavailable="25%", canary=1, soak_seconds=90, failure_budget="2", node_retries=3
    )
    assert drain_of(strategy) == DrainWish(policy=DrainPolicy.SKIP, timeout_seconds=300, grace_seconds=30)


def test_what_a_release_does_not_say_is_as_the_settings_say() -> None:
    settings = DrainRules(policy=DrainPolicy.FORCE, timeout_seconds=60, grace_seconds=5)
    assert drain_of(UpgradeStrategy()).over(settings) == settings
    timeout = UpgradeStrategy.model_validate({"drain": {"timeout": "2m"}})
    assert drain_of(timeout).over(settings) == settings.model_copy(update={"timeout_seconds": 120})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"batchSize": -1}, "batchSize"),
        ({"canary": -2}, "canary"),
        ({"nodeRetries": -1}, "nodeRetries"),
        ({"nodeRetries": 11}, "nodeRetries"),
        ({"maxUnavailable": "some"}, "maxUnavailable"),
        ({"maxUnavailable": 0}, "maxUnavailable"),
        ({"maxUnavailable": "0%"}, "maxUnavailable"),
        ({"failureBudget": "120%"}, "failureBudget"),
        ({"soak": "soon"}, "soak"),
        ({"soak": "0s"}, "soak"),
        ({"drain": {"policy": "hope"}}, "drain.policy"),
        ({"drain": {"policy": "unknown"}}, "drain.policy"),
        ({"drain": {"timeout": "-5m"}}, "drain.timeout"),
    ],
)
def test_what_cannot_be_used_is_refused_with_field_value_and_remedy(changes: dict[str, Any], field: str) -> None:
    [mistake] = mistakes(UpgradeStrategy.model_validate({**FULL, **changes}))
    assert mistake.field == field
    assert mistake.value and mistake.message and mistake.remedy


def test_a_release_with_such_a_field_is_refused() -> None:
    strategy = UpgradeStrategy.model_validate({"maxUnavailable": "some"})
    made = release("v26.06", component("kubernetes-worker", upgrade_strategy=strategy))
    [error] = component_errors(made, 0)
    assert error.field == "spec.upgradeStrategy.maxUnavailable"
    assert (error.value, "kubernetes-worker" in error.message) == ("some", True)
