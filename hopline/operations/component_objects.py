"""The objects of one manifest component: rendered, read, placed in a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hopline.documents.loading import SourceDocument, load_documents
from hopline.documents.origins import Origin
from hopline.domain.builtin_kinds import OPTIONAL_KINDS
from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import ComponentFailed, InvalidRelease, NotFound
from hopline.domain.image_overrides import ImageOverrides, ImageRewrite
from hopline.domain.other_controllers import ControllerPolicy, foreign_deployments, without_pods
from hopline.domain.release import ApplyStrategy, ComponentVersion, HealthCheck, ManifestFile, Release
from hopline.domain.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Document, Kind, ObjectRef, describe
from hopline.domain.template_variables import PLACES, variables
from hopline.domain.templates import render_with_lines
from hopline.ports import ClusterClient

PARALLEL_REQUESTS = 8
"""Requests of one component in flight: within the fairness of an API server for one account."""

UNRENDERED = "noexecute"
"""A file whose path contains it is read as it stands (openfuyao-api.md §7.2)."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class ComponentObjects:
    """What one component version consists of.

    Attributes:
        subject: `component coredns v1.12.2 of release v26.06`, for messages.
        kube_namespace: where namespaced objects go that name no place themselves.
        sources: the documents in the order of files, with file and line.
        rewrites: images that they name differently than the files do.
    """

    component: str
    subject: str
    version: str = ""
    kube_namespace: str = ""
    strategy: ApplyStrategy = ApplyStrategy.SERVER_SIDE_APPLY
    health: HealthCheck = field(default_factory=HealthCheck)
    sources: tuple[SourceDocument, ...] = ()
    rewrites: tuple[ImageRewrite, ...] = ()

    @property
    def documents(self) -> tuple[Document, ...]:
        """The documents alone."""
        return tuple(source.document for source in self.sources)

    @property
    def placed_documents(self) -> tuple[Document, ...]:
        """The documents with the namespace where they go, cluster-scoped ones included."""
        return tuple(_with_namespace(document, self.kube_namespace) for document in self.documents)

    def without_pods(self, policy: ControllerPolicy) -> ComponentObjects:
        """The same objects, with no replicas where one would start another controller."""
        pairs = zip(self.sources, self.placed_documents, strict=True)
        sources = [
            replace(source, document=without_pods(source.document)) if foreign_deployments([placed], policy) else source
            for source, placed in pairs
        ]
        return replace(self, sources=tuple(sources))


@dataclass(frozen=True)
class PlacedObject:
    """A document that knows where it goes. `served`: False for a kind that the component's own CRD will bring."""

    ref: ObjectRef
    document: Document
    place: str
    served: bool = True

    @property
    def is_namespace(self) -> bool:
        """Whether other objects may live in it."""
        return self.ref.kind == NAMESPACE

    @property
    def is_definition(self) -> bool:
        """Whether it brings a kind."""
        return self.ref.kind == CUSTOM_RESOURCE_DEFINITION


def _with_namespace(document: Document, kube_namespace: str) -> Document:
    metadata = dict(document["metadata"])
    return {**document, "metadata": {**metadata, "namespace": metadata.get("namespace") or kube_namespace}}


async def render_documents(release: Release, component: ComponentVersion, facts: ClusterFacts) -> ComponentObjects:
    """The objects of a component as this cluster gets them.

    Raises InvalidRelease or InvalidDocument, with file and line.
    """
    return await asyncio.to_thread(read_objects, release, component, facts)


def read_objects(release: Release, component: ComponentVersion, facts: ClusterFacts) -> ComponentObjects:
    """As `render_documents`, in this thread."""
    sources, rewrites = _with_own_images(
        [
            source
            for file in manifest_files(release, component)
            for source in _documents(release, component, facts, file)
        ],
        ImageOverrides(release.image_overrides),
    )
    objects = ComponentObjects(
        component=component.name,
        subject=f"component {component.name} {component.version} of release {release.version}",
        version=component.version,
        kube_namespace=component.yaml.kube_namespace,
        strategy=_strategy(component),
        health=component.yaml.health_check,
        sources=tuple(sources),
        rewrites=rewrites,
    )
    _check(objects)
    return objects


