"""The live objects as they were before a hop, kept so that a person, or a rollback, can put them back.

One record for all components of a hop, taken before the first of them is written, with only the objects that the hop
may change or prune. It is owned by the ClusterVersion; the records of the last hops are kept, older ones are deleted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hopline.domain.cluster import ClusterFacts
from hopline.domain.coming_changes import may_change
from hopline.domain.components import type_of
from hopline.domain.errors import HoplineError, PortError
from hopline.domain.installation import anchors
from hopline.domain.plan import ComponentType
from hopline.domain.release import ApplyStrategy, ComponentVersion, Release
from hopline.domain.resources import Document
from hopline.domain.wire import ClusterKey
from hopline.operations.component_objects import ComponentObjects, PlacedObject, place_objects, render_documents
from hopline.operations.live_objects import Live, read_live
from hopline.operations.pruning import Succession, find_orphans, release_before
from hopline.operations.releases import ReleaseShelf
from hopline.operations.snapshots import ClusterSnapshots
from hopline.ports import ClusterClient, Clusters, Store, StoredRecord

KEPT_RECORDS = 10
"""Records of one ClusterVersion: the last hops, and each one again that was started anew."""


@dataclass(frozen=True)
class HopToRecord:
    """Which hop, of which run."""

    cluster: ClusterKey
    release: Release
    from_version: str
    run_id: str
    at: datetime

    @property
    def about(self) -> dict[str, str]:
        """How the record is told from others."""
        return {"from": self.from_version, "to": self.release.version, "run": self.run_id}


class HopRecorder:
    """Takes the record of a hop and forgets old ones."""

    def __init__(
        self, clusters: Clusters, shelf: ReleaseShelf, store: Store, snapshots: ClusterSnapshots, field_manager: str
    ) -> None:
        self.clusters = clusters
        self._shelf = shelf
        self._store = store
        self._snapshots = snapshots
        self._field_manager = field_manager

    async def record(self, owner: Document, hop: HopToRecord) -> str:
        """Digest of the record; empty when the hop changes nothing that is there.

        `owner` is the ClusterVersion as it was read. An earlier record of the same hop and run stays the one that
        counts: later ones have seen what the hop itself has done. Raises what the ports report.
        """
        hop_key = f"{hop.run_id}/{hop.cluster}/{hop.release.version}"
        facts = await self._snapshots.facts(hop.cluster, hop_key, 1)
        target = await self.clusters.target(hop.cluster)
        components = [
            component
            for ref in hop.release.upgrade
            if (component := hop.release.component(ref.name, ref.version)) is not None
            and type_of(ref, component) is ComponentType.MANIFEST
        ]
        before = await self._to_be_changed(target, hop.release, components, facts)
        pruning = [component for component in components if component.yaml.prune]
        older = await release_before(self._shelf, hop.from_version, hop.cluster) if pruning else None
        if older is not None:
            for component in pruning:
                orphans = await find_orphans(
                    target, Succession(older, hop.release, component, facts), self._field_manager
                )
                doomed = [orphan.live for orphan in orphans if not orphan.kept]
                before |= {component.name: [*before.get(component.name, ()), *doomed]} if doomed else {}
        if not before:
            return ""
        text = json.dumps({**hop.about, "components": before}, separators=(",", ":"), sort_keys=True)
        record = await self._store.put(owner, text.encode(), about=hop.about, at=hop.at)
        await self._forget(owner)
        return record.digest

    async def _to_be_changed(
        self, target: ClusterClient, release: Release, components: Sequence[ComponentVersion], facts: ClusterFacts
    ) -> dict[str, list[Document]]:
        rendered = [await render_documents(release, component, facts) for component in components]
        placed = {objects.component: await _placed(target, objects) for objects in rendered}
        live = await read_live(target, [one for targets in placed.values() for one in targets])
        found: dict[str, list[Document]] = {}
        for objects in rendered:
            targets = placed[objects.component]
            if objects.strategy is not ApplyStrategy.CREATE_ONLY and _is_there(objects, targets, live):
                changed = await asyncio.to_thread(_that_may_change, targets, live, self._field_manager)
                found |= {objects.component: changed} if changed else {}
        return found

    async def _forget(self, owner: Document) -> None:
        records = await self._store.records(owner)
        for record in records[:-KEPT_RECORDS]:
            await self._store.delete(owner, record.digest)


async def _placed(target: ClusterClient, objects: ComponentObjects) -> list[PlacedObject]:
    """Nothing for a component that cannot be applied as it is: its own apply says why, and changes nothing."""
    try:
        return (await place_objects(target, objects))[0]
    except PortError:
        raise
    except HoplineError:
        return []


def _is_there(objects: ComponentObjects, targets: list[PlacedObject], live: Live) -> bool:
    """A component that the cluster never had is left alone. An anchor of another component's kind counts as there."""
    needed = anchors(objects.component, [target.document for target in targets])
    return not needed or any(live.get(anchor) is not None or anchor not in live for anchor in needed)


def _that_may_change(targets: list[PlacedObject], live: Live, manager: str) -> list[Document]:
    found = []
    for target in targets:
        document = live[target.ref]
        if document is not None and may_change(document, target.document, manager):
            found.append(document)
    return found


async def read_record(store: Store, owner: Document, record: StoredRecord) -> Mapping[str, list[Document]]:
    """Component → its live objects as they were before the hop. Raises NotFound, or Rejected for other bytes."""
    whole = json.loads(await store.get(owner, record.digest))
    components: Mapping[str, list[Document]] = whole["components"]
    return components


async def record_of_hop(store: Store, owner: Document, to_version: str, run_id: str = "") -> StoredRecord | None:
    """The first record of a hop, of the given run or of the latest one; None when nothing was recorded."""
    records = [record for record in await store.records(owner) if record.about.get("to") == to_version]
    run_id = run_id or (records[-1].about.get("run", "") if records else "")
    return next((record for record in records if record.about.get("run") == run_id), None)
