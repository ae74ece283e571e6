"""Ways onto a node that are cut off at a chosen moment, and a proxy that drops what goes through it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from hopline.domain.cluster import NodeFacts
from hopline.domain.wire import ClusterKey
from hopline.ports import NodeShell, NodeShells, ShellAnswer


class Killed(BaseException):
    """Stands for the death of the worker: no clean-up of ours is asked for, and none may catch it."""


class CutOff:
    """`NodeShells` that end at the n-th script, before it begins or after it has ended.

    Attributes:
        scripts: how many were run, or tried.
    """

    def __init__(self, shells: NodeShells, at: int, *, after: bool, die: Callable[[], None]) -> None:
        self._shells = shells
        self._at = at
        self._after = after
        self._die = die
        self.scripts = 0

    @asynccontextmanager
    async def open(self, cluster: ClusterKey, node: NodeFacts) -> AsyncIterator[NodeShell]:
        async with self._shells.open(cluster, node) as shell:
            yield _CutOffShell(shell, self)

    async def unrecorded_key(self, cluster: ClusterKey, node: NodeFacts) -> str:
        return await self._shells.unrecorded_key(cluster, node)

    def reached(self, *, after: bool) -> None:
        if not after:
            self.scripts += 1
        if self.scripts == self._at and after is self._after:
            self._die()


class _CutOffShell:
    def __init__(self, shell: NodeShell, cut: CutOff) -> None:
        self._shell = shell
        self._cut = cut

    async def run(
        self, script: str, *arguments: str, data: AsyncIterator[bytes] | None = None, timeout_seconds: float = 60.0
    ) -> ShellAnswer:
        self._cut.reached(after=False)
        answer = await self._shell.run(script, *arguments, data=data, timeout_seconds=timeout_seconds)
        self._cut.reached(after=True)
        return answer


class DroppingProxy:
    """Passes bytes on to a server, and drops the connection once so many have come from the client."""

    def __init__(self, address: str, port: int, limit: int) -> None:
        self._target = address, port
        self.limit = limit
        self.dropped = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """The port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield int(server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        out_reader, out_writer = await asyncio.open_connection(*self._target)
        back = asyncio.create_task(_pass(out_reader, writer))
        passed = 0
        with suppress(OSError):
            while piece := await reader.read(4096):
                passed += len(piece)
                if 0 < self.limit < passed:
                    self.dropped += 1
                    break
                out_writer.write(piece)
                await out_writer.drain()
        back.cancel()
        for one in (writer, out_writer):
            one.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(4096):
            writer.write(piece)
            await writer.drain()
    writer.close()
