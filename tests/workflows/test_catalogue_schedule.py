"""The schedule that follows the catalogue's registry, on a real Temporal server over a simulated management cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import ScheduleHandle, WorkflowExecutionStatus

from artifacts import titled
from hopline.domain.catalogue_status import FetchTrouble, fetch_trouble
from hopline.domain.release_origin import RegistryDefaults
from hopline.domain.resources import CONFIG_MAP, UPGRADE_PATH, Document, ObjectRef
from hopline.runtime.settings import Settings
from hopline.wiring import Ports, registry_catalogue, registry_releases
from looking import until_enough
from scripted_registry import ScriptedRegistry, serving
from upgrade_lab import UpgradeLab
from worker.composition import build_worker
from worker.schedules import FOLLOWED, PAUSED_BY_US, ensure_catalogue_schedule
from workflows.identifiers import CATALOGUE_SYNC, catalogue_schedule_id

HEAD = "apiVersion: config.openfuyao.com/v1alpha1\nkind: UpgradePath\nmetadata: {name: paths}\nspec:\n  paths:\n"
EDGES = ('    - {from: "v26.06", to: "v26.09"}\n', '    - {from: "v26.09", to: "v26.12"}\n')


class World:
    """A worker without HOPLINE_RELEASES, and the registry that its management cluster names."""

    def __init__(self, lab: UpgradeLab, registry: ScriptedRegistry) -> None:
        self.lab, self.registry = lab, registry
        self.management = lab.clusters.management
        self.made = Settings(
            task_queue=lab.task_queue,
            simulation=lab.file,
            release_cache=lab.folder / "cache",
            registry_plain_http=True,
            catalogue_interval=1,
        )

    @property
    def handle(self) -> ScheduleHandle:
        return self.lab.client.get_schedule_handle(catalogue_schedule_id(self.lab.task_queue))

    def settings(self, **changes: Any) -> Settings:
        return self.made.model_copy(update=changes)

    async def ensure(self, **changes: Any) -> None:
        await ensure_catalogue_schedule(self.lab.client, self.settings(**changes), await self.management.identity())

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        defaults = RegistryDefaults(plain_http=True)
        ports = Ports(
            clusters=self.lab.clusters,
            releases=registry_releases(self.management, self.made, defaults),
            catalogue=registry_catalogue(self.management, self.made, defaults),
        )
        async with build_worker(self.lab.client, ports, self.made, search_attributes=True):
            yield

    def publish(self, edges: int) -> str:
        return self.registry.push("latest", titled({"paths.yaml": HEAD + "".join(EDGES[:edges])}))

    async def held(self) -> list[Document]:
        return (await self.management.list(UPGRADE_PATH)).items

    async def paths(self) -> int:
        return sum(len(one["spec"].get("paths") or ()) for one in await self.held())

    async def rounds(self, status: WorkflowExecutionStatus) -> int:
        query = f"WorkflowType='{CATALOGUE_SYNC}' AND TaskQueue='{self.lab.task_queue}'"
        return sum([one.status is status async for one in self.lab.client.list_workflows(query)])

    async def until_paths(self, count: int) -> None:
        await until_enough(self.paths, lambda seen: seen == count)

    async def until_rounds(self, status: WorkflowExecutionStatus, count: int) -> None:
        await until_enough(lambda: self.rounds(status), lambda seen: seen >= count)

    async def trouble(self) -> FetchTrouble | None:
        (one,) = await self.held()
        return fetch_trouble(one)


@pytest_asyncio.fixture
async def world(lab: UpgradeLab) -> AsyncIterator[World]:
    async with serving(ScriptedRegistry()) as registry:
        management = lab.clusters.management
        for one in (await management.list(UPGRADE_PATH)).items:
            await management.delete(ObjectRef(kind=UPGRADE_PATH, name=one["metadata"]["name"]))
        metadata = {"name": "bke-config", "namespace": "cluster-system"}
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"otherRepo": f"{registry.host}/k"},
        }
        await management.create(config, kind=CONFIG_MAP)
        made = World(lab, registry)
        yield made
        await made.handle.delete()


async def test_the_registry_is_followed_by_digest(world: World) -> None:
    world.publish(1)
    await world.ensure()
    async with world.worker():
        await world.until_paths(1)
        # A round that began before the first one had written may still end.
        await world.until_rounds(WorkflowExecutionStatus.COMPLETED, 2)
        before, layers = await world.held(), world.registry.count("/blobs/")
        done = await world.rounds(WorkflowExecutionStatus.COMPLETED)
        await world.until_rounds(WorkflowExecutionStatus.COMPLETED, done + 2)
        assert await world.held() == before, "nothing is written"
        assert world.registry.count("/blobs/") == layers, "nothing is pulled"
        world.publish(2)
        await world.until_paths(2)


async def test_the_last_good_one_stays_and_says_what_is_wrong(world: World) -> None:
    world.publish(1)
    await world.ensure()
    async with world.worker():
        await world.until_paths(1)
        world.registry.push("latest", titled({"paths.yaml": HEAD}))

        await until_enough(world.trouble, lambda seen: seen is not None)
        assert await world.paths() == 1
        await world.until_rounds(WorkflowExecutionStatus.FAILED, 1)
        world.publish(2)
        await world.until_paths(2)
        await until_enough(world.trouble, lambda seen: seen is None)


async def test_where_nothing_names_a_registry_nothing_is_asked_and_nothing_is_wrong(world: World) -> None:
    ref = ObjectRef(kind=CONFIG_MAP, name="bke-config", kube_namespace="cluster-system")
    await world.management.patch(ref, {"data": {"otherRepo": None}})
    await world.ensure()
    async with world.worker():
        await world.until_rounds(WorkflowExecutionStatus.COMPLETED, 2)
    assert await world.held() == []
    assert world.registry.requests == []
    assert await world.rounds(WorkflowExecutionStatus.FAILED) == 0


async def test_many_workers_keep_one_schedule_as_the_settings_say(world: World) -> None:
    await asyncio.gather(*(world.ensure(catalogue_interval=3600) for _ in range(5)))
    found = (await world.handle.describe()).schedule
    assert [one.every.total_seconds() for one in found.spec.intervals] == [3600]
    assert (found.state.paused, found.state.note) == (False, FOLLOWED)
    await world.ensure(catalogue_interval=0)
    found = (await world.handle.describe()).schedule
    assert found.state.paused
    assert found.state.note == f"{PAUSED_BY_US}HOPLINE_CATALOGUE_INTERVAL is 0"
    await world.ensure(catalogue_interval=60)
    assert not (await world.handle.describe()).schedule.state.paused


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"releases": Path("/releases")}, "HOPLINE_RELEASES is set"), ({"observe": True}, "only observes")],
)
async def test_a_schedule_is_made_paused_where_nobody_may_follow(
    world: World, changes: dict[str, Any], reason: str
) -> None:
    await world.ensure(**changes)
    found = await world.handle.describe()
    assert found.schedule.state.paused
    assert reason in (found.schedule.state.note or "")
    assert found.info.num_actions == 0


async def test_the_pause_of_a_person_stays(world: World) -> None:
    await world.ensure(catalogue_interval=3600)
    await world.handle.pause(note="the registry is being moved")
    await world.ensure(catalogue_interval=600)
    found = (await world.handle.describe()).schedule
    assert (found.state.paused, found.state.note) == (True, "the registry is being moved")
    assert [one.every.total_seconds() for one in found.spec.intervals] == [600]
