"""kill -9 of worker processes on the simulated cluster: every effect stands in the simulation's journal once."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopline.sim.journal import EffectType
from upgrade_lab import LabFactory
from worker_processes import (
    WorkerProcesses,
    assert_every_effect_once,
    done,
    effects,
    is_in_the_middle_of_a_batch,
    until,
)

pytestmark = pytest.mark.slow
CONTROL_PLANE_SECONDS = 3.0


async def test_another_worker_finishes_the_batch_that_a_killed_one_began(
    make_lab: LabFactory, temporal_address: str, tmp_path: Path
) -> None:
    lab = await make_lab(nodes=(3, 2))
    lab.clusters.script.command_seconds(CONTROL_PLANE_SECONDS, phase="UpgradeControlPlane", node="m1")
    workers = WorkerProcesses(lab, temporal_address, tmp_path / "worker.log")
    await workers.start()
    try:
        handle = await lab.start("v26.06")
        await until(lab, lambda: is_in_the_middle_of_a_batch(lab))
        await workers.kill_and_start()
        result = await done(lab, handle)
    finally:
        await workers.close()
    assert (result.to_version, result.hops) == ("v26.06", 2)
    assert_every_effect_once(lab)


async def test_workers_that_die_anywhere_leave_nothing_to_be_done_twice(
    make_lab: LabFactory, temporal_address: str, tmp_path: Path
) -> None:
    """The moments of death are counted in effects, so that they spread over both hops on any machine."""
    lab = await make_lab(nodes=(3, 2))
    workers = WorkerProcesses(lab, temporal_address, tmp_path / "worker.log")
    await workers.start()
    try:
        handle = await lab.start("v26.06")
        for count in (3, 11, 19, 30):
            await until(lab, lambda wanted=count: len(effects(lab, EffectType.COMMAND)) >= wanted)  # type: ignore[misc]
            await workers.kill_and_start()
        await done(lab, handle)
    finally:
        await workers.close()
    assert_every_effect_once(lab)
