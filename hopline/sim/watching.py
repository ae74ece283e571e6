"""Watches on the simulation's file: one look at its revision for all of them, and none while nothing happens."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from hopline.domain.errors import Transient
from hopline.domain.resources import Document, Kind
from hopline.ports import Change, ChangeType
from hopline.sim.database import Database
from hopline.sim.selectors import FieldRequirement, Requirement, labels_of
from hopline.sim.storage import Storage

Answer = TypeVar("Answer")

REQUEST_SECONDS = 9.0
"""Longest answer, waiting for other requests of this process included; the port promises 10 s."""
POLL_SECONDS = 0.05
"""How late a change by another process is seen; own writes and due timers are seen at once."""
SHORTEST_SECONDS = 0.001


class Topic(NamedTuple):
    """What a watch is about; an empty namespace or name stands for all."""

    server: str
    api_version: str
    kind: str
    kube_namespace: str = ""
    name: str = ""


EVERYTHING = Topic("", "", "")
"""Topic of a row that is about no object: every watch has to look (`storage.touch`)."""


class _Waiting:
    """A watch that waits: its topic, and the revision up to which nothing happened to it."""

    def __init__(self, topic: Topic, seen: int, future: asyncio.Future[int]) -> None:
        self.topic = topic
        self.seen = seen
        self.future = future


class Ticker:
    """Runs the file's calls in one thread of its own, and wakes the watches that a change is about."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hopline-sim")
        self._waiting: dict[int, _Waiting] = {}
        self._task: asyncio.Task[None] | None = None
        self._hurry: asyncio.Event | None = None

    async def run(self, call: Callable[[], Answer]) -> Answer:
        """Run a call on the file without blocking the event loop. Transient when it takes too long."""
        future = asyncio.get_running_loop().run_in_executor(self._executor, call)
        try:
            # Not asyncio.wait_for: before Python 3.12 it swallows a cancellation that meets the result.
            async with asyncio.timeout(REQUEST_SECONDS):
                return await future
        except TimeoutError:
            raise Transient(
                "the simulated API server does not answer", subject=str(self.database.path), remedy="try again"
            ) from None

    async def after(self, topic: Topic, revision: int) -> int:
        """Return when something has happened to a topic: the revision up to which nothing had."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(topic, revision, loop.create_future())
        self._waiting[id(waiting)] = waiting
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._hurry = asyncio.Event()
            self._task = loop.create_task(self._look())
        self.wake()
        try:
            return await waiting.future
        finally:
            self._waiting.pop(id(waiting), None)

    def wake(self) -> None:
        """Look at once: this process has written."""
        if self._hurry is not None:
            self._hurry.set()

    async def aclose(self) -> None:
        """Stop looking and give the file back."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.run(self.database.close)
        self._executor.shutdown()

    async def _look(self) -> None:
        hurry = self._hurry
        while self._waiting and hurry is not None:
            hurry.clear()
            pause = POLL_SECONDS
            try:
                since = min(waiting.seen for waiting in self._waiting.values())
                news = await self.run(lambda since=since: _news(self.database, since))  # type: ignore[misc]
                self._tell(news)
                pause = news.pause
            except Transient:
                pause = POLL_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await hurry.wait()

    def _tell(self, news: _News) -> None:
        for waiting in list(self._waiting.values()):
            last = max(news.topics.get(waiting.topic, 0), news.topics.get(EVERYTHING, 0))
            if last > waiting.seen or waiting.seen < news.oldest - 1:
                if not waiting.future.done():
                    waiting.future.set_result(waiting.seen)
            elif news.since <= waiting.seen < news.revision:
                waiting.seen = news.revision


class _News(NamedTuple):
    """What has happened since a revision: topic → its last revision; and how long to wait for more."""

    since: int
    revision: int
    oldest: int
    topics: dict[Topic, int]
    pause: float


def _news(database: Database, since: int) -> _News:
    revision, due = database.pulse()
    topics: dict[Topic, int] = {}
    oldest = 0
    if revision > since:
        with database.reading() as session:
            oldest = int(session.one("SELECT min(revision) FROM changes") or 0)
            rows = session.execute(
                "SELECT server, api_version, kind, kube_namespace, name, max(revision) FROM changes"
                " WHERE revision > ? GROUP BY server, api_version, kind, kube_namespace, name",
                since,
            )
            for server, api_version, kind, kube_namespace, name, last in rows:
                for scope in {(kube_namespace, name), (kube_namespace, ""), ("", ""), ("", name)}:
                    topic = Topic(server, api_version, kind, *scope)
                    topics[topic] = max(topics.get(topic, 0), last)
            revision = max([revision, *topics.values()])
    pause = POLL_SECONDS if due is None else min(POLL_SECONDS, max(due, SHORTEST_SECONDS))
    return _News(since, revision, oldest, topics, pause)


class Seen(NamedTuple):
    """Reports of a watch since its last look, and the revision that they lead up to."""

    revision: int
    reports: list[Change]


class Changes:
    """What one watch has seen, and what it has to be told next."""

    def __init__(self, topic: Topic, accepts: Requirement, has: FieldRequirement) -> None:
        self.topic = topic
        self._accepts = accepts
        self._has = has
        self._revision: int | None = None
        self._visible: set[tuple[str, str]] = set()

    def lose(self) -> None:
        """The connection broke: the next report is SYNCED."""
        self._revision = None

    def skip(self, revision: int) -> None:
        """Nothing has happened up to this revision."""
        if self._revision is not None:
            self._revision = max(self._revision, revision)

    def read(self, database: Database) -> Seen:
        """Reports since the last call."""
        with database.reading() as session:
            current = session.revision()
            oldest = int(session.one("SELECT min(revision) FROM changes") or 0)
            if self._revision is None or self._revision < oldest - 1:
                self._revision = current
                return Seen(current, [self._synced(Storage(session, self.topic.server))])
            rows = session.execute(
                "SELECT type, document FROM changes WHERE revision > ? AND server = ? AND api_version = ? AND kind = ?"
                " AND (? = '' OR kube_namespace = ?) AND (? = '' OR name = ?) ORDER BY revision",
                self._revision, self.topic.server, self.topic.api_version, self.topic.kind,
                self.topic.kube_namespace, self.topic.kube_namespace, self.topic.name, self.topic.name,
            ).fetchall()  # fmt: skip
            self._revision = current
        reports = [self._report(ChangeType(change), json.loads(text)) for change, text in rows]
        return Seen(current, [report for report in reports if report is not None])

    def _synced(self, storage: Storage) -> Change:
        topic = self.topic
        found = storage.select(Kind(api_version=topic.api_version, kind=topic.kind), topic.kube_namespace, topic.name)
        seen = [item for item in found if self._wants(item)]
        self._visible = {_key(item) for item in seen}
        return Change(type=ChangeType.SYNCED, documents=seen)

    def _wants(self, document: Document) -> bool:
        named = not self.topic.name or document["metadata"]["name"] == self.topic.name
        return named and self._accepts(labels_of(document)) and self._has(document)

    def _report(self, change: ChangeType, document: Document) -> Change | None:
        key, was_visible = _key(document), _key(document) in self._visible
        if change is ChangeType.DELETED or not self._wants(document):
            self._visible.discard(key)
            return Change(type=ChangeType.DELETED, documents=[document]) if was_visible else None
        self._visible.add(key)
        return Change(type=ChangeType.MODIFIED if was_visible else ChangeType.ADDED, documents=[document])


def _key(document: Document) -> tuple[str, str]:
    return str(document["metadata"].get("namespace", "")), str(document["metadata"]["name"])
