"""Whether the cluster that is upgraded can be reached, told apart from every other fault.

A kubeconfig Secret that is deleted, broken or renewed in mid-run, and an API server that is away, are no faults of a
component: the work waits until the way is there again, and says for what.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from hopline.domain.errors import ClusterNotReady, HoplineError, PortError, TargetAway, Transient
from hopline.domain.wire import ClusterKey
from hopline.ports import Clusters

LOOK_SECONDS = 10.0
"""Between two looks beside a work that goes on."""

T = TypeVar("T")


class TargetReach:
    """Looks for all runs of a worker. The management cluster itself is never called away: nobody could tell it."""

    def __init__(self, clusters: Clusters, *, look_seconds: float = LOOK_SECONDS) -> None:
        self._clusters = clusters
        self._look_seconds = look_seconds
        self._glances: dict[ClusterKey, tuple[float, TargetAway | None]] = {}
        self._glancing: dict[ClusterKey, asyncio.Lock] = {}

    async def outage(self, cluster: ClusterKey) -> TargetAway | None:
        """Why the cluster cannot be reached by its kubeconfig as it is now; None: it can, or nobody can tell."""
        self._clusters.look_again(cluster)
        try:
            target = await self._clusters.target(cluster)
            await target.identity()
        except ClusterNotReady as error:
            return _away(error)
        except Transient as error:
            return _away(error) if await self._management_answers() else None
        except PortError:
            return None
        return None

    async def _management_answers(self) -> bool:
        try:
            await self._clusters.management.identity()
        except PortError:
            return False
        return True

    async def beside(self, cluster: ClusterKey, work: Coroutine[Any, Any, T]) -> T:
        """The result of a work on the target. Raises TargetAway when it stands still because of an outage."""
        task = asyncio.create_task(work)
        watch = asyncio.create_task(self._until_away(cluster))
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise watch.result()
        finally:
            for one in (task, watch):
                one.cancel()
            await asyncio.gather(task, watch, return_exceptions=True)

    async def _until_away(self, cluster: ClusterKey) -> TargetAway:
        """Return when two looks in a row have not reached it: a work that waits by watch would not hear of it."""
        last: TargetAway | None = None
        while True:
            await asyncio.sleep(self._look_seconds)
            found = await self._glance(cluster)
            if found is not None and last is not None:
                return found
            last = found

    async def _glance(self, cluster: ClusterKey) -> TargetAway | None:
        """One request serves every work that goes on there; the Secret is read anew only after a failure."""
        async with self._glancing.setdefault(cluster, asyncio.Lock()):
            looked_at, seen = self._glances.get(cluster, (float("-inf"), None))
            if time.monotonic() - looked_at < self._look_seconds / 2:
                return seen
            try:
                await (await self._clusters.target(cluster)).identity()
                seen = None
            except (ClusterNotReady, PortError):
                seen = await self.outage(cluster)
            self._glances[cluster] = (time.monotonic(), seen)
            return seen


def _away(error: HoplineError) -> TargetAway:
    return TargetAway(
        f"the cluster that is upgraded cannot be reached: {error.message}",
        subject=error.subject,
        field=error.field,
        value=error.value,
        remedy=error.remedy,
    )
