"""Deleting what a new version of a component no longer has, after it was applied (openfuyao-api.md §7.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from hopline.domain.apply_order import apply_class
from hopline.domain.cluster import ClusterFacts
from hopline.domain.components import release_versions, type_of
from hopline.domain.errors import ComponentFailed, Conflict, InvalidDocument, InvalidRelease, NotFound, Permanent
from hopline.domain.plan import ComponentType
from hopline.domain.pruning import Key, PruneRule, dropped, key_of, prune_rule, reason_to_keep_live
from hopline.domain.release import ComponentRef, ComponentVersion, Release
from hopline.domain.resources import BKE_CLUSTER, DEFAULT_FIELD_MANAGER, Document, Kind, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.operations.component_objects import read_objects, side_by_side
from hopline.operations.events import EventRecord, Regarding, tell
from hopline.operations.releases import ReleaseShelf
from hopline.ports import ClusterClient


@dataclass(frozen=True)
class Orphan:
    """An object of the version before that the new one no longer has; `kept`: why it is left alone, if it is."""

    ref: ObjectRef
    live: Document
    kept: str = ""

    def __str__(self) -> str:
        return f"{self.ref} left alone: {self.kept}" if self.kept else f"{self.ref} deleted"


@dataclass(frozen=True)
class Succession:
    """A component in two releases that follow each other."""

    before: Release
    after: Release
    component: ComponentVersion
    facts: ClusterFacts

    @property
    def rule(self) -> PruneRule:
        """What the new version asks for."""
        return prune_rule(self.component.yaml)


@dataclass(frozen=True)
class AppliedBy:
    """Which run has just applied the component, in which attempt, for the event about it."""

    cluster: ClusterKey
    run_id: str
    attempt: int


async def release_before(shelf: ReleaseShelf, version: str, cluster: ClusterKey) -> Release | None:
    """The release that a hop comes from; None when it is not at hand or cannot be read."""
    if not version:
        return None
    try:
        return await shelf.release(version, cluster=cluster)
    except (InvalidRelease, InvalidDocument):
        return None


async def find_orphans(client: ClusterClient, succession: Succession, field_manager: str) -> list[Orphan]:
    """What is live and no longer part of the component, last applied first; changes nothing."""
    gone = await asyncio.to_thread(dropped_objects, succession)
    found = await side_by_side(lambda document: _look(client, document, succession.rule, field_manager), gone)
    return [orphan for orphan in found if orphan is not None]


async def prune(client: ClusterClient, succession: Succession, field_manager: str) -> list[Orphan]:
    """Delete the orphans that may be deleted, and name all of them. Safe to repeat.

    Raises ComponentFailed when the cluster refuses a deletion, Transient for another attempt.
    """
    orphans = await find_orphans(client, succession, field_manager)
    doomed = [orphan for orphan in orphans if not orphan.kept]
    for _, group in groupby(doomed, key=lambda orphan: apply_class(orphan.live)):
        await side_by_side(lambda orphan: _delete(client, orphan, succession.component), list(group))
    return orphans


async def prune_and_tell(
    client: ClusterClient,
    management: ClusterClient,
    succession: Succession,
    applied: AppliedBy,
    field_manager: str = DEFAULT_FIELD_MANAGER,
) -> tuple[str, ...]:
    """As `prune`, with an event on the BKECluster that names every orphan; what was done, for the history."""
    orphans = await prune(client, succession, field_manager)
    if not orphans:
        return ()
    told = tuple(str(orphan) for orphan in orphans)
    component = succession.component
    record = EventRecord(
        number=applied.attempt,
        regarding=Regarding.BKE_CLUSTER,
        reason="ComponentPruned",
        message=f"{component.name} {component.version} no longer has: {', '.join(told)}",
        at=datetime.now(UTC),
    )
    cluster = applied.cluster
    ref = ObjectRef(kind=BKE_CLUSTER, name=cluster.name, kube_namespace=cluster.kube_namespace)
    event_of = f"{applied.run_id}/{succession.after.version}/{component.name}/prune"
    await tell(management, record, await management.get(ref), event_of)
    return told


def dropped_objects(succession: Succession) -> list[Document]:
    """The documents of the version before that are in no component of the new release; blocks while it renders.

    Nothing when the version before is unknown or unreadable: then nobody can say what it had.
    """
    name = succession.component.name
    earlier = component_of(succession.before, name)
    if earlier is None:
        return []
    try:
        before = _placed(succession.before, earlier, succession.facts)
        after = _placed(succession.after, succession.component, succession.facts)
    except (InvalidRelease, InvalidDocument):
        return []
    return dropped_here(before, after, succession)


def dropped_here(before: Sequence[Document], after: Sequence[Document], succession: Succession) -> list[Document]:
    """As `dropped_objects`, for one who has the documents of both versions with their places."""
    try:
        return _without_moved(dropped(before, after), succession)
    except (InvalidRelease, InvalidDocument):
        return []


def component_of(release: Release, name: str) -> ComponentVersion | None:
    """The manifest component of a release by name, installed or upgraded by it."""
    version = release_versions(release).get(name, "")
    component = release.component(name, version) if version else None
    if component is None or type_of(ComponentRef(name=name, version=version), component) is not ComponentType.MANIFEST:
        return None
    return component


def _placed(release: Release, component: ComponentVersion, facts: ClusterFacts) -> tuple[Document, ...]:
    return read_objects(release, component, facts).placed_documents


def _without_moved(gone: Sequence[Document], succession: Succession) -> list[Document]:
    """An object that another component of the new release has taken over stays. Raises when one is unreadable."""
    elsewhere: set[Key] = set()
    if not gone:
        return []
    for name in release_versions(succession.after):
        component = component_of(succession.after, name)
        if component is not None and name != succession.component.name:
            documents = _placed(succession.after, component, succession.facts)
            elsewhere.update(key_of(document) for document in documents)
    return [document for document in gone if key_of(document) not in elsewhere]


async def _look(client: ClusterClient, document: Document, rule: PruneRule, manager: str) -> Orphan | None:
    try:
        kind = await client.resolve(str(document["apiVersion"]), str(document["kind"]))
        ref = _ref(document, kind)
        live = await client.get(ref) if ref.kube_namespace or not kind.namespaced else None
    except NotFound:
        return None
    if live is None:
        return None
    return Orphan(ref, live, reason_to_keep_live(live, rule, manager))


def _ref(document: Document, kind: Kind) -> ObjectRef:
    metadata = document["metadata"]
    place = str(metadata.get("namespace", "")) if kind.namespaced else ""
    return ObjectRef(kind=kind, name=str(metadata["name"]), kube_namespace=place)


async def _delete(client: ClusterClient, orphan: Orphan, component: ComponentVersion) -> None:
    try:
        await client.delete(orphan.ref, uid=str(orphan.live["metadata"]["uid"]))
    except (NotFound, Conflict):
        return  # gone, or another object by now: that one is nobody's orphan
    except Permanent as error:
        raise ComponentFailed(
            f"{component.name} {component.version} is applied, but {orphan.ref} cannot be pruned: {error.message}",
            subject=str(orphan.ref),
            field=error.field,
            value=error.value,
            remedy=error.remedy or "delete it by hand, or take pruning out of the component, then retry",
        ) from error
