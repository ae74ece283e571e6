"""Does an object differ from what it would be? Compared without what the API server keeps for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hopline.domain.resources import Document

_SERVER_METADATA = frozenset(
    {"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink", "deletionTimestamp"}
)


def content(document: Document) -> Document:
    """What people decide about an object: no status, no bookkeeping of the server."""
    kept = {key: value for key, value in document.items() if key not in ("status", "metadata")}
    metadata = document.get("metadata") or {}
    kept["metadata"] = {key: value for key, value in metadata.items() if key not in _SERVER_METADATA}
    return kept


def first_difference(live: Document, wanted: Document) -> str:
    """Path of the first field in which the contents differ; empty when they are equal."""
    return next(_differences(content(live), content(wanted), ""), "")


def same_ownership(live: Document, wanted: Document, manager: str) -> bool:
    """Whether the fields that `manager` has applied stay the same ones.

    Other managers do not count: controllers write statuses between two looks, and what they lose shows in the content
    or in the fields of `manager`.
    """
    return _applied_fields(live, manager) == _applied_fields(wanted, manager)


def plain_difference(live: Document, document: Document) -> str:
    """Path of a field of `document` that the live object certainly does not have; empty when only a dry run can tell.

    Looks at texts that the API server never rewrites: the data of a ConfigMap and the images of a workload. Whoever
    finds a difference here needs no dry run to know that there is something to do.
    """
    if document.get("kind") == "ConfigMap":
        for key, value in (document.get("data") or {}).items():
            if (live.get("data") or {}).get(key) != value:
                return f".data.{key}"
    images = dict(_images(live))
    for path, image in _images(document):
        if images.get(path, image) != image:
            return path
    return ""


def _applied_fields(document: Document, manager: str) -> list[Any]:
    return [
        entry.get("fieldsV1")
        for entry in (document.get("metadata") or {}).get("managedFields") or ()
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (manager, "Apply", "")
    ]


def _differences(live: Any, wanted: Any, path: str) -> Iterator[str]:
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        for key in sorted({*live, *wanted}):
            yield from _differences(live.get(key), wanted.get(key), f"{path}.{key}")
    elif isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        for index, (one, other) in enumerate(zip(live, wanted, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif live != wanted or type(live) is not type(wanted):
        yield path


def _images(document: Document) -> Iterator[tuple[str, str]]:
    spec = document.get("spec")
    template = spec.get("template") if isinstance(spec, Mapping) else None
    pod = template.get("spec") if isinstance(template, Mapping) else None
    for group in ("initContainers", "containers"):
        for container in (pod.get(group) or ()) if isinstance(pod, Mapping) else ():
            if isinstance(container, Mapping) and "name" in container and "image" in container:
                yield f'.spec.template.spec.{group}[name="{container["name"]}"].image', str(container["image"])
