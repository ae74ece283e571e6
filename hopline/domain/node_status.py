"""What the status document says of nodes: where each one in hand or failed is in its turn, and counts of all."""

from __future__ import annotations

from datetime import datetime

from hopline.domain.wire import WireEnum, WireModel

MAX_NODES_SHOWN = 100
"""Nodes that are not done, at most, in one status document (design §2)."""


class NodeStage(WireEnum):
    """Where a node is in its turn."""

    PENDING = "pending"
    DRAINING = "draining"
    UPGRADING = "upgrading"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


class NodeStatus(WireModel):
    """One node that is in hand or has failed. Part of the stable JSON of `hopline status`.

    Attributes:
        message: what it waits for now, or why it failed; a sentence.
        since: when it came into this state.
        attempt: of the component.
        wave: counted from 1 in this rollout.
    """

    name: str
    roles: tuple[str, ...] = ()
    component: str = ""
    state: NodeStage = NodeStage.PENDING
    message: str = ""
    since: datetime | None = None
    attempt: int = 1
    wave: int = 1


class NodeProgress(WireModel):
    """Counts over all pools of one node-level component; the names only of nodes in hand or failed."""

    done: int = 0
    total: int = 0
    in_hand: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
