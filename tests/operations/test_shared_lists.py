"""Lists that are asked for at the same time are one, and never older than the question."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hopline.domain.errors import Transient
from hopline.domain.resources import COMMAND, NODE
from hopline.operations.shared_lists import SharedLists
from hopline.ports import Listing


class Server:
    """Lists one document, the number of the writes so far; each list is held until it is let go."""

    def __init__(self) -> None:
        self.writes = 0
        self.lists = 0
        self.open = asyncio.Event()
        self.failing = False

    async def list(self, kind: Any, **_: Any) -> Listing:
        self.lists += 1
        seen = self.writes
        await self.open.wait()
        if self.failing:
            raise Transient("no answer", subject=kind.kind, remedy="try again")
        return Listing(items=[{"seen": seen}], resource_version="1")


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_fifty_that_ask_at_once_cost_two_lists_and_the_late_ones_see_what_was_written_before_they_asked() -> None:
    server: Any = Server()
    shared = SharedLists(server)
    first = asyncio.create_task(shared.list(COMMAND))
    await settle()
    server.writes += 1
    late = [asyncio.create_task(shared.list(COMMAND)) for _ in range(50)]
    await settle()
    assert server.lists == 1
    server.open.set()
    assert (await first).items == [{"seen": 0}]
    assert [one.items for one in await asyncio.gather(*late)] == [[{"seen": 1}]] * 50
    assert server.lists == 2


async def test_other_kinds_are_other_lists_and_a_later_one_is_read_anew() -> None:
    server: Any = Server()
    server.open.set()
    shared = SharedLists(server)
    await asyncio.gather(shared.list(COMMAND), shared.list(NODE), shared.list(COMMAND, labels="a=b"))
    assert server.lists == 3
    server.writes += 1
    assert (await shared.list(COMMAND)).items == [{"seen": 1}]


async def test_a_failure_reaches_everybody_and_the_next_one_is_tried_anew() -> None:
    server: Any = Server()
    server.open.set()
    server.failing = True
    shared = SharedLists(server)
    for error in await asyncio.gather(*(shared.list(COMMAND) for _ in range(3)), return_exceptions=True):
        assert isinstance(error, Transient)
    server.failing = False
    assert (await shared.list(COMMAND)).items


async def test_who_gives_up_takes_the_answer_from_nobody_else() -> None:
    server: Any = Server()
    shared = SharedLists(server)
    asking = [asyncio.create_task(shared.list(COMMAND)) for _ in range(2)]
    await settle()
    asking[0].cancel()
    await settle()
    server.open.set()
    with pytest.raises(asyncio.CancelledError):
        await asking[0]
    assert (await asking[1]).items == [{"seen": 0}]
