"""A cancellation that an effect has swallowed.

An activity that is cancelled with WAIT_CANCELLATION_COMPLETED and ends well all the same returns its result, and the
task that waited for it goes on as if nobody had asked it to stop. So whoever goes on after an effect asks here first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def raise_if_cancelled() -> None:
    """Raise CancelledError when this task has been asked to stop."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def stop(story: asyncio.Task[None]) -> None:
    """Ask a task to stop, and wait until nothing of it runs any more."""
    if not story.done():
        story.cancel()
        await asyncio.gather(story, return_exceptions=True)


async def undisturbed(clean_up: Coroutine[Any, Any, object]) -> None:
    """A cancellation waits until the clean-up has ended."""
    task = asyncio.create_task(clean_up)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
