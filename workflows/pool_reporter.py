"""Telling the parent how far a pool is: one signal in flight, the newest picture wins."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from workflows.messages import PoolProgress

PROGRESS_SIGNAL = "pool_progressed"

QUIET = timedelta(seconds=2)
"""Between two signals: each of them wakes the parent."""


class PoolReporter:
    """Signals a `ClusterUpgrade` without holding up the work; a parent that is gone hears nothing."""

    def __init__(self, parent_id: str) -> None:
        self._parent_id = parent_id
        self._latest: PoolProgress | None = None
        self._waiting: PoolProgress | None = None
        self._sending: asyncio.Task[None] | None = None
        self._is_closing = False

    def tell(self, progress: PoolProgress) -> None:
        """Send it, unless the parent knows it already."""
        if not self._parent_id or progress == self._latest:
            return
        self._latest = self._waiting = progress
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def finish(self) -> None:
        """Return when nothing is on its way any more; the newest picture is not held back."""
        self._is_closing = True
        if self._sending is not None:
            await self._sending

    async def _send(self) -> None:
        parent = workflow.get_external_workflow_handle(self._parent_id)
        while (progress := self._waiting) is not None:
            self._waiting = None
            try:
                await parent.signal(PROGRESS_SIGNAL, progress)
            except FailureError:
                self._parent_id = ""
                return
            await self._pause()

    async def _pause(self) -> None:
        try:
            await workflow.wait_condition(lambda: self._is_closing, timeout=QUIET)
        except TimeoutError:
            return
