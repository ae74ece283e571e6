"""What the watcher writes between runs, on the simulated management cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from temporalio.client import Client
from temporalio.worker import Worker

from hopline.domain.errors import NotFound
from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.resources import (
    BKE_CLUSTER,
    CLUSTER_VERSION,
    DEPLOYMENT,
    NODE,
    UPGRADE_PATH,
    Document,
    ObjectRef,
)
from hopline.operations.one_controller import OneController
from hopline.sim.clusters import open_simulation
from starter.requests import Requests
from starter.upkeep import Upkeep
from starter_stub import ENDLESS, REFUSED_VERSION, STUBS
from watched_world import World, until
from workflows.messages import AbortRequest

V1, V2 = "v26.06", "v26.09"


class KeptWorld(World):
    """A world whose watcher writes."""

    def upkeep(self, *, keep_health: bool = False, health_seconds: float = 60.0) -> Upkeep:
        alone = OneController(self.clusters.management, ControllerPolicy())
        return Upkeep(self.clusters, self.requests, alone, keep_health=keep_health, health_seconds=health_seconds)

    def add_installed(self, name: str, *, spec: str = V1, **status: Any) -> None:
        api = {"apiVersion": BKE_CLUSTER.api_version, "kind": BKE_CLUSTER.kind}
        metadata = {"name": name, "namespace": self.kube_namespace}
        shown = {"openFuyaoVersion": V1, "clusterStatus": "Ready", "clusterHealthState": "Healthy", **status}
        body = {"clusterConfig": {"cluster": {"openFuyaoVersion": spec}}}
        self.clusters.put({**api, "metadata": metadata, "spec": body, "status": shown})
        self.clusters.add_target(self.key(name), self_managed=True)

    def add_version(self, name: str, desired: str, **status: Any) -> None:
        api = {"apiVersion": CLUSTER_VERSION.api_version, "kind": CLUSTER_VERSION.kind}
        metadata = {"name": name, "namespace": self.kube_namespace}
        self.clusters.put({**api, "metadata": metadata, "spec": {"desiredVersion": desired}, "status": status})

    async def get(self, kind: Any, name: str) -> Document:
        return await self.clusters.management.get(
            ObjectRef(kind=kind, name=name, kube_namespace=self.kube_namespace if kind.namespaced else "")
        )

    async def version(self, name: str = "east") -> Document | None:
        try:
            return await self.get(CLUSTER_VERSION, name)
        except NotFound:
            return None

    async def phase(self, name: str = "east") -> str:
        version = await self.version(name)
        return str(((version or {}).get("status") or {}).get("phase", ""))

    async def is_ready(self, name: str = "east") -> bool:
        return await self.phase(name) == "Ready"

    async def health(self, name: str = "east") -> str:
        return str((await self.get(BKE_CLUSTER, name))["status"]["clusterHealthState"])


@pytest_asyncio.fixture
async def world(tmp_path: Path, temporal_client: Client, task_queue: str) -> AsyncIterator[KeptWorld]:
    clusters = open_simulation(tmp_path / "simulation.sqlite")
    async with Worker(temporal_client, task_queue=task_queue, workflows=STUBS):
        yield KeptWorld(clusters, Requests(temporal_client, task_queue))
    await clusters.aclose()


async def test_every_installed_cluster_gets_its_cluster_version(world: KeptWorld) -> None:
    world.add_installed("east")
    world.add_installed("north", openFuyaoVersion="", clusterStatus="Initializing")
    async with world.watched(world.upkeep()):
        await until(world.is_ready)
        event = (await until(lambda: world.events("ClusterVersionCreated")))[0]
        await world.patch("north", {"status": {"clusterStatus": "Ready"}}, kind=BKE_CLUSTER, subresource="status")
        await until(lambda: world.is_ready("north"))
    made = await world.version()
    assert made is not None
    assert made["spec"]["desiredVersion"] == made["status"]["currentVersion"] == V1
    (owner,) = made["metadata"]["ownerReferences"]
    bke = await world.get(BKE_CLUSTER, "east")
    assert (owner["uid"], owner["controller"]) == (bke["metadata"]["uid"], True)
    assert (event["type"], event["involvedObject"]["kind"]) == ("Normal", "BKECluster")
    assert await world.runs("east") == 0


async def test_one_that_is_there_is_never_written_over_and_an_empty_status_is_completed(world: KeptWorld) -> None:
    world.add_installed("east")
    world.add_version("east", ENDLESS)
    world.add_installed("west")
    world.add_version("west", V1)
    async with world.watched(world.upkeep()):
        await until(lambda: world.is_ready("west"))
        await until(lambda: world.is_open("east"))
    completed = await world.version()
    assert completed is not None
    assert (completed["spec"]["desiredVersion"], completed["status"]) == (ENDLESS, {"currentVersion": V1})
    await world.requests.abort(world.key("east"), AbortRequest(reason="test"))


async def test_a_cluster_version_that_is_deleted_in_mid_run_is_made_again_after_the_run(world: KeptWorld) -> None:
    world.add_installed("east")
    world.add_version("east", ENDLESS, currentVersion=V1, phase="Ready")
    async with world.watched(world.upkeep()):
        await until(lambda: world.is_open("east"))
        ref = ObjectRef(kind=CLUSTER_VERSION, name="east", kube_namespace=world.kube_namespace)
        await world.clusters.management.delete(ref)
        world.add_installed("west")
        await until(lambda: world.is_ready("west"))
        assert await world.version() is None, "while its run is open nobody else writes"
        await world.requests.abort(world.key("east"), AbortRequest(reason="test"))
        await until(world.is_ready)
    assert await world.runs("east") == 1


async def test_a_refused_wish_that_is_taken_back_is_ready_again(world: KeptWorld) -> None:
    world.add_installed("east")
    world.add_version("east", REFUSED_VERSION, currentVersion=V1, phase="PreCheckFailed")
    async with world.watched(world.upkeep()):
        await until(lambda: world.is_closed("east"))
        await world.patch("east", {"spec": {"desiredVersion": V1}})
        await until(world.is_ready)
        await until(lambda: world.events("DesiredVersionWithdrawn"))
    assert await world.runs("east") == 1


async def test_back_to_the_current_version_in_mid_run_is_answered_and_settled_after_it(world: KeptWorld) -> None:
    world.add_installed("east")
    world.add_version("east", ENDLESS, currentVersion=V1, phase="Upgrading")
    async with world.watched(world.upkeep()):
        await until(lambda: world.is_open("east"))
        await world.patch("east", {"spec": {"desiredVersion": V1}})
        event = (await until(lambda: world.events("DesiredVersionRefused")))[0]
        assert f"an upgrade to {ENDLESS} is running" in event["message"]
        assert await world.phase() == "Upgrading"
        await world.requests.abort(world.key("east"), AbortRequest(reason="test"))
        await until(world.is_ready)
    assert await world.runs("east") == 1


async def test_what_a_failed_upgrade_has_left_goes_when_the_wish_is_taken_back_and_the_cluster_is_well(
    world: KeptWorld,
) -> None:
    world.add_installed("east", clusterHealthState="UpgradeFailed", clusterStatus="UpgradeFailed")
    world.add_version("east", V1, currentVersion=V1, phase="Failed")
    async with world.watched(world.upkeep()):
        await until(world.is_ready)

        async def is_healthy() -> bool:
            return await world.health() == "Healthy"

        await until(is_healthy)


async def test_a_cluster_that_is_not_well_after_a_failed_upgrade_is_looked_at_until_it_is(world: KeptWorld) -> None:
    world.add_installed("east", clusterHealthState="UpgradeFailed", clusterStatus="UpgradeFailed")
    world.add_version("east", V1, currentVersion=V1, phase="Ready")
    world.clusters.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}, "status": ready("False")})
    async with world.watched(world.upkeep(health_seconds=0.2)):
        world.add_installed("west")
        await until(lambda: world.is_ready("west"))
        assert await world.health() == "UpgradeFailed"
        node = ObjectRef(kind=NODE, name="w1")
        await world.clusters.management.patch(node, {"status": ready("True")}, subresource="status")
        await until(lambda: becomes(world, "Healthy"))


async def test_the_old_trigger_starts_nothing_and_is_answered_once(world: KeptWorld) -> None:
    world.add_installed("east")
    world.add_version("east", V1, currentVersion=V1, phase="Ready")
    async with world.watched(world.upkeep()):
        body = {"spec": {"clusterConfig": {"cluster": {"openFuyaoVersion": V2}}}}
        await world.patch("east", body, kind=BKE_CLUSTER)
        (event,) = await until(lambda: world.events("OldTriggerIgnored"))
        await world.patch("east", {"metadata": {"labels": {"a": "b"}}}, kind=BKE_CLUSTER)
        world.add_installed("west")
        await until(lambda: world.is_ready("west"))
    async with world.watched(world.upkeep()):
        world.add_installed("north")
        await until(lambda: world.is_ready("north"))
    assert len(await world.events("OldTriggerIgnored")) == 1
    assert (event["type"], event["involvedObject"]["kind"]) == ("Warning", "BKECluster")
    assert f"kubectl patch clusterversion east -n {world.kube_namespace}" in event["message"]
    assert await world.runs("east") == 0


async def test_beside_another_controller_nothing_of_a_cluster_is_written(world: KeptWorld) -> None:
    container = {"name": "manager", "image": "registry.example.test/bke-controller-manager:v1"}
    api = {"apiVersion": DEPLOYMENT.api_version, "kind": DEPLOYMENT.kind}
    metadata = {"name": "bke-controller-manager", "namespace": "cluster-system"}
    world.clusters.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cluster-system"}})
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    world.clusters.put({**api, "metadata": metadata, "spec": spec})
    world.add_installed("east")
    world.add("alone", V1, with_cluster=False)
    async with world.watched(world.upkeep()):
        world.clusters.put(catalogue([{"from": V1, "to": V2}]))
        await until(lambda: catalogue_phase(world))
        assert await world.version() is None


def catalogue(paths: list[dict[str, Any]]) -> Document:
    api = {"apiVersion": UPGRADE_PATH.api_version, "kind": UPGRADE_PATH.kind}
    return {**api, "metadata": {"name": "paths"}, "spec": {"paths": paths}}


async def catalogue_phase(world: KeptWorld) -> str:
    document = await world.get(UPGRADE_PATH, "paths")
    return str((document.get("status") or {}).get("phase", ""))


async def test_catalogues_say_whether_they_can_be_used_and_are_written_only_when_that_is_news(world: KeptWorld) -> None:
    world.clusters.put(catalogue([{"from": V1, "to": V2}]))
    async with world.watched(world.upkeep()):
        await until(lambda: catalogue_phase(world))
        first = await world.get(UPGRADE_PATH, "paths")
        assert (first["status"]["phase"], first["status"]["pathCount"]) == ("Active", 1)
        ref = ObjectRef(kind=UPGRADE_PATH, name="paths")
        spec = {"paths": [{"from": V1, "to": V2}, {"from": V2, "to": V2}]}
        await world.clusters.management.patch(ref, {"spec": spec})

        async def is_invalid() -> bool:
            return await catalogue_phase(world) == "Invalid"

        await until(is_invalid)
    judged = await world.get(UPGRADE_PATH, "paths")
    (condition,) = judged["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("Validated", "InvalidRules")
    assert "spec.paths[1]" in condition["message"]
    async with world.watched(world.upkeep()) as watcher:
        await until(lambda: _true(watcher.is_ready))
        world.add_installed("east")
        await until(world.is_ready)
    assert (await world.get(UPGRADE_PATH, "paths"))["metadata"]["resourceVersion"] == (
        judged["metadata"]["resourceVersion"]
    )


async def _true(value: bool) -> bool:
    return value


async def test_health_is_kept_true_between_upgrades_and_left_alone_in_one(world: KeptWorld) -> None:
    world.add_installed("east")
    world.clusters.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}, "status": ready("True")})
    async with world.watched(world.upkeep(keep_health=True, health_seconds=30.0)):
        await until(world.is_ready)
        node = ObjectRef(kind=NODE, name="w1")
        await world.clusters.management.patch(node, {"status": ready("False")}, subresource="status")
        await until(lambda: becomes(world, "Unhealthy"))
        bke = await world.get(BKE_CLUSTER, "east")
        (condition,) = bke["status"]["conditions"]
        assert "Node w1 is not Ready" in condition["message"]
        await world.clusters.management.patch(node, {"status": ready("True")}, subresource="status")
        await until(lambda: becomes(world, "Healthy"))
        await world.patch("east", {"spec": {"desiredVersion": ENDLESS}})
        await until(lambda: world.is_open("east"))
        await world.clusters.management.patch(node, {"status": ready("False")}, subresource="status")
        world.add_installed("west")
        await until(lambda: becomes(world, "Unhealthy", "west"))
        assert await world.health() == "Healthy"
        await world.requests.abort(world.key("east"), AbortRequest(reason="test"))


async def test_the_health_of_a_cluster_that_is_being_installed_is_not_ours_to_tell(world: KeptWorld) -> None:
    world.add_installed("east", openFuyaoVersion="", clusterStatus="", clusterHealthState="")
    world.add_version("east", V1, currentVersion=V1, phase="Ready")
    world.clusters.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}, "status": ready("False")})
    async with world.watched(world.upkeep(keep_health=True)):
        world.add_installed("west")
        await until(lambda: becomes(world, "Unhealthy", "west"))
        assert await world.health() == ""


def ready(status: str) -> Document:
    return {"conditions": [{"type": "Ready", "status": status}]}


async def becomes(world: KeptWorld, state: str, name: str = "east") -> bool:
    return await world.health(name) == state
