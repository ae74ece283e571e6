"""Reads the objects of a cluster for `hopline status` while no worker runs: the terminal's one way to an API server."""

from __future__ import annotations

import asyncio

from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import HoplineError
from hopline.domain.wire import ClusterKey
from hopline.operations.reading import read_cluster
from hopline.runtime.settings import Settings
from hopline.wiring import build_clusters

LOOK_SECONDS = 10.0
"""A management cluster that does not answer must not keep a person waiting."""


async def objects_seen(cluster: ClusterKey) -> ClusterFacts | None:
    """The cluster as its objects say; None where this machine cannot read them."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            clusters = await build_clusters(Settings.from_environment(offline=True))
            try:
                return await read_cluster(clusters.management, cluster)
            finally:
                await clusters.aclose()
    except (HoplineError, TimeoutError):
        return None
