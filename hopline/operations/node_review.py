"""What the plan says about nodes before anything is touched: waves, and what each drain would meet (design §8)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hopline.domain.budgets import Budget, budget_of, hindrance
from hopline.domain.cluster import ClusterFacts
from hopline.domain.drains import PodDecision, PodFate, decide_pod
from hopline.domain.errors import PortError
from hopline.domain.node_commands import DRAINING_HANDLERS, handler_named, members_of
from hopline.domain.node_strategy import DrainPolicy, DrainRules
from hopline.domain.node_waves import canaries, leader_last, wave_size, waves
from hopline.domain.plan import (
    Action,
    Finding,
    NodeDrainPlan,
    PlannedComponent,
    Severity,
    UpgradePlan,
)
from hopline.domain.release import InlineHandler
from hopline.domain.resources import DAEMON_SET, NODE, POD, POD_DISRUPTION_BUDGET, Document
from hopline.operations.etcd_care import EtcdCare
from hopline.operations.etcd_review import EtcdReview, review_etcd
from hopline.operations.node_cordons import cordon_owner, is_cordoned, who_set
from hopline.ports import ClusterClient, Clusters

MAX_PODS = 20
"""Pods that it names per node and class; the rest is counted."""

MAX_NAMED = 5


@dataclass(frozen=True)
class _Seen:
    """The target at one moment."""

    nodes: dict[str, Document]
    pods: dict[str, list[Document]]
    budgets: dict[str, list[Budget]]
    daemon_sets: frozenset[str]
    decided: dict[tuple[str, DrainPolicy], list[tuple[PodDecision, Document]]] = field(default_factory=dict)

    def decisions(self, node: str, policy: DrainPolicy) -> list[tuple[PodDecision, Document]]:
        """Every pod of a node with its fate; each is decided once."""
        found = self.decided.get((node, policy))
        if found is None:
            found = [(decide_pod(pod, policy, self.daemon_sets), pod) for pod in self.pods.get(node, ())]
            self.decided[node, policy] = found
        return found

    def budgets_near(self, pod: Document) -> list[Budget]:
        """Those that may be over a pod: a large cluster has thousands of both."""
        return self.budgets.get(str(pod["metadata"].get("namespace") or ""), [])


class NodeReview:
    """Looks at the nodes that the next hop works on; changes nothing.

    Args:
        settings: how nodes are drained where a release says nothing else.
        care: asks etcd; None: nobody does.
    """

    def __init__(self, clusters: Clusters, settings: DrainRules, care: EtcdCare | None = None) -> None:
        self._clusters = clusters
        self._settings = settings
        self._care = care

    async def review(self, facts: ClusterFacts, plan: UpgradePlan) -> UpgradePlan:
        """The plan with `waves` and `drain` of its first hop, and with what stands in the way among the findings."""
        at_work = [one for hop in plan.hops[:1] for one in hop.components if one.pools and one.action is Action.RUN]
        if not at_work or not facts.nodes:
            return plan
        seen: _Seen | None = None
        findings: list[Finding] = []
        if any(self._drains(one) for one in at_work):
            try:
                seen = await _look(await self._clusters.target(facts.key))
            except PortError as error:
                findings.append(_could_not_look(facts, error))
        etcd = await review_etcd(self._care, facts, at_work) if self._care else EtcdReview()
        findings.extend(etcd.findings)
        # In a thread: of thousands of nodes with their pods it takes seconds.
        reviewed, of_nodes = await asyncio.to_thread(self._judge, facts, at_work, seen, etcd.leader)
        findings.extend(of_nodes)
        for one in at_work:
            findings.extend(await self._of_agents(facts, one))
        hop = plan.hops[0].model_copy(
            update={"components": tuple(reviewed.get(one.name, one) for one in plan.hops[0].components)}
        )
        ordered = sorted(
            dict.fromkeys((*plan.findings, *findings)), key=lambda one: one.severity is not Severity.BLOCKS
        )
        return plan.model_copy(update={"hops": (hop, *plan.hops[1:]), "findings": tuple(ordered)})

    def _judge(
        self, facts: ClusterFacts, at_work: Sequence[PlannedComponent], seen: _Seen | None, leader: str
    ) -> tuple[dict[str, PlannedComponent], list[Finding]]:
        reviewed = {one.name: self._reviewed(facts, one, seen, leader) for one in at_work}
        if seen is None:
            return reviewed, []
        return reviewed, [finding for one in at_work for finding in self._findings(facts, one, seen)]

    async def _of_agents(self, facts: ClusterFacts, component: PlannedComponent) -> tuple[Finding, ...]:
        """What is in the way of putting the agent itself on its nodes."""
        installer = self._clusters.agents
        if installer is None or handler_named(component.handler) is not InlineHandler.AGENT:
            return ()
        nodes = [node for pool in component.pools for node in members_of(facts, component.handler, pool).nodes]
        return await installer.review(facts, nodes, component.version)

    def _rules(self, component: PlannedComponent) -> DrainRules:
        return component.drain_rules.over(self._settings)

    def _drains(self, component: PlannedComponent) -> bool:
        return self._rules(component).is_on and handler_named(component.handler) in DRAINING_HANDLERS

    def _reviewed(
        self, facts: ClusterFacts, component: PlannedComponent, seen: _Seen | None, leader: str
    ) -> PlannedComponent:
        grouped: list[tuple[str, ...]] = []
        for pool in component.pools:
            names = [node.display_name for node in members_of(facts, component.handler, pool).nodes]
            if handler_named(component.handler) is InlineHandler.ETCD:
                names = list(leader_last(names, leader))
            size = wave_size(component.strategy, pool, len(names))
            grouped.extend(waves(names, size, canaries(component.strategy, pool, 0)))
        drains: tuple[NodeDrainPlan, ...] = ()
        if seen is not None and self._drains(component):
            policy = self._rules(component).policy
            drains = tuple(_drain_plan(name, seen, policy) for wave in grouped for name in wave)
        return component.model_copy(update={"waves": tuple(grouped), "drain": drains})

    def _findings(self, facts: ClusterFacts, component: PlannedComponent, seen: _Seen) -> Iterator[Finding]:
        if not self._drains(component):
            return
        policy = self._rules(component).policy
        names = [
            node.display_name for pool in component.pools for node in members_of(facts, component.handler, pool).nodes
        ]
        yield from _cordoned(names, seen)
        yield from _in_the_way(names, seen, policy)
        yield from _that_stay(names, seen, policy)


async def _look(target: ClusterClient) -> _Seen:
    nodes, pods, budgets, daemon_sets = await asyncio.gather(
        target.list(NODE), target.list(POD), target.list(POD_DISRUPTION_BUDGET), target.list(DAEMON_SET)
    )
    by_node: dict[str, list[Document]] = {}
    for pod in pods.items:
        by_node.setdefault(str((pod.get("spec") or {}).get("nodeName") or ""), []).append(pod)
    return _Seen(
        nodes={str(node["metadata"]["name"]): node for node in nodes.items},
        pods=by_node,
        budgets=_by_namespace(budget_of(one) for one in budgets.items),
        daemon_sets=frozenset(str(one["metadata"]["uid"]) for one in daemon_sets.items),
    )


def _by_namespace(budgets: Iterable[Budget]) -> dict[str, list[Budget]]:
    found: dict[str, list[Budget]] = {}
    for budget in budgets:
        found.setdefault(budget.kube_namespace, []).append(budget)
    return found


def _drain_plan(name: str, seen: _Seen, policy: DrainPolicy) -> NodeDrainPlan:
    decisions = seen.decisions(name, policy)
    return NodeDrainPlan(
        node=name,
        evict=_bounded(f"{one.kube_namespace}/{one.name}" for one, _ in decisions if one.fate is PodFate.EVICT),
        stay=_bounded(f"{one}: {one.reason}" for one, _ in decisions if _stays_with_a_word(one)),
        blocked=_bounded(
            f"{one}: {why}" for one, pod in decisions if (why := _obstacle(one, pod, seen.budgets_near(pod)))
        ),
    )


def _obstacle(decision: PodDecision, pod: Document, budgets: Iterable[Budget]) -> str:
    """Why a pod cannot go: for ever, or as things stand now."""
    if decision.fate is PodFate.BLOCK:
        return decision.reason
    if decision.fate is not PodFate.EVICT:
        return ""
    over = [budget for budget in budgets if budget.covers(pod)]
    tight = next((f"{one}: {one.told}" for one in over if one.counted and one.expected and one.allowed < 1), "")
    return hindrance(pod, over) or tight


def _stays_with_a_word(decision: PodDecision) -> bool:
    worth = bool(decision.devices) or "no controller" in decision.reason or "tolerates" in decision.reason
    return decision.fate is PodFate.LEAVE and worth


def _cordoned(names: list[str], seen: _Seen) -> Iterator[Finding]:
    for name in names:
        node = seen.nodes.get(name)
        if node is None or not is_cordoned(node) or cordon_owner(node):
            continue
        yield Finding(
            severity=Severity.BLOCKS,
            object=f"Node {name}",
            field="spec.unschedulable",
            message=f"{who_set(node, 'f:spec', 'f:unschedulable') or 'somebody'} has cordoned {name}: its turn would "
            "wait for that person",
            remedy=f"kubectl uncordon {name}",
        )


def _in_the_way(names: list[str], seen: _Seen, policy: DrainPolicy) -> Iterator[Finding]:
    """Pods that can never be evicted, by what is in their way; under `wait` the drain would not begin."""
    found: dict[str, list[str]] = {}
    for name in names:
        for one, pod in seen.decisions(name, policy):
            why = one.reason if one.fate is PodFate.BLOCK else ""
            why = why or (hindrance(pod, seen.budgets_near(pod)) if one.fate is PodFate.EVICT else "")
            if why:
                found.setdefault(why, []).append(f"{one} on {name}")
    then = {DrainPolicy.SKIP: "they are left running", DrainPolicy.FORCE: "they are deleted past it"}.get(policy, "")
    for why, pods in sorted(found.items()):
        more = f" and {len(pods) - MAX_NAMED} more" if len(pods) > MAX_NAMED else ""
        yield Finding(
            severity=Severity.WARNS if then else Severity.BLOCKS,
            object=pods[0].partition(" on ")[0],
            field="eviction",
            message=f"{', '.join(pods[:MAX_NAMED])}{more} can never be evicted: {why}{f'; {then}' if then else ''}",
            remedy="give it a spare (more replicas, or a looser PodDisruptionBudget), or a controller; or say in "
            "upgradeStrategy.drain.policy, or HOPLINE_DRAIN, that such pods are left (skip) or deleted (force)",
        )


def _that_stay(names: list[str], seen: _Seen, policy: DrainPolicy) -> Iterator[Finding]:
    """Pods that run through the restart of kubelet or runtime, and data that goes with an eviction."""
    decisions = [one for name in names for one, _ in seen.decisions(name, policy)]
    staying = [f"{one} ({', '.join(one.devices) or one.reason})" for one in decisions if _stays_with_a_word(one)]
    data = [str(one) for one in decisions if one.fate is PodFate.EVICT and "emptyDir" in one.reason]
    if staying:
        more = f" and {len(staying) - MAX_NAMED} more" if len(staying) > MAX_NAMED else ""
        yield Finding(
            severity=Severity.WARNS,
            object="drain",
            message=f"pods that stay on their nodes while kubelet or runtime are restarted: "
            f"{', '.join(staying[:MAX_NAMED])}{more}",
            remedy="stop them yourself before the start, if they must not go through that",
        )
    if data:
        more = f" and {len(data) - MAX_NAMED} more" if len(data) > MAX_NAMED else ""
        yield Finding(
            severity=Severity.INFO,
            object="drain",
            message=f"emptyDir data goes with the eviction of {', '.join(data[:MAX_NAMED])}{more}",
        )


def _could_not_look(facts: ClusterFacts, error: PortError) -> Finding:
    return Finding(
        severity=Severity.WARNS,
        object=facts.subject,
        field="drain",
        message=f"could not look at pods and PodDisruptionBudgets, so nobody knows what a drain meets: {error.message}",
        remedy="allow it (deploy/rbac.yaml), then plan again",
    )


def _bounded(texts: Iterable[str]) -> tuple[str, ...]:
    found = sorted(texts)
    return (*found[:MAX_PODS], *((f"and {len(found) - MAX_PODS} more",) if len(found) > MAX_PODS else ()))
