"""Care for etcd around the work on a node: may its member go, is it back, and what does the cluster look like.

"Could not look" stops a change of etcd itself, unless an operator has said that it may go on (HOPLINE_ETCD_PROBE).
Other work on a node of etcd goes on then: its API server answers, so etcd did a moment ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.errors import ClusterNotReady, HoplineError, Transient
from hopline.domain.etcd import EtcdSighting, Objection, not_back, objection, successor
from hopline.domain.node_commands import handler_named
from hopline.domain.release import InlineHandler
from hopline.ports import Clusters

LOOK_AGAIN_SECONDS = 2.0
"""Between two looks: etcd has nothing that could be watched for this."""

TOUCHES_MEMBERS = frozenset({InlineHandler.ETCD, InlineHandler.MASTER, InlineHandler.CONTAINERD})
"""Their work restarts kubelet, runtime or etcd itself on a node (openfuyao-nodes.md §2.3 to §2.5)."""

ENDS_MEMBERS = frozenset({InlineHandler.ETCD, InlineHandler.CONTAINERD})
"""Their work ends the member of a node for a while."""

NOT_LOOKED = "etcd was not looked at, as HOPLINE_ETCD_PROBE=optional allows"

Seen = TypeVar("Seen")


class EtcdCare:
    """Looks, and changes nothing but who leads.

    Args:
        required: a change of etcd waits until somebody could look at it.
    """

    def __init__(self, clusters: Clusters, *, required: bool = True) -> None:
        self._clusters = clusters
        self.required = required

    async def look(self, facts: ClusterFacts) -> EtcdSighting:
        """Raises what the probe raises."""
        return await self._clusters.etcd.look(facts)

    async def objection(self, facts: ClusterFacts, handler: str, node: NodeFacts) -> Objection | None:
        """Why the work of a component must not begin on a node now; None: it may, as far as etcd goes."""
        kind = handler_named(handler)
        if not node.is_etcd or kind not in TOUCHES_MEMBERS:
            return None
        changes = kind is InlineHandler.ETCD
        try:
            seen = await self.look(facts)
        except (ClusterNotReady, Transient) as error:
            return self.blindness(error) if changes else None
        return objection(seen, node, changes_etcd=changes)

    async def hand_over(self, facts: ClusterFacts, handler: str, node: NodeFacts) -> str:
        """Before the member of a node ends, another one leads: its name; empty: nothing was to be done, or it failed.

        A member that ends hands over by itself too, but in the same moment as its clients go to the others: then more
        writes that the others pass on to it are lost on the way, and each holds its client for seven seconds. That is
        why a failure here stops nothing.
        """
        if not node.is_etcd or handler_named(handler) not in ENDS_MEMBERS:
            return ""
        try:
            seen = await self.look(facts)
            heir = successor(seen, node)
            if heir:
                await self._clusters.etcd.move_leader(facts, seen.leader, heir)
        except (ClusterNotReady, Transient):
            return ""
        return heir

    def blindness(self, error: HoplineError) -> Objection | None:
        """What it means for a change of etcd that nobody could look at it; None: an operator has allowed it."""
        if not self.required:
            return None
        place = error.subject + (f" {error.field}" if error.field else "")
        return Objection(
            message=f"could not look at etcd: {error.message} ({place})",
            remedy=f"{error.remedy}; or look yourself, and set HOPLINE_ETCD_PROBE=optional",
            passes=isinstance(error, Transient),
        )

    async def missing(self, facts: ClusterFacts, node: NodeFacts) -> str:
        """What the member on a node still lacks after its change; empty: nothing, or nobody may look."""
        try:
            seen = await self.look(facts)
        except (ClusterNotReady, Transient) as error:
            return str(error) if self.required else ""
        return not_back(seen, node)


async def look_until(
    look: Callable[[], Awaitable[Seen]],
    enough: Callable[[Seen], bool],
    *,
    seconds: float,
) -> Seen:
    """Look every two seconds until it is enough or the time is over; the last look."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        seen = await look()
        if enough(seen) or loop.time() + LOOK_AGAIN_SECONDS > deadline:
            return seen
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
