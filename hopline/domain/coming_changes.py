"""Could an apply change this object? Answered without a dry run, so on the safe side: rather yes than no."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hopline.domain.resources import Document

_NOT_APPLIED = ("apiVersion", "kind", "status")
_NAMES = frozenset({"name", "namespace"})


def may_change(live: Document, document: Document, manager: str) -> bool:
    """Whether applying `document` as `manager` may change the live object.

    No is certain: the live object has every value of the document, and `manager` has applied nothing else before. Yes
    may be wrong where the API server writes a value in a form of its own (`1000m` as `1`, an empty text as none).
    """
    applied = _applied(live, manager)
    if applied is None:
        return True
    wanted = {key: value for key, value in document.items() if key not in _NOT_APPLIED}
    if not _holds(live, wanted):
        return True
    wanted["metadata"] = {key: value for key, value in wanted.get("metadata", {}).items() if key not in _NAMES}
    return _gives_up(applied, live, wanted)


def _applied(live: Document, manager: str) -> Mapping[str, Any] | None:
    """The field set that `manager` has applied; None when it never has."""
    for entry in (live.get("metadata") or {}).get("managedFields") or ():
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (manager, "Apply", ""):
            fields = entry.get("fieldsV1")
            return fields if isinstance(fields, Mapping) else None
    return None


def _holds(live: Any, wanted: Any) -> bool:
    """Whether everything in `wanted` is so in `live`, which may have more keys but no other list items."""
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(
            _holds(live.get(key), value) for key, value in wanted.items() if value is not None or key in live
        )
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(live) == len(wanted)
            and all(_holds(one, other) for one, other in zip(live, wanted, strict=True))
        )
    return type(live) is type(wanted) and bool(live == wanted)


def _gives_up(fields: Mapping[str, Any], live: Any, wanted: Any) -> bool:
    """Whether the document leaves out a field that was applied, or shortens a value that is owned as a whole."""
    for name, inner in fields.items():
        if name == ".":
            continue
        had, has = _child(live, name), _child(wanted, name)
        if has is None and had is not None:
            return True
        if isinstance(inner, Mapping) and inner:
            if _gives_up(inner, had, has):
                return True
        elif isinstance(has, Mapping | list) and had != has:
            return True
    return False


def _child(value: Any, name: str) -> Any:
    """The part that a step of a field set names: `f:image`, `k:{"name":"web"}`, `v:"finalizer"`; None: not there."""
    sign, _, text = name.partition(":")
    if sign == "f":
        return value.get(text) if isinstance(value, Mapping) else None
    if not isinstance(value, list):
        return None
    if sign == "v":
        return next((item for item in value if item == json.loads(text)), None)
    keys = json.loads(text) if sign == "k" else {}
    return next((item for item in value if isinstance(item, Mapping) and _has_keys(item, keys)), None)


def _has_keys(item: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    """The API server fills in the protocol of a port."""
    return all(item.get(key, "TCP" if key == "protocol" else None) == value for key, value in keys.items())
