"""Following objects by watch: what is known, what is news, and an end that always comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hopline.domain.errors import Forbidden
from hopline.domain.resources import Document
from hopline.operations.following import Followed, following, until
from hopline.ports import Change, ChangeType
from looking import PATIENCE


def thing(name: str, value: int = 0) -> Document:
    return {"metadata": {"name": name}, "value": value}


async def reports(*changes: Change) -> AsyncIterator[Change]:
    for change in changes:
        yield change
        await asyncio.sleep(0)
    await asyncio.Event().wait()


async def test_what_is_there_follows_the_reports() -> None:
    followed = Followed(
        reports(
            Change(type=ChangeType.SYNCED, documents=[thing("a"), thing("b")]),
            Change(type=ChangeType.MODIFIED, documents=[thing("a", 1)]),
            Change(type=ChangeType.DELETED, documents=[thing("b")]),
            Change(type=ChangeType.ADDED, documents=[thing("c")]),
        )
    )
    assert not followed.is_synced
    async with following(followed) as changes:
        seen = await until(
            changes, lambda: set(followed.documents), lambda names: names == {"a", "c"}, timeout_seconds=PATIENCE
        )
    assert seen == {"a", "c"}
    assert followed.get("a") == thing("a", 1)
    assert followed.get("b") is None


async def test_a_gap_replaces_everything() -> None:
    followed = Followed(
        reports(
            Change(type=ChangeType.SYNCED, documents=[thing("a")]),
            Change(type=ChangeType.SYNCED, documents=[thing("b")]),
        )
    )
    async with following(followed) as changes:
        await until(changes, lambda: followed.get("b"), bool, timeout_seconds=PATIENCE)
    assert list(followed.documents) == ["b"]


async def test_the_last_look_is_returned_when_the_time_is_over() -> None:
    async with following(Followed(reports())) as changes:
        assert await until(changes, lambda: "unchanged", lambda _: False, timeout_seconds=0.05) == "unchanged"


async def test_what_a_watch_raises_reaches_the_one_who_waits() -> None:
    async def broken() -> AsyncIterator[Change]:
        yield Change(type=ChangeType.SYNCED, documents=[])
        raise Forbidden("not allowed", subject="Node w1")

    with pytest.raises(Forbidden):
        async with following(Followed(broken()), Followed(reports())) as changes:
            await until(changes, lambda: None, lambda _: False, timeout_seconds=30)


async def test_a_watch_that_swallows_one_cancellation_is_ended_all_the_same() -> None:
    swallowed: list[int] = []

    async def stubborn() -> AsyncIterator[Change]:
        yield Change(type=ChangeType.SYNCED, documents=[])
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if swallowed:
                    raise
                swallowed.append(1)

    async with asyncio.timeout(PATIENCE):
        async with following(Followed(stubborn())) as changes:
            await changes.wait(5)
    assert swallowed
