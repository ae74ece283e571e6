"""One list for everybody who asks for the same at the same time: fifty nodes of a wave need no fifty lists."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from hopline.domain.resources import Kind
from hopline.ports import ClusterClient, Listing


class _Asked(NamedTuple):
    kind: Kind
    kube_namespace: str
    labels: str


class SharedLists:
    """Lists through a client. An answer was always read after its asker had asked: nobody gets an older picture."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._running: dict[_Asked, asyncio.Task[Listing]] = {}
        self._next: dict[_Asked, asyncio.Task[Listing]] = {}

    async def list(self, kind: Kind, *, kube_namespace: str = "", labels: str = "") -> Listing:
        """As `ClusterClient.list`; the documents belong to others too, so nobody may change them."""
        asked = _Asked(kind, kube_namespace, labels)
        coming = self._next.get(asked)
        if coming is None:
            coming = asyncio.create_task(self._read(asked, self._running.get(asked)))
            coming.add_done_callback(_looked_at)
            self._next[asked] = coming
        return await asyncio.shield(coming)

    async def _read(self, asked: _Asked, before: asyncio.Task[Listing] | None) -> Listing:
        if before is not None:
            await asyncio.wait([before])
        # Who asks from now on has to wait for another one.
        own = self._next.pop(asked)
        self._running[asked] = own
        try:
            return await self._client.list(asked.kind, kube_namespace=asked.kube_namespace, labels=asked.labels)
        finally:
            if self._running.get(asked) is own:
                del self._running[asked]


def _looked_at(task: asyncio.Task[Listing]) -> None:
    """An answer that nobody waits for any more is no error."""
    if not task.cancelled():
        task.exception()
