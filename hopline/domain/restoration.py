"""Which declared versions an abort gives back (design §2.10)."""

from __future__ import annotations

from collections.abc import Mapping

from hopline.domain.components import OPEN_FUYAO_FIELD, VERSION_FIELDS
from hopline.domain.plan import Action, HopPlan


def restorable_targets(hop: HopPlan, untouched: frozenset[str], before: Mapping[str, str]) -> dict[str, str]:
    """BKECluster version fields → the value before the hop, for components that were never started.

    A field whose component has begun keeps this hop's value: some nodes may have it already, and their agents read it.
    """
    running = [component.name for component in hop.components if component.action is Action.RUN]
    restored = {}
    for field in hop.targets:
        owners = running if field == OPEN_FUYAO_FIELD else [n for n in VERSION_FIELDS.get(field, ()) if n in running]
        if before.get(field) and untouched.issuperset(owners):
            restored[field] = before[field]
    return restored
