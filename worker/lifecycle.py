"""How a worker polls, and how it ends: what runs is finished, nothing new is taken."""

from __future__ import annotations

import asyncio
import logging

from temporalio.worker import Worker

logger = logging.getLogger(__name__)


async def run_until_stopped(worker: Worker, stop: asyncio.Event) -> None:
    """Poll until `stop`, then let running activities finish within the worker's grace period.

    Raises whatever ended the worker, when it was not `stop`.
    """
    running = asyncio.create_task(worker.run())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            logger.info("stopping: no new work is taken, running activities have time to finish")
            await worker.shutdown()
        await running
    finally:
        stopping.cancel()
