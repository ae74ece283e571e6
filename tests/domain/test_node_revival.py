"""Which nodes a retry names, and what is taken away from them."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.errors import InvalidInput
from hopline.domain.node_revival import RevivedNodes, addresses_of, chosen_nodes, revived_status
from hopline.domain.wire import ClusterKey

EAST = ClusterKey(kube_namespace="team", name="east")


def node(ip: str, hostname: str = "", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": f"east-{ip}"}, "spec": {"ip": ip, "hostname": hostname}, "status": status}


NODES = [node("192.0.2.2", "w2"), node("192.0.2.1", "w1")]


@pytest.mark.parametrize(
    ("value", "addresses"),
    [("", ()), ("  ", ()), ("192.0.2.1", ("192.0.2.1",)), (" b, a ,,b\n", ("b", "a")), ("b a", ("b", "a"))],
)
def test_a_value_names_addresses(value: str, addresses: tuple[str, ...]) -> None:
    assert addresses_of(value) == addresses


def test_nodes_are_chosen_by_address_or_hostname_and_all_without_one() -> None:
    def chosen(*addresses: str) -> list[str]:
        return [one["spec"]["hostname"] for one in chosen_nodes(EAST, NODES, addresses)]

    assert chosen() == ["w1", "w2"]
    assert chosen("192.0.2.2") == ["w2"]
    assert chosen("w1", "192.0.2.1") == ["w1"]


def test_an_unknown_address_is_refused_with_what_was_right() -> None:
    with pytest.raises(InvalidInput) as caught:
        chosen_nodes(EAST, NODES, ("192.0.2.1", "192.0.2.9"))
    error = caught.value
    assert "no node of team/east has the address 192.0.2.9" in error.message
    assert "w1 (192.0.2.1), w2 (192.0.2.2)" in error.message
    assert (error.subject, error.value) == ("BKECluster team/east", "192.0.2.1,192.0.2.9")
    assert error.field == "metadata.annotations[bke.bocloud.com/retry]"
    assert "kubectl annotate --overwrite bkecluster east -n team bke.bocloud.com/retry=192.0.2.1 " in error.remedy


@pytest.mark.parametrize(
    ("status", "change"),
    [
        ({"stateCode": 527, "needSkip": False, "retryCount": 0}, {}),
        ({}, {}),
        ({"stateCode": 527 | 128, "state": "UpgradeFailed"}, {"stateCode": 527}),
        ({"stateCode": 655, "needSkip": True, "retryCount": 3}, {"stateCode": 527, "needSkip": False, "retryCount": 0}),
    ],
)
def test_only_the_marks_of_a_failure_are_taken_away(status: dict[str, Any], change: dict[str, Any]) -> None:
    assert revived_status(node("192.0.2.1", **status)) == change


def test_what_is_told_names_the_nodes() -> None:
    assert RevivedNodes().sentence() == ""
    assert "w1 (192.0.2.1), w2 (192.0.2.2)" in RevivedNodes(nodes=("w1 (192.0.2.1)", "w2 (192.0.2.2)")).sentence()
    many = RevivedNodes(nodes=tuple(f"n{number}" for number in range(12))).sentence()
    assert "n9 and 2 more" in many
