"""Whether the target can be reached, told apart from every other fault."""

from __future__ import annotations

import asyncio

import pytest

from hopline.domain.errors import TargetAway
from hopline.domain.resources import SECRET
from hopline.operations.target_reach import TargetReach
from operations.conftest import East


async def test_a_target_that_answers_is_there(east: East) -> None:
    assert await TargetReach(east.clusters).outage(east.key) is None


async def test_a_target_without_a_kubeconfig_is_away_and_named(east: East) -> None:
    await east.management.delete(east.ref(SECRET, "east-kubeconfig"))
    away = await TargetReach(east.clusters).outage(east.key)
    assert away is not None
    assert "the cluster that is upgraded cannot be reached: the cluster has no kubeconfig Secret" in str(away)
    assert away.subject == "Secret east/east-kubeconfig"
    assert away.remedy


async def test_a_target_that_does_not_answer_is_away_only_if_the_management_cluster_answers(east: East) -> None:
    script = east.clusters.script
    target = script.unreachable(east.key)
    away = await TargetReach(east.clusters).outage(east.key)
    assert away is not None
    assert "connection refused" in away.message
    management = script.unreachable(None)
    assert await TargetReach(east.clusters).outage(east.key) is None, "nobody can tell"
    script.clear(management)
    script.clear(target)
    assert await TargetReach(east.clusters).outage(east.key) is None


async def test_a_work_that_stands_still_is_left_when_the_target_goes_away(east: East) -> None:
    reach = TargetReach(east.clusters, look_seconds=0.01)
    stands, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        stands.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(reach.beside(east.key, work()))
    await stands.wait()
    east.clusters.script.unreachable(east.key)
    with pytest.raises(TargetAway, match="connection refused"):
        await task
    assert ended.is_set(), "nothing of the work goes on"


async def test_a_work_that_ends_is_told_as_it_is(east: East) -> None:
    reach = TargetReach(east.clusters, look_seconds=0.01)

    async def fails() -> int:
        raise ValueError("a fault of its own")

    async def works() -> int:
        return 7

    assert await reach.beside(east.key, works()) == 7
    with pytest.raises(ValueError, match="a fault of its own"):
        await reach.beside(east.key, fails())


async def test_many_works_share_their_looks(east: East) -> None:
    reach = TargetReach(east.clusters, look_seconds=1.0)
    fault = east.clusters.script.unreachable(east.key)
    works = (reach.beside(east.key, asyncio.Event().wait()) for _ in range(20))
    ended = await asyncio.gather(*works, return_exceptions=True)
    assert all(isinstance(one, TargetAway) for one in ended)
    assert east.clusters.script.hits(fault) < 20, "twenty works have looked twice each"
