"""Clusters that can be looked at and not be changed: what a worker gets that runs beside another controller."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import OtherController
from hopline.domain.etcd import EtcdSighting
from hopline.domain.resources import Document, Kind, ObjectRef, describe
from hopline.domain.wire import ClusterKey
from hopline.operations.one_controller import OBSERVING
from hopline.ports import Change, ClusterClient, Clusters, EtcdProbe, Listing, NodeAgentInstaller


class ObservedClient:
    """A ClusterClient without effects: dry runs pass, every other write raises OtherController."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def identity(self) -> str:
        """As the port promises."""
        return await self._client.identity()

    async def resolve(self, api_version: str, kind: str) -> Kind:
        """As the port promises."""
        return await self._client.resolve(api_version, kind)

    async def get(self, ref: ObjectRef) -> Document:
        """As the port promises."""
        return await self._client.get(ref)

    async def list(self, kind: Kind, *, kube_namespace: str = "", labels: str = "", fields: str = "") -> Listing:
        """As the port promises."""
        return await self._client.list(kind, kube_namespace=kube_namespace, labels=labels, fields=fields)

    def watch(
        self, kind: Kind, *, kube_namespace: str = "", labels: str = "", name: str = "", fields: str = ""
    ) -> AsyncIterator[Change]:
        """As the port promises."""
        return self._client.watch(kind, kube_namespace=kube_namespace, labels=labels, name=name, fields=fields)

    async def create(self, document: Document, *, kind: Kind, dry_run: bool = False) -> Document:
        """Only as a dry run."""
        _only(dry_run, describe(document))
        return await self._client.create(document, kind=kind, dry_run=True)

    async def patch(self, ref: ObjectRef, body: Document, *, subresource: str = "", dry_run: bool = False) -> Document:
        """Only as a dry run."""
        _only(dry_run, str(ref))
        return await self._client.patch(ref, body, subresource=subresource, dry_run=True)

    async def apply(
        self, document: Document, *, kind: Kind, field_manager: str, force: bool = False, dry_run: bool = False
    ) -> Document:
        """Only as a dry run."""
        _only(dry_run, describe(document))
        return await self._client.apply(document, kind=kind, field_manager=field_manager, force=force, dry_run=True)

    async def delete(self, ref: ObjectRef, *, uid: str = "") -> None:
        """Never."""
        _only(False, str(ref))

    async def evict(self, pod: ObjectRef, *, uid: str = "", grace_seconds: int = -1) -> None:
        """Never."""
        _only(False, str(pod))


class ObservedEtcd:
    """An EtcdProbe without effects."""

    def __init__(self, probe: EtcdProbe) -> None:
        self._probe = probe

    async def look(self, facts: ClusterFacts) -> EtcdSighting:
        """As the port promises."""
        return await self._probe.look(facts)

    async def move_leader(self, facts: ClusterFacts, leader: str, successor: str) -> None:
        """Never."""
        _only(False, f"etcd of {facts.subject}")


class ObservedClusters:
    """`Clusters` whose clients have no effects."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._management = ObservedClient(clusters.management)

    @property
    def management(self) -> ClusterClient:
        """The management cluster, without effects."""
        return self._management

    @property
    def agents(self) -> NodeAgentInstaller | None:
        """As it is, so that a plan shows what a worker would do; before it is used, the one controller is asked."""
        return self._clusters.agents

    @property
    def etcd(self) -> EtcdProbe:
        """Looks, and has no leader changed."""
        return ObservedEtcd(self._clusters.etcd)

    async def target(self, cluster: ClusterKey) -> ClusterClient:
        """The cluster that is upgraded, without effects."""
        return ObservedClient(await self._clusters.target(cluster))

    def look_again(self, cluster: ClusterKey) -> None:
        """As the port promises."""
        self._clusters.look_again(cluster)

    async def aclose(self) -> None:
        """Give back every connection."""
        await self._clusters.aclose()


def _only(dry_run: bool, subject: str) -> None:
    if not dry_run:
        raise OtherController(
            OBSERVING,
            subject=subject,
            field="HOPLINE_OBSERVE",
            value="true",
            remedy="start the worker without --observe",
        )
