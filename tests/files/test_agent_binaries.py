"""Node agents from a file repository, over HTTP and from a directory: checked, kept by hash, and fetched once."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from builders_domain import sample_facts
from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import NotFound, Rejected, Transient
from hopline.files.agent_binaries import RepositoryAgentBinaries

CONTENT = b"an agent " * 1000
HASH = hashlib.sha256(CONTENT).hexdigest()
NAME = "bkeagent-1.0.3-linux-amd64"


class Repository:
    """Files over HTTP.

    Attributes:
        files: name → content; a number is answered as that status.
        asked: names, in order.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes | int] = {}
        self.asked: list[str] = []
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        name = request.path.removeprefix("/files/")
        self.asked.append(name)
        found = self.files.get(name, 404)
        if isinstance(found, int):
            return web.Response(status=found, headers={"Location": "/elsewhere"} if found == 302 else {})
        return web.Response(body=found, headers={"ETag": hashlib.sha256(found).hexdigest()})


@pytest.fixture
async def repository() -> AsyncIterator[Repository]:
    made = Repository()
    application = web.Application()
    application.router.add_get("/{name:.*}", made.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.port = runner.addresses[0][1]
    yield made
    await runner.cleanup()


def facts(repository: Repository, **extra: str) -> ClusterFacts:
    """A cluster that names the repository."""
    place: dict[str, Any] = {"domain": "127.0.0.1", "port": str(repository.port), "prefix": "/files/"}
    config = {"cluster": {"httpRepo": place}, "customExtra": extra}
    return sample_facts().model_copy(update={"document": {"spec": {"clusterConfig": config}}})


def kept(folder: Path) -> list[str]:
    """Names of what is there."""
    return [path.name for path in folder.iterdir()]


async def test_a_binary_is_fetched_once_and_kept_by_its_hash(repository: Repository, tmp_path: Path) -> None:
    repository.files = {NAME: CONTENT, f"{NAME}.sha256": f"{HASH}  {NAME}\n".encode()}
    binaries = RepositoryAgentBinaries(tmp_path)
    first, second = await asyncio.gather(
        *(binaries.fetch(facts(repository), "v1.0.3", "amd64") for _ in range(2)), return_exceptions=False
    )
    assert first == second
    assert (first.sha256, first.size, first.vouched) == (HASH, len(CONTENT), True)
    assert first.path == tmp_path / HASH
    assert first.path.read_bytes() == CONTENT
    assert kept(tmp_path) == [HASH]


async def test_a_file_that_has_changed_is_fetched_anew(repository: Repository, tmp_path: Path) -> None:
    repository.files = {NAME: CONTENT}
    binaries = RepositoryAgentBinaries(tmp_path)
    assert (await binaries.fetch(facts(repository), "v1.0.3", "amd64")).sha256 == HASH
    repository.files = {NAME: b"another"}
    found = await binaries.fetch(facts(repository), "v1.0.3", "amd64")
    assert found.sha256 == hashlib.sha256(b"another").hexdigest()
    assert not found.vouched


async def test_a_kept_file_that_was_deleted_is_fetched_anew(repository: Repository, tmp_path: Path) -> None:
    repository.files = {NAME: CONTENT}
    binaries = RepositoryAgentBinaries(tmp_path)
    found = await binaries.fetch(facts(repository), "v1.0.3", "amd64")
    assert found.path is not None
    found.path.unlink()
    assert (await binaries.fetch(facts(repository), "v1.0.3", "amd64")).path == found.path
    assert found.path.read_bytes() == CONTENT


async def test_bytes_of_another_hash_are_refused_and_not_kept(repository: Repository, tmp_path: Path) -> None:
    repository.files = {NAME: b"truncated", f"{NAME}.sha256": HASH.encode()}
    with pytest.raises(Rejected, match="is not the one whose hash stands beside it"):
        await RepositoryAgentBinaries(tmp_path).fetch(facts(repository), "v1.0.3", "amd64")
    assert kept(tmp_path) == []


@pytest.mark.parametrize("text", [b"", b"<html>not found</html>"])
async def test_a_hash_that_is_none(repository: Repository, tmp_path: Path, text: bytes) -> None:
    repository.files = {NAME: CONTENT, f"{NAME}.sha256": text}
    with pytest.raises(Rejected, match="this is no SHA-256 hash"):
        await RepositoryAgentBinaries(tmp_path).look(facts(repository), "v1.0.3", "amd64")


async def test_an_empty_binary(repository: Repository, tmp_path: Path) -> None:
    repository.files = {NAME: b""}
    with pytest.raises(Rejected, match="empty"):
        await RepositoryAgentBinaries(tmp_path).fetch(facts(repository), "v1.0.3", "amd64")


async def test_a_repository_that_has_none(repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        await RepositoryAgentBinaries(tmp_path).look(facts(repository), "v1.0.3", "arm64")
    assert "has no node agent bkeagent-1.0.3-linux-arm64" in str(caught.value)
    assert caught.value.value == f"http://127.0.0.1:{repository.port}/files/bkeagent-1.0.3-linux-arm64"


async def test_a_repository_that_is_in_trouble_may_recover(repository: Repository, tmp_path: Path) -> None:
    repository.files = {f"{NAME}.sha256": 503}
    with pytest.raises(Transient, match="answers 503"):
        await RepositoryAgentBinaries(tmp_path).fetch(facts(repository), "v1.0.3", "amd64")
    gone = Repository()
    gone.port = 1
    with pytest.raises(Transient, match="cannot be read"):
        await RepositoryAgentBinaries(tmp_path).fetch(facts(gone), "v1.0.3", "amd64")


async def test_a_repository_that_sends_elsewhere_is_not_followed(repository: Repository, tmp_path: Path) -> None:
    repository.files = {f"{NAME}.sha256": HASH.encode(), NAME: 302, "/elsewhere": CONTENT}
    with pytest.raises(Transient, match="answers 302"):
        await RepositoryAgentBinaries(tmp_path).look(facts(repository), "v1.0.3", "amd64")


async def test_what_nobody_has_fetched_for_long_goes(repository: Repository, tmp_path: Path) -> None:
    for name, days in (("part-killed", 2), ("part-running", 0), ("a" * 64, 31), ("b" * 64, 29)):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (time.time() - days * 86400,) * 2)
    repository.files = {NAME: CONTENT}
    await RepositoryAgentBinaries(tmp_path).fetch(facts(repository), "v1.0.3", "amd64")
    assert sorted(kept(tmp_path)) == sorted(["part-running", "b" * 64, HASH])


async def test_another_name_and_no_version(repository: Repository, tmp_path: Path) -> None:
    repository.files = {"own-arm64": CONTENT, "bkeagent-latest-linux-arm64": CONTENT}
    binaries = RepositoryAgentBinaries(tmp_path)
    await binaries.look(facts(repository, bkeagent="own-{.arch}"), "v1.0.3", "arm64")
    await binaries.look(facts(repository), "", "arm64")
    assert [name for name in repository.asked if not name.endswith(".sha256")] == [
        "own-arm64",
        "bkeagent-latest-linux-arm64",
    ]


async def test_a_cluster_that_names_no_repository(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing says where new node agents come from") as caught:
        await RepositoryAgentBinaries(tmp_path).look(sample_facts(), "v1.0.3", "amd64")
    assert "HOPLINE_AGENT_SOURCE" in caught.value.remedy


async def test_a_directory_in_place_of_every_repository(tmp_path: Path) -> None:
    source = tmp_path / "agents"
    source.mkdir()
    (source / NAME).write_bytes(CONTENT)
    (source / f"{NAME}.sha256").write_text(HASH.upper())
    binaries = RepositoryAgentBinaries(tmp_path / "cache", str(source))
    found = await binaries.fetch(sample_facts(), "v1.0.3", "amd64")
    assert (found.sha256, found.vouched, found.origin) == (HASH, True, str(source / NAME))
    with pytest.raises(NotFound):
        await binaries.look(sample_facts(), "v1.0.4", "amd64")
