"""Writes to an API server as one list, whether they were recorded (observed.md) or stand in our audit log.

A write says which fields it changed; a change of nothing is left out. Lists of named things are read by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from controlplane.audit import AuditEvent
from observed_input import OBSERVED

TRACE = OBSERVED / "trace-twohop.jsonl"
_BOOKKEEPING = ("metadata.resourceVersion", "metadata.generation", "metadata.managedFields", "metadata.uid")
_KEYS = ("name", "type", "uid")


class Writer(StrEnum):
    """Who writes: the recorded users stand for these roles."""

    OPERATOR = "admin"
    MANAGEMENT = "bke-manager"
    TARGET = "target"


@dataclass(frozen=True)
class Write:
    """One write that changed something.

    Attributes:
        name: `namespace/name`; an Event's is `namespace/kind/name` of what it is about.
        changes: path → new value; None: the field is gone.
    """

    writer: Writer
    verb: str
    resource: str
    name: str
    subresource: str
    query: str
    changes: Mapping[str, Any]

    @property
    def kind_of_write(self) -> str:
        """`patch bkeclusters/status`"""
        return f"{self.verb} {self.resource}" + (f"/{self.subresource}" if self.subresource else "")


def flat(value: object, path: str = "") -> dict[str, Any]:
    """Path → value of every leaf: `status.conditions[Ready].reason`."""
    found: dict[str, Any] = {}
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            found |= flat(inner, f"{path}.{key}" if path else str(key))
        return found
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        for key, item in _named(value).items():
            found |= flat(item, f"{path}[{key}]")
        return found
    return {path: value}


def _named(items: list[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    for key in _KEYS:
        names = [str(item.get(key, "")) for item in items]
        if all(names) and len(set(names)) == len(names):
            return dict(zip(names, items, strict=True))
    return {str(index): item for index, item in enumerate(items)}


def recorded_trace(file: Path = TRACE) -> list[Write]:
    """The writes of the existing controller, node ConfigMap, node statuses and `phaseStatus` left out."""
    return [_recorded(json.loads(line)) for line in file.read_text().splitlines()]


def _recorded(record: Mapping[str, Any]) -> Write:
    changes: dict[str, Any] = {}
    for path, value in record["changes"].items():
        changes |= flat(value, path)
    return Write(
        Writer(record["user"]),
        record["verb"],
        record["resource"],
        record["name"],
        record.get("subresource", ""),
        record.get("query", ""),
        changes,
    )


class Objects:
    """What is known of every object: kind and `namespace/name` → document, as the last write has left it."""

    def __init__(self, documents: Iterable[Mapping[str, Any]]) -> None:
        self._known: dict[tuple[str, str], Mapping[str, Any]] = {}
        for document in documents:
            self._keep(document)

    def _keep(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        metadata = document["metadata"]
        key = (str(document["kind"]), f"{metadata['namespace']}/{metadata['name']}")
        before = self._known.get(key, {})
        self._known[key] = document
        return before

    def all(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        """A copy of what is known now."""
        return dict(self._known)

    def written(self, events: Iterable[AuditEvent], writers: Mapping[str, Writer]) -> Iterator[Write]:
        """The writes of an audit log with responses, in its order; objects move on with each of them."""
        for event in events:
            kept = event.is_write and not event.is_dry_run and event.code < 300
            if not kept or event.user not in writers or not isinstance(event.response, Mapping):
                continue
            if event.response.get("kind") == "Status":
                continue
            changes = self._changes(event.response)
            if changes:
                yield _observed(event, writers[event.user], changes)

    def _changes(self, after: Mapping[str, Any]) -> dict[str, Any]:
        if after["kind"] == "Event":
            return {"reason": after["reason"], "type": after["type"]}
        old, new = flat(self._keep(after)), flat(after)
        return {
            path: new.get(path)
            for path in dict.fromkeys([*new, *old])
            if old.get(path) != new.get(path) and not path.startswith(_BOOKKEEPING)
        }


def _observed(event: AuditEvent, writer: Writer, changes: dict[str, Any]) -> Write:
    name = f"{event.kube_namespace}/{event.name}"
    if event.resource == "events":
        about = event.response["involvedObject"]
        name = f"{event.kube_namespace}/{about['kind']}/{about['name']}"
    query = event.uri.partition("?")[2]
    return Write(writer, event.verb, event.resource, name, event.subresource, query, changes)
