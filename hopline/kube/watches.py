"""List-and-watch that goes on until it is cancelled (design §2, "Kubernetes client settings that bind").

The client library's own watch ends after 300 s and survives one 410. This one lists once, follows with bookmarks, and
lists again only after a gap: a 410, or an API server that was away. A connection that merely ended or broke is taken up
again at the last resource version.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from hopline.domain.errors import Forbidden, NotFound, Transient
from hopline.kube.api_server import ApiServer, Scope
from hopline.kube.errors import Expired, read_status
from hopline.ports import Change, ChangeType

STREAM_SECONDS = 240
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
_PROVEN_SECONDS = 5.0
RECREATION_SECONDS = 30.0
"""A kind that was served and is not any more may only have got a new definition: it is waited for as long as this."""
_REPORTED = {"ADDED": ChangeType.ADDED, "MODIFIED": ChangeType.MODIFIED, "DELETED": ChangeType.DELETED}

logger = logging.getLogger(__name__)


def watch(server: ApiServer, scope: Scope) -> AsyncGenerator[Change, None]:
    """Changes of a scope, for ever. Raises Forbidden and NotFound (kind not served), nothing else.

    A definition that is deleted and made again is a gap.
    """
    return _Watch(server, scope).changes()


class _Watch:
    def __init__(self, server: ApiServer, scope: Scope) -> None:
        self._server = server
        self._scope = scope
        self._version = ""
        """From where to follow; empty: list first."""
        self._pause = FIRST_PAUSE_SECONDS
        self._served_at = -math.inf
        """When the kind was seen to be served the last time; never, for one that was not served at all."""

    async def changes(self) -> AsyncGenerator[Change, None]:
        while True:
            asked_to_wait = 0.0
            started = time.monotonic()
            try:
                if not self._version:
                    listing = await self._server.listing(self._scope)
                    self._version, self._served_at = listing.resource_version, time.monotonic()
                    yield Change(type=ChangeType.SYNCED, documents=listing.items)
                async with aclosing(self._follow()) as changes:
                    async for change in changes:
                        yield change
                has_ended = True
            except Transient as problem:
                logger.info("watch of %s on %s: %s", self._scope, self._server.connection.server, problem.message)
                has_ended, asked_to_wait = False, problem.retry_after
            except NotFound as problem:
                if time.monotonic() >= self._served_at + RECREATION_SECONDS:
                    raise
                logger.info("watch of %s on %s: %s", self._scope, self._server.connection.server, problem.message)
                self._version, has_ended = "", False
            if time.monotonic() - started >= _PROVEN_SECONDS:
                self._pause = FIRST_PAUSE_SECONDS
                if has_ended:
                    continue
            await self._wait(asked_to_wait)

    async def _wait(self, asked_for: float) -> None:
        """The next pause: twice the last one, with jitter, and not shorter than the server asked for."""
        await asyncio.sleep(max(self._pause * random.uniform(0.5, 1.0), asked_for))
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)

    async def _follow(self) -> AsyncGenerator[Change, None]:
        """The events of one stream. Raises Transient when it breaks; `_version` says then how to go on."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(STREAM_SECONDS),
            "resourceVersion": self._version,
        }
        try:
            stream = await self._server.follow(self._scope, query)
        except Transient as problem:
            self._lose_place(problem)
            raise
        try:
            async for line in stream.lines():
                self._served_at = time.monotonic()
                if (change := self._read(line)) is not None:
                    yield change
        finally:
            stream.close()

    def _read(self, line: bytes) -> Change | None:
        try:
            event = json.loads(line)
            kind, document = event["type"], event["object"]
        except (ValueError, KeyError, TypeError):
            raise Transient("a watch event that is not one", subject=str(self._scope)) from None
        if kind == "ERROR":
            raise self._error(document)
        self._version = str((document.get("metadata") or {}).get("resourceVersion") or self._version)
        reported = _REPORTED.get(kind)
        return Change(type=reported, documents=[document]) if reported else None

    def _error(self, status: dict[str, Any]) -> Exception:
        error = self._server.refusal(read_status(status), str(self._scope))
        if isinstance(error, Forbidden | NotFound):
            return error
        if not isinstance(error, Transient):
            error = Transient(error.message, subject=error.subject)
        self._lose_place(error)
        return error

    def _lose_place(self, problem: Transient) -> None:
        """After a gap the list is read again; a server that only asks for patience has lost nothing."""
        if isinstance(problem, Expired) or not problem.retry_after:
            self._version = ""
