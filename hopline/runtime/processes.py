"""What the long-lived processes (worker, watcher) have in common: they end on a signal and wait for Temporal."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.client import Client

from hopline.domain.errors import Transient
from hopline.runtime.settings import Settings
from hopline.runtime.telemetry import Telemetry
from hopline.runtime.temporal import connect

logger = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 10.0
"""Seconds between two attempts to reach the Temporal service."""


@contextmanager
def stop_on_signal(*signals: signal.Signals) -> Iterator[asyncio.Event]:
    """An event that SIGTERM or SIGINT sets.

    PID 1 of a container has no default handler, so without it a pod polls until it is killed.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    chosen = signals or (signal.SIGTERM, signal.SIGINT)
    for number in chosen:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in chosen:
            loop.remove_signal_handler(number)


async def connect_patiently(
    settings: Settings, telemetry: Telemetry, stop: asyncio.Event, *, role: str
) -> Client | None:
    """A client, however long the Temporal service takes to come. None when `stop` came first."""
    pause = FIRST_PAUSE
    while not stop.is_set():
        try:
            return await connect(settings, role=role, telemetry=telemetry)
        except Transient as error:
            logger.warning("%s; trying again in %.0f s", error, pause)
        await wait_for(stop, pause)
        pause = min(pause * 2, LONGEST_PAUSE)
    return None


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Whether `event` was set within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
