"""Scripted faults strike exactly as often as they should, in every process, and what struck is counted."""

from __future__ import annotations

import asyncio

import pytest

from hopline.domain.errors import Conflict, Forbidden, NotFound, PortError, Rejected, Transient
from hopline.domain.resources import BKE_CLUSTER, CONFIG_MAP, NAMESPACE, Document, ObjectRef
from hopline.ports import ChangeType
from hopline.sim.clusters import open_simulation
from hopline.sim.journal import EffectType
from hopline.sim.script import ALWAYS, Failure, Verb
from looking import PATIENCE


def config_map(name: str, value: str = "1", home: str = "default") -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": home},
        "data": {"a": value},
    }


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (Failure.TRANSIENT, Transient),
        (Failure.CONFLICT, Conflict),
        (Failure.FORBIDDEN, Forbidden),
        (Failure.REJECTED, Rejected),
        (Failure.NOT_FOUND, NotFound),
    ],
)
async def test_an_apply_fails_twice_and_then_works(world, failure: Failure, error: type[PortError]) -> None:
    client = await world.target()
    fault = world.clusters.script.fail_request(
        failure, verb=Verb.APPLY, cluster=world.key, kind="ConfigMap", name="one", times=2, text="the webhook says no"
    )
    await client.apply(config_map("other"), kind=CONFIG_MAP, field_manager="bke")
    for _ in range(2):
        with pytest.raises(error, match="the webhook says no"):
            await client.apply(config_map("one"), kind=CONFIG_MAP, field_manager="bke")
    await client.apply(config_map("one"), kind=CONFIG_MAP, field_manager="bke")
    assert world.clusters.script.hits(fault) == 2
    written = [effect.subject for effect in world.clusters.journal(EffectType.WRITE)]
    assert written == ["ConfigMap default/other", "ConfigMap default/one"]


async def test_a_dry_run_has_faults_of_its_own(world) -> None:
    client = await world.target()
    script = world.clusters.script
    script.fail_request(Failure.REJECTED, verb=Verb.DRY_RUN, cluster=world.key, kind="ConfigMap", times=ALWAYS)
    with pytest.raises(Rejected):
        await client.apply(config_map("one"), kind=CONFIG_MAP, field_manager="bke", dry_run=True)
    await client.apply(config_map("one"), kind=CONFIG_MAP, field_manager="bke")


async def test_a_conflict_on_a_patch(world) -> None:
    script, ref = world.clusters.script, world.ref(BKE_CLUSTER, "east")
    script.fail_request(Failure.CONFLICT, verb=Verb.PATCH_STATUS, kind="BKECluster", name="east")
    await world.management.patch(ref, {"metadata": {"annotations": {"a": "1"}}})
    body = {"status": {"clusterStatus": "Upgrading"}}
    with pytest.raises(Conflict):
        await world.management.patch(ref, body, subresource="status")
    await world.management.patch(ref, body, subresource="status")


async def test_an_unreachable_target_leaves_the_management_cluster_alone(world) -> None:
    client = await world.target()
    fault = world.clusters.script.unreachable(world.key)
    for _ in range(3):
        with pytest.raises(Transient):
            await client.identity()
    assert await world.management.identity()
    world.clusters.script.clear(fault)
    assert await client.identity()


async def test_a_server_may_be_unreachable_for_some_calls(world) -> None:
    client = await world.target()
    world.clusters.script.unreachable(world.key, times=2)
    for _ in range(2):
        with pytest.raises(Transient):
            await client.get(ObjectRef(kind=NAMESPACE, name="default"))
    await client.get(ObjectRef(kind=NAMESPACE, name="default"))


async def test_a_watch_waits_for_a_server_that_is_away_and_lists_again(world) -> None:
    client = await world.target()
    changes = client.watch(CONFIG_MAP, kube_namespace="default")
    async with asyncio.timeout(PATIENCE):
        assert (await anext(changes)).type is ChangeType.SYNCED
        fault = world.clusters.script.unreachable(world.key)
        pending = asyncio.ensure_future(anext(changes))
        world.clusters.put(config_map("one"), server=str(world.key))
        await asyncio.wait({pending}, timeout=0.2)
        assert not pending.done()
        world.clusters.script.clear(fault)
        again = await pending
    assert again.type is ChangeType.SYNCED
    assert [item["metadata"]["name"] for item in again.documents] == ["one"]


async def test_a_forbidden_watch_ends(world) -> None:
    world.clusters.script.fail_request(Failure.FORBIDDEN, verb=Verb.WATCH, kind="ConfigMap")
    with pytest.raises(Forbidden):
        await anext(world.management.watch(CONFIG_MAP))


async def test_faults_are_shared_by_every_process(world) -> None:
    fault = world.clusters.script.fail_request(Failure.TRANSIENT, verb=Verb.GET, kind="Namespace", times=2)
    other = open_simulation(world.path, clock=world.clock)
    ref = ObjectRef(kind=NAMESPACE, name="default")
    for client in (world.management, other.management):
        with pytest.raises(Transient):
            await client.get(ref)
    await world.management.get(ref)
    assert other.script.hits(fault) == 2
    await other.aclose()


async def test_requests_are_counted(world) -> None:
    client = await world.target()
    await client.get(ObjectRef(kind=NAMESPACE, name="default"))
    await client.list(NAMESPACE)
    await client.list(NAMESPACE)
    await client.apply(config_map("one"), kind=CONFIG_MAP, field_manager="bke", dry_run=True)
    assert client.requests == {Verb.GET: 1, Verb.LIST: 2, Verb.DRY_RUN: 1}
