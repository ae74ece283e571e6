"""What the watcher knows of the management cluster: five watches, and who has to look when something changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from hopline.domain.errors import NotFound
from hopline.domain.resources import (
    ANNOTATION_RETRY,
    BKE_CLUSTER,
    BKE_NODE,
    CLUSTER_VERSION,
    LABEL_CLUSTER_NAME,
    RELEASE_IMAGE,
    UPGRADE_PATH,
    Document,
    Kind,
    ObjectRef,
)
from hopline.domain.wire import ClusterKey
from hopline.ports import Change, ChangeType, ClusterClient
from starter.wishes import Sight

WATCHED = (CLUSTER_VERSION, BKE_CLUSTER, BKE_NODE, UPGRADE_PATH, RELEASE_IMAGE)

_Name = tuple[str, str]
"""Kubernetes namespace and name."""


class Sightings:
    """The watched objects by kind. Calls `changed` for every cluster that a change may concern."""

    def __init__(self, client: ClusterClient, changed: Callable[[ClusterKey], None]) -> None:
        self._client = client
        self._changed = changed
        self._objects: dict[str, dict[_Name, Document]] = {kind.kind: {} for kind in WATCHED}
        self._retry_gaps: dict[_Name, int] = {}
        self._waiting = {kind.kind for kind in WATCHED}
        self.complete = asyncio.Event()
        self.catalogues_changed = asyncio.Event()

    async def follow(self) -> None:
        """Watch for ever. Raises Forbidden, and NotFound when a kind is not served."""
        async with asyncio.TaskGroup() as group:
            for kind in WATCHED:
                group.create_task(self._follow(kind))

    def sight(self, cluster: ClusterKey) -> Sight | None:
        """What is known of a cluster now; None when it has no ClusterVersion."""
        name = (cluster.kube_namespace, cluster.name)
        version = self._objects[CLUSTER_VERSION.kind].get(name)
        if version is None:
            return None
        releases, nodes = self._objects[RELEASE_IMAGE.kind], self._objects[BKE_NODE.kind]
        return Sight(
            version=version,
            cluster=self._objects[BKE_CLUSTER.kind].get(name),
            catalogues=self.catalogues,
            releases=tuple(image for (place, _), image in releases.items() if place == cluster.kube_namespace),
            nodes=tuple(node for node in nodes.values() if _cluster_of(node) == name),
            retry_gap=self._retry_gaps.get(name, 0),
        )

    def pair(self, cluster: ClusterKey) -> tuple[Document | None, Document | None]:
        """ClusterVersion and BKECluster, as far as they are there."""
        name = (cluster.kube_namespace, cluster.name)
        return self._objects[CLUSTER_VERSION.kind].get(name), self._objects[BKE_CLUSTER.kind].get(name)

    async def has_cluster(self, cluster: ClusterKey) -> bool:
        """Whether a BKECluster is there, seen or not: its watch may be behind that of its ClusterVersion."""
        try:
            await self._client.get(
                ObjectRef(kind=BKE_CLUSTER, name=cluster.name, kube_namespace=cluster.kube_namespace)
            )
        except NotFound:
            return False
        return True

    @property
    def catalogues(self) -> tuple[Document, ...]:
        """Every UpgradePath."""
        return tuple(self._objects[UPGRADE_PATH.kind].values())

    async def _follow(self, kind: Kind) -> None:
        async for change in self._client.watch(kind):
            concerned = self._take(kind, change)
            self._waiting.discard(kind.kind)
            if self._waiting:
                continue
            if not self.complete.is_set():
                # A cluster is judged only when all lists are there, else "no BKECluster" would be a guess.
                self.complete.set()
                concerned = self._every_cluster()
            for cluster in concerned:
                self._changed(cluster)

    def _take(self, kind: Kind, change: Change) -> set[ClusterKey]:
        known = self._objects[kind.kind]
        seen = list(change.documents)
        if change.type is ChangeType.SYNCED:
            seen += known.values()
            known.clear()
        for document in change.documents:
            if kind == BKE_CLUSTER and ANNOTATION_RETRY not in (document["metadata"].get("annotations") or {}):
                self._retry_gaps[_name_of(document)] = self._retry_gaps.get(_name_of(document), 0) + 1
            if change.type is ChangeType.DELETED:
                known.pop(_name_of(document), None)
                if kind == BKE_CLUSTER:
                    self._retry_gaps.pop(_name_of(document), None)
            else:
                known[_name_of(document)] = document
        return self._concerned(kind, seen)

    def _concerned(self, kind: Kind, seen: Iterable[Document]) -> set[ClusterKey]:
        if kind == UPGRADE_PATH:
            self.catalogues_changed.set()
            return self._every_cluster()
        if kind == RELEASE_IMAGE:
            places = {place for place, _ in map(_name_of, seen)}
            return {cluster for cluster in self._every_cluster() if cluster.kube_namespace in places}
        names = map(_cluster_of if kind == BKE_NODE else _name_of, seen)
        return {ClusterKey(kube_namespace=place, name=name) for place, name in names if name}

    def _every_cluster(self) -> set[ClusterKey]:
        known = {*self._objects[CLUSTER_VERSION.kind], *self._objects[BKE_CLUSTER.kind]}
        return {ClusterKey(kube_namespace=place, name=name) for place, name in known}


def _name_of(document: Document) -> _Name:
    metadata = document["metadata"]
    return str(metadata.get("namespace", "")), str(metadata["name"])


def _cluster_of(node: Document) -> _Name:
    """The cluster that a BKENode belongs to; its name is empty when the label is missing."""
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    return str(metadata.get("namespace", "")), str(labels.get(LABEL_CLUSTER_NAME, ""))
