"""A client that writes and reads one key through the balancer twenty times a second, and counts what it meets."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from controlplane.rest import MERGE_PATCH, Refused, authenticated_session

PERIOD_SECONDS = 0.05
PATIENCE_SECONDS = 2.0
"""For one request. etcd answers a write that it lost in a change of leader after seven seconds, with an error; whoever
waits for that, waits for nothing."""

_PATH = "/api/v1/namespaces/default/configmaps"
_NAME = "realistic-load"
_DETAILS = 200


@dataclass
class LoadFigures:
    """What a client met.

    Attributes:
        writes, reads: requests sent.
        answered_writes: those that were answered with a success.
        failures: how often each failure came, by its words.
        troubles: each failure in its turn: when it began, in seconds from the start, and how long it took.
        lost: reads that did not show the last write that was answered, nor one sent later.
        longest_gap: seconds between two writes that were answered, at most.
        gap_began: when that gap began, in seconds from the start.
        seconds: how long it went on.
    """

    writes: int = 0
    reads: int = 0
    answered_writes: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    longest_gap: float = 0.0
    gap_began: float = 0.0
    seconds: float = 0.0

    @property
    def failed(self) -> int:
        """Requests that were not answered with a success."""
        return sum(self.failures.values())

    def note_failure(self, words: str, details: str, began: float, seconds: float) -> None:
        """A request was not answered with a success."""
        self.failures[words] += 1
        self.troubles.append(
            f"{words}, from second {began:.1f}, after {seconds:.2f} s: {' '.join(details.split())[:_DETAILS]}"
        )

    def note_gap(self, began: float, seconds: float) -> None:
        """Nothing was answered for so long."""
        if seconds > self.longest_gap:
            self.longest_gap, self.gap_began = seconds, began

    def __str__(self) -> str:
        rows = [
            f"{self.writes} writes and {self.reads} reads in {self.seconds:.0f} s: {self.failed} failed, "
            f"longest gap between answered writes {self.longest_gap:.2f} s (from second {self.gap_began:.1f}), "
            f"{len(self.lost)} writes lost",
            *(f"  {words}" for words in self.troubles),
            *(f"  lost: {words}" for words in self.lost),
        ]
        return "\n".join(rows)


class LoadClient:
    """Counts up in a ConfigMap, and reads it after each write, in a thread of its own.

    Every write is of the version that was read last, so that one which was given up cannot arrive after its successor.
    A request that is not answered in time takes its connection with it; the next one goes over a new one.
    """

    def __init__(self, kubeconfig: Path, patience: float = PATIENCE_SECONDS) -> None:
        """`patience` is how many seconds it waits for an answer."""
        self.figures = LoadFigures()
        self._kubeconfig = kubeconfig
        self._patience = patience
        self._began = 0.0
        self._version: str | None = None
        self._sent = self._answered = 0
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="load", daemon=True)
        self._end = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begins to write and read."""
        self._thread.start()

    def stop(self) -> None:
        """Ends after the present requests; the figures are whole then."""
        self._end.set()
        self._thread.join()

    async def _run(self) -> None:
        async with authenticated_session(self._kubeconfig) as session:
            body = {"metadata": {"name": _NAME}, "data": {"count": "0"}}
            await _send(session, "POST", _PATH, body)
            self._began = began = last = due = time.monotonic()
            while not self._end.is_set():
                if await self._write(session):
                    now = time.monotonic()
                    self.figures.note_gap(last - began, now - last)
                    last = now
                await self._read(session)
                due = max(due + PERIOD_SECONDS, time.monotonic())
                await asyncio.sleep(due - time.monotonic())
            ended = time.monotonic()
            self.figures.note_gap(last - began, ended - last)
            self.figures.seconds = ended - began

    async def _write(self, session: aiohttp.ClientSession) -> bool:
        """Whether the write was answered with a success."""
        if self._version is None:
            return False
        self.figures.writes += 1
        self._sent += 1
        metadata = {"resourceVersion": self._version}
        body = {"metadata": metadata, "data": {"count": str(self._sent)}}
        answer = await self._counted("write", self._timed(session, "PATCH", body))
        if answer is None:
            self._version = None
            return False
        self._answered = self._sent
        self._version = answer["metadata"]["resourceVersion"]
        self.figures.answered_writes += 1
        return True

    async def _read(self, session: aiohttp.ClientSession) -> None:
        self.figures.reads += 1
        answer = await self._counted("read", self._timed(session, "GET"))
        if answer is None:
            return
        self._version = answer["metadata"]["resourceVersion"]
        seen = int(answer["data"]["count"])
        if not self._answered <= seen <= self._sent:
            self.figures.lost.append(f"read {seen} after {self._answered} was answered")
        self._answered = max(self._answered, seen)

    async def _counted(self, what: str, request: Coroutine[Any, Any, Any]) -> Any:
        """The answer; None for a failure, which is counted."""
        sent = time.monotonic()
        try:
            return await request
        except (Refused, aiohttp.ClientError, TimeoutError) as error:
            words = f"HTTP {error.code}" if isinstance(error, Refused) else type(error).__name__
            self.figures.note_failure(f"{what}: {words}", str(error), sent - self._began, time.monotonic() - sent)
            return None

    async def _timed(self, session: aiohttp.ClientSession, method: str, body: Any = None) -> Any:
        async with asyncio.timeout(self._patience):
            return await _send(session, method, f"{_PATH}/{_NAME}", body)


async def _send(session: aiohttp.ClientSession, method: str, path: str, body: Any = None) -> Any:
    headers = {"Content-Type": MERGE_PATCH if method == "PATCH" else "application/json"}
    data = None if body is None else json.dumps(body)
    async with session.request(method, path, data=data, headers=headers) as answer:
        text = await answer.text()
        if answer.status >= 400:
            raise Refused(answer.status, text)
        return json.loads(text)
