"""PodDisruptionBudgets: what they allow now, and which of them never allow anything (design §8).

A budget is hopeless when waiting cannot help: it needs as many healthy pods as it has, so one can never go; or its
controller cannot count it. Two budgets over one pod are hopeless too: the Eviction API refuses such pods for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hopline.domain.label_selectors import selects
from hopline.domain.resources import Document
from hopline.domain.wire import WireModel


class Budget(WireModel):
    """What one PodDisruptionBudget says.

    Attributes:
        allowed: disruptions that it allows now.
        selector: None selects nothing.
        counted: its controller has seen its present form.
        uncountable: why its controller cannot count it (condition SyncFailed); empty: it can.
    """

    kube_namespace: str
    name: str
    allowed: int = 0
    healthy: int = 0
    desired: int = 0
    expected: int = 0
    selector: dict[str, Any] | None = None
    counted: bool = True
    uncountable: str = ""

    def __str__(self) -> str:
        return f"PodDisruptionBudget {self.kube_namespace}/{self.name}"

    def covers(self, pod: Document) -> bool:
        """Whether a pod is under it."""
        metadata = pod["metadata"]
        return metadata.get("namespace") == self.kube_namespace and selects(self.selector, metadata.get("labels") or {})

    @property
    def hopeless(self) -> str:
        """Why it will never allow a disruption; empty: it may."""
        if self.uncountable:
            return f"its controller cannot count its pods: {self.uncountable}"
        if self.counted and self.expected > 0 and self.desired >= self.expected:
            return f"it needs {self.desired} healthy pods and there are {self.expected}, so none can ever go"
        return ""

    @property
    def told(self) -> str:
        """What it allows now, for a person."""
        if self.hopeless:
            return self.hopeless
        return f"it allows {self.allowed} disruptions ({self.healthy} healthy, {self.desired} needed)"


def budget_of(document: Document) -> Budget:
    """Read one PodDisruptionBudget (policy/v1)."""
    metadata, spec = _mapping(document.get("metadata")), _mapping(document.get("spec"))
    status = _mapping(document.get("status"))
    failed = next((one for one in status.get("conditions") or () if _mapping(one).get("reason") == "SyncFailed"), None)
    return Budget(
        kube_namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        allowed=_number(status, "disruptionsAllowed"),
        healthy=_number(status, "currentHealthy"),
        desired=_number(status, "desiredHealthy"),
        expected=_number(status, "expectedPods"),
        selector=spec.get("selector"),
        counted=_number(status, "observedGeneration") >= _number(metadata, "generation") and "expectedPods" in status,
        uncountable=str(_mapping(failed).get("message") or "unknown") if failed else "",
    )


def hindrance(pod: Document, budgets: Iterable[Budget]) -> str:
    """Why a pod can never be evicted; empty: it may be."""
    over = [budget for budget in budgets if budget.covers(pod)]
    if len(over) > 1:
        names = " and ".join(str(budget) for budget in over)
        return f"{names} are both over it, which the Eviction API refuses for ever"
    return next((f"{budget}: {budget.hopeless}" for budget in over if budget.hopeless), "")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(values: Mapping[str, Any], key: str) -> int:
    value = values.get(key)
    return value if isinstance(value, int) else 0
