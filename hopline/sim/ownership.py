"""Who owns which field: `metadata.managedFields`, and the merge of server-side apply.

Kept as Kubernetes keeps it: a manager is a name, an operation and a subresource; `Apply` by a manager and `Update` by
the same name are two owners.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from hopline.domain.errors import Conflict
from hopline.domain.resources import Document, describe
from hopline.sim.fields import MISSING, Path, assign, decode, discard_all, encode, is_keyed, leaves, lookup, readable

_METADATA_OWNED = frozenset({"f:labels", "f:annotations", "f:finalizers", "f:ownerReferences"})


class Manager(NamedTuple):
    """One owner of fields."""

    name: str
    operation: str
    subresource: str = ""


Owners = dict[Manager, set[Path]]


def owned_leaves(document: Document, *, is_custom: bool) -> dict[Path, Any]:
    """The leaves that somebody can own: identity and what the server fills in are not among them."""
    found = {}
    for path, value in leaves(document, is_custom=is_custom):
        is_identity = path[0] in {"f:apiVersion", "f:kind"} or path == ("f:metadata",)
        is_server_side = path[0] == "f:metadata" and path[1:2] and path[1] not in _METADATA_OWNED
        if not is_identity and not is_server_side and value is not None:
            found[path] = value
    return found


def read_owners(document: Document) -> Owners:
    """`managedFields` of an object."""
    return {
        Manager(entry["manager"], entry["operation"], entry.get("subresource", "")): decode(entry.get("fieldsV1") or {})
        for entry in document["metadata"].get("managedFields") or ()
    }


def write_owners(document: Document, owners: Owners, moment: str) -> None:
    """Replace `managedFields`; an entry whose fields are unchanged keeps its time."""
    before = {
        Manager(entry["manager"], entry["operation"], entry.get("subresource", "")): entry
        for entry in document["metadata"].get("managedFields") or ()
    }
    entries = []
    for manager, paths in owners.items():
        if not paths:
            continue
        tree, old = encode(paths), before.get(manager)
        entry = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": document["apiVersion"],
            "time": old["time"] if old is not None and old.get("fieldsV1") == tree and "time" in old else moment,
            "fieldsType": "FieldsV1",
            "fieldsV1": tree,
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    if entries:
        document["metadata"]["managedFields"] = entries
    else:
        document["metadata"].pop("managedFields", None)


def record_update(
    old: Document | None, new: Document, *, manager: str, subresource: str, is_custom: bool, moment: str
) -> None:
    """After a create or a patch: what changed belongs to the writer, what is gone belongs to nobody."""
    before = owned_leaves(old, is_custom=is_custom) if old is not None else {}
    after = owned_leaves(new, is_custom=is_custom)
    changed = {path for path, value in after.items() if before.get(path, MISSING) != value}
    if old is not None and not changed and set(before) == set(after):
        return
    owners = read_owners(old) if old is not None else {}
    for paths in owners.values():
        paths.intersection_update(after)
        paths.difference_update(changed)
    writer = Manager(manager, "Update", subresource)
    owners[writer] = owners.get(writer, set()) | changed
    write_owners(new, owners, moment)


def _covered(path: Path, paths: set[Path]) -> bool:
    """Is this leaf, or one below it, among the paths? One above it is not: it stands for an empty container."""
    return path in paths or any(other[: len(path)] == path for other in paths)


def _holds(live: Document, path: Path, value: Any, *, is_custom: bool) -> bool:
    """Is the wanted value there already? An empty container asks for nothing but a container."""
    found = lookup(live, path)
    if value == {} and isinstance(value, dict):
        return isinstance(found, dict)
    if value == [] and is_keyed(path, is_custom=is_custom):
        return isinstance(found, list)
    return bool(found == value)


def apply(live: Document, applied: Document, *, manager: str, force: bool, is_custom: bool, moment: str) -> Document:
    """Merge what `manager` wants into a copy of the live object (which may be empty but for its identity).

    Raises Conflict with every manager and field that is in the way, unless `force`.
    """
    wanted = owned_leaves(applied, is_custom=is_custom)
    owners, applier = read_owners(live), Manager(manager, "Apply")
    before = owners.pop(applier, set())
    changed = {path for path, value in wanted.items() if not _holds(live, path, value, is_custom=is_custom)}
    conflicts = {(other, path) for other, paths in owners.items() for path in changed if _covered(path, paths)}
    if conflicts and not force:
        raise _conflict(applied, conflicts)
    for other, path in conflicts:
        owners[other] = {owned for owned in owners[other] if owned[: len(path)] != path}
    merged = copy.deepcopy(live)
    kept = (*owners.values(), set(wanted))
    discard_all(merged, {path for path in before - set(wanted) if not any(_covered(path, paths) for paths in kept)})
    for path, value in wanted.items():
        if path in changed:
            assign(merged, path, value)
    owners[applier] = set(wanted)
    write_owners(merged, {applier: owners.pop(applier), **owners}, moment)
    return merged


def _conflict(applied: Document, conflicts: set[tuple[Manager, Path]]) -> Conflict:
    ordered = sorted(conflicts)
    managers = sorted({other.name for other, _ in ordered})
    fields = ", ".join(dict.fromkeys(readable(path) for _, path in ordered))
    return Conflict(
        "another field manager owns the field: " + ", ".join(f'"{name}"' for name in managers),
        subject=describe(applied),
        field=fields,
        remedy="apply with force to take the fields, or leave them out",
        owners=tuple((other.name, readable(path)) for other, path in ordered),
    )
