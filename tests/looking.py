"""Looking until something is enough: how tests wait for a condition and never for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

PATIENCE = 120.0
"""Seconds until a wait is given up: a busy machine is no failure."""

Seen = TypeVar("Seen")


async def until_enough(
    look: Callable[[], Awaitable[Seen]], enough: Callable[[Seen], bool], seconds: float = PATIENCE
) -> Seen:
    """The first look that is enough; shows the last one when none ever is."""
    seen: Seen | None = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                seen = await look()
                if enough(seen):
                    return seen
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"never came there; last seen: {seen}") from None
