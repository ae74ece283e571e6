"""What the plan says of the BKENodes themselves: addresses, names, roles, and thousands that are left out."""

from __future__ import annotations

from typing import Any

import pytest

from builders_domain import edge, node, sample_facts, sample_nodes, sample_release
from hopline.domain.cluster import ClusterFacts
from hopline.domain.plan import Finding, Severity, UpgradePlan
from hopline.domain.planner import PlanningInputs, plan_upgrade
from hopline.domain.release import Release


def changed(document: dict[str, Any], **spec: str) -> dict[str, Any]:
    return {**document, "spec": {**document["spec"], **spec}}


def one_hop(built: Release, facts: ClusterFacts) -> UpgradePlan:
    return plan_upgrade(PlanningInputs(facts=facts, edges=(edge("v26.06-rc.2", built.version),), releases=(built,)))


def only(plan: UpgradePlan, severity: Severity) -> Finding:
    (finding,) = plan.findings
    assert finding.severity is severity
    return finding


def test_nodes_with_the_same_address_block() -> None:
    twin = changed(node("w6", "node"), ip=sample_nodes()[0]["spec"]["ip"])
    plan = one_hop(sample_release("v26.06-rc.3"), sample_facts(nodes=[*sample_nodes(), twin]))
    finding = only(plan, Severity.BLOCKS)
    assert (finding.field, twin["spec"]["ip"] in finding.message, "spec.ip" in finding.remedy) == (
        "spec.ip",
        True,
        True,
    )
    assert {"east-m1", "east-w6"} <= set(finding.message.replace(",", "").split())


def test_a_node_without_an_address_blocks() -> None:
    lost = changed(node("w6", "node"), ip="")
    plan = one_hop(sample_release("v26.06-rc.3"), sample_facts(nodes=[*sample_nodes(), lost]))
    assert only(plan, Severity.BLOCKS).message == "BKENodes without spec.ip: east-w6; no Command can reach them"


def test_nodes_with_the_same_name_block() -> None:
    twin = changed(node("w6", "node"), hostname="w5")
    plan = one_hop(sample_release("v26.06-rc.3"), sample_facts(nodes=[*sample_nodes(), twin]))
    assert only(plan, Severity.BLOCKS).field == "spec.hostname"


@pytest.mark.parametrize("roles", [("master/node",), ("master", "node")])
def test_a_node_of_both_pools_is_raised_once_and_named(roles: tuple[str, ...]) -> None:
    plan = one_hop(sample_release("v26.06-rc.3"), sample_facts(nodes=[*sample_nodes(), node("both", *roles)]))
    expected = "master and worker at once: both; they are raised once, with the control plane"
    assert only(plan, Severity.INFO).message == expected


def test_of_thousands_of_nodes_that_are_left_out_some_are_named_and_all_are_counted() -> None:
    skipped = [node(f"w{number:04}", "node", skip=True) for number in range(1000, 4000)]
    plan = one_hop(sample_release("v26.06-rc.3"), sample_facts(nodes=[*sample_nodes(), *skipped]))
    assert len(plan.findings) == 21
    assert plan.findings[-1].message.startswith("2980 more nodes are left out")
    assert len(plan.model_dump_json()) < 64 * 1024
