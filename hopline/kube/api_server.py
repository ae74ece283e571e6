"""One API server by paths: documents in and out, refusals as errors of the port, kinds as places."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from hopline.domain.errors import Forbidden, NotFound, PortError, Transient
from hopline.domain.resources import CUSTOM_RESOURCE_DEFINITION, Document, Kind
from hopline.kube.connection import Connection, Request, Response, Stream
from hopline.kube.discovery import Discovery, Resource
from hopline.kube.errors import Answer, clean, error_of, read_answer
from hopline.ports import Listing

PAGE_SIZE = 250
"""Objects per list request. A page parses in about 0.1 s on the event loop; a thread would not help, because the parser
keeps the interpreter lock (measured: 25 MB block the loop for as long in a thread)."""

_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True)
class Scope:
    """Which objects a list or a watch is about. Empty: no restriction."""

    kind: Kind
    kube_namespace: str = ""
    labels: str = ""
    name: str = ""
    fields: str = ""

    def selectors(self) -> dict[str, str]:
        """As query parameters."""
        named = f"metadata.name={self.name}" if self.name else ""
        query = {"labelSelector": self.labels, "fieldSelector": ",".join(filter(None, (named, self.fields)))}
        return {key: value for key, value in query.items() if value}

    def __str__(self) -> str:
        place = "/".join(part for part in (self.kube_namespace, self.name or "*") if part)
        return f"{self.kind.kind} {place}"


class ApiServer:
    """One API server.

    Attributes:
        forbidden_is_transient: report 403 as Transient: set it while an API server is being replaced. For 30 s after
            this API server was away that holds by itself: one that has just started knows no roles yet.
    """

    def __init__(self, connection: Connection) -> None:
        self.forbidden_is_transient = False
        self.connection = connection
        self.discovery = Discovery(self._read_group, self._is_defined)
        self._generation = connection.generation

    async def ask(self, kind: Kind, request: Request) -> Document:
        """The answer to one request about a kind. Raises PortError."""
        answer = await self.connection.send(request)
        if answer.code >= 400:
            raise self._refused(answer, kind.api_version, request.subject)
        return _document(answer, request)

    async def resource(self, kind: Kind) -> Resource:
        """Where the objects of a kind are. NotFound when it is not served."""
        self._see_replacement()
        return await self.discovery.find(kind)

    async def resolve(self, api_version: str, kind: str) -> Kind:
        """The kind with its scope. NotFound when it is not served."""
        self._see_replacement()
        return await self.discovery.resolve(api_version, kind)

    async def listing(self, scope: Scope) -> Listing:
        """The objects of a scope, page by page at one resource version, by Namespace and name.

        Raises Expired (a Transient) when it took longer than the server keeps that version.
        """
        path = (await self.resource(scope.kind)).collection(scope.kube_namespace)
        query = {"limit": str(PAGE_SIZE), **scope.selectors()}
        items: list[Document] = []
        while True:
            page = await self.ask(scope.kind, Request("GET", path, str(scope), query))
            items += (_typed(item, scope.kind) for item in page.get("items") or ())
            metadata = page.get("metadata") or {}
            if not (more := metadata.get("continue")):
                break
            query["continue"] = str(more)
        items.sort(key=_place)
        return Listing(items=items, resource_version=str(metadata.get("resourceVersion") or ""))

    async def follow(self, scope: Scope, query: Mapping[str, str]) -> Stream:
        """The open stream of a watch. Raises PortError."""
        path = (await self.resource(scope.kind)).collection(scope.kube_namespace)
        answer = await self.connection.stream(Request("GET", path, str(scope), {**query, **scope.selectors()}))
        if isinstance(answer, Stream):
            return answer
        raise self._refused(answer, scope.kind.api_version, str(scope))

    def refusal(self, answer: Answer, subject: str) -> PortError:
        """The error for a refusal."""
        lenient = self.forbidden_is_transient or self.connection.is_settling
        return error_of(answer, subject, forbidden_is_transient=lenient)

    def _refused(self, response: Response, api_version: str, subject: str) -> PortError:
        answer = read_answer(response.code, response.headers, response.body)
        if answer.is_unserved:
            self.discovery.forget(api_version)
        return self.refusal(answer, subject)

    def _see_replacement(self) -> None:
        """Another endpoint may be another API server, with other kinds."""
        if self._generation != self.connection.generation:
            self._generation = self.connection.generation
            self.discovery.clear()

    async def _read_group(self, path: str, api_version: str) -> Document:
        request = Request("GET", path, f"API group {api_version}")
        answer = await self.connection.send(request)
        if answer.code >= 400:
            raise self._refused(answer, api_version, request.subject)
        return _document(answer, request)

    async def _is_defined(self, api_version: str, kind: str) -> bool:
        """Some CustomResourceDefinition has the kind. The answer is no for an account that may not read them."""
        group, _, version = api_version.rpartition("/")
        if "." not in group:
            return False
        definitions = await self.resource(CUSTOM_RESOURCE_DEFINITION)
        try:
            listing = await self.ask(
                CUSTOM_RESOURCE_DEFINITION,
                Request("GET", definitions.collection(), "CustomResourceDefinitions", accept=_METADATA_ONLY),
            )
            for name in (str(item["metadata"]["name"]) for item in listing.get("items") or ()):
                if name.endswith(f".{group}"):
                    request = Request("GET", definitions.object(name), f"CustomResourceDefinition {name}")
                    if _defines(await self.ask(CUSTOM_RESOURCE_DEFINITION, request), version, kind):
                        return True
        except (Forbidden, NotFound):
            return False
        return False


def _defines(definition: Document, version: str, kind: str) -> bool:
    spec = definition["spec"]
    return spec["names"]["kind"] == kind and any(one["name"] == version and one["served"] for one in spec["versions"])


def _document(answer: Response, request: Request) -> Document:
    try:
        document = json.loads(answer.body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        message = f"the answer is not a JSON object but {clean(answer.headers.get('Content-Type', 'nothing'))}"
        raise Transient(message, subject=request.subject, remedy="see that the address leads to an API server")
    return document


def _typed(item: Document, kind: Kind) -> Document:
    """Items of a list carry no type of their own."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **item}


def _place(document: Document) -> tuple[str, str]:
    metadata = document.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
