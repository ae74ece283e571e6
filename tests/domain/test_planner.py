"""The plan over all hops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders_domain import (
    component,
    edge,
    node,
    release,
    sample_edges,
    sample_facts,
    sample_nodes,
    sample_release,
    sample_versions,
)
from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import InvalidInput, InvalidRelease
from hopline.domain.observation import ComponentSighting, Presence
from hopline.domain.plan import (
    Action,
    CheckResult,
    CheckStage,
    ComponentType,
    Finding,
    HopPlan,
    Pool,
    Severity,
    UpgradePlan,
)
from hopline.domain.plan_digest import hop_digest, short
from hopline.domain.planner import HopInputs, PlanningInputs, plan_hop, plan_upgrade
from hopline.domain.release import Release


def sample_inputs(**changes: Any) -> PlanningInputs:
    """Both hops of the demo, on files alone."""
    inputs = PlanningInputs(
        facts=sample_facts(),
        edges=sample_edges(),
        releases=(sample_release("v26.06-rc.3"), sample_release("v26.06")),
        current_release=sample_release("v26.06-rc.2"),
    )
    return replace(inputs, **changes)


def one_hop(built: Release, facts: ClusterFacts | None = None, **changes: Any) -> UpgradePlan:
    step = edge("v26.06-rc.2", built.version)
    return plan_upgrade(PlanningInputs(facts=facts or sample_facts(), edges=(step,), releases=(built,), **changes))


def seen(presence: Presence, *names: str, current: str = "") -> dict[str, ComponentSighting]:
    return {name: ComponentSighting(name=name, presence=presence, current=current) for name in names}


def blocking(plan: UpgradePlan) -> list[str]:
    return [finding.message for finding in plan.blocking]


def skips(hop: HopPlan) -> dict[str, str]:
    return {one.name: one.reason for one in hop.components if one.action is Action.SKIP}


def test_two_hops_on_files_alone() -> None:
    plan = plan_upgrade(sample_inputs())
    assert (str(plan.cluster), plan.from_version, plan.to_version) == ("east/east", "v26.06-rc.2", "v26.06")
    assert [(hop.from_version, hop.to_version) for hop in plan.hops] == [
        ("v26.06-rc.2", "v26.06-rc.3"),
        ("v26.06-rc.3", "v26.06"),
    ]
    assert plan.findings == ()
    assert [len(hop.batches) for hop in plan.hops] == [6, 6]
    assert skips(plan.hops[0]) == {"etcd": "unchanged since v26.06-rc.2 (recorded, not verified)"}
    assert skips(plan.hops[1]) == {}
    etcd = plan.hops[1].component("etcd")
    assert (etcd.current, etcd.version, etcd.reason) == ("v3.6.7-of.1", "v3.6.8-of.1", "v3.6.7-of.1 -> v3.6.8-of.1")


def test_components_carry_all_that_a_run_needs() -> None:
    hop = plan_upgrade(sample_inputs()).hops[0]
    master = hop.component("kubernetes-master")
    assert (master.type, master.handler, master.pools) == (
        ComponentType.NODE,
        "EnsureMasterUpgrade",
        (Pool.CONTROL_PLANE,),
    )
    assert (master.record_version, master.timeout_seconds, master.dependencies) == ("v1.0.0", 2400, ("etcd",))
    assert (master.expected_seconds, master.failure_policy) == (540, "FailFast")
    provider = hop.component("provider")
    assert (provider.type, provider.record_version, provider.timeout_seconds) == (
        ComponentType.MANIFEST,
        "v26.06-rc.3",
        900,
    )
    assert hop.targets == {
        "openFuyaoVersion": "v26.06-rc.3",
        "kubernetesVersion": "v1.34.4-of.1",
        "etcdVersion": "v3.6.7-of.1",
        "containerdVersion": "v2.1.2",
    }
    assert (hop.release_name, hop.release_digest) == ("release-v26.06-rc.3", "sha256:v26.06-rc.3")


def test_components_stand_in_batch_order_and_the_critical_path_keeps_gate_and_skips() -> None:
    hop = plan_upgrade(sample_inputs(durations={"calico": 61})).hops[0]
    assert [one.name for one in hop.components] == [name for batch in hop.batches for name in batch]
    chain = ("provider", "bkeagent", "containerd", "kubernetes-master", "kubernetes-worker", "calico")
    assert hop.critical_path == chain, "etcd is skipped and takes no time; workers wait for the masters"
    total = sum(hop.component(name).expected_seconds for name in chain)
    assert hop.expected_seconds == {"batches": total, "eager": total}
    assert set(hop.eager_order) == {one.name for one in hop.components}


def test_sightings_decide_the_first_hop_only() -> None:
    sightings = seen(Presence.PRESENT, "provider", current="v26.06-rc.3") | seen(Presence.ABSENT, "etcd")
    plan = plan_upgrade(sample_inputs(sightings=sightings))
    assert set(skips(plan.hops[0])) == {"provider"}
    assert plan.hops[0].component("etcd").reason == "v3.6.7-of.1 is not confirmed"
    assert plan.hops[1].component("provider").action is Action.RUN


def test_component_that_is_not_installed_is_left_alone_in_later_hops_too() -> None:
    plan = plan_upgrade(sample_inputs(sightings=seen(Presence.NOT_INSTALLED, "coredns")))
    assert [skips(hop)["coredns"] for hop in plan.hops] == ["not installed", "not installed"]
    assert plan.hops[1].component("coredns").current == "v1.12.1", "hop one does not bring it"


def test_records_without_a_current_release() -> None:
    hop = plan_upgrade(sample_inputs(current_release=None)).hops[0]
    assert skips(hop) == {"etcd": "recorded, not verified"}
    assert hop.component("provider").reason == "current version unknown"
    assert hop.component("calico").current == "v3.30.1"


def test_hop_planned_again_later_has_the_pinned_digest() -> None:
    plan = plan_upgrade(sample_inputs())
    later = plan_upgrade(
        PlanningInputs(
            facts=sample_facts("v26.06-rc.3", sample_nodes()[:2]),
            edges=sample_edges()[1:],
            releases=(sample_release("v26.06"),),
            current_release=sample_release("v26.06-rc.3"),
            sightings=seen(Presence.PRESENT, *sample_versions("v26.06")),
            agents_supported=False,
            slots=1,
            durations={"provider": 1},
        )
    )
    assert set(skips(later.hops[0])) == set(sample_versions("v26.06"))
    assert later.hops[0].digest == plan.hops[1].digest
    assert short(plan.digest) == plan.digest[:8]
    assert len(plan.digest) == 64


def test_digest_is_pinned() -> None:
    """A change of this value means: upgrades that run while this product is updated are held at their next hop."""
    assert short(plan_upgrade(sample_inputs()).hops[0].digest) == "5d87f6a2"


@pytest.mark.parametrize(
    "change",
    [
        {"edge": edge("v26.06-rc.3", "v26.06", before=["nodes-ready"])},
        {"edge": edge("v26.06-rc.3", "v26.06", after=["nodes-ready?"])},
        {"edge": edge("v26.06-rc.2", "v26.06")},
        {"release": sample_release("v26.06").model_copy(update={"digest": "sha256:other"})},
        {"release": sample_release("v26.06", coredns="v1.12.4")},
    ],
)
def test_digest_changes_with_the_work(change: dict[str, Any]) -> None:
    base = HopInputs(
        edge=edge("v26.06-rc.3", "v26.06", after=["nodes-ready"]),
        release=sample_release("v26.06"),
        facts=sample_facts(),
        recorded={},
    )
    assert plan_hop(replace(base, **change)).digest != plan_hop(base).digest


@settings(max_examples=25)
@given(st.randoms())
def test_digest_and_plan_are_the_same_for_any_order_of_the_lists(chance) -> None:
    ordered = sample_release("v26.06")
    shuffled = ordered.model_copy(
        update={
            "upgrade": tuple(chance.sample(ordered.upgrade, len(ordered.upgrade))),
            "components": tuple(chance.sample(ordered.components, len(ordered.components))),
        }
    )
    plans = [plan_upgrade(sample_inputs(releases=(sample_release("v26.06-rc.3"), one))) for one in (ordered, shuffled)]
    assert plans[0] == plans[1]


def test_digest_does_not_cover_itself() -> None:
    hop = plan_upgrade(sample_inputs()).hops[0]
    assert hop_digest(hop) == hop.digest == hop_digest(hop.model_copy(update={"digest": ""}))


def test_already_there_has_no_hops() -> None:
    plan = plan_upgrade(PlanningInputs(facts=sample_facts("v26.06"), edges=(), releases=()))
    assert (plan.hops, plan.findings, plan.from_version, plan.to_version) == ((), (), "v26.06", "v26.06")


def test_bad_release_is_refused_wherever_it_stands_on_the_way() -> None:
    broken = sample_release("v26.06").model_copy(update={"upgrade": ()})
    with pytest.raises(InvalidRelease, match="names no component to upgrade"):
        plan_upgrade(sample_inputs(releases=(sample_release("v26.06-rc.3"), broken)))
    with pytest.raises(InvalidRelease, match=r"v26\.06-rc\.3 was asked for"):
        plan_upgrade(sample_inputs(releases=(sample_release("v26.06"), sample_release("v26.06"))))


@pytest.mark.parametrize("change", [{"releases": ()}, {"edges": (sample_edges()[1], sample_edges()[0])}])
def test_edges_and_releases_must_form_one_way(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="do not form one way"):
        plan_upgrade(sample_inputs(**change))


def test_agents_that_nobody_can_install_block_only_where_they_run() -> None:
    plan = plan_upgrade(sample_inputs(agents_supported=False))
    assert blocking(plan) == [
        f"bkeagent {version} replaces the agent on each node over SSH, for which this worker has no credentials"
        for version in ("v1.0.2", "v1.0.3")
    ]
    assert plan.findings[0].object == "ReleaseImage release-v26.06-rc.3"
    sightings = seen(Presence.PRESENT, "bkeagent", current="v1.0.2")
    first = sample_inputs(
        agents_supported=False, edges=sample_edges()[:1], releases=(sample_release("v26.06-rc.3"),), sightings=sightings
    )
    assert blocking(plan_upgrade(first)) == []


@pytest.mark.parametrize(
    ("name", "result", "severity"),
    [
        ("nodes-ready", CheckResult.NOT_RUN, None),
        ("cluster-health?", CheckResult.NOT_RUN, None),
        ("etcd-health", CheckResult.NOT_RUN, None),
        ("disk-space?", CheckResult.NOT_RUN, None),
        ("moon-phase", CheckResult.UNKNOWN_CHECK, Severity.BLOCKS),
        ("moon-phase?", CheckResult.UNKNOWN_CHECK, Severity.WARNS),
    ],
)
@pytest.mark.parametrize("stage", [CheckStage.BEFORE, CheckStage.AFTER])
def test_checks_of_the_catalogue(name: str, result: CheckResult, severity: Severity | None, stage: CheckStage) -> None:
    step = edge("v26.06-rc.2", "v26.06-rc.3", **{stage.value: [name]})
    plan = plan_upgrade(PlanningInputs(facts=sample_facts(), edges=(step,), releases=(sample_release("v26.06-rc.3"),)))
    (check,) = plan.hops[0].checks
    assert (check.name, check.required, check.stage) == (name.removesuffix("?"), "?" not in name, stage)
    assert check.result is result
    assert check.edge == "v26.06-rc.2 -> v26.06-rc.3", "a refusal names the hop whose check it is"
    assert [finding.severity for finding in plan.findings] == ([severity] if severity else [])
    for finding in plan.findings:
        assert check.name in finding.message
        assert "could not look" in finding.message
        assert finding.field == ("preCheck" if stage is CheckStage.BEFORE else "postCheck")


def test_deprecated_edge_is_mentioned_with_its_notes() -> None:
    step = edge("v26.06-rc.2", "v26.06-rc.3", deprecated=True, notes="use rc.4")
    plan = plan_upgrade(PlanningInputs(facts=sample_facts(), edges=(step,), releases=(sample_release("v26.06-rc.3"),)))
    (finding,) = plan.findings
    assert plan.hops[0].deprecated
    assert finding.message == "the catalogue advises against v26.06-rc.2 -> v26.06-rc.3: use rc.4"


def only(plan: UpgradePlan, severity: Severity) -> Finding:
    (finding,) = plan.findings
    assert finding.severity is severity
    return finding


def test_nodes_given_up_are_named() -> None:
    nodes = [*sample_nodes(), node("w6", "node", code=575 + 128), node("w7", "node", skip=True)]
    plan = one_hop(sample_release("v26.06-rc.3"), sample_facts(nodes=nodes))
    assert [finding.severity for finding in plan.findings] == [Severity.WARNS] * 2
    assert plan.findings[0].message.startswith("node w6 (failed earlier, status.stateCode 703 has bit 128) is left out")
    assert plan.findings[1].message.startswith("node w7 (status.needSkip is true) is left out")
    assert plan.findings[0].remedy == "repair it, then kubectl annotate bkecluster east -n east bke.bocloud.com/retry="


def test_control_plane_node_given_up_blocks_because_workers_would_pass_it() -> None:
    nodes = [*sample_nodes(), node("m4", "master", "etcd", code=575 + 128)]
    plan = one_hop(sample_release("v26.06-rc.3"), sample_facts(nodes=nodes))
    assert only(plan, Severity.BLOCKS).message.endswith(": kubelets would be newer than its API server")


def test_silent_node_agents_block() -> None:
    nodes = [node(f"w{number:02}", "node", code=1) for number in range(12)]
    plan = one_hop(sample_release("v26.06-rc.3"), sample_facts(nodes=[*sample_nodes(), *nodes]))
    message = only(plan, Severity.BLOCKS).message
    assert message.startswith("the node agent is not ready on w00, w01, ")
    assert message.endswith(", w09 and 2 more")


def test_hop_without_work_on_nodes_does_not_ask_for_agents() -> None:
    facts = sample_facts(nodes=[node("m1", "master", code=1)])
    assert one_hop(release("v2", component("coredns", "v1.12.3")), facts).findings == ()


def test_only_control_plane_node_is_said() -> None:
    plan = one_hop(
        sample_release("v26.06-rc.3"), sample_facts(nodes=[node("m1", "master", "etcd"), node("w1", "node")])
    )
    assert only(plan, Severity.WARNS).message == (
        "m1 is the only control-plane node: the API server is away while it is upgraded"
    )


@pytest.mark.parametrize(
    ("sightings", "severity"), [({}, Severity.INFO), (seen(Presence.ABSENT, "etcd"), Severity.BLOCKS)]
)
def test_no_nodes_are_a_fault_only_where_they_were_looked_for(
    sightings: dict[str, ComponentSighting], severity: Severity
) -> None:
    plan = one_hop(sample_release("v26.06-rc.3"), sample_facts(nodes=[]), sightings=sightings)
    assert "no BKENode of east/east was found" in only(plan, severity).message


def test_kubernetes_rules_hold_over_the_path_not_only_from_the_start() -> None:
    releases = (
        sample_release("v26.06-rc.3", kubernetes_master="v1.35.0", kubernetes_worker="v1.35.0", coredns="v1.12.2"),
        sample_release("v26.06", kubernetes_master="v1.37.0", kubernetes_worker="v1.37.0"),
    )
    plan = plan_upgrade(sample_inputs(releases=releases))
    assert "kubernetes-master v1.35.0 -> v1.37.0 leaves out a minor version: kubernetes-master goes one at a time" in (
        blocking(plan)
    )
    assert not any("v1.34" in message for message in blocking(plan))


def test_what_was_seen_counts_against_the_record() -> None:
    sightings = seen(Presence.ABSENT, "kubernetes-worker", current="v1.31.0")
    plan = plan_upgrade(sample_inputs(sightings=sightings))
    assert any("kubernetes-worker v1.31.0 -> v1.34.4-of.1 leaves out a minor" in message for message in blocking(plan))


def test_workers_alone_are_compared_with_the_recorded_api_servers() -> None:
    plan = one_hop(release("v26.06-rc.3", component("kubernetes-worker", "v1.34.4")))
    assert blocking(plan) == ["kubernetes-worker v1.34.4 would be newer than the API servers (v1.34.3-of.1)"]


def test_component_constraints_block() -> None:
    strict = component("a", compatibility={"constraints": [{"component": "b", "rule": ">=v2.0.0"}]})
    plan = one_hop(release("v2", strict, component("b", "v1.0.0")))
    assert blocking(plan) == ["a v1 needs b >=v2.0.0: the release has v1.0.0"]


def test_manifest_that_goes_back_and_rollback_policy_warn() -> None:
    lenient = component("calico", "v3.29.0", upgrade_strategy={"failurePolicy": "Rollback"})
    plan = one_hop(release("v2", lenient))
    assert [(finding.severity, finding.message) for finding in plan.findings] == [
        (
            Severity.WARNS,
            "calico asks for Rollback, which does not exist yet: a failure holds the hop as FailFast does",
        ),
        (Severity.WARNS, "calico goes back from v3.30.1 to v3.29.0"),
    ]
    assert plan.hops[0].component("calico").failure_policy == "Rollback"


def test_nothing_to_do_is_said_and_takes_no_time() -> None:
    plan = one_hop(release("v2", component("calico", "v3.30.1")))
    assert only(plan, Severity.INFO).message == "nothing to do in the hop to v2 but to record it"
    assert (plan.hops[0].critical_path, plan.hops[0].expected_seconds) == ((), {"batches": 0, "eager": 0})


def test_blocking_findings_come_first() -> None:
    step = edge("v26.06-rc.2", "v26.06-rc.3", before=["x?", "y"], deprecated=True)
    plan = plan_upgrade(PlanningInputs(facts=sample_facts(), edges=(step,), releases=(sample_release("v26.06-rc.3"),)))
    assert [finding.severity for finding in plan.findings] == [Severity.BLOCKS, Severity.WARNS, Severity.WARNS]


def test_plan_survives_its_json() -> None:
    plan = plan_upgrade(sample_inputs())
    assert UpgradePlan.model_validate_json(plan.model_dump_json()) == plan
