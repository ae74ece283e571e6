"""Following several kinds of objects at once, each by one watch, until something that matters has changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from hopline.domain.resources import Document
from hopline.ports import Change, ChangeType

T = TypeVar("T")

ASK_AGAIN_SECONDS = 0.05
"""Between two requests that a watch ends."""


def by_name(document: Document) -> str:
    """Names are unique within one kind and Namespace."""
    return str(document["metadata"]["name"])


def by_place(document: Document) -> str:
    """`namespace/name`, for a kind that is followed everywhere."""
    return f"{document['metadata'].get('namespace', '')}/{document['metadata']['name']}"


class Followed:
    """The objects of one watch as last reported, by name; `key` where names of several Namespaces may meet."""

    def __init__(self, changes: AsyncIterator[Change], key: Callable[[Document], str] = by_name) -> None:
        self._changes = changes
        self._key = key
        self._documents: dict[str, Document] = {}
        self.is_synced = False
        """False until the first complete list: what is not there may only be unknown."""

    def get(self, name: str) -> Document | None:
        """The object of that key, or None."""
        return self._documents.get(name)

    @property
    def documents(self) -> dict[str, Document]:
        """Every object, by key."""
        return self._documents

    async def follow(self, changed: asyncio.Event) -> None:
        """Take in reports for ever; raises what the watch raises."""
        async for change in self._changes:
            self._take(change)
            changed.set()

    def _take(self, change: Change) -> None:
        if change.type is ChangeType.SYNCED:
            self._documents = {self._key(one): one for one in change.documents}
            self.is_synced = True
            return
        for document in change.documents:
            name = self._key(document)
            if change.type is ChangeType.DELETED:
                self._documents.pop(name, None)
            else:
                self._documents[name] = document


class Changes:
    """What the watches have in common: something has changed, or one of them has failed."""

    def __init__(self) -> None:
        self.happened = asyncio.Event()
        self._failure: BaseException | None = None

    def ended(self, task: asyncio.Task[None]) -> None:
        """A watch never ends by itself; keep why it did."""
        if not task.cancelled():
            self._failure = self._failure or task.exception()
            self.happened.set()

    async def wait(self, seconds: float) -> bool:
        """False when nothing has changed in that time; raises what a watch has raised."""
        try:
            async with asyncio.timeout(seconds):
                await self.happened.wait()
        except TimeoutError:
            return False
        self.happened.clear()
        if self._failure is not None:
            raise self._failure
        return True


@asynccontextmanager
async def following(*followed: Followed) -> AsyncIterator[Changes]:
    """Run the watches while the block runs."""
    changes = Changes()
    tasks = [asyncio.create_task(one.follow(changes.happened)) for one in followed]
    for task in tasks:
        task.add_done_callback(changes.ended)
    try:
        yield changes
    finally:
        await _end(tasks)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Ask until each has ended: `asyncio.wait_for` of Python 3.11 can swallow a cancellation that meets a result."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=ASK_AGAIN_SECONDS)


async def until(changes: Changes, look: Callable[[], T], enough: Callable[[T], bool], *, timeout_seconds: float) -> T:
    """Look after each change until it is enough or the time is over; the last look is returned."""
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    while True:
        seen = look()
        left = deadline - asyncio.get_running_loop().time()
        if enough(seen) or left <= 0:
            return seen
        if not await changes.wait(left):
            return look()
