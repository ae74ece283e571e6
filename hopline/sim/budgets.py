"""PodDisruptionBudgets of a simulated cluster: counted with every pod, asked at every eviction."""

from __future__ import annotations

import math

from hopline.domain.budgets import Budget, budget_of
from hopline.domain.errors import Blocked, Rejected
from hopline.domain.label_selectors import selects
from hopline.domain.resources import POD, POD_DISRUPTION_BUDGET, Document, describe
from hopline.sim.controllers import set_status
from hopline.sim.pods import is_ready
from hopline.sim.selectors import labels_of
from hopline.sim.storage import Storage, deep

_OVER = ("Succeeded", "Failed")


def react(storage: Storage, old: Document | None, new: Document | None) -> None:
    """Count again what a write has changed."""
    document = new if new is not None else old
    if document is not None and document["kind"] in ("Pod", "PodDisruptionBudget"):
        count(storage, document["metadata"].get("namespace", ""))


def count(storage: Storage, kube_namespace: str) -> None:
    """Write the status of every budget of a namespace that differs."""
    found = storage.select(POD_DISRUPTION_BUDGET, kube_namespace)
    pods = storage.select(POD, kube_namespace) if found else []
    for document in found:
        selector = deep(document, "spec", "selector")
        mine = [pod for pod in pods if selects(selector, labels_of(pod)) and deep(pod, "status", "phase") not in _OVER]
        healthy, desired = sum(map(is_ready, mine)), _desired(document, len(mine))
        status = {
            "observedGeneration": document["metadata"].get("generation", 1),
            "expectedPods": len(mine),
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": max(0, healthy - desired) if mine else 0,
        }
        set_status(storage, document, status)


def require_allowed(storage: Storage, pod: Document) -> None:
    """Raise what an API server answers to an eviction that a budget, or two of them, refuse."""
    over = [one for one in _budgets(storage, pod) if one.covers(pod)]
    if len(over) > 1:
        raise Rejected(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            subject=describe(pod),
            remedy="leave one PodDisruptionBudget over this pod: kubectl get pdb",
        )
    if not over or deep(pod, "status", "phase") in (*_OVER, "Pending"):
        return
    [budget] = over
    may_go_unready = not is_ready(pod) and budget.healthy >= budget.desired > 0
    if budget.allowed < 1 and not may_go_unready:
        raise Blocked(
            f"Cannot evict pod as it would violate the pod's disruption budget. The disruption budget {budget.name} "
            f"needs {budget.desired} healthy pods and has {budget.healthy} currently",
            subject=describe(pod),
            remedy="wait until the budget allows it",
        )


def _budgets(storage: Storage, pod: Document) -> list[Budget]:
    count(storage, pod["metadata"]["namespace"])
    return [budget_of(one) for one in storage.select(POD_DISRUPTION_BUDGET, pod["metadata"]["namespace"])]


def _desired(document: Document, expected: int) -> int:
    spec = document.get("spec") or {}
    if spec.get("maxUnavailable") is not None:
        return max(0, expected - _scaled(spec["maxUnavailable"], expected))
    return _scaled(spec.get("minAvailable", 1), expected)


def _scaled(value: int | str, expected: int) -> int:
    """A number, or a percentage rounded up, as the disruption controller does."""
    if isinstance(value, str):
        return math.ceil(int(value.removesuffix("%")) * expected / 100)
    return int(value)
