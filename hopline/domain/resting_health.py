"""The health state of a BKECluster while nobody upgrades it: what may be written over, and with what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from hopline.domain.cluster_checks import BUSY, HEALTHY, LEFTOVERS, some_of
from hopline.domain.resources import Document
from hopline.domain.timestamps import timestamp

UNHEALTHY, READY = "Unhealthy", "Ready"
CONDITION = "ClusterHealthyState"
KEPT = frozenset({"", HEALTHY, UNHEALTHY})
"""States that only say how the cluster is. All others belong to an operation, and to whoever carries it out."""


def resting_health(
    cluster: Document, problems: Sequence[str], now: datetime, *, withdrawn: bool = False
) -> dict[str, Any]:
    """The merge patch for BKECluster `status` after a look at its nodes; empty when there is nothing to say.

    Args:
        problems: what is not well there, or why nobody could look; none: it is well.
        withdrawn: nobody asks for an upgrade any more, so what a failed one has left goes once the cluster is well.
    """
    status: Mapping[str, Any] = cluster.get("status") or {}
    state, work = str(status.get("clusterHealthState") or ""), str(status.get("clusterStatus") or "")
    left_over = withdrawn and state in LEFTOVERS and not problems
    if work in BUSY or (state not in KEPT and not left_over):
        return {}
    wanted: dict[str, Any] = {
        "clusterHealthState": UNHEALTHY if problems else HEALTHY,
        "clusterStatus": UNHEALTHY if problems else READY,
        "conditions": _conditions(status.get("conditions") or (), some_of(problems), now),
    }
    return {key: value for key, value in wanted.items() if status.get(key) != value}


def _conditions(before: Iterable[Mapping[str, Any]], message: str, now: datetime) -> list[dict[str, Any]]:
    merged = {str(condition.get("type", "")): dict(condition) for condition in before}
    old, status = merged.get(CONDITION, {}), "False" if message else "True"
    moved = old.get("status") != status or not old.get("lastTransitionTime")
    merged[CONDITION] = {
        **old,
        "type": CONDITION,
        "status": status,
        "reason": UNHEALTHY if message else HEALTHY,
        "message": message,
        "lastTransitionTime": timestamp(now) if moved else old["lastTransitionTime"],
    }
    return list(merged.values())
