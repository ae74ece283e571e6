"""Small clusters for the tests of the story."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest_asyncio
from temporalio.client import Client

from small_lab import SmallLab, SmallLabFactory, build_lab, build_sample
from upgrade_lab import end_run


@pytest_asyncio.fixture
async def make_small(temporal_client: Client, task_queue: str, tmp_path: Path) -> AsyncIterator[SmallLabFactory]:
    """Makes small clusters; their runs are ended with the test."""
    made: list[SmallLab] = []

    async def make(graph: Any = None, versions: Any = None, *, name: str = "small", **more: Any) -> SmallLab:
        given = {"graph": graph, "versions": versions, **more}
        named = {key: value for key, value in given.items() if value is not None}
        made.append(build_lab(temporal_client, task_queue, tmp_path / name, **named))
        return made[-1]

    yield make
    for lab in made:
        await end_run(lab)
        await lab.clusters.aclose()


@pytest_asyncio.fixture
async def small(make_small: SmallLabFactory) -> SmallLab:
    """Four components in three batches, two hops ahead."""
    return await make_small()


@pytest_asyncio.fixture
async def make_sample(
    temporal_client: Client, task_queue: str, tmp_path: Path
) -> AsyncIterator[Callable[..., Awaitable[SmallLab]]]:
    """Makes the cluster of `deploy/examples`, on one node of each pool unless said otherwise."""
    made: list[SmallLab] = []

    async def make(**more: Any) -> SmallLab:
        made.append(build_sample(temporal_client, task_queue, tmp_path / "sample", **more))
        return made[-1]

    yield make
    for lab in made:
        await end_run(lab)
        await lab.clusters.aclose()


@pytest_asyncio.fixture
async def sample(make_sample: Callable[..., Awaitable[SmallLab]]) -> SmallLab:
    """The cluster of `deploy/examples` with one control-plane and one worker node."""
    return await make_sample()
