"""The rules of a Kubernetes API server, for one simulated server in one transaction."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

from hopline.domain.errors import AlreadyExists, Conflict, Forbidden, NotFound, Rejected
from hopline.domain.resources import DEFAULT_FIELD_MANAGER, NAMESPACE, Document, Kind, ObjectRef, describe
from hopline.ports import Listing
from hopline.sim import budgets, journal, lifecycle
from hopline.sim.fields import MISSING, merge_patch, readable
from hopline.sim.journal import Effect, EffectType
from hopline.sim.kinds import Served
from hopline.sim.ownership import apply as merge_apply
from hopline.sim.ownership import owned_leaves, record_update
from hopline.sim.selectors import labels_of, parse_fields, parse_selector
from hopline.sim.storage import Storage, new_uid, timestamp

STATUS = "status"

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.:]*[a-z0-9])?$")
_IMMUTABLE = {
    "Deployment": ("selector",),
    "DaemonSet": ("selector",),
    "StatefulSet": ("selector", "serviceName", "volumeClaimTemplates"),
    "Job": ("selector", "template", "completions"),
}
_SERVER_METADATA = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
_JOURNALED_FIELDS = 40

Reaction = Callable[[Storage, Document | None, Document | None], None]
"""Called with an object before and after a write (None: it did not exist, it is gone)."""


class ApiServer:
    """The verbs of one server.

    Args:
        react: what the simulated controllers and agents do about a write; it runs in the same transaction.
        journaled: False for seeding: what a scenario starts with is no effect of anybody.
    """

    def __init__(self, storage: Storage, react: Reaction, *, journaled: bool = True) -> None:
        self._storage = storage
        self._react = react
        self._journaled = journaled

    def identity(self) -> str:
        """uid of kube-system."""
        return str(self.get(ObjectRef(kind=NAMESPACE, name="kube-system"))["metadata"]["uid"])

    def resolve(self, api_version: str, kind: str) -> Served:
        """The type, or NotFound."""
        served = self._storage.served(api_version, kind)
        if served is None:
            raise NotFound(
                "the API server does not serve this kind",
                subject=f"{kind} {api_version}",
                remedy="install its CustomResourceDefinition first",
            )
        return served

    def get(self, ref: ObjectRef) -> Document:
        """The object, or NotFound."""
        self.resolve(ref.kind.api_version, ref.kind.kind)
        found = self._storage.find(ref.kind, ref.name, ref.kube_namespace)
        if found is None:
            raise NotFound("the object does not exist", subject=str(ref))
        return found

    def list(self, kind: Kind, kube_namespace: str, labels: str, fields: str = "") -> Listing:
        """The objects that match."""
        self.resolve(kind.api_version, kind.kind)
        accepts, has = parse_selector(labels), parse_fields(fields)
        found = self._storage.select(kind, kube_namespace)
        items = [item for item in found if accepts(labels_of(item)) and has(item)]
        return Listing(items=items, resource_version=str(self._storage.session.revision()))

    def create(self, document: Document, *, dry_run: bool = False) -> Document:
        """Make a new object."""
        served = self.resolve(str(document.get("apiVersion", "")), str(document.get("kind", "")))
        new = self._admitted(document, served)
        metadata = new["metadata"]
        if self._storage.find(served.kind, metadata["name"], metadata.get("namespace", "")) is not None:
            raise AlreadyExists("the name is taken", subject=describe(new), remedy="read the object, or patch it")
        if served.has_status:
            new.pop(STATUS, None)
        _fill_in(new)
        self._own(None, new, served, "")
        return self._store(None, new, "create", DEFAULT_FIELD_MANAGER, dry_run=dry_run)

    def patch(self, ref: ObjectRef, body: Document, *, subresource: str, dry_run: bool = False) -> Document:
        """JSON merge patch of the object, or of its status."""
        served, old = self.resolve(ref.kind.api_version, ref.kind.kind), self.get(ref)
        if subresource not in {"", STATUS} or (subresource and not served.has_status):
            raise NotFound("the kind has no such subresource", subject=str(ref), value=subresource)
        _check_preconditions(old, body)
        patched = merge_patch(copy.deepcopy(old), body)
        new = copy.deepcopy(old)
        if subresource:
            _replace(new, STATUS, patched.get(STATUS))
        else:
            new = patched
            if served.has_status:
                _replace(new, STATUS, old.get(STATUS))
            self._check_changed(old, new)
        _settle(old, new, served)
        self._own(old, new, served, subresource)
        return self._store(old, new, f"patch {subresource}".strip(), DEFAULT_FIELD_MANAGER, dry_run=dry_run)

    def apply(self, document: Document, *, field_manager: str, force: bool, dry_run: bool = False) -> Document:
        """Server-side apply: make the object, or merge into it what the manager wants."""
        served = self.resolve(str(document.get("apiVersion", "")), str(document.get("kind", "")))
        wanted = self._admitted(document, served)
        if wanted["metadata"].get("managedFields"):
            raise Rejected(
                "metadata.managedFields must be empty in an apply", subject=describe(wanted), remedy="leave it out"
            )
        if served.has_status:
            wanted.pop(STATUS, None)
        metadata = wanted["metadata"]
        old = self._storage.find(served.kind, metadata["name"], metadata.get("namespace", ""))
        if old is None and metadata.get("resourceVersion"):
            raise NotFound("the object of the given resourceVersion does not exist", subject=describe(wanted))
        base = old if old is not None else _identity(wanted)
        if old is not None:
            _check_preconditions(old, wanted)
        new = merge_apply(
            base,
            wanted,
            manager=field_manager,
            force=force,
            is_custom=served.is_custom,
            moment=timestamp(self._storage.now),
        )
        _fill_in(new)
        if old is not None:
            self._check_changed(old, new)
            _settle(old, new, served)
        return self._store(old, new, "apply", field_manager, dry_run=dry_run)

    def delete(self, ref: ObjectRef, *, uid: str, verb: str = "delete") -> None:
        """Delete in the background."""
        old = self.get(ref)
        if uid and old["metadata"]["uid"] != uid:
            raise Conflict(
                "another object has this name by now",
                subject=str(ref),
                field="metadata.uid",
                value=old["metadata"]["uid"],
                remedy="read it again",
            )
        before = copy.deepcopy(old)
        if lifecycle.delete(self._storage, old):
            self._journal(verb, before, before, "")
            self._react(self._storage, before, self._storage.find_uid(before["metadata"]["uid"]))

    def evict(self, pod: ObjectRef, *, uid: str) -> None:
        """Delete a pod, if its disruption budgets allow it now."""
        budgets.require_allowed(self._storage, self.get(pod))
        self.delete(pod, uid=uid, verb="evict")

    def _admitted(self, document: Document, served: Served) -> Document:
        """A copy with a valid name in a Namespace that exists."""
        new = copy.deepcopy(document)
        metadata = new.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{new_uid()[:5]}"
        name = str(metadata.get("name", ""))
        if not _NAME.match(name) or len(name) > 253:
            raise Rejected(
                "the name is not a DNS subdomain",
                subject=describe(new),
                field="metadata.name",
                value=name,
                remedy="use lower case letters, digits, - and .",
            )
        if not served.kind.namespaced:
            metadata.pop("namespace", None)
            return new
        self._check_home(new)
        return new

    def _check_home(self, document: Document) -> None:
        kube_namespace = str(document["metadata"].get("namespace", ""))
        if not kube_namespace:
            raise Rejected(
                "a namespaced object needs a namespace",
                subject=describe(document),
                field="metadata.namespace",
                remedy="name one",
            )
        home = self._storage.find(NAMESPACE, kube_namespace)
        if home is None:
            raise NotFound(
                f'namespaces "{kube_namespace}" not found',
                subject=describe(document),
                field="metadata.namespace",
                value=kube_namespace,
                remedy="create the Namespace first",
            )
        ref = document["metadata"]["name"]
        kind = self.resolve(document["apiVersion"], document["kind"]).kind
        if "deletionTimestamp" in home["metadata"] and self._storage.find(kind, ref, kube_namespace) is None:
            raise Forbidden(
                "the Namespace is being terminated",
                subject=describe(document),
                field="metadata.namespace",
                value=kube_namespace,
                remedy="wait until it is gone, then create it again",
            )

    def _check_changed(self, old: Document, new: Document) -> None:
        for field in ("apiVersion", "kind"):
            if new.get(field) != old[field]:
                raise Rejected(f"{field} cannot be changed", subject=describe(old), value=str(new.get(field)))
        for field in ("name", "namespace"):
            if new["metadata"].get(field) != old["metadata"].get(field):
                raise Rejected(f"metadata.{field} cannot be changed", subject=describe(old))
        if "deletionTimestamp" in old["metadata"]:
            added = set(new["metadata"].get("finalizers") or ()) - set(old["metadata"].get("finalizers") or ())
            if added:
                raise Rejected(
                    "no finalizer can be added to an object that is being deleted",
                    subject=describe(old),
                    field="metadata.finalizers",
                    value=", ".join(sorted(added)),
                )
        for field in _IMMUTABLE.get(old["kind"], ()):
            if (new.get("spec") or {}).get(field) != (old.get("spec") or {}).get(field):
                raise Rejected(
                    f"spec.{field}: field is immutable",
                    subject=describe(old),
                    field=f"spec.{field}",
                    remedy="delete the object and create it again",
                )

    def _own(self, old: Document | None, new: Document, served: Served, subresource: str) -> None:
        record_update(
            old,
            new,
            manager=DEFAULT_FIELD_MANAGER,
            subresource=subresource,
            is_custom=served.is_custom,
            moment=timestamp(self._storage.now),
        )

    def _store(self, old: Document | None, new: Document, verb: str, manager: str, *, dry_run: bool) -> Document:
        if old is not None and new == old:
            return old
        if dry_run:
            return self._pretended(old, new)
        answer = copy.deepcopy(self._storage.insert(new) if old is None else self._storage.update(new))
        self._journal(verb, old, new, manager)
        after: Document | None = new
        if lifecycle.finish_if_released(self._storage, new):
            after = None
        self._react(self._storage, old, after)
        return answer

    def _pretended(self, old: Document | None, new: Document) -> Document:
        if old is None:
            with self._storage.session.trial():
                new = self._storage.insert(new)
            new["metadata"].pop("resourceVersion")
        return new

    def _journal(self, verb: str, old: Document | None, new: Document, manager: str) -> None:
        if not self._journaled:
            return
        before = owned_leaves(old, is_custom=False) if old is not None else {}
        after = owned_leaves(new, is_custom=False)
        changed = [path for path in (*after, *(set(before) - set(after))) if _differs(before, after, path)]
        journal.record(
            self._storage.session,
            Effect(
                type=EffectType.WRITE,
                verb=verb,
                subject=describe(new),
                server=self._storage.server,
                manager=manager,
                fields=tuple(sorted(readable(path) for path in changed))[:_JOURNALED_FIELDS],
                started=self._storage.now,
                ended=self._storage.now,
            ),
        )


def _differs(before: dict[Any, Any], after: dict[Any, Any], path: Any) -> bool:
    return bool(before.get(path, MISSING) != after.get(path, MISSING))


def _identity(document: Document) -> Document:
    names = {key: document["metadata"][key] for key in ("name", "namespace") if document["metadata"].get(key)}
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": names}


def _fill_in(document: Document) -> None:
    """The server's defaults that an upgrade can see."""
    if document["kind"] in {"Deployment", "StatefulSet"} and isinstance(document.get("spec"), dict):
        document["spec"].setdefault("replicas", 1)


