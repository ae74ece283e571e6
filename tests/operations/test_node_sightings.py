"""Looking at the nodes of a pool: what the plan may conclude from it, and what it may not."""

from __future__ import annotations

from typing import Any

from hopline.domain.observation import Presence
from hopline.domain.plan import ComponentType, PlannedComponent, Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import BKE_NODE, NODE, ObjectRef
from hopline.operations.node_sightings import look_at_pool, sighting

BOTH = (Pool.CONTROL_PLANE, Pool.WORKERS)
NOW = {InlineHandler.MASTER: "v1.34.3-of.1", InlineHandler.ETCD: "v3.6.7-of.1", InlineHandler.CONTAINERD: "v2.1.1"}


def component(handler: InlineHandler, version: str) -> PlannedComponent:
    return PlannedComponent(name="it", version=version, type=ComponentType.NODE, handler=handler.value)


async def test_present_only_when_every_node_of_every_pool_shows_it(east: Any) -> None:
    facts, target = await east.facts(), await east.target()
    wanted = component(InlineHandler.CONTAINERD, "v2.1.1")
    seen = await sighting(target, facts, wanted, BOTH)
    assert (seen.presence, seen.current) == (Presence.PRESENT, "v2.1.1")
    assert "8 of 8 nodes" in seen.detail
    body = {"status": {"nodeInfo": {"containerRuntimeVersion": "containerd://2.0.9"}}}
    await target.patch(ObjectRef(kind=NODE, name="w3"), body, subresource="status")
    seen = await sighting(target, facts, wanted, BOTH)
    assert seen.presence is Presence.ABSENT
    assert seen.detail == "w3: containerd runs 2.0.9"


async def test_absent_names_the_nodes(east: Any) -> None:
    seen = await sighting(
        await east.target(), await east.facts(), component(InlineHandler.WORKER, "v9"), (Pool.WORKERS,)
    )
    assert seen.presence is Presence.ABSENT
    assert "w5: kubelet runs v1.34.3-of.1" in seen.detail


async def test_a_node_that_cannot_be_seen_is_no_proof(east: Any) -> None:
    target = await east.target()
    await target.delete(ObjectRef(kind=NODE, name="w2"))
    wanted = component(InlineHandler.WORKER, "v1.34.3-of.1")
    seen = await sighting(target, await east.facts(), wanted, (Pool.WORKERS,))
    assert seen.presence is Presence.COULD_NOT_LOOK
    assert "no Node w2" in seen.detail


async def test_a_target_out_of_reach_could_not_be_looked_at(east: Any) -> None:
    facts, target = await east.facts(), await east.target()
    east.clusters.script.unreachable(east.key)
    seen = await sighting(target, facts, component(InlineHandler.WORKER, "v1"), (Pool.WORKERS,))
    assert seen.presence is Presence.COULD_NOT_LOOK


async def test_agents_tell_no_version(east: Any) -> None:
    seen = await sighting(await east.target(), await east.facts(), component(InlineHandler.AGENT, "v1.0.1"), BOTH)
    assert seen.presence is Presence.COULD_NOT_LOOK


async def test_no_worker_nodes_mean_nothing_to_do(east: Any) -> None:
    facts = await east.facts()
    facts = facts.model_copy(update={"nodes": tuple(node for node in facts.nodes if not node.is_worker)})
    seen = await sighting(await east.target(), facts, component(InlineHandler.WORKER, "v9"), (Pool.WORKERS,))
    assert (seen.presence, seen.detail) == (Presence.PRESENT, "no node in pool workers")


async def test_nodes_that_are_left_out_are_named_and_not_looked_at(east: Any) -> None:
    await east.set_node("w3", stateCode=527 | 128)
    pool = await look_at_pool(
        await east.target(), await east.facts(), component(InlineHandler.WORKER, "v1.34.3-of.1"), Pool.WORKERS
    )
    assert [one.node.hostname for one in pool.nodes] == ["w1", "w2", "w4", "w5"]
    assert pool.left_out[0].startswith("w3 (failed earlier")
    assert all(one.settled for one in pool.nodes)


async def test_a_node_that_an_earlier_run_has_left_is_not_settled(east: Any) -> None:
    await east.set_node("m2", state="UpgradeFailed")
    pool = await look_at_pool(
        await east.target(), await east.facts(), component(InlineHandler.ETCD, "v3.6.7-of.1"), Pool.CONTROL_PLANE
    )
    assert [(one.node.hostname, one.at_target, one.settled) for one in pool.nodes] == [
        ("m1", True, True),
        ("m2", True, False),
        ("m3", True, True),
    ]


async def test_names_are_in_order_whatever_the_list_is(east: Any) -> None:
    document = await east.management.get(east.ref(BKE_NODE, (await east.node("m1")).name))
    await east.management.delete(east.ref(BKE_NODE, document["metadata"]["name"]))
    east.clusters.put(document)
    pool = await look_at_pool(
        await east.target(), await east.facts(), component(InlineHandler.MASTER, "v1"), Pool.CONTROL_PLANE
    )
    assert [one.node.hostname for one in pool.nodes] == ["m1", "m2", "m3"]
