"""Objects of the simulated API servers inside one transaction: how they are kept, not what may be written."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

from hopline.domain.resources import Document, Kind, ObjectRef
from hopline.ports import ChangeType
from hopline.sim.database import Session
from hopline.sim.kinds import Served, known

KEPT_CHANGES = 8000
"""Older changes are forgotten; a watch that is further behind lists again, as after 410 Gone."""


def timestamp(seconds: float) -> str:
    """RFC 3339 in UTC with whole seconds, as Kubernetes writes it."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ref_of(document: Document) -> ObjectRef:
    """The name of a stored object; its scope is read off its namespace."""
    metadata = document["metadata"]
    kube_namespace = str(metadata.get("namespace", ""))
    kind = Kind(api_version=document["apiVersion"], kind=document["kind"], namespaced=bool(kube_namespace))
    return ObjectRef(kind=kind, name=str(metadata["name"]), kube_namespace=kube_namespace)


def new_uid() -> str:
    """A fresh uid."""
    return str(uuid.uuid4())


class Storage:
    """The objects of one API server, in one transaction."""

    def __init__(self, session: Session, server: str) -> None:
        self.session = session
        self.server = server

    @property
    def now(self) -> float:
        """Unix seconds of this transaction."""
        return self.session.now

    def served(self, api_version: str, kind: str) -> Served | None:
        """The resource type, built in or by a CRD."""
        found = known(self.server, api_version, kind)
        if found is not None:
            return found
        row = self.session.execute(
            "SELECT namespaced, has_status FROM served WHERE server = ? AND api_version = ? AND kind = ?",
            self.server, api_version, kind,
        ).fetchone()  # fmt: skip
        if row is None:
            return None
        return Served(Kind(api_version=api_version, kind=kind, namespaced=bool(row[0])), bool(row[1]), True, True)

    def find(self, kind: Kind, name: str, kube_namespace: str = "") -> Document | None:
        """One object, or None."""
        text = self.session.one(
            "SELECT document FROM objects"
            " WHERE server = ? AND api_version = ? AND kind = ? AND kube_namespace = ? AND name = ?",
            self.server, kind.api_version, kind.kind, kube_namespace, name,
        )  # fmt: skip
        return None if text is None else json.loads(text)

    def find_uid(self, uid: str) -> Document | None:
        """One object by its uid, or None."""
        text = self.session.one("SELECT document FROM objects WHERE uid = ? AND server = ?", uid, self.server)
        return None if text is None else json.loads(text)

    def select(self, kind: Kind, kube_namespace: str = "", name: str = "") -> list[Document]:
        """All objects of a kind, in one namespace or everywhere, of one name or all, by namespace and name."""
        sql, values = "SELECT document FROM objects WHERE server = ? AND api_version = ? AND kind = ?", [self.server]
        values += [kind.api_version, kind.kind]
        if kube_namespace:
            sql, values = f"{sql} AND kube_namespace = ?", [*values, kube_namespace]
        if name:
            sql, values = f"{sql} AND name = ?", [*values, name]
        rows = self.session.execute(f"{sql} ORDER BY kube_namespace, name", *values)
        return [json.loads(row[0]) for row in rows]

    def names(self, kind: Kind) -> list[str]:
        """Names of the cluster-scoped objects of a kind, without reading the objects."""
        rows = self.session.execute(
            "SELECT name FROM objects WHERE server = ? AND api_version = ? AND kind = ? ORDER BY name",
            self.server, kind.api_version, kind.kind,
        )  # fmt: skip
        return [row[0] for row in rows]

    def schedulable_nodes(self) -> list[str]:
        """Names of the core Nodes that are not cordoned, by name, without reading the objects."""
        rows = self.session.execute(
            "SELECT name FROM objects WHERE server = ? AND api_version = 'v1' AND kind = 'Node'"
            " AND coalesce(json_extract(document, '$.spec.unschedulable'), 0) = 0 ORDER BY name",
            self.server,
        )
        return [row[0] for row in rows]

    def inside(self, kube_namespace: str) -> list[Document]:
        """Everything in a namespace."""
        rows = self.session.execute(
            "SELECT document FROM objects WHERE server = ? AND kube_namespace = ? ORDER BY api_version, kind, name",
            self.server, kube_namespace,
        )  # fmt: skip
        return [json.loads(row[0]) for row in rows]

    def dependents(self, uid: str) -> list[Document]:
        """Objects with an ownerReference to `uid`."""
        rows = self.session.execute(
            "SELECT document FROM owners CROSS JOIN objects ON objects.uid = owners.uid"
            " WHERE owners.server = ? AND owners.owner_uid = ? ORDER BY kind, name",
            self.server, uid,
        )  # fmt: skip
        return [json.loads(row[0]) for row in rows]

    def insert(self, document: Document) -> Document:
        """Keep a new object; it gets uid, creation time and resourceVersion. `document` is changed in place."""
        metadata = document.setdefault("metadata", {})
        metadata["uid"] = new_uid()
        metadata["creationTimestamp"] = timestamp(self.now)
        served = self.served(document["apiVersion"], document["kind"])
        if served is not None and served.has_generation:
            metadata["generation"] = 1
        return self._keep(document, ChangeType.ADDED)

    def update(self, document: Document) -> Document:
        """Keep a changed object; it gets a new resourceVersion. `document` is changed in place."""
        return self._keep(document, ChangeType.MODIFIED)

    def remove(self, document: Document) -> None:
        """Forget an object, whatever its finalizers."""
        revision = self._record(document, ChangeType.DELETED)
        ref = ref_of(document)
        self.session.execute(
            "DELETE FROM objects WHERE server = ? AND api_version = ? AND kind = ? AND kube_namespace = ? AND name = ?",
            self.server, ref.kind.api_version, ref.kind.kind, ref.kube_namespace, ref.name,
        )  # fmt: skip
        self.session.execute(
            "DELETE FROM owners WHERE server = ? AND uid = ?", self.server, document["metadata"]["uid"]
        )
        if revision % 500 == 0:
            self.session.execute("DELETE FROM changes WHERE revision < ?", revision - KEPT_CHANGES)

    def _keep(self, document: Document, change: ChangeType) -> Document:
        revision = self._record(document, change)
        ref, metadata = ref_of(document), document["metadata"]
        self.session.execute(
            "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?)",
            self.server, ref.kind.api_version, ref.kind.kind, ref.kube_namespace, ref.name, metadata["uid"],
            json.dumps(document),
        )  # fmt: skip
        self.session.execute("DELETE FROM owners WHERE server = ? AND uid = ?", self.server, metadata["uid"])
        for owner in metadata.get("ownerReferences") or ():
            self.session.execute(
                "INSERT OR IGNORE INTO owners VALUES (?, ?, ?)", self.server, str(owner.get("uid", "")), metadata["uid"]
            )
        if revision % 500 == 0:
            self.session.execute("DELETE FROM changes WHERE revision < ?", revision - KEPT_CHANGES)
        return document

    def _record(self, document: Document, change: ChangeType) -> int:
        revision = self.session.revision() + 1
        document["metadata"]["resourceVersion"] = str(revision)
        ref = ref_of(document)
        self.session.execute(
            "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            revision, self.server, ref.kind.api_version, ref.kind.kind, ref.kube_namespace, ref.name, change.value,
            json.dumps(document),
        )  # fmt: skip
        return revision


def touch(session: Session) -> None:
    """Wake every watch without changing an object."""
    session.execute(
        "INSERT INTO changes (server, api_version, kind, kube_namespace, name, type, document)"
        " VALUES ('', '', '', '', '', '', '')"
    )


def deep(document: Any, *fields: str) -> Any:
    """The value under a path of mappings, or None."""
    for field in fields:
        if not isinstance(document, dict):
            return None
        document = document.get(field)
    return document
