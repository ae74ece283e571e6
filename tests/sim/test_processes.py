"""Several processes use the file at once, and any of them may be killed at any moment."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hopline.domain.resources import CONFIG_MAP, ObjectRef
from hopline.ports import ChangeType
from hopline.sim.clusters import SimulatedClusters, open_simulation
from hopline.sim.journal import EffectType
from looking import PATIENCE

WRITER = """
import asyncio, sys
from pathlib import Path
from hopline.domain.errors import Conflict
from hopline.domain.resources import CONFIG_MAP, ObjectRef
from hopline.sim.clusters import open_simulation

async def main(path, name, count):
    client = open_simulation(Path(path)).management
    ref = ObjectRef(kind=CONFIG_MAP, name="counter", kube_namespace="default")
    done = 0
    while done < count:
        document = await client.get(ref)
        total = int(document["data"]["total"]) + 1
        mine = {"resourceVersion": document["metadata"]["resourceVersion"]}
        try:
            await client.patch(ref, {"metadata": mine, "data": {"total": str(total), name: str(done + 1)}})
        except Conflict:
            continue
        done += 1
        print(done, flush=True)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""

COUNTER = ObjectRef(kind=CONFIG_MAP, name="counter", kube_namespace="default")


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(count)], stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
async def simulation(tmp_path: Path) -> AsyncIterator[SimulatedClusters]:
    made = open_simulation(tmp_path / "simulation.db")
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "counter", "namespace": "default"},
        "data": {"total": "0"},
    }
    made.put(document)
    yield made
    await made.aclose()


async def test_no_update_is_lost_between_two_processes(simulation: SimulatedClusters) -> None:
    count = 100
    writers = [writer(simulation.database.path, name, count) for name in ("a", "b")]
    for process in writers:
        await asyncio.to_thread(process.communicate, timeout=60)
        assert process.returncode == 0
    document = await simulation.management.get(COUNTER)
    assert document["data"] == {"total": str(2 * count), "a": str(count), "b": str(count)}
    assert len(simulation.journal(EffectType.WRITE)) == 2 * count


async def test_a_killed_process_loses_nothing_that_was_answered(simulation: SimulatedClusters) -> None:
    answered = 0
    for _ in range(3):
        process = writer(simulation.database.path, "a", 100_000)
        assert process.stdout is not None
        for _ in range(20):
            await asyncio.to_thread(process.stdout.readline)
        process.send_signal(signal.SIGKILL)
        rest = await asyncio.to_thread(process.stdout.read)
        process.stdout.close()
        process.wait(60)
        answered += 20 + len(rest.split())
        document = await simulation.management.get(COUNTER)
        total = int(document["data"]["total"])
        assert total in (answered, answered + 1), "the last write may have been kept without an answer"
        answered = total
    assert len(simulation.journal(EffectType.WRITE)) == answered
    connection = sqlite3.connect(simulation.database.path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


async def test_a_watch_sees_what_another_process_writes(simulation: SimulatedClusters) -> None:
    changes = simulation.management.watch(CONFIG_MAP, kube_namespace="default", name="counter")
    async with asyncio.timeout(PATIENCE):
        assert (await anext(changes)).type is ChangeType.SYNCED
        process = writer(simulation.database.path, "a", 5)
        totals = []
        while totals[-1:] != ["5"]:
            change = await anext(changes)
            totals.append(change.documents[0]["data"]["total"])
    await asyncio.to_thread(process.communicate, timeout=60)
    assert totals == ["1", "2", "3", "4", "5"]
