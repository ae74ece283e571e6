"""Cost of orchestration: per no-op component against a bare activity, and wall time against the critical path."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any
from uuid import uuid4

from temporalio import activity, workflow
from temporalio.client import Client

with workflow.unsafe.imports_passed_through():
    from benchmarks.measure import Figure, median, spread, worker
    from benchmarks.sample_hops import chain_hop, sample_hop
    from benchmarks.stand_ins import CLUSTER, TimedRollout, stand_ins
    from hopline.domain.plan import HopPlan
    from hopline.domain.status import UpgradeStatus
    from workflows.cluster_upgrade import ClusterUpgrade
    from workflows.identifiers import upgrade_workflow_id
    from workflows.messages import UpgradeInput

CHAIN = 20
ROUNDS = 5


@activity.defn
async def nothing() -> None:
    """A bare activity."""


@workflow.defn
class BareActivities:
    """The floor: one activity after another, nothing else."""

    @workflow.run
    async def run(self, count: int) -> float:
        """Seconds for `count` activities."""
        began = workflow.now()
        for _ in range(count):
            await workflow.execute_activity(nothing, start_to_close_timeout=timedelta(seconds=10))
        return (workflow.now() - began).total_seconds()


async def _bare(client: Client) -> list[float]:
    queue = f"bare-{uuid4().hex[:8]}"
    async with worker(client, queue, [BareActivities], [nothing]):
        seconds = [
            await client.execute_workflow(BareActivities.run, CHAIN, id=f"{queue}-{i}", task_queue=queue)
            for i in range(ROUNDS + 1)
        ]
    return [1000 * value / CHAIN for value in seconds[1:]]


async def _upgrade(client: Client, hop: HopPlan, seconds: dict[str, float], mode: str) -> UpgradeStatus:
    queue = f"upgrade-{uuid4().hex[:8]}"
    cluster = CLUSTER.model_copy(update={"name": queue})
    request = UpgradeInput(cluster=cluster, desired_version=hop.to_version)
    activities: Any = stand_ins(hop, seconds, mode=mode)
    async with worker(client, queue, [ClusterUpgrade, TimedRollout], activities):
        handle = await client.start_workflow(
            ClusterUpgrade.run,
            request.model_dump(mode="json", exclude_none=True),
            id=upgrade_workflow_id(cluster),
            task_queue=queue,
        )
        await handle.result()
        return await handle.query(ClusterUpgrade.status)


def _work_seconds(status: UpgradeStatus) -> float:
    """From the start of the first component to the end of the last one, as the workflow saw it."""
    starts = [component.started_at for component in status.components if component.started_at]
    ends = [component.finished_at for component in status.components if component.finished_at]
    return (max(ends) - min(starts)).total_seconds()


async def component_cost(client: Client) -> list[Figure]:
    """Orchestration per no-op component, publishing beside it, against a bare activity on the same server."""
    hop = chain_hop(CHAIN)
    ratios, costs, bares = [], [], []
    for _ in range(ROUNDS):
        bare = median(await _bare(client))
        status = await _upgrade(client, hop, {}, "batches")
        cost = 1000 * _work_seconds(status) / CHAIN
        ratios.append(cost / bare)
        costs.append(cost)
        bares.append(bare)
    return [
        Figure("bare activity", median(bares), "ms", detail=spread(bares)),
        Figure("orchestration per no-op component, publishing beside it", median(costs), "ms", detail=spread(costs)),
        Figure("... as a ratio to the bare activity", median(ratios), "x", 2.0, spread(ratios, "x")),
    ]


async def critical_path(client: Client) -> list[Figure]:
    """Wall time of the sample hop with steps of one second against its critical path, both modes."""
    figures = []
    hop = await sample_hop()
    seconds = {component.name: 1.0 for component in hop.components}
    walls = {}
    for mode in ("batches", "eager"):
        began = time.monotonic()
        status = await _upgrade(client, hop, seconds, mode)
        walls[mode] = _work_seconds(status)
        bound = float(len(hop.critical_path))
        target = 1.05 if mode == "eager" else None
        detail = f"{walls[mode]:.2f} s of work, path {bound:.0f} s, {time.monotonic() - began:.2f} s in all"
        name = f"sample hop, 1 s steps, {mode}: wall / critical path"
        figures.append(Figure(name, walls[mode] / bound, "x", target, detail))
    figures.append(Figure("... eager / batches on the same durations", walls["eager"] / walls["batches"], "x"))
    return figures
