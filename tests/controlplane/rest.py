"""A few lines of plain HTTPS for the simulated agents, which keeps them independent of the code under test."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar

import aiohttp

_Result = TypeVar("_Result")
MERGE_PATCH = "application/merge-patch+json"
_PAUSE_SECONDS = 0.2
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=3, sock_read=10)
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=3, sock_read=90)


class Refused(Exception):
    """The API server answered with an error; `code` is its HTTP status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


def authenticated_session(kubeconfig: Path) -> aiohttp.ClientSession:
    """A session with server, authority and token of one of our kubeconfigs; to be made where an event loop runs."""
    document = json.loads(kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=authority), limit=0)
    headers = {"Authorization": f"Bearer {document['users'][0]['user']['token']}"}
    return aiohttp.ClientSession(cluster["server"], connector=connector, headers=headers)


class Rest:
    """JSON requests with the credentials of one of our kubeconfigs; while the server is away, requests wait for it."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._session: aiohttp.ClientSession
        self._sending: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        self._session = authenticated_session(self._kubeconfig)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*self._sending, return_exceptions=True)
        await self._session.close()

    async def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """One request, sent again until the server answers; raises Refused for an answer that is not a success."""
        data = None if body is None else json.dumps(body)
        while True:
            try:
                return await self._unbroken(self._send(method, path, data, content_type))
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _send(self, method: str, path: str, data: str | None, content_type: str) -> Any:
        headers = {"Content-Type": content_type}
        async with self._session.request(method, path, data=data, headers=headers, timeout=_TIMEOUT) as answer:
            text = await answer.text()
        if answer.status == 429 or answer.status >= 500:
            raise aiohttp.ClientConnectionError(text)
        if answer.status >= 400:
            raise Refused(answer.status, text)
        return json.loads(text)

    async def _unbroken(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Lets a request end although its caller is cancelled: a TLS connection cut short leaks its socket."""
        task = asyncio.create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return await asyncio.shield(task)

    async def get(self, path: str) -> Any:
        """GET."""
        return await self.request("GET", path)

    async def patch(self, path: str, body: Any) -> Any:
        """JSON merge patch."""
        return await self.request("PATCH", path, body, MERGE_PATCH)

    async def follow(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Every object of a collection as it is now and each time it changes, for ever; deletions are left out."""
        while True:
            listing = await self.get(path)
            for item in listing["items"]:
                yield item
            try:
                async for item in self._watch(path, listing["metadata"]["resourceVersion"]):
                    yield item
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _watch(self, path: str, resource_version: str) -> AsyncIterator[dict[str, Any]]:
        """Ends when the server closes the watch or reports an error (410 Gone): the caller lists again."""
        query = {"watch": "1", "resourceVersion": resource_version, "timeoutSeconds": "60"}
        opening = self._session.request("GET", path, params=query, timeout=_WATCH_TIMEOUT, read_bufsize=1 << 24)
        async with await self._unbroken(_opened(opening)) as answer:
            transport = answer.connection.transport if answer.connection else None
            try:
                async for line in answer.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    if event["type"] != "DELETED":
                        yield event["object"]
            finally:
                # A polite close waits for the server's goodbye, for which the event loop does not live long enough.
                if transport:
                    transport.abort()


async def _opened(opening: Awaitable[aiohttp.ClientResponse]) -> aiohttp.ClientResponse:
    return await opening
