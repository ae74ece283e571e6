"""A simulated management cluster under watch, and what people do to it; the workflows are stand-ins."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from hopline.domain.resources import BKE_CLUSTER, CLUSTER_VERSION, EVENT, Document, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.ports import ClusterClient
from hopline.sim.clusters import SimulatedClusters
from looking import PATIENCE
from starter.requests import Requests
from starter.upkeep import Upkeep
from starter.watcher import Watcher


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """The first true answer; asked again until PATIENCE is over."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if answer := await condition():
                return answer
            await asyncio.sleep(0.05)


class World:
    """A management cluster under watch, and what people do to it."""

    def __init__(self, clusters: SimulatedClusters, requests: Requests) -> None:
        self.clusters = clusters
        self.requests = requests
        # Workflow ids are shared by all tests of the server, so every world has a Kubernetes namespace of its own.
        self.kube_namespace = f"w{uuid4().hex[:10]}"
        clusters.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.kube_namespace}})

    def key(self, name: str) -> ClusterKey:
        return ClusterKey(kube_namespace=self.kube_namespace, name=name)

    def add(self, name: str, desired: str, *, with_cluster: bool = True) -> ClusterKey:
        metadata = {"name": name, "namespace": self.kube_namespace}
        api = {"apiVersion": CLUSTER_VERSION.api_version, "kind": CLUSTER_VERSION.kind}
        status = {"currentVersion": "v-old", "phase": "Ready"}
        self.clusters.put({**api, "metadata": metadata, "spec": {"desiredVersion": desired}, "status": status})
        if with_cluster:
            self.add_cluster(name)
        return self.key(name)

    def add_cluster(self, name: str) -> None:
        api = {"apiVersion": BKE_CLUSTER.api_version, "kind": BKE_CLUSTER.kind}
        metadata = {"name": name, "namespace": self.kube_namespace}
        self.clusters.put({**api, "metadata": metadata, "spec": {}, "status": {"clusterHealthState": "Healthy"}})

    async def patch(self, name: str, body: Document, *, kind: Any = CLUSTER_VERSION, subresource: str = "") -> None:
        ref = ObjectRef(kind=kind, name=name, kube_namespace=self.kube_namespace)
        await self.clusters.management.patch(ref, body, subresource=subresource)

    async def mark(self, name: str, outcome: str) -> None:
        """What the last publication of a run writes."""
        ref = ObjectRef(kind=CLUSTER_VERSION, name=name, kube_namespace=self.kube_namespace)
        generation = (await self.clusters.management.get(ref))["metadata"]["generation"]
        await self.patch(name, {"metadata": {"annotations": {"hopline.dev/handled": f"{generation}/{outcome}"}}})

    async def runs(self, name: str) -> int:
        """Executions that were started for a cluster."""
        query = f"WorkflowId = 'cluster-upgrade/{self.kube_namespace}/{name}'"
        return (await self.requests.client.count_workflows(query)).count

    async def is_open(self, name: str) -> bool:
        description = await self.requests.describe(self.key(name))
        return description is not None and description.close_time is None

    async def is_closed(self, name: str) -> bool:
        description = await self.requests.describe(self.key(name))
        return description is not None and description.close_time is not None

    async def events(self, reason: str) -> list[Document]:
        listing = await self.clusters.management.list(EVENT, kube_namespace=self.kube_namespace)
        return [event for event in listing.items if event["reason"] == reason]

    @asynccontextmanager
    async def watched(
        self, upkeep: Upkeep | None = None, first_doubt: float = 600.0, management: ClusterClient | None = None
    ) -> AsyncIterator[Watcher]:
        client = management or self.clusters.management
        watcher = Watcher(client, self.requests, upkeep, first_doubt=first_doubt)
        task = asyncio.create_task(watcher.run())
        try:
            yield watcher
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
