"""Work that runs side by side, and work that is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from hopline.domain.errors import Transient
from hopline.oci.faults import NotLetIn

T = TypeVar("T")
U = TypeVar("U")
Tell = Callable[[str], None]

ATTEMPTS = 5
LONGEST_WAIT_SECONDS = 60.0


async def all_of(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order; the first failure ends the rest, so that nothing works on in the background."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def both(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Two results; the first failure ends the other work."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def patiently(work: Callable[[], Awaitable[T]], tell: Tell, *, patience: float = 1.0) -> T:
    """The result of `work`, which is tried again while its fault may pass; not where a login is not accepted.

    Args:
        patience: seconds before the second attempt when nobody says how long; each further wait is twice as long.

    Raises what the last attempt raises.
    """
    for attempt in range(1, ATTEMPTS):
        try:
            return await work()
        except NotLetIn:
            raise
        except Transient as fault:
            wait = min(fault.retry_after or patience * 2 ** (attempt - 1), LONGEST_WAIT_SECONDS)
            value = f" ({fault.value})" if fault.value else ""
            tell(f"{fault.subject}: {fault.message}{value}; trying again in {wait:.0f} s, {attempt} of {ATTEMPTS - 1}")
            await asyncio.sleep(wait)
    return await work()
