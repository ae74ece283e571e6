"""What is wrong with the BKENodes themselves, as the plan says it before anything is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.node_commands import members_of
from hopline.domain.plan import Finding, PlannedComponent, Severity
from hopline.domain.release import InlineHandler

MAX_NAMED = 10
MAX_FINDINGS = 20
"""Of one sort: a plan is one payload, also for a pool of thousands."""

WORKER_ROLE = "node"


def node_findings(facts: ClusterFacts, at_work: Mapping[str, PlannedComponent]) -> Iterator[Finding]:
    """Nodes that nobody can tell apart, are left out, do not answer, or belong to both pools."""
    yield from _shared(
        facts, "spec.ip", lambda node: node.ip, "a Command goes to an address, so one would reach them all"
    )
    yield from _shared(facts, "spec.hostname", lambda node: node.hostname, "they would be one and the same core Node")
    yield from _left_out(facts, at_work)
    yield from _agents_not_ready(facts)
    yield from _in_both_pools(facts)


def _shared(facts: ClusterFacts, field: str, value: Callable[[NodeFacts], str], why: str) -> Iterator[Finding]:
    """Two BKENodes with the same address or name; or one without an address."""
    owners: dict[str, list[str]] = {}
    for node in facts.nodes:
        owners.setdefault(value(node), []).append(node.name)
    wrong = {one: names for one, names in owners.items() if (len(names) > 1 if one else field == "spec.ip")}
    for found, names in sorted(wrong.items())[:MAX_FINDINGS]:
        told = f"BKENodes {_named(names)} have the same {field} {found}: {why}"
        if not found:
            told = f"BKENodes without {field}: {_named(names)}; no Command can reach them"
        yield Finding(
            severity=Severity.BLOCKS,
            object=f"BKENode {facts.key.kube_namespace}/{names[0]}",
            field=field,
            message=told,
            remedy=f"set {field} to what the machine has, or delete the BKENode that is not a machine: kubectl get"
            f" bkenodes -n {facts.key.kube_namespace} -o wide",
        )


def _left_out(facts: ClusterFacts, at_work: Mapping[str, PlannedComponent]) -> Iterator[Finding]:
    """Nodes that are given up are left out, which warns; a control-plane node blocks when the workers would pass it."""
    notes: dict[str, Severity] = {}
    for handler, component in sorted(at_work.items()):
        passed = handler == InlineHandler.MASTER and InlineHandler.WORKER in at_work
        for pool in component.pools:
            for note in members_of(facts, handler, pool).left_out:
                notes[note] = Severity.BLOCKS if passed else notes.get(note, Severity.WARNS)
    ordered = sorted(notes.items(), key=lambda one: (one[1] is not Severity.BLOCKS, one[0]))
    remedy = f"kubectl annotate bkecluster {facts.key.name} -n {facts.key.kube_namespace} bke.bocloud.com/retry="
    for note, severity in ordered[:MAX_FINDINGS]:
        newer = ": kubelets would be newer than its API server" if severity is Severity.BLOCKS else ""
        yield Finding(
            severity=severity,
            object=facts.subject,
            field="BKENode status",
            message=f"node {note} is left out of the upgrade and keeps its versions{newer}",
            remedy=f"repair it, then {remedy}",
        )
    if len(ordered) > MAX_FINDINGS:
        yield Finding(
            severity=ordered[MAX_FINDINGS][1],
            object=facts.subject,
            field="BKENode status",
            message=f"{len(ordered) - MAX_FINDINGS} more nodes are left out of the upgrade and keep their versions",
            remedy=f"repair them, then {remedy}",
        )


def _agents_not_ready(facts: ClusterFacts) -> Iterator[Finding]:
    silent = [node.display_name for node in facts.nodes if not (node.agent_ready or node.is_failed or node.need_skip)]
    if silent:
        yield Finding(
            severity=Severity.BLOCKS,
            object=facts.subject,
            field="BKENode status.stateCode",
            message=f"the node agent is not ready on {_named(silent)}",
            remedy="start the bkeagent service there and wait until bit 2 of status.stateCode is set",
        )


def _in_both_pools(facts: ClusterFacts) -> Iterator[Finding]:
    """`[master, node]` and `master/node`: raised once, with the control plane."""
    both = [one.display_name for one in facts.nodes if one.is_control_plane and _is_worker_too(one)]
    if both:
        yield Finding(
            severity=Severity.INFO,
            object=facts.subject,
            field="BKENode spec.role",
            message=f"master and worker at once: {_named(both)}; they are raised once, with the control plane",
        )


def _is_worker_too(node: NodeFacts) -> bool:
    return WORKER_ROLE in node.roles or any(role.endswith(f"/{WORKER_ROLE}") for role in node.roles)


def _named(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}"
