"""Traces and metrics through OpenTelemetry. Silent unless an OTLP endpoint is set.

The stable tracing interceptor is used, not the plugin: the plugin shows a workflow's spans only when the workflow ends,
and a hop lasts hours (temporal.md §1.1).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from temporalio.client import Interceptor
from temporalio.runtime import Runtime

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.trace.export import SpanExporter

METRIC_BUFFER = 50_000
"""Updates kept between two drains, one second apart; more are dropped."""


@dataclass(frozen=True)
class Exporters:
    """Where spans and metrics go."""

    spans: SpanExporter
    metrics: MetricReader


@dataclass(frozen=True)
class Telemetry:
    """What a client needs to be seen.

    Attributes:
        interceptors: for the client only; its workers inherit them, and given twice they would run twice.
        runtime: of the SDK, with its metrics; None for the default one.
    """

    interceptors: Sequence[Interceptor] = ()
    runtime: Runtime | None = None


SILENT = Telemetry()


def otlp_exporters() -> Exporters:
    """Exporters that read OTEL_EXPORTER_OTLP_* themselves."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    return Exporters(spans=OTLPSpanExporter(), metrics=PeriodicExportingMetricReader(OTLPMetricExporter()))


@asynccontextmanager
async def telemetry(exporters: Exporters | None, *, service: str) -> AsyncIterator[Telemetry]:
    """Telemetry of one process; flushed and closed at the end. With None, nothing is recorded.

    Use it once per process, before the first client: the SDK's metrics belong to a runtime.
    """
    if exporters is None:
        yield SILENT
        return
    # Imported here: it would cost every silent command 0.2 s.
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from temporalio.contrib.opentelemetry import TracingInterceptor
    from temporalio.runtime import MetricBuffer, MetricBufferDurationFormat, TelemetryConfig

    from hopline.runtime.sdk_metrics import draining

    resource = Resource.create({"service.name": service})
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(exporters.spans))
    meters = MeterProvider(resource=resource, metric_readers=[exporters.metrics])
    buffer = MetricBuffer(METRIC_BUFFER, MetricBufferDurationFormat.SECONDS)
    runtime = Runtime(telemetry=TelemetryConfig(metrics=buffer))
    try:
        async with draining(buffer, meters.get_meter("hopline")):
            yield Telemetry(interceptors=(TracingInterceptor(tracers.get_tracer("hopline")),), runtime=runtime)
    finally:
        tracers.shutdown()
        meters.shutdown()
