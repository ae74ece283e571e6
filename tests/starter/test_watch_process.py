"""`hopline watch` as a process: a patched ClusterVersion becomes a run, and a signal ends it."""

import asyncio
import signal
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from hopline.domain.resources import BKE_CLUSTER, CLUSTER_VERSION
from hopline.domain.wire import ClusterKey
from hopline.runtime.settings import child_environment
from hopline.sim.clusters import open_simulation
from looking import PATIENCE
from starter.follow import follow
from starter.requests import Requests
from starter_stub import DONE, STUBS


class Silent:
    def show(self, status: object) -> None:
        pass

    def silence(self, error: object) -> None:
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_wish_becomes_a_run_and_a_signal_ends_the_watch(
    temporal_client: Client, temporal_address: str, task_queue: str, tmp_path: Path, number: signal.Signals
) -> None:
    cluster = ClusterKey(kube_namespace=f"w{uuid4().hex[:10]}", name="east")
    file = tmp_path / "simulation.sqlite"
    clusters = open_simulation(file)
    metadata = {"name": cluster.name, "namespace": cluster.kube_namespace}
    clusters.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.kube_namespace}})
    clusters.put({"apiVersion": BKE_CLUSTER.api_version, "kind": BKE_CLUSTER.kind, "metadata": metadata, "spec": {}})
    wish = {"spec": {"desiredVersion": DONE}, "status": {"currentVersion": "v-old"}}
    clusters.put(
        {"apiVersion": CLUSTER_VERSION.api_version, "kind": CLUSTER_VERSION.kind, "metadata": metadata, **wish}
    )
    await clusters.aclose()
    settings = {
        "TEMPORAL_ADDRESS": temporal_address,
        "HOPLINE_TASK_QUEUE": task_queue,
        "HOPLINE_SIMULATION": str(file),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "starter",
        "watch",
        env=child_environment(settings),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    requests = Requests(temporal_client, task_queue)
    try:
        async with Worker(temporal_client, task_queue=task_queue, workflows=STUBS):
            for _ in range(300):
                if await requests.describe(cluster) is not None:
                    break
                await asyncio.sleep(0.1)
            assert (await follow(requests, cluster, Silent())).code == 0
    finally:
        process.send_signal(number)
        told, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, told.decode()
    assert f"{cluster}: {DONE} accepted" in told.decode()
    assert "Traceback" not in told.decode()


async def test_without_a_management_cluster_it_ends_with_2_and_says_what_to_set(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "starter",
        "watch",
        env=child_environment({"HOPLINE_KUBECONFIG": str(tmp_path / "none")}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 2
    assert "HOPLINE_KUBECONFIG" in err.decode()
    assert "HOPLINE_SIMULATION" in err.decode()
