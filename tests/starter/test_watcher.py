"""The watcher on the simulated management cluster, with a stand-in for the workflows on the real Temporal server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from temporalio.client import Client
from temporalio.worker import Worker

from hooked_clusters import Gate, HookedClusters
from hopline.domain.resources import BKE_CLUSTER, UPGRADE_PATH
from hopline.sim.clusters import open_simulation
from starter.requests import Requests
from starter_stub import DONE, ENDLESS, HELD, REFUSED_VERSION, STUBS
from watched_world import World, until
from workflows.messages import AbortRequest, RetryRequest


@pytest_asyncio.fixture
async def world(tmp_path: Path, temporal_client: Client, task_queue: str) -> AsyncIterator[World]:
    clusters = open_simulation(tmp_path / "simulation.sqlite")
    async with Worker(temporal_client, task_queue=task_queue, workflows=STUBS):
        yield World(clusters, Requests(temporal_client, task_queue))
    await clusters.aclose()


async def test_a_patched_desired_version_starts_the_run(world: World) -> None:
    cluster = world.add("east", "v-old")
    async with world.watched() as watcher:
        await until(lambda: _true(watcher.is_ready))
        assert await world.requests.describe(cluster) is None
        await world.patch("east", {"spec": {"desiredVersion": DONE}})
        await until(lambda: world.is_closed("east"))
    assert await world.runs("east") == 1


async def test_a_wish_is_carried_out_once_however_often_the_watcher_starts(world: World) -> None:
    world.add("east", ENDLESS)
    for _ in range(2):
        async with world.watched():
            await until(lambda: world.is_open("east"))
    assert await world.runs("east") == 1
    await world.requests.abort(world.key("east"), AbortRequest(reason="test"))


async def test_another_wish_while_a_run_is_open_is_told_and_carried_out_after_it(world: World) -> None:
    world.add("east", ENDLESS)
    async with world.watched():
        await until(lambda: world.is_open("east"))
        await world.patch("east", {"spec": {"desiredVersion": DONE}})
        event = (await until(lambda: world.events("DesiredVersionRefused")))[0]
        assert event["type"] == "Warning"
        assert event["involvedObject"]["kind"] == "ClusterVersion"
        assert f"an upgrade to {ENDLESS} is running" in event["message"]
        assert "remedy: wait for it" in event["message"]
        await world.requests.abort(world.key("east"), AbortRequest(reason="test"))
        await until(lambda: world.is_closed("east"))
        await world.patch("east", {"metadata": {"annotations": {"hopline.dev/handled": "1/Aborted"}}})

        async def both_closed() -> bool:
            return await world.runs("east") == 2 and await world.is_closed("east")

        await until(both_closed)


async def test_a_refused_wish_is_looked_at_again_when_the_catalogue_changes(world: World) -> None:
    world.add("east", REFUSED_VERSION)
    async with world.watched():
        await until(lambda: world.is_closed("east"))
        await world.mark("east", "Refused")
        api = {"apiVersion": UPGRADE_PATH.api_version, "kind": UPGRADE_PATH.kind}
        world.clusters.put({**api, "metadata": {"name": "openfuyao-upgrade-paths"}, "spec": {"paths": []}})

        async def asked_twice() -> bool:
            return await world.runs("east") == 2

        await until(asked_twice)


async def test_an_aborted_wish_stays_ended_until_the_retry_annotation(world: World) -> None:
    world.add("east", ENDLESS)
    async with world.watched():
        await until(lambda: world.is_open("east"))
        await world.requests.abort(world.key("east"), AbortRequest(reason="test"))
        await until(lambda: world.is_closed("east"))
        await world.mark("east", "Aborted")
    world.add("west", DONE)
    async with world.watched():
        # When the second cluster has its run, the first one has been judged too: both wake in the same list.
        await until(lambda: world.is_closed("west"))
        assert await world.runs("east") == 1
        await world.patch("east", {"metadata": {"annotations": {"bke.bocloud.com/retry": "1"}}}, kind=BKE_CLUSTER)
        await until(lambda: world.is_open("east"))
    await world.requests.abort(world.key("east"), AbortRequest(reason="test"))


async def test_a_terminated_run_is_not_restarted_by_a_new_watcher(world: World) -> None:
    world.add("east", "v-old")
    await world.patch("east", {"spec": {"desiredVersion": ENDLESS}})
    async with world.watched():
        await until(lambda: world.is_open("east"))
    await world.requests.client.get_workflow_handle(f"cluster-upgrade/{world.kube_namespace}/east").terminate()
    world.add("west", DONE)
    async with world.watched():
        await until(lambda: world.is_closed("west"))
        (event,) = await until(lambda: world.events("UpgradeTerminated"))
        assert f"hopline upgrade east -n {world.kube_namespace} --to {ENDLESS}" in event["message"]
        assert await world.runs("east") == 1


async def test_the_retry_annotation_goes_on_with_a_held_run(world: World) -> None:
    cluster = world.add("east", HELD)
    async with world.watched():
        await until(lambda: world.is_open("east"))
        await world.patch("east", {"status": {"phase": "Failed"}}, subresource="status")
        await world.patch("east", {"metadata": {"annotations": {"bke.bocloud.com/retry": "1"}}}, kind=BKE_CLUSTER)
        await until(lambda: world.is_closed("east"))
    handle = world.requests.client.get_workflow_handle(f"cluster-upgrade/{cluster}")
    retries = await handle.query("retries", result_type=list[RetryRequest])
    assert [request.annotation for request in retries] == [True]


async def test_what_is_missing_is_told_once(world: World) -> None:
    world.add("empty", "")
    world.add("alone", DONE, with_cluster=False)
    for _ in range(2):
        async with world.watched():
            missing = await until(lambda: world.events("DesiredVersionMissing"))
            no_cluster = await until(lambda: world.events("BKEClusterNotFound"))
    assert len(missing) == len(no_cluster) == 1
    assert "kubectl patch clusterversion empty" in missing[0]["message"]
    assert f"no BKECluster {world.key('alone')}" in no_cluster[0]["message"]
    assert await world.requests.describe(world.key("alone")) is None


async def test_a_cluster_whose_watch_is_behind_that_of_its_version_is_not_missing(world: World) -> None:
    hooked, gate = HookedClusters(world.clusters), Gate(lambda call: call.subject.startswith("BKECluster "))
    hooked.seen = gate
    async with world.watched(management=hooked.management) as watcher:
        await until(lambda: _true(watcher.is_ready))
        world.add_cluster("east")
        await gate.reached()
        world.add("east", DONE, with_cluster=False)
        world.add("alone", DONE, with_cluster=False)
        (told,) = await until(lambda: world.events("BKEClusterNotFound"))
        assert told["involvedObject"]["name"] == "alone"
        gate.open()
        await until(lambda: world.is_closed("east"))
    assert len(await world.events("BKEClusterNotFound")) == 1


async def test_a_cluster_that_appears_later_is_upgraded_then(world: World) -> None:
    world.add("east", DONE, with_cluster=False)
    async with world.watched():
        await until(lambda: world.events("BKEClusterNotFound"))
        world.add_cluster("east")
        await until(lambda: world.is_closed("east"))


async def test_clusters_do_not_wait_for_each_other(world: World) -> None:
    for number in range(5):
        world.add(f"slow{number}", ENDLESS)
    world.add("zulu", DONE)
    async with world.watched():
        await until(lambda: world.is_closed("zulu"))
        for number in range(5):
            name = f"slow{number}"
            await until(lambda name=name: world.is_open(name))
            await world.requests.abort(world.key(name), AbortRequest(reason="test"))


async def _true(value: bool) -> bool:
    return value
