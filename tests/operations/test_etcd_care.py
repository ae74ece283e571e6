"""Who leads etcd while a member is away."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.cluster import NodeFacts
from hopline.domain.errors import OtherController
from hopline.domain.release import InlineHandler
from hopline.domain.resources import SECRET
from hopline.operations.etcd_care import EtcdCare
from hopline.operations.observing import ObservedClusters
from hopline.sim.etcd import SECRET_SUFFIX


async def handed_over(east: Any, handler: InlineHandler, host: str, care: EtcdCare | None = None) -> str:
    facts = await east.facts()
    node: NodeFacts = next(one for one in facts.nodes if one.display_name == host)
    return await (care or EtcdCare(east.clusters)).hand_over(facts, handler.value, node)


async def leader(east: Any) -> str:
    return str((await east.clusters.etcd.look(await east.facts())).leader)


@pytest.mark.parametrize("handler", [InlineHandler.ETCD, InlineHandler.CONTAINERD])
async def test_a_leader_that_is_to_end_hands_over_once(east: Any, handler: InlineHandler) -> None:
    east.clusters.script.etcd_leader("m1")
    assert await handed_over(east, handler, "m1") == "m3"
    assert await leader(east) == "m3"
    assert await handed_over(east, handler, "m1") == ""
    assert await leader(east) == "m3"


async def test_who_does_not_lead_or_does_not_end_hands_nothing_over(east: Any) -> None:
    east.clusters.script.etcd_leader("m1")
    assert await handed_over(east, InlineHandler.ETCD, "m2") == ""
    assert await handed_over(east, InlineHandler.MASTER, "m1") == ""
    assert await handed_over(east, InlineHandler.CONTAINERD, "w1") == ""
    assert await leader(east) == "m1"


async def test_an_etcd_that_nobody_can_ask_hands_over_by_itself(east: Any) -> None:
    await east.management.delete(east.ref(SECRET, f"east{SECRET_SUFFIX}"))
    assert await handed_over(east, InlineHandler.ETCD, "m3") == ""


async def test_a_worker_that_only_observes_moves_no_leader(east: Any) -> None:
    east.clusters.script.etcd_leader("m1")
    with pytest.raises(OtherController, match="etcd of"):
        await handed_over(east, InlineHandler.ETCD, "m1", EtcdCare(ObservedClusters(east.clusters)))
    assert await leader(east) == "m1"
