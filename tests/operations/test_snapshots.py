"""One reading per hop and attempt."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hopline.domain.wire import ClusterKey
from hopline.operations.snapshots import ClusterSnapshots
from hopline.sim import open_simulation
from hopline.sim.scenarios import create_scenario
from hopline.sim.script import Verb

EXAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "examples"


@pytest.fixture
def key(tmp_path: Path) -> ClusterKey:
    return create_scenario(tmp_path / "simulation.db", examples=EXAMPLES)


async def test_components_of_a_hop_share_one_reading_and_a_retry_reads_again(key: ClusterKey, tmp_path: Path) -> None:
    clusters = open_simulation(tmp_path / "simulation.db")
    client = clusters.management
    snapshots = ClusterSnapshots(client)

    async def reads(*calls: tuple[str, int, bool]) -> int:
        before = client.requests[Verb.GET]
        await asyncio.gather(*(snapshots.facts(key, hop, attempt, fresh=fresh) for hop, attempt, fresh in calls))
        return client.requests[Verb.GET] - before

    once = await reads(("run/v1", 1, False), ("run/v1", 1, False), ("run/v1", 1, False))
    assert once > 0
    assert await reads(("run/v1", 1, False)) == 0
    assert await reads(("run/v1", 2, False)) == once
    assert await reads(("run/v1", 1, False)) == 0
    assert await reads(("run/v1", 2, True)) == once
    assert await reads(("run/v2", 1, False)) == once
    await clusters.aclose()
