"""Node agents from the file repository of a cluster, kept by their hash (openfuyao-nodes.md §2.2).

A repository is an address (`http://…`, `https://…`) or a directory. A file `<binary>.sha256` beside a binary, as
`sha256sum` writes it, has to name its hash; where there is none, nothing vouches for the bytes but the repository.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp

from hopline.domain.agent_push import agent_file, file_repository
from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import NotFound, Rejected, Transient
from hopline.ports import AgentBinary

MAX_BYTES = 512 * 1024 * 1024
PIECE_BYTES = 256 * 1024
PART = "part-"
KEPT_SECONDS, PART_SECONDS = 30 * 86400.0, 86400.0
"""How long a binary is kept that is not fetched again, and how long a download may take at most."""

FOUND, GONE = 200, 404
_TIMES = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=30.0)
_HASH = re.compile(r"\s*([0-9a-fA-F]{64})\b")
_FIELD = "spec.clusterConfig.cluster.httpRepo"


class RepositoryAgentBinaries:
    """Implements `hopline.ports.AgentBinaries`.

    Args:
        cache: folder of fetched binaries, by hash.
        source: address or directory that is asked in place of `httpRepo` of each BKECluster.
    """

    def __init__(self, cache: Path, source: str = "") -> None:
        self._cache = cache
        self._source = source.rstrip("/")
        self._fetching: dict[str, asyncio.Lock] = {}
        self._known: dict[str, tuple[str, AgentBinary]] = {}

    async def look(self, facts: ClusterFacts, version: str, architecture: str) -> AgentBinary:
        """That it is there, and whether a hash stands beside it."""
        place = self._place(facts, version, architecture)
        wanted = await self._wanted(place)
        async with self._opened(place, facts) as (_, _):
            return AgentBinary(origin=place, sha256=wanted, vouched=bool(wanted))

    async def fetch(self, facts: ClusterFacts, version: str, architecture: str) -> AgentBinary:
        """The binary as a file. Nodes that ask at once share one download, and a file that has not changed is not
        fetched again."""
        place = self._place(facts, version, architecture)
        async with self._fetching.setdefault(place, asyncio.Lock()):
            wanted = await self._wanted(place)
            async with self._opened(place, facts) as (mark, pieces):
                mark = f"{mark} {wanted}" if mark else ""
                known = self._known.get(place)
                if known and mark and known[0] == mark and known[1].path and known[1].path.is_file():
                    return known[1]
                binary = await self._kept(place, pieces, wanted)
            self._known[place] = mark, binary
            return binary

    def _place(self, facts: ClusterFacts, version: str, architecture: str) -> str:
        base = self._source or file_repository(facts)
        if not base:
            raise NotFound(
                "nothing says where new node agents come from",
                subject=facts.subject,
                field=_FIELD,
                value="",
                remedy="name the file repository of the cluster there, or set HOPLINE_AGENT_SOURCE",
            )
        return f"{base}/{agent_file(facts, version, architecture)}"

    async def _wanted(self, place: str) -> str:
        """The hash that stands beside the binary; empty: none does."""
        beside = f"{place}.sha256"
        try:
            async with self._opened(beside) as (_, pieces):
                text = b""
                async for piece in pieces:
                    text += piece
                    if len(text) > PIECE_BYTES:
                        break
        except NotFound:
            return ""
        found = _HASH.match(text.decode(errors="replace"))
        if not found:
            raise Rejected("this is no SHA-256 hash", subject=beside, remedy="write it with sha256sum")
        return found.group(1).lower()

    @asynccontextmanager
    async def _opened(
        self, place: str, facts: ClusterFacts | None = None
    ) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
        """What tells this content from a later one (empty: nothing does), and the bytes."""
        if not place.startswith(("http://", "https://")):
            path = Path(place)
            if not await asyncio.to_thread(path.is_file):
                raise _missing(place, facts)
            found = await asyncio.to_thread(path.stat)
            yield f"{found.st_mtime_ns} {found.st_size}", _pieces_of(path)
            return
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMES) as session,
                session.get(place, allow_redirects=False) as response,
            ):
                if response.status == GONE:
                    raise _missing(place, facts)
                if response.status != FOUND:
                    raise _away(place, f"it answers {response.status}")
                mark = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
                yield mark, response.content.iter_chunked(PIECE_BYTES)
        except (TimeoutError, aiohttp.ClientError) as error:
            raise _away(place, str(error) or type(error).__name__) from None

    async def _kept(self, place: str, pieces: AsyncIterator[bytes], wanted: str) -> AgentBinary:
        await asyncio.to_thread(self._cache.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(_prune, self._cache)
        digest, size = hashlib.sha256(), 0
        with tempfile.NamedTemporaryFile(dir=self._cache, prefix=PART, delete=False) as file:
            part = Path(file.name)
            try:
                async for piece in pieces:
                    size += len(piece)
                    if size > MAX_BYTES:
                        raise Rejected("the binary is too large", subject=place, remedy=f"at most {MAX_BYTES} bytes")
                    digest.update(piece)
                    await asyncio.to_thread(file.write, piece)
                file.flush()
                found = digest.hexdigest()
                if wanted and found != wanted:
                    raise Rejected(
                        "the binary is not the one whose hash stands beside it",
                        subject=place,
                        field="sha256",
                        value=f"{found[:12]}, and not {wanted[:12]}",
                        remedy="fetch both anew into the repository",
                    )
                if not size:
                    raise Rejected("the binary is empty", subject=place, remedy="put it there again")
                kept = self._cache / found
                await asyncio.to_thread(part.replace, kept)
            finally:
                await asyncio.to_thread(part.unlink, missing_ok=True)
        return AgentBinary(path=kept, sha256=found, size=size, origin=place, vouched=bool(wanted))


def _prune(cache: Path) -> None:
    """What nobody has fetched for long goes, and what killed processes have left of theirs."""
    now = time.time()
    for path in cache.iterdir():
        with suppress(OSError):
            limit = PART_SECONDS if path.name.startswith(PART) else KEPT_SECONDS
            if now - path.stat().st_mtime > limit:
                path.unlink()


async def _pieces_of(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece


def _missing(place: str, facts: ClusterFacts | None) -> NotFound:
    name = place.rpartition("/")[2]
    return NotFound(
        f"the file repository has no node agent {name}",
        subject=facts.subject if facts else place,
        field=_FIELD,
        value=place,
        remedy=f"put it there, with {name}.sha256 beside it; spec.clusterConfig.customExtra.bkeagent sets another name",
    )


def _away(place: str, why: str) -> Transient:
    return Transient(
        f"the file repository cannot be read: {why}", subject=place, remedy="see whether it is up; curl -I shows it"
    )
