"""One real API server, by the verbs of the port."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from hopline.domain.errors import Rejected
from hopline.domain.resources import DEFAULT_FIELD_MANAGER, NAMESPACE, Document, Kind, ObjectRef, describe
from hopline.kube.api_server import ApiServer, Scope
from hopline.kube.connection import Connection, Request
from hopline.kube.credentials import CredentialSource
from hopline.kube.watches import watch
from hopline.ports import Change, Listing

_MERGE_PATCH = "application/merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"
_IDENTITY = ObjectRef(kind=NAMESPACE, name="kube-system")


async def connect(source: CredentialSource, *, field_manager: str = DEFAULT_FIELD_MANAGER) -> KubeClusterClient:
    """A client for an API server; nothing is sent yet. Raises ClusterNotReady when the credentials are not usable."""
    return KubeClusterClient(await Connection.open(source), field_manager=field_manager)


class KubeClusterClient:
    """Implements `hopline.ports.ClusterClient`. `field_manager` is the one of creates and merge patches."""

    def __init__(self, connection: Connection, *, field_manager: str = DEFAULT_FIELD_MANAGER) -> None:
        self._server = ApiServer(connection)
        self._field_manager = field_manager

    @property
    def connection(self) -> Connection:
        """What the requests go through."""
        return self._server.connection

    @property
    def forbidden_is_transient(self) -> bool:
        """403 is reported as Transient; to be set while an API server is being replaced."""
        return self._server.forbidden_is_transient

    @forbidden_is_transient.setter
    def forbidden_is_transient(self, value: bool) -> None:
        self._server.forbidden_is_transient = value

    async def identity(self) -> str:
        """uid of the Namespace `kube-system`."""
        return str((await self.get(_IDENTITY))["metadata"]["uid"])

    async def resolve(self, api_version: str, kind: str) -> Kind:
        """The kind with its scope, by discovery. NotFound when this API server does not serve it."""
        return await self._server.resolve(api_version, kind)

    async def get(self, ref: ObjectRef) -> Document:
        """The object. NotFound when it is not there."""
        return await self._server.ask(ref.kind, Request("GET", await self._path(ref), str(ref)))

    async def list(self, kind: Kind, *, kube_namespace: str = "", labels: str = "", fields: str = "") -> Listing:
        """The objects of a kind at one resource version, by Namespace and name."""
        return await self._server.listing(Scope(kind, kube_namespace, labels, fields=fields))

    async def create(self, document: Document, *, kind: Kind, dry_run: bool = False) -> Document:
        """Make a new object. AlreadyExists when the name is taken."""
        resource = await self._server.resource(kind)
        path = resource.collection(_namespace(document, describe(document)) if resource.namespaced else "")
        query = _write_query(self._field_manager, dry_run)
        return await self._server.ask(kind, Request("POST", path, describe(document), query, document))

    async def patch(self, ref: ObjectRef, body: Document, *, subresource: str = "", dry_run: bool = False) -> Document:
        """JSON merge patch."""
        path = await self._path(ref, subresource)
        query = _write_query(self._field_manager, dry_run)
        return await self._server.ask(ref.kind, Request("PATCH", path, str(ref), query, body, _MERGE_PATCH))

    async def apply(
        self, document: Document, *, kind: Kind, field_manager: str, force: bool = False, dry_run: bool = False
    ) -> Document:
        """Server-side apply. Conflict, with its `owners`, when another manager owns fields and not `force`."""
        ref = ObjectRef(kind=kind, name=_name(document), kube_namespace=_metadata(document).get("namespace") or "")
        query = _write_query(field_manager, dry_run) | {"force": "true" if force else "false"}
        request = Request("PATCH", await self._path(ref), str(ref), query, document, _APPLY_PATCH)
        return await self._server.ask(kind, request)

    async def delete(self, ref: ObjectRef, *, uid: str = "") -> None:
        """Delete with background propagation; with `uid`, Conflict when the object is another one by now."""
        body: dict[str, Any] = {"propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        await self._server.ask(ref.kind, Request("DELETE", await self._path(ref), str(ref), body=body))

    async def evict(self, pod: ObjectRef, *, uid: str = "", grace_seconds: int = -1) -> None:
        """Ask for a pod's end through its Eviction, which disruption budgets may refuse."""
        options: dict[str, Any] = {"preconditions": {"uid": uid}} if uid else {}
        if grace_seconds >= 0:
            options["gracePeriodSeconds"] = grace_seconds
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.kube_namespace},
            "deleteOptions": options,
        }
        path = await self._path(pod, "eviction")
        await self._server.ask(pod.kind, Request("POST", path, str(pod), body=body))

    def watch(
        self, kind: Kind, *, kube_namespace: str = "", labels: str = "", name: str = "", fields: str = ""
    ) -> AsyncGenerator[Change, None]:
        """Endless list-and-watch. Where its loop is left early, wrap it in `contextlib.aclosing`."""
        return watch(self._server, Scope(kind, kube_namespace, labels, name, fields))

    async def aclose(self) -> None:
        """Give back every connection."""
        await self.connection.aclose()

    async def _path(self, ref: ObjectRef, subresource: str = "") -> str:
        resource = await self._server.resource(ref.kind)
        if resource.namespaced and not ref.kube_namespace:
            raise _without_namespace(str(ref))
        return resource.object(ref.name, ref.kube_namespace, subresource)


def _write_query(field_manager: str, dry_run: bool) -> dict[str, str]:
    return {"fieldManager": field_manager, **({"dryRun": "All"} if dry_run else {})}


def _metadata(document: Document) -> Document:
    metadata = document.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _name(document: Document) -> str:
    name = str(_metadata(document).get("name") or "")
    if not name:
        raise Rejected("an applied object needs a name", subject=describe(document), field="metadata.name")
    return name


def _namespace(document: Document, subject: str) -> str:
    kube_namespace = str(_metadata(document).get("namespace") or "")
    if not kube_namespace:
        raise _without_namespace(subject)
    return kube_namespace


def _without_namespace(subject: str) -> Rejected:
    # Without it the path would be the one of all Namespaces, and the answer a 404 or 405 that says nothing.
    remedy = "name the Kubernetes namespace of the object"
    return Rejected(
        "the kind is namespaced, and no namespace is given", subject=subject, field="metadata.namespace", remedy=remedy
    )
