"""`/livez` and `/readyz` for the kubelet.

`/livez` answers whenever the event loop turns, and says nothing about Temporal: the worker reconnects by itself, and a
restart during an outage only costs the caches. `/readyz` says whether the worker polls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

READ_TIMEOUT = 5.0
"""Seconds for a whole request; a kubelet sends it at once."""


@asynccontextmanager
async def probes(port: int, ready: Callable[[], bool], host: str = "0.0.0.0") -> AsyncIterator[int]:
    """Serve both paths on `port` while the context is open; yields the port. With port 0 nothing is served."""
    if port == 0:
        yield 0
        return
    server = await asyncio.start_server(lambda reader, writer: _answer(reader, writer, ready), host, port)
    try:
        yield port
    finally:
        server.close()
        await server.wait_closed()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ready: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(READ_TIMEOUT):
            request = await reader.readuntil(b"\r\n\r\n")
            status, body = _response(request.split(b" ", 2)[1].partition(b"?")[0], ready)
            headers = ("Content-Type: text/plain", f"Content-Length: {len(body)}", "Connection: close")
            writer.write("\r\n".join((f"HTTP/1.1 {status}", *headers, "", "")).encode() + body)
            await writer.drain()
    except (TimeoutError, OSError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return
    finally:
        writer.close()


def _response(path: bytes, ready: Callable[[], bool]) -> tuple[str, bytes]:
    if path == b"/livez" or (path == b"/readyz" and ready()):
        return "200 OK", b"ok\n"
    if path == b"/readyz":
        return "503 Service Unavailable", b"the worker does not poll\n"
    return "404 Not Found", b"known paths: /livez /readyz\n"
