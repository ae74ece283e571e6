"""A cluster that another controller has left failed, and what is taken over of it.

The existing controller ends a hop for good after ten attempts: `UpgradeFailed` on the BKECluster, on the ClusterVersion
phase `Failed` with the one condition `Ready` and the reason `UpgradeHopFailed`; nothing goes on by itself
(openfuyao-api.md §3.5, observed.md §5). A person says when it is taken over: by a new wish, or by the retry annotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from hopline.domain.cluster import ClusterFacts
from hopline.domain.node_revival import listed, spoken
from hopline.domain.resources import (
    ANNOTATION_CLUSTER_VERSION,
    ANNOTATION_RETRY,
    ANNOTATION_TAKEN_BY,
    ANNOTATION_UPGRADE_PATH,
    ANNOTATION_UPGRADE_READY,
    Document,
)
from hopline.domain.wire import WireEnum

OUR_CONDITION = "Failing"
"""Every run of ours writes it on the ClusterVersion, and the existing controller knows it not."""


class FailedPhase(WireEnum):
    """How both objects say that an upgrade has failed."""

    CLUSTER_VERSION = "Failed"
    BKE_CLUSTER = "UpgradeFailed"
    UNKNOWN = "Unknown"


def is_left_failed(version: Document) -> bool:
    """Whether a hop failed under another controller, and nobody has taken it over since."""
    status = _mapping(version.get("status"))
    ours = any(one.get("type") == OUR_CONDITION for one in status.get("conditions") or ())
    return status.get("phase") == FailedPhase.CLUSTER_VERSION.value and not ours


def is_wish_after_failure(version: Document, wished_at: datetime | None) -> bool:
    """Whether the present wish was written after that failure; times are known to the second.

    A hop fails half a minute after its wish, so a wish of the same second is the newer one. What is not known is not.
    """
    failed_at = max((_time(one) for one in _mapping(version.get("status")).get("conditions") or ()), default="")
    if wished_at is None or not failed_at:
        return False
    return wished_at >= datetime.fromisoformat(failed_at)


def is_abandoned_hop(cluster: Document) -> bool:
    """Whether the hop that stands announced there was given up by its controller, so that it may be taken over.

    Only to be asked where no other controller runs. Its failure says so, or a person by the retry annotation.
    """
    annotations = _mapping(_mapping(cluster.get("metadata")).get("annotations"))
    if not annotations.get(ANNOTATION_UPGRADE_READY) or annotations.get(ANNOTATION_TAKEN_BY):
        return False
    failed = _mapping(cluster.get("status")).get("clusterHealthState") == FailedPhase.BKE_CLUSTER.value
    return failed or ANNOTATION_RETRY in annotations


def is_to_be_taken_over(facts: ClusterFacts) -> bool:
    """Whether what a run finds there is the failure of another controller."""
    ours = ANNOTATION_TAKEN_BY in facts.annotations or facts.our_failure
    failed = facts.health_state == FailedPhase.BKE_CLUSTER.value
    return is_abandoned_hop(facts.document) or (failed and not ours)


def taken_over(facts: ClusterFacts, commands: Sequence[str]) -> str:
    """What a run that goes on there takes over, for an event; `commands`: names of node Commands that are left."""
    progress = _mapping(_mapping(facts.document.get("status")).get("declarativeUpgrade"))
    failure = _mapping(progress.get("lastFailure"))
    parts = [f"clusterHealthState {facts.health_state or 'none'}"]
    if target := progress.get("targetVersion"):
        parts.append(f"a hop to {target} with {len(progress.get('completed') or ())} components recorded as completed")
    if failure:
        parts.append(f"its failure in {failure.get('name')} {failure.get('version')}: {failure.get('error')}")
    if facts.spec.open_fuyao not in ("", facts.current_version):
        parts.append(f"version {facts.spec.open_fuyao} in the BKECluster's spec")
    keys = (ANNOTATION_UPGRADE_READY, ANNOTATION_CLUSTER_VERSION, ANNOTATION_UPGRADE_PATH)
    if left := [key for key in keys if key in facts.annotations]:
        parts.append(f"the annotations {', '.join(left)}")
    if commands:
        parts.append(f"Commands of node upgrades: {listed(commands)}")
    text = f"taken over from another controller: {'; '.join(parts)}; no record is believed, everything is looked at"
    return "; ".join(part for part in (text, given_up(facts)) if part)


def given_up(facts: ClusterFacts) -> str:
    """Which nodes are left out until somebody says that they are repaired; empty: none."""
    names = [spoken(node) for node in facts.nodes if node.is_failed or node.need_skip]
    if not names:
        return ""
    return (
        f"left out until they are repaired: {listed(names)}; then: kubectl annotate bkecluster {facts.key.name} "
        f"-n {facts.key.kube_namespace} {ANNOTATION_RETRY}=ADDRESS"
    )


def settled_conditions(before: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, bool, str, str], ...]:
    """Conditions of a BKECluster that a failure has left and a finished hop disproves: type, status, reason, message.

    The existing controller never takes the first one back (observed.md §5), and reads it at every reconcile.
    """
    wanted = {
        "ClusterHealthyState": (True, "Healthy", ""),
        "ManualInterventionRequired": (False, "UpgradeComplete", "the upgrade has gone on"),
    }
    stale = {str(one.get("type", "")) for one in before if one.get("status") == _opposite(wanted, one)}
    return tuple((kind, *answer) for kind, answer in wanted.items() if kind in stale)


def _opposite(wanted: Mapping[str, tuple[bool, str, str]], condition: Mapping[str, Any]) -> str:
    answer = wanted.get(str(condition.get("type", "")))
    return "" if answer is None else "False" if answer[0] else "True"


def _time(condition: Mapping[str, Any]) -> str:
    return str(condition.get("lastTransitionTime") or "") if condition.get("type") == "Ready" else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
