"""A thousand simulated nodes in waves: wall time against the bound, events per execution, API requests per node."""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle

from activities.node_drains import NodeDrainActivities
from activities.nodes import NodeActivities
from activities.requests import ManagementFence
from activities.target import TargetActivities
from benchmarks.measure import Figure, worker
from benchmarks.sample_hops import EXAMPLES
from hopline.domain.node_strategy import WaveStrategy
from hopline.domain.plan import ComponentType, PlannedComponent, Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import BKE_CLUSTER, POD, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.sim import open_simulation
from hopline.sim.clusters import SimulatedClusters
from hopline.sim.scenarios import Durations, create_scenario
from workflows.messages import RolloutInput
from workflows.node_rollout import NodeRollout

NODES = int(os.environ.get("BENCH_NODES", "1000"))
WAVE = 50
NODE_SECONDS = float(os.environ.get("BENCH_NODE_SECONDS", "30"))
"""What an agent takes; on a real node a kubelet change takes longer, so the bound is the harder one."""

TARGET_RATIO, MAX_EVENTS = 1.10, 2500
VERSION = "v1.34.4-of.1"
QUEUE = "thousand-nodes"
REQUESTS = frozenset({"get", "list", "watch", "create", "patch", "apply", "delete", "evict"})


class _Counting:
    """A client that counts what it is asked for."""

    def __init__(self, client: Any, counts: Counter[str]) -> None:
        self._client = client
        self._counts = counts

    def __getattr__(self, name: str) -> Any:
        found: Callable[..., Any] = getattr(self._client, name)
        if name not in REQUESTS:
            return found

        def counted(*given: Any, **more: Any) -> Any:
            self._counts[name] += 1
            return found(*given, **more)

        return counted


class _CountedClusters:
    """`Clusters` of a simulation whose requests are counted."""

    def __init__(self, clusters: SimulatedClusters) -> None:
        self._clusters = clusters
        self.counts: Counter[str] = Counter()
        self.management = _Counting(clusters.management, self.counts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clusters, name)

    async def target(self, cluster: ClusterKey) -> Any:
        return _Counting(await self._clusters.target(cluster), self.counts)


async def thousand_nodes(client: Client) -> list[Figure]:
    """`kubernetes-worker` on `NODES` nodes, `WAVE` at once, without drain."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "simulation.db"
        key = create_scenario(
            path, examples=EXAMPLES, nodes=(1, NODES), durations=Durations(command=NODE_SECONDS), self_managed=False
        )
        clusters = open_simulation(path)
        try:
            await _raise_api_server(clusters, key)
            counted: Any = _CountedClusters(clusters)
            fence = ManagementFence(counted.management)
            acts, drains = NodeActivities(counted, fence), NodeDrainActivities(counted, fence)
            reach = TargetActivities(acts.reach, fence)
            activities = [
                acts.look_at_pool, acts.begin_node, acts.watch_node, acts.end_node,
                drains.cordon_node, drains.drain_node, reach.wait_for_target,
            ]  # fmt: skip
            async with worker(client, QUEUE, [NodeRollout], activities):
                busy, began = time.process_time(), time.monotonic()
                handle = await client.start_workflow(NodeRollout.run, _rollout(key), id=QUEUE, task_queue=QUEUE)
                result = await handle.result()
                wall, busy = time.monotonic() - began, time.process_time() - busy
        finally:
            await clusters.aclose()
    assert result.done == NODES, result
    bound = math.ceil(NODES / WAVE) * NODE_SECONDS
    lengths = await _lengths(client, handle)
    requests = sum(counted.counts.values())
    told = ", ".join(f"{count / NODES:.2f} {verb}" for verb, count in sorted(counted.counts.items()))
    name = f"{NODES} simulated nodes, waves of {WAVE}, {NODE_SECONDS:g} s a node"
    return [
        Figure(
            name,
            wall / bound,
            "x",
            TARGET_RATIO,
            f"{wall:.0f} s, bound {bound:.0f} s; {busy / NODES * 1000:.0f} ms of the worker's processor a node",
        ),
        Figure("... events of the longest execution", max(lengths), "", MAX_EVENTS, f"{len(lengths)} executions"),
        Figure("... API requests per node", requests / NODES, "", detail=told),
    ]


def _rollout(key: ClusterKey) -> RolloutInput:
    handler = InlineHandler.WORKER
    component = PlannedComponent(
        name=handler.value, version=VERSION, type=ComponentType.NODE, handler=handler.value, timeout_seconds=2400
    )
    return RolloutInput(
        cluster=key,
        component=component,
        pool=Pool.WORKERS,
        hop_version="v26.06-rc.3",
        deadline=datetime.now(UTC) + timedelta(seconds=2400),
        strategy=WaveStrategy(batch_size=WAVE),
    )


async def _raise_api_server(clusters: SimulatedClusters, key: ClusterKey) -> None:
    """As if the hop had been opened, and the control plane raised before."""
    ref = ObjectRef(kind=BKE_CLUSTER, name=key.name, kube_namespace=key.kube_namespace)
    declared = {"spec": {"clusterConfig": {"cluster": {"kubernetesVersion": VERSION}}}}
    await clusters.management.patch(ref, declared)
    target = await clusters.target(key)
    pod = ObjectRef(kind=POD, name="kube-apiserver-m1", kube_namespace="kube-system")
    image = f"registry.example.test/kube-apiserver:{VERSION.removeprefix('v')}"
    await target.patch(pod, {"spec": {"containers": [{"name": "kube-apiserver", "image": image}]}})


async def _lengths(client: Client, handle: WorkflowHandle[Any, Any]) -> list[float]:
    """Events of every execution of a chain."""
    lengths: list[float] = []
    run_id: str | None = handle.first_execution_run_id
    while run_id:
        history = await client.get_workflow_handle(handle.id, run_id=run_id).fetch_history()
        lengths.append(float(len(history.events)))
        last = history.events[-1]
        run_id = last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id or None
    return lengths


if __name__ == "__main__":
    from benchmarks.measure import server

    async def _alone() -> None:
        async with server() as client:
            for figure in await thousand_nodes(client):
                print(figure.line(), flush=True)

    asyncio.run(_alone())
    os._exit(0)
