"""A proxy in front of a real API server that answers evictions as a test says, and passes everything else on."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

HOP_BY_HOP = frozenset({"connection", "content-length", "host", "transfer-encoding", "content-encoding"})


def status(code: int, reason: str, message: str, *causes: dict[str, str]) -> dict[str, Any]:
    """What an API server says when it refuses."""
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code}
    return {**document, "reason": reason, "message": message, "details": {"causes": list(causes)}}


class EvictionProxy:
    """Attributes:
    answer: the refusal of every eviction; None: they pass.
    evictions: how many there were.
    """

    def __init__(self, kubeconfig: Path) -> None:
        document = json.loads(kubeconfig.read_text())
        cluster = document["clusters"][0]["cluster"]
        self._server = cluster["server"]
        self._token = document["users"][0]["user"]["token"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        self._session: aiohttp.ClientSession
        self._document = document
        self.answer: dict[str, Any] | None = None
        self.evictions = 0

    @asynccontextmanager
    async def running(self, folder: Path) -> AsyncIterator[Path]:
        """The kubeconfig that leads through the proxy."""
        connector = aiohttp.TCPConnector(ssl=self._context, limit=0)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as self._session:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            [address] = runner.addresses
            file = folder / "through-the-proxy.json"
            cluster = {"server": f"http://127.0.0.1:{address[1]}"}
            clusters = [{**self._document["clusters"][0], "cluster": cluster}]
            file.write_text(json.dumps({**self._document, "clusters": clusters}))
            try:
                yield file
            finally:
                await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/eviction"):
            self.evictions += 1
            if self.answer is not None:
                return web.json_response(self.answer, status=self.answer["code"])
        kept = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        headers = {**kept, "Authorization": f"Bearer {self._token}"}
        url = f"{self._server}{request.raw_path}"
        async with self._session.request(
            request.method, url, data=await request.read(), headers=headers, timeout=aiohttp.ClientTimeout(total=None)
        ) as answer:
            passed = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=passed)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response
