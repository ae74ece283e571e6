"""What every measurement shares: a server, a worker with activities that do nothing, and a line of output."""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from starter.dev_server import dev_server
from worker.search_attributes import ensure_search_attributes
from workflows import activity_options


@dataclass(frozen=True)
class Figure:
    """One measured claim.

    Attributes:
        target: the upper bound that the design names; None when the figure is only printed.
    """

    name: str
    value: float
    unit: str
    target: float | None = None
    detail: str = ""

    def line(self) -> str:
        """One line for a person."""
        verdict = "" if self.target is None else f"  target <= {self.target:g}  {self.verdict}"
        return f"{self.name:<58} {self.value:9.3f} {self.unit:<6}{verdict}{'  ' + self.detail if self.detail else ''}"

    @property
    def verdict(self) -> str:
        """Whether the target holds in this run."""
        return "holds" if self.target is None or self.value <= self.target else "MISSED"


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)


def spread(values: Sequence[float], unit: str = "ms") -> str:
    """`n=5, 12.1 to 14.0 ms`."""
    return f"n={len(values)}, {min(values):.1f} to {max(values):.1f} {unit}"


@asynccontextmanager
async def server() -> AsyncIterator[Client]:
    """A fresh dev server with Hopline's search attributes."""
    async with dev_server() as started:
        client = await Client.connect(started.address, data_converter=pydantic_data_converter)
        await ensure_search_attributes(client)
        yield client


def worker(
    client: Client, task_queue: str, workflows: Sequence[type], activities: Sequence[Callable[..., Any]]
) -> Worker:
    """A worker with the product's own options."""
    return Worker(
        client,
        task_queue=task_queue,
        workflows=list(workflows),
        activities=list(activities),
        max_concurrent_activities=200,
        sticky_queue_schedule_to_start_timeout=activity_options.STICKY_TIMEOUT,
        max_heartbeat_throttle_interval=activity_options.MAX_HEARTBEAT_THROTTLE,
    )
