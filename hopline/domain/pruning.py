"""What a new version of a component no longer has, and whether it may be deleted (openfuyao-api.md §7.5; design §8).

Deleted is only what the author of the component asks for, what the version before carried, and what only this upgrade's
field manager has applied. Everything else is left alone and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hopline.domain.apply_order import apply_class
from hopline.domain.builtin_kinds import BUILTIN_SCOPES, group_of
from hopline.domain.manifest_findings import Complaint, mapping
from hopline.domain.plan import Severity
from hopline.domain.release import YamlSpec
from hopline.domain.resources import Document

_TABLE = """
- ConfigMap Secret Service ServiceAccount
apps Deployment DaemonSet StatefulSet
batch Job CronJob
rbac.authorization.k8s.io Role RoleBinding ClusterRole ClusterRoleBinding
policy PodDisruptionBudget
networking.k8s.io NetworkPolicy Ingress
autoscaling HorizontalPodAutoscaler
"""
PRUNABLE = frozenset(
    ("" if group == "-" else group, kind)
    for group, *kinds in (line.split() for line in _TABLE.strip().splitlines())
    for kind in kinds
)
"""(group, kind) of everything that is ever pruned: nothing that holds data of others, or brings others down with it."""

Key = tuple[str, str, str, str]
"""Group, kind, namespace (empty for cluster-wide objects), name."""


@dataclass(frozen=True)
class PruneRule:
    """What the author of a component asks for.

    Attributes:
        labels: what an object must carry; without any, nothing is pruned.
        kube_namespace: the only namespace in which namespaced objects are pruned; empty: all.
    """

    wanted: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    kube_namespace: str = ""


def prune_rule(spec: YamlSpec) -> PruneRule:
    """`spec.yaml` of a ComponentVersion as a rule."""
    return PruneRule(spec.prune, tuple(sorted(spec.prune_label_selector.items())), spec.kube_namespace)


def key_of(document: Document, kube_namespace: str = "") -> Key:
    """What makes two documents one object; `kube_namespace`: where one goes that names no place itself.

    A kind that nobody knows here counts as one that lives in namespaces.
    """
    metadata = mapping(document.get("metadata"))
    group, kind = group_of(str(document.get("apiVersion", ""))), str(document.get("kind", ""))
    place = str(metadata.get("namespace") or kube_namespace) if BUILTIN_SCOPES.get((group, kind), True) else ""
    return (group, kind, place, str(metadata.get("name", "")))


def dropped(before: Iterable[Document], after: Iterable[Document]) -> list[Document]:
    """The objects of the version before that are not in the new one, last applied first."""
    kept = {key_of(document) for document in after}
    gone = {key_of(document): document for document in before}
    return sorted((gone[key] for key in gone.keys() - kept), key=_deletion_order)


def _deletion_order(document: Document) -> tuple[int, Key]:
    return -apply_class(document), key_of(document)


def reason_to_keep(document: Document, rule: PruneRule) -> str:
    """Why a dropped object is not pruned, as far as its manifest tells; empty: it is pruned."""
    group, kind, place, _ = key_of(document)
    if not rule.wanted:
        return "the component does not ask for pruning"
    if not rule.labels:
        return "the component names no labels to prune by"
    if (group, kind) not in PRUNABLE:
        return f"a {kind} is never pruned"
    if place and rule.kube_namespace and place != rule.kube_namespace:
        return f"only namespace {rule.kube_namespace} is pruned"
    labels = mapping(mapping(document.get("metadata")).get("labels"))
    missing = [f"{name}={value}" for name, value in rule.labels if labels.get(name) != value]
    if missing:
        return f"it lacks the label {missing[0]}"
    policy = mapping(mapping(document.get("spec")).get("persistentVolumeClaimRetentionPolicy"))
    return "its volume claims would go with it" if policy.get("whenDeleted") == "Delete" else ""


def reason_to_keep_live(live: Document, rule: PruneRule, manager: str) -> str:
    """As `reason_to_keep`, for an object as the cluster has it: it must also be ours alone."""
    reason = reason_to_keep(live, rule)
    if reason:
        return reason
    metadata = mapping(live.get("metadata"))
    if metadata.get("deletionTimestamp"):
        return "it is being deleted"
    appliers = _appliers(metadata)
    if manager not in appliers:
        return f"{manager} has not applied it"
    others = sorted(set(appliers) - {manager})
    if others:
        return f"{others[0]} applies it too"
    owners = metadata.get("ownerReferences")
    owner = mapping(owners[0]) if isinstance(owners, Sequence) and owners else {}
    return f"it belongs to {owner.get('kind')} {owner.get('name')}" if owner else ""


def _appliers(metadata: Mapping[str, object]) -> list[str]:
    entries = metadata.get("managedFields")
    found = [mapping(entry) for entry in entries] if isinstance(entries, Sequence) else []
    return [
        str(entry.get("manager"))
        for entry in found
        if entry.get("operation") == "Apply" and not entry.get("subresource")
    ]


def dropped_complaint(document: Document, rule: PruneRule) -> Complaint:
    """What a plan says about an object that the new version no longer has."""
    reason = reason_to_keep(document, rule)
    if not reason:
        message = "is not in the new version, and is deleted after it was applied"
        remedy = "take pruning out of the component if it has to stay"
        return Complaint(Severity.INFO, ("metadata", "name"), message, remedy)
    message = f"is not in the new version, and stays: {reason}"
    return Complaint(Severity.WARNS, ("metadata", "name"), message, "delete it by hand when nobody needs it")
