"""A Temporal server of a test's own, which it may kill: its database file survives it."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from temporalio.client import Client

from starter.dev_server import DevServer, answers, free_port, start_dev_server
from worker.search_attributes import ensure_search_attributes


class OwnServer:
    """A Temporal server on one port for its whole life, started and killed as often as a test likes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes]
        self.server: DevServer

    async def start(self) -> None:
        """Returns when it answers, on the same port and with the same database every time."""
        log = self._folder / "temporal.log"
        self._process, self.server = start_dev_server(
            database=self._folder / "temporal.sqlite", log=log, port=self._port
        )
        await answers(self._process, self.server.address, log)

    async def prepare(self) -> None:
        """Gives it Hopline's search attributes, once."""
        assert await ensure_search_attributes(await Client.connect(self.server.address))

    def start_and_wait(self) -> None:
        """`start`, for a test that has no event loop."""
        asyncio.run(self.start())

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()
