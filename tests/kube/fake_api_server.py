"""A small HTTP server that answers like an API server as a test scripts it, and remembers every request."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from aiohttp import web

from hopline.kube.client import KubeClusterClient
from hopline.kube.credentials import CredentialSource
from hopline.kube.kubeconfig import Origin
from looking import PATIENCE

Connect = Callable[[CredentialSource], Awaitable[KubeClusterClient]]
ORIGIN = Origin("Secret team/east-kubeconfig", "data.value", "write another kubeconfig")


class End(Enum):
    """How a watch stream ends."""

    CLEAN = "clean"
    BROKEN = "broken"
    NEVER = "never"


@dataclass(frozen=True)
class Reply:
    """One answer."""

    body: Any = field(default_factory=dict)
    code: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Events:
    """One watch stream; `raw` is written as it is, before the events."""

    events: Sequence[Mapping[str, Any]] = ()
    end: End = End.NEVER
    raw: bytes = b""


@dataclass(frozen=True)
class Silence:
    """No answer at all."""


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"


Answer = Reply | Events | Silence


def status(code: int, reason: str, message: str, **details: Any) -> Reply:
    """A refusal as an API server words it."""
    return Reply(status_document(code, reason, message, **details), code)


def status_document(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    document = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return document | {"reason": reason, "message": message, "details": details}


def config_map(name: str, version: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team", "resourceVersion": version, "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def config_maps(version: str, *names: str, more: str = "") -> Reply:
    """A page of a list; items carry no type, as with the real one."""
    items = [
        {key: value for key, value in config_map(name, "1").items() if key in {"metadata", "data"}} for name in names
    ]
    return Reply({"kind": "ConfigMapList", "metadata": {"resourceVersion": version, "continue": more}, "items": items})


def event(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": document}


def bookmark(version: str) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "ConfigMap", "metadata": {"resourceVersion": version}})


class FakeApiServer:
    """Answers by path: each answer once and in order, the last one for ever. Watches and lists have their own lines."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.stream_closed = asyncio.Event()
        self._answers: dict[tuple[str, str], list[Answer]] = defaultdict(list)
        self._arrived = asyncio.Condition()
        self._stopping = asyncio.Event()
        self._runner = web.AppRunner(self._application(), handler_cancellation=True)
        self.server = ""

    def answer(self, method: str, path: str, *answers: Answer) -> None:
        """Scripts a path; `method` is `WATCH` for watches."""
        self._answers[method, path] = list(answers)

    def requests(self, method: str, path: str) -> list[Seen]:
        """The requests of one kind so far."""
        return [one for one in self.seen if (self._method(one), one.path) == (method, path)]

    async def wait_for(self, method: str, path: str, count: int) -> list[Seen]:
        """Those requests, once there are as many."""
        async with asyncio.timeout(PATIENCE), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests(method, path)) >= count)
        return self.requests(method, path)

    def kubeconfig(self, **user: Any) -> dict[str, Any]:
        """A kubeconfig for this server."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "main",
            "contexts": [{"name": "main", "context": {"cluster": "fake", "user": "someone"}}],
            "clusters": [{"name": "fake", "cluster": {"server": self.server}}],
            "users": [{"name": "someone", "user": user}],
        }

    async def start(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.server = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        self._stopping.set()
        await self._runner.cleanup()

    @staticmethod
    def _method(seen: Seen) -> str:
        return "WATCH" if seen.is_watch else seen.method

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        return application

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        seen = Seen(
            request.method, request.path, dict(request.query), dict(request.headers), json.loads(text) if text else None
        )
        async with self._arrived:
            self.seen.append(seen)
            self._arrived.notify_all()
        answers = self._answers[self._method(seen), seen.path]
        if not answers:
            return web.Response(status=404, text="404 page not found")
        answer = answers[0] if len(answers) == 1 else answers.pop(0)
        if isinstance(answer, Events):
            return await self._stream(request, answer)
        if isinstance(answer, Silence):
            await self._stopping.wait()
            return web.Response()
        if isinstance(answer.body, str):
            return web.Response(status=answer.code, text=answer.body, headers=answer.headers)
        return web.json_response(answer.body, status=answer.code, headers=answer.headers)

    async def _stream(self, request: web.Request, answer: Events) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(answer.raw + b"".join(json.dumps(one).encode() + b"\n" for one in answer.events))
        try:
            if answer.end is End.NEVER:
                await self._stopping.wait()
        finally:
            self.stream_closed.set()
        if answer.end is End.BROKEN and request.transport is not None:
            request.transport.abort()
        return response


@asynccontextmanager
async def running() -> AsyncIterator[FakeApiServer]:
    """A started server."""
    server = FakeApiServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
