"""`hopline-worker` as a process: it polls, says so, and ends on a signal."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from temporalio.client import Client

from hopline.runtime.settings import child_environment
from looking import PATIENCE
from starter.dev_server import free_port
from starter.requests import Requests

RELEASES = Path(__file__).resolve().parents[2] / "deploy" / "examples" / "releases"


@asynccontextmanager
async def worker(settings: dict[str, str], *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "worker",
        *arguments,
        env=child_environment(settings),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def probe(port: int, path: str) -> str:
    """Status line of a probe; empty while nobody listens."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return ""
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    line = (await reader.readline()).decode().strip()
    writer.close()
    await writer.wait_closed()
    return line


async def until_ready(port: int, path: str) -> None:
    for _ in range(600):
        if "200" in await probe(port, path):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{path} never answered 200")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_polls_answers_probes_and_ends_on_a_signal(
    temporal_client: Client, temporal_address: str, task_queue: str, tmp_path: Path, number: signal.Signals
) -> None:
    port = free_port()
    settings = {
        "TEMPORAL_ADDRESS": temporal_address,
        "HOPLINE_TASK_QUEUE": task_queue,
        "HOPLINE_SIMULATION": str(tmp_path / "simulation.sqlite"),
        "HOPLINE_RELEASES": str(RELEASES),
        "HOPLINE_PROBE_PORT": str(port),
    }
    async with worker(settings) as process:
        await until_ready(port, "/readyz")
        await Requests(temporal_client, task_queue).require_worker(patience=30)
        process.send_signal(number)
        told, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, told.decode()
    assert f"polling task queue {task_queue}" in told.decode()
    assert "Traceback" not in told.decode()


async def test_waits_for_temporal_alive_but_not_ready(tmp_path: Path) -> None:
    port = free_port()
    settings = {
        "TEMPORAL_ADDRESS": f"127.0.0.1:{free_port()}",
        "HOPLINE_SIMULATION": str(tmp_path / "simulation.sqlite"),
        "HOPLINE_RELEASES": str(RELEASES),
        "HOPLINE_PROBE_PORT": str(port),
        "HOPLINE_LOG_FORMAT": "json",
    }
    async with worker(settings) as process:
        await until_ready(port, "/livez")
        assert "503" in await probe(port, "/readyz")
        assert process.stdout is not None
        assert b"no Temporal service answers" in await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), PATIENCE)
    assert process.returncode == 0


async def test_observe_is_said_at_the_start(
    temporal_client: Client, temporal_address: str, task_queue: str, tmp_path: Path
) -> None:
    settings = {
        "TEMPORAL_ADDRESS": temporal_address,
        "HOPLINE_TASK_QUEUE": task_queue,
        "HOPLINE_SIMULATION": str(tmp_path / "simulation.sqlite"),
        "HOPLINE_RELEASES": str(RELEASES),
    }
    async with worker(settings, "--observe") as process:
        await Requests(temporal_client, task_queue).require_worker(patience=60)
        process.send_signal(signal.SIGTERM)
        told, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0
    assert "observing: plans and reports, changes nothing" in told.decode()


async def test_an_unknown_argument_ends_it_with_2() -> None:
    async with worker({}, "--obsrve") as process:
        told, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 2
    assert "--obsrve" in told.decode() and "--observe" in told.decode()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"HOPLINE_MODE": "fast"}, "HOPLINE_MODE is 'fast'; remedy: use one of: batches, eager"),
        ({"HOPLINE_RELEASES": "/nowhere"}, "HOPLINE_RELEASES is '/nowhere'"),
    ],
)
async def test_a_setting_that_cannot_be_used_ends_it_with_2(settings: dict[str, str], told: str) -> None:
    async with worker(settings) as process:
        output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 2
    assert told in output.decode()
    assert "Traceback" not in output.decode()
