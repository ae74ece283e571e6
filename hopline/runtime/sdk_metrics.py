"""Carries the metrics of the Temporal SDK, and those that workflows and activities record with it, to OpenTelemetry.

`temporalio.contrib.opentelemetry.MetricsExporter` 1.35 does the same, but remembers instruments and labels by `id()` of
objects that it does not keep: a new metric at a freed address lands in another instrument, or under another's labels.
Here they are known by name and content.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

from opentelemetry.metrics import Meter
from opentelemetry.util.types import AttributeValue
from temporalio.runtime import (
    BUFFERED_METRIC_KIND_COUNTER,
    BUFFERED_METRIC_KIND_HISTOGRAM,
    BufferedMetric,
    BufferedMetricUpdate,
    MetricBuffer,
)

DRAIN_INTERVAL = 1.0
"""Seconds between two drains of the buffer."""


Record = Callable[[float, Mapping[str, AttributeValue]], None]


class SdkMetrics:
    """Instruments of one meter, made when their first update arrives."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._known: dict[tuple[str, int], Record] = {}

    def record(self, updates: Iterable[BufferedMetricUpdate]) -> None:
        """Apply what the SDK has buffered."""
        for update in updates:
            key = (update.metric.name, int(update.metric.kind))
            if key not in self._known:
                self._known[key] = self._instrument(update.metric)
            self._known[key](update.value, dict(update.attributes))

    def _instrument(self, metric: BufferedMetric) -> Record:
        unit, description = metric.unit or "", metric.description or ""
        if metric.kind == BUFFERED_METRIC_KIND_COUNTER:
            return self._meter.create_counter(metric.name, unit, description).add
        if metric.kind == BUFFERED_METRIC_KIND_HISTOGRAM:
            return self._meter.create_histogram(metric.name, unit, description).record
        return self._meter.create_gauge(metric.name, unit, description).set


@asynccontextmanager
async def draining(buffer: MetricBuffer, meter: Meter) -> AsyncIterator[None]:
    """Drain `buffer` once a second, and a last time at the end. Its runtime must exist already."""
    metrics = SdkMetrics(meter)

    async def drain_forever() -> None:
        while True:
            metrics.record(buffer.retrieve_updates())
            await asyncio.sleep(DRAIN_INTERVAL)

    task = asyncio.create_task(drain_forever())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        metrics.record(buffer.retrieve_updates())
