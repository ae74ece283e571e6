"""Five thousand nodes with the longest names: what a rollout carries, tells and answers stays below 64 KiB."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from activities.pool_reports import PoolRequest, stretch_of
from hopline.domain.cluster import NodeFacts
from hopline.domain.name_lists import NameList
from hopline.domain.node_versions import NodeSighting
from hopline.domain.plan import ComponentType, PlannedComponent, Pool
from hopline.domain.release import InlineHandler
from hopline.domain.wire import ClusterKey, WireModel
from hopline.operations.node_sightings import PoolSighting
from workflows.messages import FailedNode, RolloutInput, RolloutResult

COUNT, LIMIT = 5000, 64 * 1024
CLUSTER = ClusterKey(kube_namespace="east", name="east")
COMPONENT = PlannedComponent(
    name="kubernetes-worker", version="v1.34.4-of.1", type=ComponentType.NODE, handler=InlineHandler.WORKER.value
)


def size(model: WireModel) -> int:
    return len(model.model_dump_json().encode())


def name(number: int, length: int) -> str:
    """As long as a label may be, or as short as machines are called; no two look alike at their end."""
    return f"{number * 7919 % 100_003:06}-worker-{'x' * 63}"[:length] if length > 20 else f"worker-{number:04}"


def pool(length: int, *, settled: bool) -> PoolSighting:
    nodes = [
        NodeSighting(
            node=NodeFacts(
                name=f"east-{number:05}-{name(number, length)}"[:length],
                ip=f"10.1.{number // 250}.{number % 250}",
                hostname=name(number, length),
                roles=("node",),
                state="UpgradeFailed",
                state_code=527,
            ),
            at_target=settled,
            seen="节点上的版本不同" * 100,
            settled=settled,
        )
        for number in range(COUNT)
    ]
    left_out = tuple(f"{name(number, length)} (status.needSkip is true)" for number in range(COUNT))
    return PoolSighting(nodes=tuple(nodes), left_out=left_out)


@pytest.mark.parametrize("length", [12, 63])
@pytest.mark.parametrize("settled", [True, False])
def test_the_report_of_a_pool_is_small_and_walks_to_its_end(length: int, settled: bool) -> None:
    seen = pool(length, settled=settled)
    request = PoolRequest(cluster=CLUSTER, component=COMPONENT, pool=Pool.WORKERS)
    found, counted = 0, 0
    while True:
        report = stretch_of(request, seen)
        assert size(report) < LIMIT
        assert report.todo or not report.more
        found, counted = found + len(report.todo), counted + report.settled.count
        if not report.more:
            break
        request = request.model_copy(update={"after": report.todo[-1].node.name, "noted": report.last})
    assert (found, counted) == ((0, COUNT) if settled else (COUNT, 0))


def test_what_goes_from_one_execution_to_the_next_is_small_and_counts_everybody() -> None:
    result = RolloutResult(left_out=("x" * 150,) * 20)
    for number in range(2000):
        result = result.with_upgraded(name(number, 63))
        result = result.with_failed(
            FailedNode(node=name(number, 63), host=name(number, 63), message="磁" * 400, remedy="x" * 400)
        )
    result = result.with_already(NameList.of(name(number, 63) for number in range(2000, COUNT)))
    carried = RolloutInput(
        cluster=CLUSTER,
        component=COMPONENT,
        pool=Pool.WORKERS,
        hop_version="v26.06",
        deadline=datetime(2026, 6, 1, tzinfo=UTC),
        so_far=result,
        done=NameList.of(name(number, 63) for number in range(COUNT)),
    )
    assert (result.done, result.failures) == (COUNT, 2000)
    assert size(carried) < LIMIT
