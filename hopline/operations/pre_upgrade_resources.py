"""Pre-upgrade resources: made in the management cluster before anything else (openfuyao-api.md §7.7).

Objects that exist are left alone, except definitions: a newer one is applied, because the release that brings it needs
it (B55: the existing controller never updates one).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from hopline.documents.loading import SourceDocument, load_documents
from hopline.domain.errors import InvalidRelease
from hopline.domain.release import ApplyStrategy, ComponentVersion, InlineResource
from hopline.domain.resources import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEFAULT_FIELD_MANAGER,
    SECRET,
    Document,
)
from hopline.operations.component_objects import ComponentObjects, place_objects
from hopline.operations.live_objects import read_live
from hopline.operations.manifest_apply import ComponentWriter
from hopline.operations.manifests import ApplyOutcome
from hopline.ports import ClusterClient

_ORDER = (CUSTOM_RESOURCE_DEFINITION.kind, CONFIG_MAP.kind, SECRET.kind)


def _silent(message: str) -> None:
    """Nobody listens."""


async def create_resources(
    client: ClusterClient,
    component: ComponentVersion,
    *,
    field_manager: str = DEFAULT_FIELD_MANAGER,
    on_progress: Callable[[str], None] = _silent,
) -> ApplyOutcome:
    """Definitions first, by server-side apply; then the other objects that do not exist yet.

    Raises InvalidRelease or InvalidDocument for a resource that is none, ComponentFailed, Transient.
    """
    sources = await asyncio.to_thread(resource_documents, component)
    definitions = [source for source in sources if source.kind == CUSTOM_RESOURCE_DEFINITION.kind]
    others = [source for source in sources if source not in definitions]
    first = await _write(client, component, definitions, ApplyStrategy.SERVER_SIDE_APPLY, field_manager, on_progress)
    second = await _write(client, component, others, ApplyStrategy.CREATE_ONLY, field_manager, on_progress)
    updated = tuple(f"{name}: written, so that it is the definition of this release" for name in first.changed)
    return ApplyOutcome(
        changed=first.changed + second.changed,
        unchanged=first.unchanged + second.unchanged,
        notes=(*updated, *first.notes, *second.notes),
    )


async def _write(
    client: ClusterClient,
    component: ComponentVersion,
    sources: Sequence[SourceDocument],
    strategy: ApplyStrategy,
    field_manager: str,
    on_progress: Callable[[str], None],
) -> ApplyOutcome:
    if not sources:
        return ApplyOutcome()
    objects = ComponentObjects(
        component=component.name,
        subject=f"component {component.name} {component.version}",
        strategy=strategy,
        sources=tuple(sources),
    )
    targets, notes = await place_objects(client, objects)
    live = await read_live(client, targets)
    writer = ComponentWriter(client, objects, targets, live, field_manager, on_progress)
    await writer.write()
    return ApplyOutcome(tuple(writer.changed), writer.unchanged, False, (*notes, *writer.notes))


def resource_documents(component: ComponentVersion) -> list[SourceDocument]:
    """The objects of `spec.resources` in the documented order: definitions, ConfigMaps, Secrets, the rest; by name."""
    found = [_document(component, index, resource) for index, resource in enumerate(component.resources)]
    return sorted(found, key=lambda source: (_rank(source.kind), str(source.document["metadata"].get("name", ""))))


def _rank(kind: str) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _document(component: ComponentVersion, index: int, resource: InlineResource) -> SourceDocument:
    field = f"spec.resources[{index}]"
    origin = f"{component.path or component.name} {field}"
    if resource.kind == CONFIG_MAP.kind:
        return SourceDocument({**_head(resource, "v1"), "data": resource.data}, origin, 1)
    if resource.kind == SECRET.kind:
        return SourceDocument({**_head(resource, "v1"), "stringData": resource.string_data}, origin, 1)
    sources = load_documents(resource.manifest, f"{origin}.manifest")
    if not sources or not isinstance(sources[0].document.get("metadata"), dict):
        raise InvalidRelease(
            f"resource {resource.kind} {resource.name} of {component.name} has no usable manifest",
            subject=f"ComponentVersion {component.name}@{component.version}",
            field=f"{field}.manifest",
            remedy="write the whole object into manifest; only ConfigMap and Secret are built from data",
        )
    return sources[0]


def _head(resource: InlineResource, api_version: str) -> Document:
    metadata: Document = {"name": resource.name}
    if resource.kube_namespace:
        metadata["namespace"] = resource.kube_namespace
    if resource.labels:
        metadata["labels"] = dict(resource.labels)
    return {"apiVersion": api_version, "kind": resource.kind, "metadata": metadata}
