"""The demo as a person runs it: two hops, and nothing left behind, however it ends."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from hopline.runtime.settings import child_environment
from looking import PATIENCE

pytestmark = pytest.mark.slow


async def start(tmp_path: Path, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "starter",
        "demo",
        *arguments,
        env=child_environment({"TMPDIR": str(tmp_path)}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


def processes_of(tmp_path: Path) -> list[int]:
    """Processes that know the directory, by command line or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            known = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(tmp_path).encode() in known:
            found.append(int(process.name))
    return found


async def gone(tmp_path: Path) -> bool:
    """Whether every process is gone, now or soon: the kernel takes a moment to end orphans."""
    for _ in range(200):
        if not processes_of(tmp_path):
            return True
        await asyncio.sleep(0.1)
    return False


def files_in(tmp_path: Path) -> list[Path]:
    return list(tmp_path.iterdir())


async def read_until(process: asyncio.subprocess.Process, text: str) -> str:
    assert process.stdout is not None
    told = ""
    async with asyncio.timeout(PATIENCE):
        while text not in told:
            line = (await process.stdout.readline()).decode()
            assert line, told
            told += line
    return told


async def test_two_hops_are_shown_and_nothing_is_left(tmp_path: Path) -> None:
    process = await start(tmp_path, "--seconds", "5")
    told, _ = await process.communicate()
    screen = told.decode()
    assert process.returncode == 0, screen
    plan, _, progress = screen.partition("$ hopline upgrade east -n east --to v26.06 --wait")
    assert "v26.06-rc.2 -> v26.06   2 hops" in plan
    assert re.search(r"provider +bkeagent +containerd +\(etcd\) +kubernetes-master +calico", plan)
    assert "web UI http://127.0.0.1:" in plan
    assert "hop 1 of 2 done: v26.06-rc.3" in progress
    assert "hop 2 of 2 done: v26.06" in progress
    assert "east/east  v26.06-rc.2 -> v26.06   DONE" in progress
    assert max(len(line) for line in screen.splitlines()) <= 160
    assert files_in(tmp_path) == []
    assert await gone(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_in_the_middle_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    process = await start(tmp_path)
    await read_until(process, "bkeagent v1.0.2 started")
    assert len(processes_of(tmp_path)) >= 3
    process.send_signal(number)
    told, _ = await process.communicate()
    assert process.returncode == 130
    assert "nothing is left behind" in told.decode()
    assert "Traceback" not in told.decode()
    assert files_in(tmp_path) == []
    assert await gone(tmp_path)


async def test_kill_9_leaves_no_process(tmp_path: Path) -> None:
    process = await start(tmp_path)
    await read_until(process, "provider v26.06-rc.3 started")
    process.kill()
    await process.wait()
    assert await gone(tmp_path)


async def test_keep_leaves_everything_and_says_how_to_remove_it(tmp_path: Path) -> None:
    process = await start(tmp_path, "--seconds", "5", "--keep")
    told, _ = await process.communicate()
    assert process.returncode == 0
    remove = re.search(r"remove   kill (\d+) (\d+); rm -r (\S+)", told.decode())
    assert remove is not None, told.decode()
    pids = [int(remove[1]), int(remove[2])]
    try:
        assert set(pids) <= set(processes_of(tmp_path))
        assert (Path(remove[3]) / "simulation.sqlite").is_file()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
    assert await gone(tmp_path)
