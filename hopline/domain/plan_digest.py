"""Digests of plans: equal digests mean equal work (design §2.1).

A digest covers what will be done (path, release digests, components with their order, checks), not what is already
there: a hop that is planned again later, with other skips, has the same one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from hopline.domain.plan import HopPlan

SHOWN_DIGITS = 8
"""Hex digits that screens show."""


def hop_digest(hop: HopPlan) -> str:
    """64 hex digits over one hop. Independent of mode, slots, times, and of `digest` itself."""
    return _digest(
        {
            "from": hop.from_version,
            "to": hop.to_version,
            "release": [hop.release_name, hop.release_digest],
            "components": sorted(
                [c.name, c.version, c.type.value, c.handler, c.record_version, sorted(c.dependencies)]
                for c in hop.components
            ),
            "checks": sorted([check.stage.value, check.name, check.required] for check in hop.checks),
        }
    )


def plan_digest(hops: Iterable[HopPlan]) -> str:
    """64 hex digits over the whole way."""
    return _digest([hop.digest for hop in hops])


def short(digest: str) -> str:
    """As screens show it."""
    return digest[:SHOWN_DIGITS]


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
