from datetime import timedelta

from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio import activity, workflow
from temporalio.worker import Worker

from hopline.runtime.settings import Settings
from hopline.runtime.telemetry import SILENT, Exporters, telemetry
from hopline.runtime.temporal import connect
from workflows.metrics import COMPONENT_DURATION, HOPS, component_ended, hop_ended

DURATIONS = {f"component-{number}": number for number in range(1, 41)}


@activity.defn
async def look() -> str:
    return "seen"


@workflow.defn
class Measured:
    @workflow.run
    async def run(self) -> str:
        seen = await workflow.execute_activity(look, start_to_close_timeout=timedelta(seconds=10))
        for component, seconds in DURATIONS.items():
            component_ended(component, "manifest", "done", timedelta(seconds=seconds))
        hop_ended("done")
        return seen


async def test_without_an_endpoint_nothing_is_recorded() -> None:
    async with telemetry(None, service="test") as silent:
        assert silent is SILENT
        assert not silent.interceptors
        assert silent.runtime is None


async def test_spans_and_metrics_of_a_run_reach_the_exporters(temporal_address: str, task_queue: str) -> None:
    spans, metrics = InMemorySpanExporter(), InMemoryMetricReader()
    settings = Settings.from_environment({"TEMPORAL_ADDRESS": temporal_address})
    async with telemetry(Exporters(spans=spans, metrics=metrics), service="test") as observed:
        client = await connect(settings, role="test", telemetry=observed)
        async with Worker(client, task_queue=task_queue, workflows=[Measured], activities=[look]):
            assert await client.execute_workflow(Measured.run, id=task_queue, task_queue=task_queue) == "seen"
    names = {span.name for span in spans.get_finished_spans()}
    assert {"StartWorkflow:Measured", "RunWorkflow:Measured", "StartActivity:look", "RunActivity:look"} <= names
    assert len({span.context.trace_id for span in spans.get_finished_spans() if span.context}) == 1


async def test_hoplines_own_metrics_carry_their_labels(temporal_address: str, task_queue: str) -> None:
    spans, metrics = InMemorySpanExporter(), RememberingReader()
    settings = Settings.from_environment({"TEMPORAL_ADDRESS": temporal_address})
    async with telemetry(Exporters(spans=spans, metrics=metrics), service="test") as observed:
        client = await connect(settings, role="test", telemetry=observed)
        async with Worker(client, task_queue=task_queue, workflows=[Measured], activities=[look]):
            await client.execute_workflow(Measured.run, id=task_queue, task_queue=task_queue)
    seen = {str((point.attributes or {})["component"]): point.sum for point in metrics.histogram(COMPONENT_DURATION)}
    assert seen == DURATIONS
    assert [point.value for point in metrics.counter(HOPS)] == [1]


class RememberingReader(InMemoryMetricReader):
    """Keeps what it sees when the provider is shut down, which is when the last second arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.points: dict[str, list[object]] = {}

    def histogram(self, name: str) -> list[HistogramDataPoint]:
        return [point for point in self.points[name] if isinstance(point, HistogramDataPoint)]

    def counter(self, name: str) -> list[NumberDataPoint]:
        return [point for point in self.points[name] if isinstance(point, NumberDataPoint)]

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:
        data = self.get_metrics_data()
        if data is not None:
            for resource in data.resource_metrics:
                for scope in resource.scope_metrics:
                    self.points |= {metric.name: list(metric.data.data_points) for metric in scope.metrics}
        super().shutdown(timeout_millis, **kwargs)
