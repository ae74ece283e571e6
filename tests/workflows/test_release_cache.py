"""The folder of fetched releases is pruned, and an open run keeps what it has pinned."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from artifacts import digest_of, titled
from hooked_clusters import Gate, HookedClusters, applying
from hopline.oci.store import BlobStore
from hopline.runtime.settings import Settings
from looking import until_enough
from small_lab import VERSIONS, SmallLab
from starter.dev_server import dev_server
from upgrade_lab import end_run
from worker import release_cache
from worker.search_attributes import ensure_search_attributes


@pytest_asyncio.fixture
async def temporal_client() -> AsyncIterator[Client]:
    """Of a server of its own: every open run of the Temporal namespace is asked, whoever has started it."""
    async with dev_server() as server:
        client = await Client.connect(server.address, data_converter=pydantic_data_converter)
        assert await ensure_search_attributes(client)
        yield client


def keep(root: Path, name: str) -> str:
    """An image that nobody has used for years."""
    image = titled({"release.yaml": name})
    for content in (image.body, *image.blobs.values()):
        BlobStore(root).put(digest_of(content), content)
        os.utime(root / "blobs" / "sha256" / digest_of(content).removeprefix("sha256:"), (0, 0))
    return image.digest


async def test_what_open_runs_have_pinned_is_asked_of_the_runs(temporal_client: Client, small: SmallLab) -> None:
    gate = Gate(applying("base"))
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        handle = await small.start(VERSIONS[-1])
        await gate.reached()
        view = await until_enough(lambda: handle.query("plan"), lambda seen: bool(seen["outline"]))
        wanted = {hop["releaseDigest"] for hop in view["outline"]["hops"]}
        assert len(wanted) == len(VERSIONS) - 1
        assert wanted <= await release_cache.pinned_digests(temporal_client)
        await end_run(small)
        gate.open()
        assert not wanted & await release_cache.pinned_digests(temporal_client)


async def test_only_what_nobody_needs_goes(
    temporal_client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned, other = keep(tmp_path, "pinned"), keep(tmp_path, "other")

    async def digests(_: Client) -> frozenset[str]:
        return frozenset({pinned})

    monkeypatch.setattr(release_cache, "pinned_digests", digests)
    settings = Settings(release_cache=tmp_path)
    assert await release_cache.prune_once(temporal_client, settings)
    assert BlobStore(tmp_path).get(pinned)
    assert not BlobStore(tmp_path).get(other)
    assert not await release_cache.prune_once(temporal_client, settings.model_copy(update={"release_cache_days": 0}))
