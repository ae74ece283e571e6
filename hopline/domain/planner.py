"""The plan over all hops, as a pure function of what was read (design §2.1, §2.2).

The first hop is decided from what was seen; the later ones are predicted from what the hop before leaves behind, and
decided again when they start. On files alone everything is a prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from hopline.domain.catalogue import Edge
from hopline.domain.cluster import ClusterFacts
from hopline.domain.cluster_checks import READY_CHECKS
from hopline.domain.components import (
    CONTAINERD,
    ETCD,
    KUBE_PROXY,
    KUBERNETES,
    MASTER,
    WORKER,
    expected_seconds,
    gates_of,
    handler_of,
    inline_of,
    pools_of,
    record_version,
    recorded_version,
    release_versions,
    target_fields,
    timeout_seconds,
    type_of,
)
from hopline.domain.decisions import Wanted, decide, predict
from hopline.domain.errors import InvalidInput
from hopline.domain.makespan import predict as predict_times
from hopline.domain.observation import ComponentSighting, Presence
from hopline.domain.other_controllers import ForeignProvider
from hopline.domain.plan import (
    Action,
    CheckResult,
    CheckStage,
    HopPlan,
    PlannedCheck,
    PlannedComponent,
    SchedulingMode,
    UpgradePlan,
)
from hopline.domain.plan_digest import hop_digest, plan_digest
from hopline.domain.plan_findings import path_findings
from hopline.domain.release import FailurePolicy, Release, UpgradeStrategy
from hopline.domain.release_rules import release_graph, require_valid
from hopline.domain.schedule import DEFAULT_SLOTS, schedule_of, skipped
from hopline.domain.upgrade_strategy import drain_of, waves_of


@dataclass(frozen=True)
class PlanningInputs:
    """Everything that a plan is made of.

    Attributes:
        edges: the hops, in order; empty when the cluster is already there.
        releases: the release of each hop's target, in the same order.
        current_release: the release of the current version, None when it is not at hand.
        sightings: what was seen of each component of the first hop; empty on files alone.
        agents_supported: somebody can install node agents.
        durations: component → expected seconds, where more is known than the catalogue's guess.
        foreign: per hop, component → image of the other controller that it brings; empty on files alone.
        foreign_provider: what is done with those.
    """

    facts: ClusterFacts
    edges: tuple[Edge, ...]
    releases: tuple[Release, ...]
    current_release: Release | None = None
    sightings: Mapping[str, ComponentSighting] = field(default_factory=dict)
    agents_supported: bool = True
    mode: SchedulingMode = SchedulingMode.BATCHES
    slots: int = DEFAULT_SLOTS
    durations: Mapping[str, int] = field(default_factory=dict)
    foreign: tuple[Mapping[str, str], ...] = ()
    foreign_provider: ForeignProvider = ForeignProvider.BLOCK


@dataclass(frozen=True)
class HopInputs:
    """What one hop is planned from.

    Attributes:
        recorded: component → version that the records, or the hop before, claim.
        previous: the release that claims them, None when it is not at hand.
        sightings: what was seen; a component without one is predicted.
    """

    edge: Edge
    release: Release
    facts: ClusterFacts
    recorded: Mapping[str, str]
    previous: Release | None = None
    sightings: Mapping[str, ComponentSighting] = field(default_factory=dict)
    slots: int = DEFAULT_SLOTS
    durations: Mapping[str, int] = field(default_factory=dict)
    foreign: Mapping[str, str] = field(default_factory=dict)
    foreign_provider: ForeignProvider = ForeignProvider.BLOCK


def plan_upgrade(inputs: PlanningInputs) -> UpgradePlan:
    """The whole way.

    Raises:
        InvalidRelease: one of the releases breaks its rules (`release_rules`).
        InvalidInput: edges and releases do not form one way.
    """
    _check_way(inputs)
    for edge, release in zip(inputs.edges, inputs.releases, strict=True):
        require_valid(release, edge.to_version)
    hop_inputs = _along_the_way(inputs)
    hops = tuple(plan_hop(hop) for hop in hop_inputs)
    findings = path_findings(
        inputs.facts,
        inputs.edges,
        inputs.releases,
        hops,
        recorded=tuple(hop.recorded for hop in hop_inputs),
        foreign=tuple(hop.foreign for hop in hop_inputs),
        foreign_provider=inputs.foreign_provider,
        agents_supported=inputs.agents_supported,
        looked=bool(inputs.sightings),
    )
    start = inputs.edges[0].from_version if inputs.edges else inputs.facts.current_version
    return UpgradePlan(
        cluster=inputs.facts.key,
        from_version=start,
        to_version=inputs.edges[-1].to_version if inputs.edges else start,
        digest=plan_digest(hops),
        hops=hops,
        findings=findings,
    )


def plan_hop(inputs: HopInputs) -> HopPlan:
    """One hop. Its digest depends on edge and release alone.

    Raises:
        InvalidRelease: the dependencies of the release leave its list, or form a cycle.
    """
    release, edge = inputs.release, inputs.edge
    graph = release_graph(release)
    order = {name: place for place, name in enumerate(name for batch in graph.batches() for name in batch)}
    listed = sorted(range(len(release.upgrade)), key=lambda index: order[release.upgrade[index].name])
    hop = HopPlan(
        from_version=edge.from_version,
        to_version=edge.to_version,
        deprecated=edge.deprecated,
        release_name=release.name,
        release_digest=release.digest,
        batches=graph.batches(),
        components=tuple(
            _planned(inputs, index, graph.dependencies_of(release.upgrade[index].name)) for index in listed
        ),
        checks=_checks(edge),
        targets=target_fields(edge.to_version, release_versions(release)),
    )
    hop = hop.model_copy(update={"digest": hop_digest(hop)})
    return _with_times(hop, inputs.slots)


def _check_way(inputs: PlanningInputs) -> None:
    whole = len(inputs.edges) == len(inputs.releases)
    if whole and all(before.to_version == after.from_version for before, after in pairwise(inputs.edges)):
        return
    shown = ", ".join(str(edge) for edge in inputs.edges)
    raise InvalidInput(
        f"{len(inputs.edges)} edges and {len(inputs.releases)} releases do not form one way",
        subject=inputs.facts.subject,
        field="edges",
        value=shown,
        remedy="give one release for the target of each edge, and edges that follow each other",
    )


def _along_the_way(inputs: PlanningInputs) -> list[HopInputs]:
    """The inputs of each hop: what the hop before leaves behind is the record of the next one."""
    facts = inputs.facts
    names = {ref.name for release in inputs.releases for ref in release.upgrade}
    names |= {ETCD, CONTAINERD, KUBE_PROXY} | (set() if KUBERNETES in names else {MASTER, WORKER})
    recorded = {name: recorded_version(name, facts, inputs.current_release) for name in names}
    for name, sighting in inputs.sightings.items():
        recorded[name] = sighting.current or recorded.get(name, "")
    previous, sightings = inputs.current_release, dict(inputs.sightings)
    hops: list[HopInputs] = []
    brought = inputs.foreign or ({},) * len(inputs.edges)
    for edge, release, foreign in zip(inputs.edges, inputs.releases, brought, strict=True):
        hops.append(
            HopInputs(
                edge=edge,
                release=release,
                facts=facts,
                recorded=dict(recorded),
                previous=previous,
                sightings=sightings,
                slots=inputs.slots,
                durations=inputs.durations,
                foreign=foreign,
                foreign_provider=inputs.foreign_provider,
            )
        )
        absent = {name for name, sighting in sightings.items() if sighting.presence is Presence.NOT_INSTALLED}
        left = absent | (set(foreign) if inputs.foreign_provider is ForeignProvider.SKIP else set())
        recorded.update({ref.name: ref.version for ref in release.upgrade if ref.name not in left})
        sightings = {name: sightings[name] for name in absent}
        previous = release
    return hops


def _planned(inputs: HopInputs, index: int, dependencies: tuple[str, ...]) -> PlannedComponent:
    ref = inputs.release.upgrade[index]
    component = inputs.release.component(ref.name, ref.version)
    inline = inline_of(ref, component)
    handler = handler_of(inline)
    kind = type_of(ref, component)
    strategy = component.upgrade_strategy if component else UpgradeStrategy()
    wanted = Wanted(ref.name, ref.version, kind)
    recorded = inputs.recorded.get(ref.name, "")
    sighting = inputs.sightings.get(ref.name)
    if sighting is None:
        action, reason = predict(wanted, recorded, inputs.previous, inputs.release, inputs.facts)
    else:
        action, reason = decide(wanted, sighting, recorded)
    image = inputs.foreign.get(ref.name, "") if action is Action.RUN else ""
    policy = inputs.foreign_provider
    if image and policy is ForeignProvider.SKIP:
        action, reason = Action.SKIP, f"left alone: it brings another controller, {image}"
    elif image and policy is ForeignProvider.SCALE_TO_ZERO:
        reason = f"{reason}; with no replicas: it brings another controller, {image}"
    return PlannedComponent(
        name=ref.name,
        version=ref.version,
        current=(sighting.current if sighting else "") or recorded,
        type=kind,
        action=action,
        reason=reason,
        dependencies=dependencies,
        record_version=record_version(ref, inline),
        handler=handler.value if handler else "",
        pools=pools_of(handler),
        timeout_seconds=timeout_seconds(kind, strategy),
        expected_seconds=inputs.durations.get(ref.name, expected_seconds(ref.name, handler, inputs.facts.nodes)),
        failure_policy=strategy.failure_policy or FailurePolicy.FAIL_FAST.value,
        strategy=waves_of(strategy),
        drain_rules=drain_of(strategy),
        without_pods=bool(image) and policy is ForeignProvider.SCALE_TO_ZERO,
    )


def _checks(edge: Edge) -> tuple[PlannedCheck, ...]:
    named = [(CheckStage.BEFORE, check) for check in edge.pre_check]
    named += [(CheckStage.AFTER, check) for check in edge.post_check]
    return tuple(
        PlannedCheck(
            name=check.name, required=check.required, edge=str(edge), stage=stage, result=_foreseen(check.name)
        )
        for stage, check in named
    )


def _foreseen(name: str) -> CheckResult:
    """What is known of a check before it runs."""
    return CheckResult.NOT_RUN if name in READY_CHECKS else CheckResult.UNKNOWN_CHECK


def _with_times(hop: HopPlan, slots: int) -> HopPlan:
    """Predicted times of both modes, the start order of `eager`, and the critical path with slots and locks."""
    gates = gates_of({component.name: component.handler for component in hop.components})
    schedule = schedule_of(hop, SchedulingMode.BATCHES, slots, gates)
    weights = {
        component.name: float(component.expected_seconds)
        for component in hop.components
        if component.action is not Action.SKIP
    }
    eager, timelines = predict_times(schedule, weights, skipped(hop))
    return hop.model_copy(
        update={
            "eager_order": eager.order,
            "eager_in_sequence": eager.in_sequence,
            "critical_path": timelines[SchedulingMode.EAGER].critical_path(),
            "expected_seconds": {mode.value: round(timeline.total) for mode, timeline in timelines.items()},
        }
    )
