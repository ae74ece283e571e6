"""The processes and files of the demo, and their end.

Cleaning up is synchronous and outside of any event loop, so that a second Ctrl-C cannot interrupt it.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hopline.runtime.settings import DEFAULT_TASK_QUEUE, child_environment
from hopline.sim.scenarios import EXAMPLE_CONTROLLER_IMAGE
from starter.child_processes import start, stop
from starter.dev_server import DevServer, start_dev_server


class Stage:
    """One temporary directory, one Temporal server, one worker."""

    def __init__(self, directory: Path, *, outlives: bool) -> None:
        self.directory = directory
        self._outlives = outlives
        self.simulation = directory / "simulation.sqlite"
        self.server_log = directory / "server.log"
        self.worker_log = directory / "worker.log"
        self.task_queue = DEFAULT_TASK_QUEUE
        self._server: tuple[subprocess.Popen[bytes], DevServer] | None = None
        self._worker: subprocess.Popen[bytes] | None = None

    @property
    def server(self) -> DevServer:
        """The running server."""
        assert self._server is not None
        return self._server[1]

    @property
    def server_process(self) -> subprocess.Popen[bytes]:
        """Its process."""
        assert self._server is not None
        return self._server[0]

    @property
    def worker_process(self) -> subprocess.Popen[bytes]:
        """The process of the worker that was started last."""
        assert self._worker is not None
        return self._worker

    def start_server(self) -> DevServer:
        """The Temporal dev server with its web UI, its database in the directory."""
        self._server = start_dev_server(
            ui=True, database=self.directory / "temporal.sqlite", log=self.server_log, outlives=self._outlives
        )
        return self._server[1]

    def start_worker(self, releases: Path) -> None:
        """A worker on the simulation."""
        settings = {
            "TEMPORAL_ADDRESS": self.server.address,
            "HOPLINE_TASK_QUEUE": self.task_queue,
            "HOPLINE_SIMULATION": str(self.simulation),
            "HOPLINE_RELEASES": str(releases),
            "HOPLINE_OWN_IMAGES": EXAMPLE_CONTROLLER_IMAGE,
        }
        self._worker = start(
            [sys.executable, "-m", "worker"],
            log=self.worker_log,
            environment=child_environment(settings),
            outlives=self._outlives,
        )

    def close(self) -> None:
        """End both processes and delete the directory."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            if self._worker is not None:
                stop(self._worker, patience=3.0)
            if self._server is not None:
                stop(self._server[0], patience=3.0)
            shutil.rmtree(self.directory, ignore_errors=True)
        finally:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def open_stage(*, keep: bool) -> Iterator[Stage]:
    """A stage; closed at the end unless `keep` is set and all went well."""
    stage = Stage(Path(tempfile.mkdtemp(prefix="hopline-demo-")), outlives=keep)
    kept = False
    try:
        yield stage
        kept = keep
    finally:
        if not kept:
            stage.close()
