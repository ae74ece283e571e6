"""Field paths of an object, as server-side apply owns them (`fieldsV1`), and JSON merge patch.

A path is a tuple of `fieldsV1` keys: `f:name` for a field, `k:{…}` for the item of a keyed list, `v:…` for the member
of a set. Only leaves are owned: scalars, empty mappings, and lists that are atomic.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator
from typing import Any

Path = tuple[str, ...]
Tree = dict[str, Any]

MISSING: Any = object()
"""Answer of `lookup` when there is nothing under the path; a null is a value."""

_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "secrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "conditions": ("type",),
    "webhooks": ("name",),
    "ownerReferences": ("uid",),
}
_DEFAULTS = {"protocol": "TCP"}


def _list_keys(path: Path, *, is_custom: bool) -> tuple[str, ...]:
    """Keys of a keyed list, `("",)` of a set, empty of an atomic list."""
    field = path[-1][2:] if path else ""
    in_metadata = path[:1] == ("f:metadata",)
    if in_metadata and field == "finalizers":
        return ("",)
    if is_custom and not in_metadata:
        return ()
    if field == "ports":
        return ("containerPort", "protocol") if any(part.startswith("k:") for part in path) else ("port", "protocol")
    return _KEYS.get(field, ())


def is_keyed(path: Path, *, is_custom: bool) -> bool:
    """Are the items of the list under this path owned one by one?"""
    return bool(_list_keys(path, is_custom=is_custom))


def _item_key(item: Any, keys: tuple[str, ...]) -> str | None:
    if keys == ("",):
        return "v:" + json.dumps(item, separators=(",", ":"))
    if not isinstance(item, dict):
        return None
    named = {key: item.get(key, _DEFAULTS.get(key)) for key in keys}
    if any(value is None for value in named.values()):
        return None
    return "k:" + json.dumps(named, sort_keys=True, separators=(",", ":"))


def _item_keys(items: list[Any], path: Path, *, is_custom: bool) -> list[str] | None:
    """The key of every item; None when the list has to be treated as one value."""
    keys = _list_keys(path, is_custom=is_custom)
    if not keys:
        return None
    found = [_item_key(item, keys) for item in items]
    named = [key for key in found if key is not None]
    return named if len(named) == len(items) == len(set(named)) and items else None


def leaves(value: Any, *, is_custom: bool, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every leaf with its path."""
    if isinstance(value, dict) and value:
        for field, inner in value.items():
            yield from leaves(inner, is_custom=is_custom, path=(*path, f"f:{field}"))
        return
    keys = _item_keys(value, path, is_custom=is_custom) if isinstance(value, list) else None
    if keys is None:
        yield path, value
        return
    for key, item in zip(keys, value, strict=True):
        if key.startswith("v:"):
            yield (*path, key), item
        else:
            yield from leaves(item, is_custom=is_custom, path=(*path, key))


def _matches(item: Any, part: str) -> bool:
    if part.startswith("v:"):
        return "v:" + json.dumps(item, separators=(",", ":")) == part
    wanted = json.loads(part[2:])
    return isinstance(item, dict) and all(item.get(key, _DEFAULTS.get(key)) == value for key, value in wanted.items())


def _step(value: Any, part: str) -> Any:
    if part.startswith("f:"):
        return value.get(part[2:], MISSING) if isinstance(value, dict) else MISSING
    items = value if isinstance(value, list) else []
    return next((item for item in items if _matches(item, part)), MISSING)


def lookup(document: Any, path: Path) -> Any:
    """The value under a path, or MISSING."""
    for part in path:
        document = _step(document, part)
        if document is MISSING:
            return MISSING
    return document


def assign(document: Any, path: Path, value: Any) -> None:
    """Set the value under a path; what is missing on the way is made."""
    for part, following in itertools.pairwise(path):
        inner = _step(document, part)
        wanted: type = dict if following.startswith("f:") else list
        if not isinstance(inner, wanted):
            inner = json.loads(part[2:]) if part.startswith("k:") else wanted()
            _put(document, part, inner)
        document = inner
    _put(document, path[-1], copy.deepcopy(value))


def _put(container: Any, part: str, value: Any) -> None:
    if part.startswith("f:"):
        container[part[2:]] = value
        return
    for index, item in enumerate(container):
        if _matches(item, part):
            container[index] = value
            return
    container.append(value)


def discard(document: Any, path: Path) -> None:
    """Remove the value under a path, and every container that is empty because of it."""
    if not path:
        return
    parent = lookup(document, path[:-1])
    if parent is MISSING or _step(parent, path[-1]) is MISSING:
        return
    if path[-1].startswith("f:"):
        del parent[path[-1][2:]]
    else:
        parent[:] = [item for item in parent if not _matches(item, path[-1])]
    if not parent:
        discard(document, path[:-1])


def discard_all(document: Any, paths: set[Path]) -> None:
    """Remove leaves; an item of a keyed list goes when nothing but its key would be left of it."""
    items: set[Path] = set()
    for path in sorted(paths):
        if len(path) > 1 and path[-2].startswith("k:") and path[-1][2:] in json.loads(path[-2][2:]):
            items.add(path[:-1])
        else:
            discard(document, path)
    for path in sorted(items):
        item = lookup(document, path)
        if item is not MISSING and set(item) <= set(json.loads(path[-1][2:])):
            discard(document, path)


def encode(paths: set[Path]) -> Tree:
    """Paths as `fieldsV1`."""
    tree: Tree = {}
    for path in sorted(paths):
        node = tree
        for part in path:
            node = node.setdefault(part, {})
            if part.startswith("k:"):
                node.setdefault(".", {})
    return tree


def decode(tree: Tree, path: Path = ()) -> set[Path]:
    """`fieldsV1` as paths of its leaves."""
    children = {part: inner for part, inner in tree.items() if part != "."}
    if not children:
        return {path} if path else set()
    return set().union(*(decode(inner, (*path, part)) for part, inner in children.items()))


def readable(path: Path) -> str:
    """The path as messages of Kubernetes spell it: `.spec.template.spec.containers[name="web"].image`."""
    text = ""
    for part in path:
        if part.startswith("f:"):
            text += f".{part[2:]}"
        elif part.startswith("k:"):
            keys = ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(part[2:]).items())
            text += f"[{keys}]"
        else:
            text += f"[={part[2:]}]"
    return text


def merge_patch(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386): null removes, mappings merge, everything else replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        else:
            merged[field] = merge_patch(merged.get(field), value)
    return merged
