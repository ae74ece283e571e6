"""The simulator keeps every promise of the port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite(
    "contracts.cluster_client",
    "contracts.cluster_client_apply",
    "contracts.cluster_client_evict",
    "contracts.cluster_client_watch",
)

from contracts.cluster_client_apply import ApplyContract  # noqa: E402
from contracts.cluster_client_evict import EvictContract  # noqa: E402
from contracts.cluster_client_watch import WatchContract  # noqa: E402
from hopline.ports import ClusterClient  # noqa: E402
from hopline.sim.clusters import open_simulation  # noqa: E402


class TestSimulatedClusterClient(ApplyContract, WatchContract, EvictContract):
    @pytest.fixture
    async def client(self, tmp_path: Path) -> AsyncIterator[ClusterClient]:
        clusters = open_simulation(tmp_path / "sim.db")
        yield clusters.management
        await clusters.aclose()
