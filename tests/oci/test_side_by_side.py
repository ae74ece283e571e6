"""What is tried again, how long apart, and what is not."""

from __future__ import annotations

import asyncio

import pytest

from hopline.domain.errors import NotFound, Transient
from hopline.oci import side_by_side
from hopline.oci.faults import NotLetIn
from hopline.oci.side_by_side import ATTEMPTS, all_of, both, patiently


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that would have been waited."""
    told: list[float] = []

    async def sleep(seconds: float) -> None:
        told.append(seconds)

    monkeypatch.setattr(side_by_side.asyncio, "sleep", sleep)
    return told


class Failing:
    """Work that fails a number of times."""

    def __init__(self, fault: Exception, times: int) -> None:
        self.fault, self.left, self.calls = fault, times, 0

    async def __call__(self) -> str:
        self.calls += 1
        self.left -= 1
        if self.left >= 0:
            raise self.fault
        return "done"


async def test_a_fault_that_may_pass_is_tried_again(waits: list[float]) -> None:
    told: list[str] = []
    fault = Transient("the registry has a fault", subject="blob x", value="500")
    assert await patiently(Failing(fault, 3), told.append) == "done"
    assert waits == [1, 2, 4]
    assert told[0] == "blob x: the registry has a fault (500); trying again in 1 s, 1 of 4"


async def test_the_server_says_how_long(waits: list[float]) -> None:
    assert await patiently(Failing(Transient("x", retry_after=7), 1), list) == "done"
    assert await patiently(Failing(Transient("x", retry_after=9999), 1), list) == "done"
    assert waits == [7, side_by_side.LONGEST_WAIT_SECONDS]


@pytest.mark.parametrize(("fault", "calls"), [(Transient("x"), ATTEMPTS), (NotLetIn("x"), 1), (NotFound("x"), 1)])
async def test_when_it_ends(waits: list[float], fault: Exception, calls: int) -> None:
    work = Failing(fault, 100)
    with pytest.raises(type(fault)):
        await patiently(work, list)
    assert (work.calls, len(waits)) == (calls, calls - 1)


async def test_the_first_failure_ends_the_rest() -> None:
    ended = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def fails() -> None:
        raise NotFound("x")

    for work in (all_of([endless(), fails()]), both(endless(), fails())):
        ended.clear()
        with pytest.raises(NotFound):
            await work
        assert ended.is_set()
