"""A TCP balancer in front of API servers, in turn, that skips those which are not ready: a process of its own.

python balancer.py LISTEN_HOST:PORT BACKEND_HOST:PORT…
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
import sys
from collections.abc import Awaitable, Callable, Sequence

_CONNECT_SECONDS = 1.0
_CHECK_EVERY_SECONDS = 0.5
_CHUNK = 1 << 16
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Address = tuple[str, int]


class Balancer:
    """Each connection goes to the next ready backend; one that refuses, or is slow to accept, is passed over.

    Ready is what was ready when it was looked at last; while nothing is, or nobody looks, everything counts as ready.
    """

    def __init__(self, backends: Sequence[Address]) -> None:
        self._backends = backends
        self._ready = set(backends)
        self._next = itertools.count()

    async def serve(self, address: Address, is_ready: Callable[[Address], Awaitable[bool]]) -> None:
        """Listens for ever, and looks twice a second whether each backend is ready."""
        server = await asyncio.start_server(self.handle, *address)
        async with server, asyncio.TaskGroup() as group:
            for backend in self._backends:
                group.create_task(self.watch(backend, is_ready))
            await server.serve_forever()

    async def watch(self, backend: Address, is_ready: Callable[[Address], Awaitable[bool]]) -> None:
        """Looks for ever whether one backend is ready."""
        while True:
            (self._ready.add if await is_ready(backend) else self._ready.discard)(backend)
            await asyncio.sleep(_CHECK_EVERY_SECONDS)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until it ends; closed at once when no backend accepts it."""
        try:
            behind = await self._connect()
            if behind is None:
                return
            try:
                await _both_ways((reader, writer), behind)
            finally:
                behind[1].close()
        finally:
            writer.close()

    async def _connect(self) -> Stream | None:
        """A connection to the first backend, from the next one on, that accepts; None when none does."""
        first = next(self._next) % len(self._backends)
        in_turn = [*self._backends[first:], *self._backends[:first]]
        for backend in [one for one in in_turn if one in self._ready] or in_turn:
            with contextlib.suppress(OSError, TimeoutError):
                return await asyncio.wait_for(asyncio.open_connection(*backend), _CONNECT_SECONDS)
        return None


async def is_api_server_ready(address: Address) -> bool:
    """Whether `/readyz` answers 200; certificates are for those whose connections are passed on."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(*address, ssl=context)
            try:
                writer.write(b"GET /readyz HTTP/1.1\r\nHost: balancer\r\nConnection: close\r\n\r\n")
                return (await reader.readline()).split(b" ")[1:2] == [b"200"]
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


async def _both_ways(front: Stream, behind: Stream) -> None:
    """Ends when both sides have ended, or one of them broke."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass_on(front[0], behind[1]))
            group.create_task(_pass_on(behind[0], front[1]))
    except* OSError:
        pass


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    writer.close()


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    served = Balancer([_address(one) for one in sys.argv[2:]])
    asyncio.run(served.serve(_address(sys.argv[1]), is_api_server_ready))