def _with_own_images(
    sources: list[SourceDocument], overrides: ImageOverrides
) -> tuple[list[SourceDocument], tuple[ImageRewrite, ...]]:
    """The documents with the images that this installation takes in the place of theirs."""
    if not overrides:
        return sources, ()
    pairs = [overrides.apply(source.document) for source in sources]
    changed = [replace(source, document=document) for source, (document, _) in zip(sources, pairs, strict=True)]
    return changed, tuple(rewrite for _, rewrites in pairs for rewrite in rewrites)


def manifest_files(release: Release, component: ComponentVersion) -> tuple[ManifestFile, ...]:
    """The files of a component and its inline manifests, in the order in which they count (openfuyao-api.md §7.1)."""
    inline = tuple(
        ManifestFile(
            path=f"{component.path or component.name} spec.resources[{index}].manifest", text=resource.manifest
        )
        for index, resource in enumerate(component.resources)
        if resource.manifest.strip()
    )
    return (*release.files_of(component.name, component.version), *inline)


def _documents(
    release: Release, component: ComponentVersion, facts: ClusterFacts, file: ManifestFile
) -> list[SourceDocument]:
    """The documents of one file; their lines are those of the file as it was written, whatever rendering moved."""
    if UNRENDERED in file.path:
        return load_documents(file.text, file.path)
    rendered = render_with_lines(file.text, variables(facts, release, component, file.path), file.path, PLACES)
    return load_documents(rendered.text, Origin(file.path, rendered.line_of))


def _strategy(component: ComponentVersion) -> ApplyStrategy:
    text = component.yaml.apply_strategy
    try:
        return ApplyStrategy(text) if text else ApplyStrategy.SERVER_SIDE_APPLY
    except ValueError:
        raise InvalidRelease(
            f"{component.name} asks for an unknown apply strategy",
            subject=f"ComponentVersion {component.name}@{component.version}",
            field="spec.yaml.applyStrategy",
            value=text,
            remedy=f"use one of {', '.join(ApplyStrategy)}",
        ) from None


def _check(objects: ComponentObjects) -> None:
    """Refuse what no API server could take, and an object that stands twice."""
    seen: dict[tuple[str, str, str, str], SourceDocument] = {}
    for source in objects.sources:
        document = source.document
        metadata = document.get("metadata")
        for name, value in (("apiVersion", document.get("apiVersion")), ("kind", document.get("kind"))):
            if not isinstance(value, str) or not value:
                raise _unusable(objects, source, f"the object has no {name}", name, f"write {name} at the top level")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
            remedy = "write metadata.name; generateName would make a new object in every run"
            raise _unusable(objects, source, f"{document['kind']} has no name", "metadata.name", remedy)
        group = document["apiVersion"].rpartition("/")[0]
        key = (group, document["kind"], str(metadata.get("namespace") or objects.kube_namespace), metadata["name"])
        if key in seen:
            remedy = f"keep one of the two; the other one is at {seen[key].place}"
            raise _unusable(objects, source, f"{describe(document)} stands twice", "metadata.name", remedy)
        if objects.strategy is ApplyStrategy.REPLACE and document["kind"] in _NEVER_DELETED:
            remedy = "move it into a component of its own with ServerSideApply"
            message = f"Replace would delete {describe(document)} and everything in it"
            raise _unusable(objects, source, message, "spec.yaml.applyStrategy", remedy)
        seen[key] = source


_NEVER_DELETED = frozenset({"Namespace", "CustomResourceDefinition", "PersistentVolumeClaim", "PersistentVolume"})


