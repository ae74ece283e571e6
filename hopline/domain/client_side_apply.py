"""Fields that `kubectl apply` without `--server-side` has left under its own name (kubectl's `csaupgrade`).

A server-side apply beside such an entry never removes a field: the old entry still owns it. So the entry becomes the
applier's own, once, as `kubectl apply --server-side` does; then a field that the manifest no longer has goes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from hopline.domain.resources import Document

CLIENT_SIDE_MANAGER = "kubectl-client-side-apply"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_ANNOTATION = ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")


def is_client_side_applied(document: Document) -> bool:
    """Whether an entry of a client-side apply still owns fields of the object."""
    return any(_is_client_side(entry) for entry in _entries(document))


def taken_over(document: Document, manager: str) -> list[dict[str, Any]]:
    """`metadata.managedFields` in which the fields of client-side applies are those of `manager`'s server-side apply.

    Entries of another API version than the manager's own only go away: their field paths may mean something else.
    """
    client_side = [entry for entry in _entries(document) if _is_client_side(entry)]
    others = [copy.deepcopy(dict(entry)) for entry in _entries(document) if not _is_client_side(entry)]
    own = next((entry for entry in others if _is_applier(entry, manager)), None)
    if own is None:
        own = {**copy.deepcopy(dict(client_side[-1])), "manager": manager, "operation": "Apply"}
        others.append(own)
    for entry in client_side:
        if entry.get("apiVersion") == own.get("apiVersion"):
            own["fieldsV1"] = _union(own.get("fieldsV1") or {}, entry.get("fieldsV1") or {})
    return others


def outdated_fields(live: Document, would: Document) -> list[str]:
    """Fields that only a client-side apply has set and that the manifest does not have: they go with the take-over.

    `would`: the answer to a dry run of the manifest, whose managers own every field that stays.
    The annotation in which client-side apply remembers its last manifest does not count.
    """
    kept: dict[str, Any] = {}
    for entry in _entries(would):
        if not _is_client_side(entry):
            kept = _union(kept, entry.get("fieldsV1") or {})
    found: list[str] = []
    for entry in _entries(live):
        if _is_client_side(entry):
            found.extend(_missing(entry.get("fieldsV1") or {}, kept, ()))
    return sorted(set(found))


def _entries(document: Document) -> list[Mapping[str, Any]]:
    entries = (document.get("metadata") or {}).get("managedFields")
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _is_client_side(entry: Mapping[str, Any]) -> bool:
    """By its name, or because it owns the annotation that only a client-side apply writes."""
    if entry.get("operation") != "Update" or entry.get("subresource"):
        return False
    value: Any = entry.get("fieldsV1") or {}
    for name in _ANNOTATION:
        value = value.get(name) if isinstance(value, Mapping) else None
    return entry.get("manager") == CLIENT_SIDE_MANAGER or value is not None


def _is_applier(entry: Mapping[str, Any], manager: str) -> bool:
    return (entry.get("manager"), entry.get("operation"), entry.get("subresource") or "") == (manager, "Apply", "")


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(one)
    for key, value in other.items():
        merged[key] = _union(merged.get(key) or {}, value) if isinstance(value, Mapping) else value
    return merged


def _missing(fields: Mapping[str, Any], kept: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for key, value in fields.items():
        here = (*path, key)
        if here == _ANNOTATION or key == ".":
            continue
        if key not in kept:
            if _ANNOTATION[: len(here)] != here:
                yield _spelt(here)
            continue
        if isinstance(value, Mapping):
            yield from _missing(value, kept[key] if isinstance(kept[key], Mapping) else {}, here)


def _spelt(path: tuple[str, ...]) -> str:
    """`.spec.replicas` of `("f:spec", "f:replicas")`; keys of lists as the API server writes them."""
    return "".join(f".{name[2:]}" if name.startswith("f:") else f"[{name[2:]}]" for name in path)
