"""kill -9 of the Temporal server in the middle of a batch: the upgrade goes on when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from own_temporal import OwnServer
from upgrade_lab import LabFactory
from worker_processes import WorkerProcesses, assert_every_effect_once, is_in_the_middle_of_a_batch, until

pytestmark = pytest.mark.slow


@pytest_asyncio.fixture
async def own_server(tmp_path: Path, temporal_address: str) -> AsyncIterator[OwnServer]:
    """A server that a test may kill; skips where the run's server would skip."""
    own = OwnServer(tmp_path)
    await own.start()
    yield own
    own.kill()


async def test_an_upgrade_outlives_a_restart_of_the_temporal_server(
    make_lab: LabFactory, own_server: OwnServer, tmp_path: Path
) -> None:
    lab = await make_lab(nodes=(3, 2))
    lab.clusters.script.command_seconds(1.0, phase="UpgradeControlPlane", node="m1")
    workers = WorkerProcesses(lab, own_server.server.address, tmp_path / "worker.log")
    runs_server, lab.client = (
        lab.client,
        await Client.connect(own_server.server.address, data_converter=pydantic_data_converter),
    )
    await workers.start()
    try:
        handle = await lab.start("v26.06")
        await until(lab, lambda: is_in_the_middle_of_a_batch(lab))
        own_server.kill()
        # Longer than the step in hand, so that its end is told to nobody.
        await asyncio.sleep(2.0)
        await own_server.start()
        result = await handle.result()
    finally:
        await workers.close()
        lab.client = runs_server
    assert (result.to_version, result.hops) == ("v26.06", 2)
    assert_every_effect_once(lab)
