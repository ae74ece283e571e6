"""What a person should know before the start: everything in a plan that blocks or deserves a look (design §7, §8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hopline.domain.catalogue import Edge
from hopline.domain.cluster import ClusterFacts
from hopline.domain.cluster_checks import READY_CHECKS
from hopline.domain.compatibility import constraint_findings
from hopline.domain.components import KUBE_PROXY, MASTER, pool_nodes
from hopline.domain.errors import InvalidVersion
from hopline.domain.node_findings import node_findings
from hopline.domain.other_controllers import ForeignProvider
from hopline.domain.plan import (
    Action,
    CheckResult,
    CheckStage,
    ComponentType,
    Finding,
    HopPlan,
    PlannedComponent,
    Pool,
    Severity,
)
from hopline.domain.release import InlineHandler, Release
from hopline.domain.release_rules import release_graph, release_subject, require_valid
from hopline.domain.version_skew import HopVersions, skew_findings
from hopline.domain.versions import parse_version

MAX_NAMED = 10
"""Nodes that one sentence names; the rest is counted."""


class _Hop(NamedTuple):
    edge: Edge
    release: Release
    plan: HopPlan
    recorded: Mapping[str, str]
    foreign: Mapping[str, str]


def path_findings(
    facts: ClusterFacts,
    edges: tuple[Edge, ...],
    releases: tuple[Release, ...],
    plans: tuple[HopPlan, ...],
    *,
    recorded: tuple[Mapping[str, str], ...],
    foreign: tuple[Mapping[str, str], ...],
    foreign_provider: ForeignProvider,
    agents_supported: bool,
    looked: bool,
) -> tuple[Finding, ...]:
    """All findings of a plan, those that block first; otherwise in the order of the way.

    Args:
        recorded: per hop, component → version before it.
        foreign: per hop, component → image of the other controller that it brings.
        looked: the cluster was looked at; on files alone a missing node list is no fault.
    """
    hops = [_Hop(*parts) for parts in zip(edges, releases, plans, recorded, foreign, strict=True)]
    found = [finding for hop in hops for finding in _of_hop(hop, agents_supported)]
    found.extend(finding for hop in hops for finding in _of_other_controllers(hop, foreign_provider))
    found.extend(skew_findings(_versions_of(hop) for hop in hops))
    found.extend(_of_nodes(facts, plans, looked))
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: _RANK.get(finding.severity, len(_RANK))))


_RANK = {Severity.BLOCKS: 0, Severity.WARNS: 1, Severity.INFO: 2}


def _of_hop(hop: _Hop, agents_supported: bool) -> Iterator[Finding]:
    yield from require_valid(hop.release, hop.edge.to_version)
    yield from constraint_findings(hop.release)
    yield from _of_edge(hop.edge)
    yield from _of_checks(hop)
    if not agents_supported:
        yield from _of_agents(hop)
    yield from _of_manifests_going_back(hop)
    if all(component.action is Action.SKIP for component in hop.plan.components):
        yield Finding(
            severity=Severity.INFO,
            object=release_subject(hop.release),
            field="spec.upgrade.components",
            message=f"nothing to do in the hop to {hop.edge.to_version} but to record it",
        )


def _edge_name(edge: Edge) -> str:
    return f"UpgradePath edge {edge}"


def _of_edge(edge: Edge) -> Iterator[Finding]:
    if edge.deprecated:
        notes = f": {edge.notes}" if edge.notes else ""
        yield Finding(
            severity=Severity.WARNS,
            object=_edge_name(edge),
            field="deprecated",
            message=f"the catalogue advises against {edge}{notes}",
            remedy="choose another version, if there is a way to it (hopline versions)",
        )


def _of_checks(hop: _Hop) -> Iterator[Finding]:
    for check in hop.plan.checks:
        if check.result is CheckResult.NOT_RUN:
            continue
        kind = "required" if check.required else "optional"
        yield Finding(
            severity=Severity.BLOCKS if check.required else Severity.WARNS,
            object=_edge_name(hop.edge),
            field="preCheck" if check.stage is CheckStage.BEFORE else "postCheck",
            message=f"the {kind} check {check.name} is unknown: could not look",
            remedy=f"look yourself, then set required: false in the catalogue; known are {', '.join(READY_CHECKS)}"
            if check.required
            else "look yourself before the start",
        )


def _of_agents(hop: _Hop) -> Iterator[Finding]:
    for component in hop.plan.components:
        if component.type is ComponentType.AGENT and component.action is not Action.SKIP:
            yield Finding(
                severity=Severity.BLOCKS,
                object=release_subject(hop.release),
                field=f"spec.upgrade.components {component.name}",
                message=f"{component.name} {component.version} replaces the agent on each node over SSH, for which this"
                " worker has no credentials",
                remedy="name a Secret with them in HOPLINE_AGENT_SSH_SECRET of the worker (docs/operations.md); or"
                f" leave {component.name} out of the upgrade list of the release, and raise the agents by hand",
            )


def _of_other_controllers(hop: _Hop, policy: ForeignProvider) -> Iterator[Finding]:
    """A component that starts another controller beside us, in the cluster that we are at work in."""
    for component in hop.plan.components:
        image = hop.foreign.get(component.name, "")
        blocks = policy is ForeignProvider.BLOCK
        if not image or (blocks and component.action is Action.SKIP):
            continue
        what = {
            ForeignProvider.BLOCK: "would start",
            ForeignProvider.SKIP: "is left alone, because it would start",
            ForeignProvider.SCALE_TO_ZERO: "is applied with no replicas, because it would start",
        }[policy]
        yield Finding(
            severity=Severity.BLOCKS if blocks else Severity.WARNS,
            object=release_subject(hop.release),
            field=f"spec.upgrade.components {component.name}",
            message=f"{component.name} {component.version} {what} another controller: {image}",
            remedy="if the image is ours, name it in HOPLINE_OWN_IMAGES of the worker, else set"
            " HOPLINE_FOREIGN_PROVIDER to skip or scale-to-zero"
            if blocks
            else "set HOPLINE_FOREIGN_PROVIDER to block, if it should not be started then",
        )


def _of_manifests_going_back(hop: _Hop) -> Iterator[Finding]:
    """A lower target is applied like any other one (openfuyao-api.md §11.4 B69); a person should know."""
    for component in hop.plan.components:
        if component.type is ComponentType.MANIFEST and _is_lower(component):
            yield Finding(
                severity=Severity.WARNS,
                object=release_subject(hop.release),
                field=f"spec.upgrade.components {component.name}",
                message=f"{component.name} goes back from {component.current} to {component.version}",
                remedy="make sure that the release means it",
            )


def _is_lower(component: PlannedComponent) -> bool:
    try:
        return parse_version(component.version) < parse_version(component.current)
    except InvalidVersion:
        return False


def _versions_of(hop: _Hop) -> HopVersions:
    after = {**hop.recorded, **{ref.name: ref.version for ref in hop.release.upgrade}}
    return HopVersions(
        subject=release_subject(hop.release),
        before=hop.recorded,
        after=after,
        proxy_waits=_proxy_waits(hop.release),
    )


def _proxy_waits(release: Release) -> bool:
    graph = release_graph(release)
    return MASTER not in graph.names or KUBE_PROXY in graph.blocked_by([MASTER])


def _of_nodes(facts: ClusterFacts, plans: tuple[HopPlan, ...], looked: bool) -> Iterator[Finding]:
    at_work = {
        component.handler: component for plan in plans for component in plan.components if _works_on_nodes(component)
    }
    if not at_work:
        return
    if not facts.nodes:
        yield Finding(
            severity=Severity.BLOCKS if looked else Severity.INFO,
            object=facts.subject,
            field="BKENode",
            message=f"no BKENode of {facts.key} was found: node-level components would have nothing to work on",
            remedy="label the BKENodes with cluster.x-k8s.io/cluster-name"
            if looked
            else "add the BKENodes to the file",
        )
        return
    yield from node_findings(facts, at_work)
    yield from _only_one(facts, at_work)


def _works_on_nodes(component: PlannedComponent) -> bool:
    return bool(component.pools) and component.action is not Action.SKIP


def _only_one(facts: ClusterFacts, at_work: Mapping[str, PlannedComponent]) -> Iterator[Finding]:
    """One-node control planes work, and it is said what stops (design §8)."""
    masters = pool_nodes(facts.nodes, Pool.CONTROL_PLANE, InlineHandler.MASTER)
    if len(masters) == 1 and InlineHandler.MASTER in at_work:
        yield Finding(
            severity=Severity.WARNS,
            object=facts.subject,
            field="BKENode spec.role",
            message=f"{masters[0].display_name} is the only control-plane node: the API server is away while it is"
            " upgraded",
            remedy="add two more control-plane nodes, or upgrade in a maintenance window",
        )
