"""The plan of a cluster of hundreds of nodes: no payload above 64 KiB, and `hopline plan -o json` lacks nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from temporalio.client import Client, Interceptor, OutboundInterceptor, StartWorkflowInput, WorkflowHandle

from hopline.domain.plan import UpgradePlan
from small_lab import FINAL, SmallLab, payload_sizes
from starter.requests import Requests
from workflows.messages import Question

pytestmark = pytest.mark.slow

NODES = 500
LIMIT = 64 * 1024


class Noting(Interceptor):
    """Keeps the ids of the workflows that a client starts."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        ids = self.ids

        class Outbound(OutboundInterceptor):
            async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
                ids.append(input.id)
                return await super().start_workflow(input)

        return Outbound(next)


async def test_the_plan_of_hundreds_of_nodes_comes_whole_and_in_small_payloads(
    make_sample: Callable[..., Awaitable[SmallLab]],
) -> None:
    lab = await make_sample(nodes=(3, NODES))
    noting = Noting()
    config = lab.client.config()
    requests = Requests(Client(**{**config, "interceptors": [noting]}), lab.task_queue)  # type: ignore[arg-type]
    async with lab.worker():
        plan = await requests.whole_plan(lab.cluster, FINAL, nodes=True)
        asked = len(noting.ids)
        short = await requests.whole_plan(lab.cluster, FINAL, nodes=False)
        first = (await requests.inspect(lab.cluster, Question.PLAN, FINAL)).plan
        histories = [await lab.client.get_workflow_handle(one).fetch_history() for one in noting.ids]
    sizes = [payload_sizes(history)[0] for history in histories]
    assert max(sizes)[0] < LIMIT, sorted(sizes)[-3:]
    assert plan is not None
    for component, nodes in (("containerd", 3 + NODES), ("kubernetes-worker", NODES), ("kubernetes-master", 3)):
        found = plan.hops[0].component(component)
        assert len({name for wave in found.waves for name in wave}) == nodes
        assert [drain.node for drain in found.drain] == [name for wave in found.waves for name in wave]
    assert len(plan.model_dump_json()) > LIMIT
    assert asked > 2
    assert len(noting.ids) - asked < 4
    assert short is not None
    assert first is not None
    assert without_nodes(short) == without_nodes(plan)
    assert first.blocking == plan.blocking


def without_nodes(plan: UpgradePlan) -> UpgradePlan:
    hops = (
        hop.model_copy(
            update={"components": tuple(one.model_copy(update={"waves": (), "drain": ()}) for one in hop.components)}
        )
        for hop in plan.hops
    )
    return plan.model_copy(update={"hops": tuple(hops)})
