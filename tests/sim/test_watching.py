"""Watches on the file: nothing is lost, nobody is woken for nothing, and a busy file is waited for."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from hopline.domain.errors import Transient
from hopline.domain.resources import CONFIG_MAP, NAMESPACE, Document, ObjectRef
from hopline.ports import ChangeType
from hopline.sim import database, storage
from hopline.sim.clusters import open_simulation

PATIENCE = 30


def config_map(name: str, home: str = "default") -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": home}}


async def test_every_change_is_reported_in_order_while_others_are_made(world) -> None:
    changes = world.management.watch(CONFIG_MAP, kube_namespace="default")
    await anext(changes)

    async def write() -> None:
        for index in range(60):
            await world.management.create(config_map(f"c{index:02d}"), kind=CONFIG_MAP)

    task = asyncio.create_task(write())
    async with asyncio.timeout(PATIENCE):
        names = []
        while len(names) < 60:
            change = await anext(changes)
            assert change.type is ChangeType.ADDED
            names.append(change.documents[0]["metadata"]["name"])
    await task
    assert names == [f"c{index:02d}" for index in range(60)]


async def test_a_watch_that_fell_far_behind_lists_again(world, monkeypatch) -> None:
    monkeypatch.setattr(storage, "KEPT_CHANGES", 10)
    changes = world.management.watch(CONFIG_MAP, kube_namespace="default")
    await anext(changes)
    for index in range(520):
        world.clusters.put(config_map(f"c{index:03d}"))
    async with asyncio.timeout(PATIENCE):
        again = await anext(changes)
    assert again.type is ChangeType.SYNCED
    assert len(again.documents) == 520


async def test_an_idle_watch_is_not_behind_because_of_others(world, monkeypatch) -> None:
    monkeypatch.setattr(storage, "KEPT_CHANGES", 100)
    changes = world.management.watch(CONFIG_MAP, kube_namespace="cluster-system")
    await anext(changes)
    pending = asyncio.ensure_future(anext(changes))
    for index in range(600):
        world.clusters.put(config_map(f"c{index:03d}"))
        if index % 10 == 0:
            await world.management.get(ObjectRef(kind=NAMESPACE, name="default"))
    await world.management.create(config_map("one", "cluster-system"), kind=CONFIG_MAP)
    async with asyncio.timeout(PATIENCE):
        change = await pending
    assert change.type is ChangeType.ADDED
    assert [one["metadata"]["name"] for one in change.documents] == ["one"]


async def test_a_locked_file_is_a_transient_error_for_requests_and_patience_for_watches(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    clusters = open_simulation(tmp_path / "simulation.db")
    changes = clusters.management.watch(CONFIG_MAP, kube_namespace="default")
    await anext(changes)
    pending = asyncio.ensure_future(anext(changes))
    clusters.script.pick_up_seconds(0)
    blocker = sqlite3.connect(clusters.database.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(Transient, match="does not answer"):
        await clusters.management.create(config_map("one"), kind=CONFIG_MAP)
    assert await clusters.management.identity()
    blocker.execute("ROLLBACK")
    blocker.close()
    await clusters.management.create(config_map("one"), kind=CONFIG_MAP)
    async with asyncio.timeout(PATIENCE):
        assert (await pending).documents[0]["metadata"]["name"] == "one"
    await clusters.aclose()


async def test_a_watch_that_is_given_up_leaves_nothing_behind(world) -> None:
    changes = world.management.watch(CONFIG_MAP)
    await anext(changes)
    pending = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    pending.cancel()
    await asyncio.gather(pending, return_exceptions=True)
    await changes.aclose()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(task for task in others if "Ticker" in repr(task)))
