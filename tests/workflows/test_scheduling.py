"""Design §2.9: barriers or none, slots, one holder per node pool, one control-plane node in hand, workers last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from itertools import combinations, pairwise

import pytest

from hooked_clusters import Gate, HookedClusters, applying
from hopline.domain.plan import SchedulingMode
from hopline.domain.status import ComponentStatus, UpgradeStatus
from hopline.sim.journal import Effect, EffectType
from looking import PATIENCE
from small_lab import RC3, SmallLab, SmallLabFactory

pytestmark = pytest.mark.slow

CHAINS = {"slow": (), "quick": (), "after-slow": ("slow",), "after-quick": ("quick",)}
MODES = [SchedulingMode.BATCHES, SchedulingMode.EAGER]


def overlap(one: ComponentStatus, other: ComponentStatus) -> bool:
    assert one.started_at and one.finished_at and other.started_at and other.finished_at
    return one.started_at < other.finished_at and other.started_at < one.finished_at


async def played(lab: SmallLab, mode: SchedulingMode, slots: int = 8) -> UpgradeStatus:
    """The status after one hop."""
    async with lab.worker(mode, slots):
        await (await lab.start(RC3)).result()
        return await lab.status()


@pytest.mark.parametrize("mode", MODES)
async def test_a_barrier_waits_for_the_whole_batch_and_eager_does_not(
    make_small: SmallLabFactory, mode: SchedulingMode
) -> None:
    lab, slow_apply = await make_small(CHAINS, roll_out=True), Gate(applying("slow"))
    async with lab.worker(mode, clusters=HookedClusters(lab.clusters, before=slow_apply)):
        handle = await lab.start(RC3)
        await slow_apply.reached()
        await lab.until_status(lambda seen: _is_done(seen, "quick"), PATIENCE)
        if mode is SchedulingMode.EAGER:
            await lab.until_status(lambda seen: _is_done(seen, "after-quick"), PATIENCE)
        slow_apply.open()
        await handle.result()
        status = await lab.status()
    slow, follower = status.component("slow"), status.component("after-quick")
    assert slow.started_at and slow.finished_at and follower.started_at
    begun_before_the_slow_one_ended = follower.started_at < slow.finished_at
    assert begun_before_the_slow_one_ended is (mode is SchedulingMode.EAGER)
    (write,) = lab.applied("after-quick")
    assert (write.started < slow.finished_at.timestamp()) is (mode is SchedulingMode.EAGER)
    blocked = status.component("after-slow")
    assert blocked.started_at and blocked.started_at >= slow.finished_at


@pytest.mark.parametrize("mode", MODES)
async def test_slots_bound_what_is_in_flight(make_small: SmallLabFactory, mode: SchedulingMode) -> None:
    names = [f"c{index}" for index in range(6)]
    lab = await make_small(dict.fromkeys(names, ()), roll_out=True)
    lab.clusters.script.rollout_seconds(0.3)
    components = (await played(lab, mode, slots=2)).components
    in_flight = [
        sum(_is_running(component, begun.started_at) for component in components)
        for begun in components
        if begun.started_at
    ]
    assert max(in_flight) == 2
    assert len(in_flight) == 6


def _is_done(seen: UpgradeStatus, component: str) -> bool:
    return any(one.name == component and one.finished_at for one in seen.components)


def _is_running(component: ComponentStatus, moment: datetime) -> bool:
    assert component.started_at and component.finished_at
    return component.started_at <= moment < component.finished_at


def instructions(lab: SmallLab, hosts: Iterable[str]) -> list[Effect]:
    """What ran on some nodes, by start; every one of them has ended."""
    wanted = set(hosts)
    effects = lab.clusters.journal(EffectType.COMMAND, EffectType.INSTALL)
    return sorted((one for one in effects if one.node.split("/")[0] in wanted), key=lambda one: one.started)


def commands_of(lab: SmallLab, hosts: Iterable[str], word: str) -> list[Effect]:
    """Instructions of which a Command's name or arguments contain a word."""
    return [one for one in instructions(lab, hosts) if word in " ".join((one.subject, one.verb, *one.arguments))]


def times(effects: list[Effect]) -> list[tuple[float, float]]:
    return [(one.started, one.ended or float("inf")) for one in effects]


@pytest.mark.parametrize("mode", MODES)
async def test_nodes_are_taken_one_at_a_time_and_workers_after_every_api_server(
    make_sample: Callable[..., Awaitable[SmallLab]], mode: SchedulingMode
) -> None:
    lab = await make_sample(nodes=(2, 2))
    status = await played(lab, mode)
    assert not lab.clusters.journal(EffectType.VIOLATION)
    control_plane = times([one for one in instructions(lab, ("m1", "m2")) if one.type is EffectType.COMMAND])
    assert len(control_plane) >= 4
    for (_, ended), (started, _) in pairwise(control_plane):
        assert started >= ended
    masters = commands_of(lab, ("m1", "m2"), "UpgradeControlPlane")
    workers = commands_of(lab, ("w1", "w2"), "UpgradeWorker")
    assert len({one.node for one in masters}) == len({one.node for one in workers}) == 2
    last_server = max(one.ended or float("inf") for one in masters)
    assert min(one.started for one in workers) >= last_server
    node_level = [one for one in status.components if one.type.value in ("node", "agent") and one.state.value == "done"]
    for one, other in combinations(node_level, 2):
        assert not overlap(one, other), (one.name, other.name)
