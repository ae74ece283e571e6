"""Whether a cluster may be upgraded now, judged on what was read: the guards that always hold, and the named checks.

The guards are those of the documented precondition "cluster Healthy", which the existing controller does not enforce
(openfuyao-api.md §12), and of openfuyao-nodes.md §5 item 16 as far as they can be seen without a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hopline.domain.cluster import AGENT_READY_BIT, FAILED_BIT, ClusterFacts, NodeFacts
from hopline.domain.errors import ClusterNotReady
from hopline.domain.left_failed import is_abandoned_hop
from hopline.domain.node_versions import ETCD_POD, KUBERNETES_PODS, STATIC_POD_NAMESPACE, not_ready
from hopline.domain.pods import is_ready
from hopline.domain.resources import (
    ANNOTATION_PAUSED,
    ANNOTATION_RETRY,
    ANNOTATION_TAKEN_BY,
    ANNOTATION_UPGRADE_READY,
    Document,
)

CLUSTER_HEALTH, NODES_READY, ETCD_HEALTH, DISK_SPACE = "cluster-health", "nodes-ready", "etcd-health", "disk-space"
READY_CHECKS = (CLUSTER_HEALTH, NODES_READY, ETCD_HEALTH, DISK_SPACE)
"""Named checks of the catalogue that this product carries out."""

HEALTHY = "Healthy"
LEFTOVERS = frozenset({"Upgrading", "UpgradeFailed"})
"""Health states that a run of ours leaves when it ends badly; then the target itself is asked (design §8)."""

BUSY = frozenset(
    {
        "Deleting",
        "DeployingAddon",
        "Initializing",
        "Managing",
        "Paused",
        "ScalingMasterNodesDown",
        "ScalingMasterNodesUp",
        "ScalingWorkerNodesDown",
        "ScalingWorkerNodesUp",
    }
)
"""Values of `status.clusterStatus` under which another operation is at work (openfuyao-api.md §1.6)."""

UNFIT_STATES = frozenset(
    {
        "BootStrapFailed",
        "BootStrapping",
        "DeleteFailed",
        "Deleting",
        "Failed",
        "InitFailed",
        "Initializing",
        "ManageFailed",
        "Managing",
        "Pending",
        "Unknown",
    }
)
"""BKENode states of a node that is not in service. Upgrading, UpgradeFailed and NotReady may be stale: the core Node
tells (openfuyao-nodes.md §0.6)."""

DISK_PRESSURE = "DiskPressure"
"""Condition of a core Node, which every kubelet sets."""

MAX_NAMED = 5
"""Problems that one sentence names; the rest is counted."""


def refusal_of(facts: ClusterFacts, workflow_id: str) -> ClusterNotReady | None:
    """The first guard that says no, health apart; None when all let it pass."""
    return (
        _of_deletion(facts)
        or _of_pause(facts)
        or _of_modes(facts)
        or _of_business(facts)
        or _of_strangers(facts, workflow_id)
    )


def _of_deletion(facts: ClusterFacts) -> ClusterNotReady | None:
    if not (facts.deleting or facts.version_deleting):
        return None
    subject = facts.subject if facts.deleting else f"ClusterVersion {facts.key}"
    return ClusterNotReady(
        "the cluster is being deleted",
        subject=subject,
        field="metadata.deletionTimestamp",
        value="set",
        remedy="nothing will be upgraded here any more",
    )


def _of_pause(facts: ClusterFacts) -> ClusterNotReady | None:
    if not facts.paused:
        return None
    by_annotation = ANNOTATION_PAUSED in facts.annotations
    field = f"metadata.annotations[{ANNOTATION_PAUSED}]" if by_annotation else "spec.pause"
    path = ("f:metadata", "f:annotations", f"f:{ANNOTATION_PAUSED}") if by_annotation else ("f:spec", "f:pause")
    remedy = (
        f"kubectl annotate bkecluster {_typed(facts)} {ANNOTATION_PAUSED}-"
        if by_annotation
        else f"""kubectl patch bkecluster {_typed(facts)} --type merge -p '{{"spec":{{"pause":false}}}}'"""
    )
    who = last_writer(facts.document, path)
    return ClusterNotReady(
        f"the cluster is paused{who}",
        subject=facts.subject,
        field=field,
        value=facts.annotations.get(ANNOTATION_PAUSED) or "true",
        remedy=remedy,
    )


def _of_modes(facts: ClusterFacts) -> ClusterNotReady | None:
    for field, is_set, meaning in (("dryRun", facts.dry_run, "in dry run"), ("reset", facts.reset, "being reset")):
        if is_set:
            body = f"""'{{"spec":{{"{field}":false}}}}'"""
            return ClusterNotReady(
                f"the cluster is {meaning}",
                subject=facts.subject,
                field=f"spec.{field}",
                value="true",
                remedy=f"kubectl patch bkecluster {_typed(facts)} --type merge -p {body}",
            )
    return None


def _of_business(facts: ClusterFacts) -> ClusterNotReady | None:
    if facts.cluster_status not in BUSY:
        return None
    return ClusterNotReady(
        "another operation is at work on the cluster",
        subject=facts.subject,
        field="status.clusterStatus",
        value=facts.cluster_status,
        remedy=f"wait until it is over: kubectl get bkecluster {_typed(facts)} -w",
    )


def _of_strangers(facts: ClusterFacts, workflow_id: str) -> ClusterNotReady | None:
    """A hop that somebody else has announced; one that an earlier run of ours has left carries our mark.

    One that its controller has given up is taken over; that none runs was asked before.
    """
    if is_abandoned_hop(facts.document):
        return None
    announced = facts.annotations.get(ANNOTATION_UPGRADE_READY)
    owner = facts.annotations.get(ANNOTATION_TAKEN_BY, "")
    if not announced or (owner and owner == (workflow_id or owner)):
        return None
    return ClusterNotReady(
        f"{owner or 'another controller'} has already started a hop of this cluster",
        subject=facts.subject,
        field=f"metadata.annotations[{ANNOTATION_UPGRADE_READY}]",
        value=announced,
        remedy=f"stop that controller, then: kubectl annotate bkecluster {_typed(facts)} {ANNOTATION_UPGRADE_READY}-; "
        f"or take its hop over: kubectl annotate bkecluster {_typed(facts)} {ANNOTATION_RETRY}=",
    )


def _typed(facts: ClusterFacts) -> str:
    """As kubectl takes it."""
    return f"{facts.key.name} -n {facts.key.kube_namespace}"


def refusal_of_health(facts: ClusterFacts, problems: Sequence[str]) -> ClusterNotReady | None:
    """`Healthy` passes; leftovers of a run pass when the target itself is well; everything else is refused."""
    state = facts.health_state
    if state == HEALTHY or (state in LEFTOVERS and not problems):
        return None
    seen = f"; seen in the cluster: {some_of(problems)}" if problems else ""
    return ClusterNotReady(
        f"the cluster is not {HEALTHY}{seen}",
        subject=facts.subject,
        field="status.clusterHealthState",
        value=state or "none",
        remedy=f"bring the cluster back to health; why it is not: kubectl describe bkecluster {_typed(facts)}",
    )


def health_problems(
    facts: ClusterFacts, nodes: Mapping[str, Document], pods: Mapping[str, Document]
) -> tuple[str, ...]:
    """Everything that is not well in the target: every Node, and the static pods that the roles promise."""
    found = [problem for node in nodes.values() if (problem := not_ready(node))]
    found.extend(f"there is no Node {one.display_name}" for one in facts.nodes if one.display_name not in nodes)
    for node in facts.nodes:
        for component in _static_pods_of(node):
            name = f"{component}-{node.display_name}"
            pod = pods.get(name)
            if pod is None:
                found.append(f"pod {STATIC_POD_NAMESPACE}/{name} is not there")
            elif not is_ready(pod):
                phase = (pod.get("status") or {}).get("phase", "unknown")
                found.append(f"pod {STATIC_POD_NAMESPACE}/{name} is not ready (phase {phase})")
    return tuple(found)


def node_problems(facts: ClusterFacts, nodes: Mapping[str, Document]) -> tuple[str, ...]:
    """What keeps a node from being upgraded: its agent, an earlier failure, its state, its core Node."""
    found: list[str] = []
    for node in facts.nodes:
        place = f"BKENode {facts.key.kube_namespace}/{node.name}"
        if node.is_failed:
            found.append(
                f"{place} failed earlier (status.stateCode {node.state_code} has bit {FAILED_BIT}); when it is well "
                f"again: kubectl annotate bkecluster {_typed(facts)} {ANNOTATION_RETRY}={node.ip}"
            )
        if not node.agent_ready:
            found.append(f"{place}: its agent is not ready (status.stateCode {node.state_code}, bit {AGENT_READY_BIT})")
        if node.state in UNFIT_STATES:
            found.append(f"{place} is {node.state} (status.state)")
        core = nodes.get(node.display_name)
        problem = not_ready(core) if core else f"there is no Node {node.display_name}"
        if problem:
            found.append(problem)
    return tuple(found)


def disk_problems(facts: ClusterFacts, nodes: Mapping[str, Document]) -> tuple[str, ...]:
    """Nodes that their kubelet says are short of disk, and those of which it does not say (check `disk-space`).

    The agent reports nothing of disks by itself (openfuyao-nodes.md §1.3).
    """
    found: list[str] = []
    for node in facts.nodes:
        core = nodes.get(node.display_name)
        if core is None:
            found.append(f"there is no Node {node.display_name}")
            continue
        conditions: list[dict[str, Any]] = (core.get("status") or {}).get("conditions") or []
        told = next((one for one in conditions if one.get("type") == DISK_PRESSURE), {})
        if told.get("status") != "False":
            why = f": {told['message']}" if told.get("message") else ""
            state = "has DiskPressure" if told.get("status") == "True" else "does not say whether it has DiskPressure"
            found.append(f"Node {node.display_name} {state}{why}")
    return tuple(found)


def _static_pods_of(node: NodeFacts) -> tuple[str, ...]:
    return (*((ETCD_POD,) if node.is_etcd else ()), *(KUBERNETES_PODS if node.is_control_plane else ()))


def some_of(problems: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f"; and {len(problems) - MAX_NAMED} more" if len(problems) > MAX_NAMED else ""
    return "; ".join(problems[:MAX_NAMED]) + more


def last_writer(document: Document, path: Iterable[str]) -> str:
    """` by <manager> since <time>` of the newest writer of a field, from `managedFields`; empty when unknown."""
    steps = tuple(path)
    entries = (document.get("metadata") or {}).get("managedFields") or ()
    writers = [entry for entry in entries if _owns(entry.get("fieldsV1"), steps)]
    if not writers:
        return ""
    newest = max(writers, key=lambda entry: str(entry.get("time", "")))
    since = f" since {newest['time']}" if newest.get("time") else ""
    return f" by {newest.get('manager', 'somebody')}{since}"


def _owns(fields: Any, path: tuple[str, ...]) -> bool:
    for step in path:
        if not isinstance(fields, Mapping) or step not in fields:
            return False
        fields = fields[step]
    return True
