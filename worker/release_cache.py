"""Keeps the folder of fetched releases small, without what an open run has pinned."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from temporalio.client import Client, WorkflowQueryFailedError, WorkflowQueryRejectedError
from temporalio.service import RPCError

from hopline.runtime.settings import Settings
from hopline.wiring import prune_releases
from workflows.cluster_upgrade import ClusterUpgrade
from workflows.identifiers import CLUSTER_UPGRADE

logger = logging.getLogger(__name__)

PRUNE_SECONDS = 6 * 3600.0
QUERY_PATIENCE = timedelta(seconds=10)


async def keep_release_cache(client: Client, settings: Settings) -> None:
    """For ever. Where it cannot be seen what open runs have pinned, nothing goes."""
    while settings.releases is None:
        try:
            await prune_once(client, settings)
        except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError) as error:
            logger.warning("the folder of releases is not pruned: what open runs need cannot be seen (%s)", error)
        await asyncio.sleep(PRUNE_SECONDS)


async def prune_once(client: Client, settings: Settings) -> int:
    """How many blobs have gone. Raises what Temporal answers when a run does not say what it needs."""
    if not await asyncio.to_thread(prune_releases, settings, frozenset(), dry=True):
        return 0
    pinned = await pinned_digests(client)
    count = await asyncio.to_thread(prune_releases, settings, pinned)
    logger.info("%d blobs have gone from %s; %d digests are pinned", count, settings.release_cache, len(pinned))
    return count


async def pinned_digests(client: Client) -> frozenset[str]:
    """Of all hops of all open runs of this Temporal namespace, on whatever task queue."""
    pinned: set[str] = set()
    query = f"WorkflowType='{CLUSTER_UPGRADE}' AND ExecutionStatus='Running'"
    async for run in client.list_workflows(query):
        handle = client.get_workflow_handle(run.id)
        seen = await handle.query(ClusterUpgrade.plan, rpc_timeout=QUERY_PATIENCE)
        if seen.outline is not None:
            pinned.update(hop.release_digest for hop in seen.outline.hops)
    return frozenset(pinned)