def _unusable(
    objects: ComponentObjects, source: SourceDocument, message: str, where: str, remedy: str
) -> InvalidRelease:
    return InvalidRelease(f"{objects.subject}: {message}", subject=source.place, field=where, remedy=remedy)


async def side_by_side(call: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """`call` for every item, eight at a time, results in order.

    A failure starts nothing new, lets what is in flight finish, and is raised then: no request is cut off half-way.
    """
    waiting = list(items)
    gate = asyncio.Semaphore(PARALLEL_REQUESTS)
    failed = False

    async def one(item: T) -> R | None:
        nonlocal failed
        async with gate:
            if failed:
                return None
            try:
                return await call(item)
            except BaseException:
                failed = True
                raise

    results = await asyncio.gather(*(one(item) for item in waiting), return_exceptions=True)
    done: list[R] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)  # type: ignore[arg-type]
    return done


async def place_objects(client: ClusterClient, objects: ComponentObjects) -> tuple[list[PlacedObject], list[str]]:
    """Every object with its kind, scope and Namespace, and notes about those that are left out.

    Raises ComponentFailed for a kind that neither the cluster nor the component has, and for an object without a place.
    """
    brought = _brought_kinds(objects.documents)
    wanted = sorted({(str(document["apiVersion"]), str(document["kind"])) for document in objects.documents})
    kinds = dict(zip(wanted, await side_by_side(lambda key: _served(client, *key), wanted), strict=True))
    placed, notes = [], []
    for source in objects.sources:
        key = (str(source.document["apiVersion"]), str(source.document["kind"]))
        served = kinds[key]
        kind = served or brought.get(key)
        if kind is not None:
            placed.append(replace(_placed(objects, source, kind), served=served is not None))
        elif key[1] in OPTIONAL_KINDS:
            notes.append(f"{describe(source.document)} left out: the cluster does not serve {key[0]} {key[1]}")
        else:
            raise _unknown_kind(objects, source)
    return placed, notes


async def _served(client: ClusterClient, api_version: str, kind: str) -> Kind | None:
    try:
        return await client.resolve(api_version, kind)
    except NotFound:
        return None


def _brought_kinds(documents: Sequence[Document]) -> dict[tuple[str, str], Kind]:
    """The kinds that the CRDs of the component itself define."""
    found = {}
    for document in documents:
        spec = document.get("spec")
        if document.get("kind") != CUSTOM_RESOURCE_DEFINITION.kind or not isinstance(spec, dict):
            continue
        name = (spec.get("names") or {}).get("kind", "")
        for version in spec.get("versions") or ():
            api_version = f"{spec.get('group')}/{version.get('name')}"
            kind = Kind(api_version=api_version, kind=name, namespaced=spec.get("scope") != "Cluster")
            found[api_version, name] = kind
    return found


def _placed(objects: ComponentObjects, source: SourceDocument, kind: Kind) -> PlacedObject:
    metadata = dict(source.document["metadata"])
    if kind.namespaced:
        metadata["namespace"] = metadata.get("namespace") or objects.kube_namespace
        if not metadata["namespace"]:
            raise ComponentFailed(
                f"{objects.subject}: {describe(source.document)} names no namespace",
                subject=source.place,
                field="metadata.namespace",
                remedy="write metadata.namespace, or spec.yaml.namespace of the component",
            )
    else:
        metadata.pop("namespace", None)
    ref = ObjectRef(kind=kind, name=metadata["name"], kube_namespace=metadata.get("namespace", ""))
    return PlacedObject(ref, {**source.document, "metadata": metadata}, source.place)


def _unknown_kind(objects: ComponentObjects, source: SourceDocument) -> ComponentFailed:
    return ComponentFailed(
        f"{objects.subject}: the cluster does not know {describe(source.document)}",
        subject=source.place,
        field="kind",
        value=f"{source.document['apiVersion']} {source.document['kind']}",
        remedy="add its CustomResourceDefinition to this or an earlier component, or correct apiVersion and kind",
    )
