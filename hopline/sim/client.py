"""`ClusterClient` on the simulation's file."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from hopline.domain.errors import NotFound, Transient
from hopline.domain.resources import Document, Kind, ObjectRef, describe
from hopline.ports import Change, Listing
from hopline.sim.api import ApiServer
from hopline.sim.behaviour import react
from hopline.sim.kinds import MANAGEMENT
from hopline.sim.script import Failure, FaultType, Verb, has_fault, raise_fault, take_fault
from hopline.sim.selectors import parse_fields, parse_selector
from hopline.sim.storage import Storage
from hopline.sim.watching import Changes, Seen, Ticker, Topic

Answer = TypeVar("Answer")

AWAY_SECONDS = 0.1
"""How often a watch looks whether an unreachable server is back."""


class SimulatedClusterClient:
    """One API server of a simulation.

    Attributes:
        requests: how often each verb was used by this client, watches counted once.
    """

    def __init__(self, ticker: Ticker, server: str = MANAGEMENT) -> None:
        self._ticker = ticker
        self._database = ticker.database
        self._server = server
        self.requests: Counter[Verb] = Counter()

    async def identity(self) -> str:
        """uid of the Namespace kube-system."""
        return await self._read(Verb.GET, "kube-system", lambda api: api.identity())

    async def resolve(self, api_version: str, kind: str) -> Kind:
        """The kind with its scope."""
        subject = f"{kind} {api_version}"
        return await self._read(Verb.DISCOVER, subject, lambda api: api.resolve(api_version, kind).kind, kind=kind)

    async def get(self, ref: ObjectRef) -> Document:
        """The object."""
        return await self._read(
            Verb.GET,
            str(ref),
            lambda api: api.get(ref),
            kind=ref.kind.kind,
            kube_namespace=ref.kube_namespace,
            name=ref.name,
        )

    async def list(self, kind: Kind, *, kube_namespace: str = "", labels: str = "", fields: str = "") -> Listing:
        """The objects of a kind that match, by namespace and name."""
        return await self._read(
            Verb.LIST,
            kind.kind,
            lambda api: api.list(kind, kube_namespace, labels, fields),
            kind=kind.kind,
            kube_namespace=kube_namespace,
        )

    async def create(self, document: Document, *, kind: Kind, dry_run: bool = False) -> Document:
        """Make a new object."""
        verb = Verb.DRY_RUN if dry_run else Verb.CREATE
        return await self._write(verb, document, lambda api: api.create(document, dry_run=dry_run))

    async def patch(self, ref: ObjectRef, body: Document, *, subresource: str = "", dry_run: bool = False) -> Document:
        """JSON merge patch."""
        verb = Verb.PATCH_STATUS if subresource else Verb.PATCH
        return await self._call(
            Verb.DRY_RUN if dry_run else verb,
            str(ref),
            lambda api: api.patch(ref, body, subresource=subresource, dry_run=dry_run),
            kind=ref.kind.kind,
            kube_namespace=ref.kube_namespace,
            name=ref.name,
        )

    async def apply(
        self, document: Document, *, kind: Kind, field_manager: str, force: bool = False, dry_run: bool = False
    ) -> Document:
        """Server-side apply."""
        verb = Verb.DRY_RUN if dry_run else Verb.APPLY
        return await self._write(
            verb,
            document,
            lambda api: api.apply(document, field_manager=field_manager, force=force, dry_run=dry_run),
        )

    async def delete(self, ref: ObjectRef, *, uid: str = "") -> None:
        """Delete in the background."""
        await self._call(
            Verb.DELETE,
            str(ref),
            lambda api: api.delete(ref, uid=uid),
            kind=ref.kind.kind,
            kube_namespace=ref.kube_namespace,
            name=ref.name,
        )

    async def evict(self, pod: ObjectRef, *, uid: str = "", grace_seconds: int = -1) -> None:
        """Ask for a pod's end, if its budget allows it; it is gone at once, whatever its grace."""
        await self._call(
            Verb.EVICT,
            str(pod),
            lambda api: api.evict(pod, uid=uid),
            kind=pod.kind.kind,
            kube_namespace=pod.kube_namespace,
            name=pod.name,
        )

    async def watch(
        self, kind: Kind, *, kube_namespace: str = "", labels: str = "", name: str = "", fields: str = ""
    ) -> AsyncIterator[Change]:
        """SYNCED, then every change; SYNCED again after the server was away or the watch fell far behind."""
        self.requests[Verb.WATCH] += 1
        topic = Topic(self._server, kind.api_version, kind.kind, kube_namespace, name)
        changes = Changes(topic, parse_selector(labels), parse_fields(fields))
        while True:
            try:
                seen = await self._ticker.run(lambda: self._look(changes))
            except Transient:
                seen = None
            if seen is None:
                changes.lose()
                await asyncio.sleep(AWAY_SECONDS)
                continue
            for report in seen.reports:
                yield report
            changes.skip(await self._ticker.after(topic, seen.revision))

    def _look(self, changes: Changes) -> Seen | None:
        """What a watch has to report; None while the server is out of reach. Raises what a watch may raise."""
        topic = changes.topic
        with self._database.reading() as session:
            if Storage(session, self._server).served(topic.api_version, topic.kind) is None:
                raise NotFound("the API server does not serve this kind", subject=f"{topic.kind} {topic.api_version}")
            facts = {"server": self._server, "verb": Verb.WATCH.value, "kind": topic.kind}
            fault = has_fault(session, FaultType.REQUEST, **facts)
        if fault is not None and fault[0] in {Failure.FORBIDDEN, Failure.NOT_FOUND}:
            raise_fault(*fault, topic.kind)
        return None if fault is not None and fault[0] == Failure.TRANSIENT else changes.read(self._database)

    async def _read(self, verb: Verb, subject: str, call: Callable[[ApiServer], Answer], **facts: str) -> Answer:
        self.requests[verb] += 1

        def read() -> Answer:
            self._fail(verb, subject, facts)
            with self._database.reading() as session:
                return call(ApiServer(Storage(session, self._server), react))

        return await self._ticker.run(read)

    async def _write(self, verb: Verb, document: Document, call: Callable[[ApiServer], Answer]) -> Answer:
        metadata = document.get("metadata") or {}
        return await self._call(
            verb,
            describe(document),
            call,
            kind=str(document.get("kind", "")),
            kube_namespace=str(metadata.get("namespace", "")),
            name=str(metadata.get("name", "")),
        )

    async def _call(self, verb: Verb, subject: str, call: Callable[[ApiServer], Answer], **facts: str) -> Answer:
        self.requests[verb] += 1

        def write() -> Answer:
            self._fail(verb, subject, facts)
            with self._database.writing() as session:
                return call(ApiServer(Storage(session, self._server), react))

        answer = await self._ticker.run(write)
        self._ticker.wake()
        return answer

    def _fail(self, verb: Verb, subject: str, facts: dict[str, str]) -> None:
        """Raise the scripted fault that fits this request, and count it."""
        with self._database.reading() as session:
            if session.one("SELECT 1 FROM faults WHERE type = ? AND remaining <> 0", FaultType.REQUEST.value) is None:
                return
        with self._database.writing() as session:
            fault = take_fault(session, FaultType.REQUEST, server=self._server, verb=verb.value, **facts)
        if fault is not None:
            raise_fault(*fault, subject)
