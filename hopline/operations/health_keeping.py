"""Keeping a BKECluster's health state true between upgrades, where no other controller does it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from hopline.domain.cluster_version_life import installed_version
from hopline.domain.errors import ClusterNotReady, PortError
from hopline.domain.node_versions import not_ready
from hopline.domain.resources import BKE_CLUSTER, NODE, Document, ObjectRef
from hopline.domain.resting_health import resting_health
from hopline.domain.wire import ClusterKey
from hopline.operations.checks import ClusterChecks, Health
from hopline.operations.following import Changes, Followed, following
from hopline.operations.reading import read_cluster
from hopline.ports import Clusters

logger = logging.getLogger(__name__)

SYNC_SECONDS = 5.0
"""How long the first list of Nodes may take before the first look does without it."""


class HealthKeeper:
    """Looks at real target clusters, and writes how they are."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._checks = ClusterChecks(clusters)

    async def look(self, cluster: ClusterKey) -> tuple[Document, Health]:
        """The BKECluster as it stood before the look, and the health of its target. Raises as `read_cluster` does."""
        facts = await read_cluster(self._clusters.management, cluster)
        return facts.document, await self._checks.health_of(facts)

    @staticmethod
    def news(found: Document, health: Health, *, withdrawn: bool = False) -> dict[str, Any]:
        """What the look has to say that the BKECluster does not say yet, as `status`; of an installed one only."""
        if not installed_version(found):
            return {}
        problems = (f"nobody could look: {health.unread}",) if health.unread else health.problems
        return resting_health(found, problems, datetime.now(UTC), withdrawn=withdrawn)

    async def write(self, found: Document, status: dict[str, Any]) -> None:
        """Write it, guarded by what stood there before the look.

        Raises Conflict when the BKECluster has changed since, as it does when a run begins.
        """
        metadata = found["metadata"]
        ref = ObjectRef(kind=BKE_CLUSTER, name=metadata["name"], kube_namespace=metadata["namespace"])
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        await self._clusters.management.patch(ref, body, subresource="status")

    async def keep(self, cluster: ClusterKey, look: Callable[[], Awaitable[None]], seconds: float) -> None:
        """For ever: look at once, when a Node comes, goes or changes its readiness, and at the latest after `seconds`.

        Where Nodes cannot be watched, the time alone counts.
        """
        while True:
            try:
                target = await self._clusters.target(cluster)
                nodes = Followed(target.watch(NODE))
                async with following(nodes) as changes:
                    await changes.wait(SYNC_SECONDS)
                    while True:
                        await _one_round(nodes, changes, look, seconds)
            except (ClusterNotReady, PortError) as error:
                logger.debug("%s: its nodes cannot be watched: %s", cluster, error)
                await look()
                await asyncio.sleep(seconds)


async def _one_round(nodes: Followed, changes: Changes, look: Callable[[], Awaitable[None]], seconds: float) -> None:
    before = _readiness(nodes)
    await look()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while _readiness(nodes) == before and (left := deadline - loop.time()) > 0:
        await changes.wait(left)


def _readiness(nodes: Followed) -> dict[str, bool]:
    return {name: not not_ready(node) for name, node in nodes.documents.items()}
