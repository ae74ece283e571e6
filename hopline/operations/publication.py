"""Writing the status document into ClusterVersion and BKECluster: the one writer of both while a run is open.

Merge patches carry `metadata.resourceVersion`, so a stale attempt fails with Conflict instead of writing over newer
facts. What was last written is kept in memory, so that a publication costs no read: a Conflict drops it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import Field

from hopline.domain.cluster import NodeFacts, node_facts
from hopline.domain.errors import Conflict, NotFound
from hopline.domain.projection import bke_cluster_status, cluster_version_status
from hopline.domain.resources import (
    ANNOTATION_HANDLED,
    BKE_CLUSTER,
    BKE_NODE,
    CLUSTER_VERSION,
    LABEL_CLUSTER_NAME,
    Document,
    Kind,
    ObjectRef,
)
from hopline.domain.status import UpgradeStatus
from hopline.domain.wire import ClusterKey, WireModel
from hopline.operations.component_objects import side_by_side
from hopline.operations.events import EventRecord, tell_together, together
from hopline.ports import ClusterClient


class Publication(WireModel):
    """One picture of a run, and the events since the one before.

    Attributes:
        annotations: BKECluster annotations to set, or with None to remove, in this publication.
        closing: a hop ends: BKECluster first, then its annotations, then the ClusterVersion (observed.md §3 item 5).
        final: the run ends: mark the wish as handled, if it is still the ClusterVersion's wish.
    """

    status: UpgradeStatus
    now: datetime
    events: tuple[EventRecord, ...] = ()
    annotations: dict[str, str | None] = Field(default_factory=dict)
    closing: bool = False
    final: bool = False


class Echo(WireModel):
    """What the writer saw while it wrote."""

    gone: str = ""
    """Why the run must end: the cluster or its ClusterVersion is deleted; empty while both live."""
    generation: int = 0
    desired_version: str = ""


class Publisher:
    """Publishes for all clusters of one management cluster."""

    def __init__(self, management: ClusterClient) -> None:
        self._management = management
        self._known: dict[tuple[str, str], Document] = {}
        self._uncounted: set[str] = set()
        """Clusters whose agents are counted with the next publication."""

    async def publish(self, publication: Publication, run_id: str) -> Echo:
        """Write the picture, then the events; NotFound and deletion are told, not raised."""
        steps = [self._write_version, self._write_bke]
        if publication.closing:
            steps.reverse()
        seen, gone = [], ""
        for write in steps:
            try:
                seen.append(await write(publication))
            except NotFound as error:
                # The other object still has to say how it stands.
                self.forget(publication.status.cluster)
                gone = gone or str(error)
        await self._tell_all(publication, seen, run_id)
        return Echo(gone=gone) if gone else self._echo(seen)

    async def _write_version(self, publication: Publication) -> Document:
        status = publication.status
        version = await self._read(CLUSTER_VERSION, status.cluster)
        patch = cluster_version_status(status, version, publication.now)
        version = await self._patch_status(version, CLUSTER_VERSION, patch)
        if publication.final and _desired(version) == status.to_version:
            mark = f"{_generation(version)}/{status.state.value}"
            version = await self._annotate(version, CLUSTER_VERSION, {ANNOTATION_HANDLED: mark})
        return version

    async def _write_bke(self, publication: Publication) -> Document:
        status = publication.status
        # Agents come and go slowly: they are counted when a hop begins and when it ends, not at every step between.
        cluster = str(status.cluster)
        is_new = cluster in self._uncounted or (BKE_CLUSTER.kind, cluster) not in self._known
        count_agents = status.opened and (publication.closing or is_new)
        bke = await self._read(BKE_CLUSTER, status.cluster)
        nodes = await self._nodes(status.cluster) if count_agents else None
        bke = await self._patch_status(bke, BKE_CLUSTER, bke_cluster_status(status, bke, publication.now, nodes))
        if count_agents:
            self._uncounted.discard(cluster)
        return await self._annotate(bke, BKE_CLUSTER, publication.annotations)

    async def _tell_all(self, publication: Publication, seen: list[Document], run_id: str) -> None:
        """Each event on its object, or on the other one when that is gone."""

        async def tell_one(records: Sequence[EventRecord]) -> None:
            regarding = next((one for one in seen if one["kind"] == records[0].regarding.value), seen[0])
            await tell_together(self._management, records, regarding, run_id)

        await side_by_side(tell_one, together(publication.events) if seen else ())

    @staticmethod
    def _echo(seen: list[Document]) -> Echo:
        for document in sorted(seen, key=lambda one: str(one["kind"])):
            metadata = document["metadata"]
            if "deletionTimestamp" in metadata:
                name = f"{document['kind']} {metadata['namespace']}/{metadata['name']}"
                return Echo(gone=f"{name} is being deleted since {metadata['deletionTimestamp']}")
        version = next(one for one in seen if one["kind"] == CLUSTER_VERSION.kind)
        return Echo(
            generation=_generation(version),
            desired_version=_desired(version),
        )

    async def _read(self, kind: Kind, cluster: ClusterKey) -> Document:
        known = self._known.get((kind.kind, str(cluster)))
        if known is not None:
            return known
        ref = ObjectRef(kind=kind, name=cluster.name, kube_namespace=cluster.kube_namespace)
        return self._remember(kind, await self._management.get(ref))

    async def _nodes(self, cluster: ClusterKey) -> list[NodeFacts]:
        labels = f"{LABEL_CLUSTER_NAME}={cluster.name}"
        listing = await self._management.list(BKE_NODE, kube_namespace=cluster.kube_namespace, labels=labels)
        return [node_facts(document) for document in listing.items]

    def _remember(self, kind: Kind, document: Document) -> Document:
        metadata = document["metadata"]
        self._known[(kind.kind, f"{metadata['namespace']}/{metadata['name']}")] = document
        return document

    def know(self, cluster: ClusterKey, bke: Document, version: Document) -> None:
        """What another activity of the same run has just written: the next publication need not read it."""
        self._remember(BKE_CLUSTER, bke)
        self._remember(CLUSTER_VERSION, version)
        self._uncounted.add(str(cluster))

    def forget(self, cluster: ClusterKey) -> None:
        """The next publication reads again."""
        for kind in (CLUSTER_VERSION, BKE_CLUSTER):
            self._known.pop((kind.kind, str(cluster)), None)

    async def _patch_status(self, document: Document, kind: Kind, status: dict[str, Any]) -> Document:
        if not status:
            return document
        return await self._patch(document, kind, {"status": status}, subresource="status")

    async def _annotate(self, document: Document, kind: Kind, wanted: dict[str, str | None]) -> Document:
        found = document["metadata"].get("annotations") or {}
        if any(value is None and key not in found for key, value in wanted.items()):
            # Whoever asks for a removal has seen it there: it came after what is known.
            self._known.pop((kind.kind, f"{document['metadata']['namespace']}/{document['metadata']['name']}"), None)
            metadata = document["metadata"]
            document = await self._read(kind, ClusterKey(kube_namespace=metadata["namespace"], name=metadata["name"]))
            found = document["metadata"].get("annotations") or {}
        changed = {key: value for key, value in wanted.items() if found.get(key) != value}
        if not changed:
            return document
        return await self._patch(document, kind, {"metadata": {"annotations": changed}})

    async def _patch(self, document: Document, kind: Kind, body: Document, subresource: str = "") -> Document:
        metadata = document["metadata"]
        ref = ObjectRef(kind=kind, name=metadata["name"], kube_namespace=metadata["namespace"])
        guarded = copy.deepcopy(body)
        guarded.setdefault("metadata", {})["resourceVersion"] = metadata["resourceVersion"]
        try:
            return self._remember(kind, await self._management.patch(ref, guarded, subresource=subresource))
        except (Conflict, NotFound):
            self.forget(ClusterKey(kube_namespace=metadata["namespace"], name=metadata["name"]))
            raise


def _generation(version: Document) -> int:
    return int(version["metadata"].get("generation", 0) or 0)


def _desired(version: Document) -> str:
    return str((version.get("spec") or {}).get("desiredVersion") or "").strip()
