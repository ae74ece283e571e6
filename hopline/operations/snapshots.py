"""One reading of a cluster for all components of a hop: they are rendered from the same facts, and read once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from hopline.domain.cluster import ClusterFacts
from hopline.domain.wire import ClusterKey
from hopline.operations.reading import read_cluster
from hopline.ports import ClusterClient

CAPACITY = 1000
"""Hops in flight on one worker, at most; facts of 1,000 nodes take about 1 MB."""


class ClusterSnapshots:
    """Facts by hop. A retry reads again, because a person may have repaired just what is read here."""

    def __init__(self, management: ClusterClient) -> None:
        self._management = management
        self._known: OrderedDict[str, tuple[int, ClusterFacts]] = OrderedDict()
        self._reading: dict[str, asyncio.Lock] = {}

    async def facts(self, cluster: ClusterKey, hop: str, attempt: int, *, fresh: bool = False) -> ClusterFacts:
        """The facts of a hop as read for `attempt` or a later one; `fresh`: read now.

        Args:
            hop: names the hop and its run.
            attempt: the component's; a higher one than before reads again.
        """
        async with self._reading.setdefault(hop, asyncio.Lock()):
            known = self._known.get(hop)
            if known is not None and known[0] >= attempt and not fresh:
                return known[1]
            facts = await read_cluster(self._management, cluster)
            self._known[hop] = (max(attempt, known[0] if known else 0), facts)
            while len(self._known) > CAPACITY:
                forgotten, _ = self._known.popitem(last=False)
                self._reading.pop(forgotten, None)
            return facts