def _replace(document: Document, field: str, value: Any) -> None:
    if value is None:
        document.pop(field, None)
    else:
        document[field] = value


def _settle(old: Document, new: Document, served: Served) -> None:
    """Put back what only the server writes, and count the generation."""
    for field in (*_SERVER_METADATA, "resourceVersion"):
        _replace(new["metadata"], field, old["metadata"].get(field))
    if "managedFields" in old["metadata"] and "managedFields" not in new["metadata"]:
        new["metadata"]["managedFields"] = old["metadata"]["managedFields"]
    if served.has_generation and _desired(new) != _desired(old):
        new["metadata"]["generation"] = int(old["metadata"].get("generation", 1)) + 1


def _desired(document: Document) -> Document:
    return {field: value for field, value in document.items() if field not in {"metadata", STATUS}}


def _check_preconditions(old: Document, body: Document) -> None:
    wanted = body.get("metadata") or {}
    uid, revision = wanted.get("uid"), wanted.get("resourceVersion")
    if uid and uid != old["metadata"]["uid"]:
        raise Rejected(
            "metadata.uid: field is immutable",
            subject=describe(old),
            field="metadata.uid",
            value=str(uid),
            remedy="read the object again",
        )
    if revision and str(revision) != old["metadata"]["resourceVersion"]:
        raise Conflict(
            "the object has been modified; please apply your changes to the latest version",
            subject=describe(old),
            field="metadata.resourceVersion",
            value=str(revision),
            remedy="read it again",
        )
