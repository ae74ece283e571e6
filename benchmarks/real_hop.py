"""A hop of ten no-op components in six batches on a real API server: seconds and requests (observed.md §2)."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Figure, median, spread
from benchmarks.sample_hops import EXAMPLES
from controlplane.agent_script import AgentScript
from controlplane.binaries import BinariesUnavailable, find_binaries
from controlplane.lab_site import LabSite
from hopline.domain.resources import CLUSTER_VERSION
from hopline.domain.wire import ClusterKey
from hopline.kube.client import KubeClusterClient, connect
from hopline.kube.credentials import default_source
from hopline.sim.releases import OBSERVED_GRAPH, small_components, write_examples
from hopline.sim.scenarios import CLUSTER_FILE

VERSIONS = [f"v26.06-rc.{number}" for number in range(2, 9)]
EXISTING_SECONDS, EXISTING_REQUESTS = 17.27, 73
WORKER = "system:serviceaccount:hopline-system:hopline-worker"


def ten_no_op_components() -> list[Figure]:
    """From the PATCH of `desiredVersion` to `currentVersion`, six hops one by one; the first one is cold."""
    try:
        binaries = find_binaries()
    except BinariesUnavailable as error:
        print(f"not measured: {error}")
        return []
    with tempfile.TemporaryDirectory() as folder:
        examples = write_examples(Path(folder), VERSIONS, small_components(OBSERVED_GRAPH))
        shutil.copy(EXAMPLES / CLUSTER_FILE, examples / CLUSTER_FILE)
        with LabSite(binaries, AgentScript(), examples=examples) as site:
            seconds, requests = asyncio.run(_hops(site))
    existing = f"existing controller: {EXISTING_SECONDS} s"
    return [
        Figure(
            "hop of ten no-op components, first of a worker",
            seconds[0],
            "s",
            detail=f"with the start of its process; {existing}",
        ),
        Figure("... later ones", median(seconds[1:]), "s", 1.5, spread(seconds[1:], "s")),
        Figure(
            "... API requests of the worker per hop",
            median(requests[1:]),
            "",
            EXISTING_REQUESTS,
            f"{min(requests)} to {max(requests)}; existing controller: {EXISTING_REQUESTS}",
        ),
    ]


async def _hops(site: LabSite) -> tuple[list[float], list[float]]:
    client = await connect(default_source(site.control_plane.kubeconfig))
    seconds, requests = [], []
    try:
        for version in VERSIONS[1:]:
            mark = site.control_plane.audit_mark()
            seconds.append(await _hop(site, client, version))
            made = await asyncio.to_thread(site.control_plane.audit_events, since=mark, user=WORKER)
            requests.append(float(len(made)))
    finally:
        await client.aclose()
    return seconds, requests


async def _hop(site: LabSite, client: KubeClusterClient, version: str) -> float:
    key = site.cluster.key
    patch = json.dumps({"spec": {"desiredVersion": version}})
    arrived = asyncio.create_task(arrival(client, key, version))
    began = time.monotonic()
    where = ["clusterversion", key.name, "-n", key.kube_namespace]
    await asyncio.to_thread(site.control_plane.kubectl, "patch", *where, "--type", "merge", "-p", patch)
    return await arrived - began


async def arrival(client: KubeClusterClient, key: ClusterKey, version: str) -> float:
    """When `currentVersion` was seen to be the version, by the monotonic clock."""
    async for change in client.watch(CLUSTER_VERSION, kube_namespace=key.kube_namespace, name=key.name):
        for document in change.documents:
            if (document.get("status") or {}).get("currentVersion") == version:
                return time.monotonic()
    raise AssertionError("a watch never ends")
