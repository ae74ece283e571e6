"""Heartbeats beside the work: so that a killed worker is noticed in seconds and a cancellation arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity

INTERVAL_SECONDS = 1.0
"""The heartbeat timeout is 4 s (workflows/activity_options.py): three beats may be lost."""


class Pulse:
    """What the next heartbeat says; a hint for people, never a database (temporal.md §4.5)."""

    def __init__(self) -> None:
        self.message = ""


@asynccontextmanager
async def heartbeating() -> AsyncIterator[Pulse]:
    """Beat every second until the block ends."""
    pulse = Pulse()
    beats = asyncio.create_task(_beat(pulse))
    try:
        yield pulse
    finally:
        beats.cancel()


async def _beat(pulse: Pulse) -> None:
    while True:
        activity.heartbeat(pulse.message)
        await asyncio.sleep(INTERVAL_SECONDS)
