"""The small controllers of a simulated API server: CustomResourceDefinitions, Namespaces, volume claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hopline.domain.resources import Document
from hopline.sim.storage import Storage, deep, timestamp


def condition(kind: str, moment: float, *, status: bool = True, reason: str = "", message: str = "") -> Document:
    """An entry of status.conditions."""
    entry: Document = {
        "type": kind,
        "status": "True" if status else "False",
        "lastTransitionTime": timestamp(moment),
    }
    if reason:
        entry["reason"] = reason
    if message:
        entry["message"] = message
    return entry


def set_status(storage: Storage, document: Document, status: Document) -> Document:
    """Write the status of an object as a controller does; nothing when it is the same."""
    if document.get("status") == status:
        return document
    document["status"] = status
    return storage.update(document)


def react(storage: Storage, old: Document | None, new: Document | None) -> None:
    """Serve a new kind at once, and give statuses that need no time."""
    document = new if new is not None else old
    if document is None:
        return
    handler = _HANDLERS.get(document["kind"])
    if handler is not None:
        handler(storage, old, new)


def _crd(storage: Storage, old: Document | None, new: Document | None) -> None:
    document: Any = new if new is not None else old
    name, spec = document["metadata"]["name"], document.get("spec") or {}
    storage.session.execute("DELETE FROM served WHERE server = ? AND crd = ?", storage.server, name)
    if new is None:
        return
    versions = [version for version in spec.get("versions") or () if version.get("served", True)]
    for version in versions:
        storage.session.execute(
            "INSERT OR REPLACE INTO served VALUES (?, ?, ?, ?, ?, ?)",
            storage.server, f"{spec['group']}/{version['name']}", deep(spec, "names", "kind"),
            int(spec.get("scope") != "Cluster"), int("status" in (version.get("subresources") or {})), name,
        )  # fmt: skip
    if deep(new, "status", "conditions") is None:
        accepted = condition("NamesAccepted", storage.now, reason="NoConflicts")
        established = condition("Established", storage.now, reason="InitialNamesAccepted")
        stored = [version["name"] for version in versions if version.get("storage")]
        names = spec.get("names") or {}
        set_status(
            storage,
            new,
            {"conditions": [accepted, established], "acceptedNames": names, "storedVersions": stored},
        )


def _namespace(storage: Storage, old: Document | None, new: Document | None) -> None:
    if new is not None and old is None:
        set_status(storage, new, {"phase": "Active"})


def _volume_claim(storage: Storage, old: Document | None, new: Document | None) -> None:
    if new is not None and old is None:
        set_status(storage, new, {"phase": "Bound"})


def _api_service(storage: Storage, old: Document | None, new: Document | None) -> None:
    if new is not None and old is None:
        set_status(storage, new, {"conditions": [condition("Available", storage.now, reason="Passed")]})


_HANDLERS: dict[str, Callable[[Storage, Document | None, Document | None], None]] = {
    "CustomResourceDefinition": _crd,
    "Namespace": _namespace,
    "PersistentVolumeClaim": _volume_claim,
    "APIService": _api_service,
}
