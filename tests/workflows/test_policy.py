"""Design §2.11: settings are recorded by the first activity; a worker of another management cluster does nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hooked_clusters import Call, Gate, HookedClusters, applying
from hopline.domain.plan import SchedulingMode
from hopline.sim import open_simulation
from small_lab import FINAL, GRAPH, RC3, SmallLab, SmallLabFactory
from workflows.cluster_upgrade import ClusterUpgrade

pytestmark = pytest.mark.slow

WIDE = {"a": (), "b": (), "c": (), "d": ("a",)}


class Counting:
    """How many applies are under way at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def before(self, call: Call) -> None:
        if call.verb == "apply":
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0.1)

    def after(self, call: Call) -> None:
        self.now -= call.verb == "apply"


async def test_a_worker_with_other_settings_changes_nothing_of_a_run(make_small: SmallLabFactory) -> None:
    lab = await make_small(WIDE)
    gate = Gate(applying("a"))
    async with lab.worker(SchedulingMode.EAGER, 1, clusters=HookedClusters(lab.clusters, before=gate)):
        handle = await lab.start(FINAL)
        await gate.reached()
    counting = Counting()
    hooked = HookedClusters(lab.clusters, before=counting.before, after=counting.after)
    async with lab.worker(SchedulingMode.BATCHES, 8, clusters=hooked):
        await handle.result()
        status = await lab.status()
    assert counting.most == 1
    assert status.mode == "eager"
    assert [len(lab.applied(name)) for name in WIDE] == [2, 2, 2, 2]
    histories = await lab.histories(handle.first_execution_run_id or "")
    first = [event for event in histories[0].events if event.HasField("activity_task_scheduled_event_attributes")]
    assert first[0].activity_task_scheduled_event_attributes.activity_type.name == "record_policy"
    assert len(histories) == 2


async def test_settings_of_the_worker_count_for_a_new_run(make_small: SmallLabFactory) -> None:
    lab = await make_small(WIDE)
    counting = Counting()
    hooked = HookedClusters(lab.clusters, before=counting.before, after=counting.after)
    async with lab.worker(SchedulingMode.EAGER, 8, clusters=hooked):
        await (await lab.start(RC3)).result()
        assert (await lab.status()).mode == "eager"
        await (await lab.start(FINAL, mode="batches")).result()
        assert (await lab.status()).mode == "batches"
    assert counting.most == 3


async def test_a_worker_of_another_management_cluster_refuses_and_the_right_one_goes_on(
    small: SmallLab, tmp_path: Path
) -> None:
    stranger = open_simulation(tmp_path / "stranger.db")
    gate = Gate(applying("left"))
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        handle = await small.start(FINAL)
        await gate.reached()

    async def complaints() -> dict[str, Any]:
        description = await handle.describe()
        failures = [one.last_failure for one in description.raw_description.pending_activities]
        return {one.application_failure_info.type: one.message for one in failures if one.message}

    try:
        async with small.worker(clusters=stranger):
            seen = await small.until_seen(complaints, lambda found: "WrongManagementCluster" in found)
        assert str(await stranger.management.identity()) in seen["WrongManagementCluster"]
        assert "give each management cluster its own task queue" in seen["WrongManagementCluster"]
        assert stranger.journal() == []
    finally:
        await stranger.aclose()
    async with small.worker():
        await handle.result()
        view = await handle.query(ClusterUpgrade.plan)
    assert view.hop is not None
    assert [len(small.applied(name)) for name in GRAPH] == [2, 2, 2, 2]
