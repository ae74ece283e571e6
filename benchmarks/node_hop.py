"""A hop with node-level components on a real API server, agents that take 5.1 s for a Command (observed.md §2)."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.measure import Figure, median, spread
from benchmarks.real_hop import arrival
from benchmarks.sample_hops import EXAMPLES
from controlplane.agent_script import AgentScript, Execution, Step
from controlplane.binaries import BinariesUnavailable, find_binaries
from controlplane.lab_site import LabSite
from hopline.domain.node_strategy import DrainPolicy
from hopline.domain.wire import ClusterKey
from hopline.kube.client import KubeClusterClient, connect
from hopline.kube.credentials import default_source

AGENT_SECONDS, EXISTING_SECONDS = 5.1, 96.1
TARGET_ABOVE = 0.5
FIRST_HOP, SECOND_HOP = "v26.06-rc.3", "v26.06"
LEFT_OUT = ("w3", "w4", "w5")
UPGRADES = (Step.UPGRADE_ETCD, Step.UPGRADE_CONTROL_PLANE, Step.UPGRADE_WORKER)
CONTAINERD = (Step.RESET, Step.ENVIRONMENT)


def slow_agents() -> list[Figure]:
    """The second hop of the examples on 3 masters and 2 workers, without drains; the first has warmed the worker."""
    try:
        binaries = find_binaries()
    except BinariesUnavailable as error:
        print(f"not measured: {error}")
        return []
    script = AgentScript(seconds=0.05)
    with tempfile.TemporaryDirectory() as folder:
        examples = _smaller(Path(folder) / "examples")
        settings = {"HOPLINE_DRAIN": DrainPolicy.OFF.value}
        with LabSite(binaries, script, examples=examples, settings=settings) as site:
            seconds, executions = asyncio.run(_second_hop(site, script))
    gaps = [gap for steps in (*((step,) for step in UPGRADES), CONTAINERD) for gap in _gaps(executions, steps)]
    work = sum((one.finished or one.started) - one.started for one in executions)
    return [
        Figure(
            "hop with agents of 5.1 s, 3 masters and 2 workers",
            seconds,
            "s",
            EXISTING_SECONDS,
            f"{len(executions)} Commands, {work:.0f} s of agents' time; existing controller: {EXISTING_SECONDS} s",
        ),
        Figure(
            "... above the agent's time, per node, without drain",
            median(gaps),
            "s",
            TARGET_ABOVE,
            f"{spread(gaps, 's')}; existing controller: 3 to 5 s",
        ),
    ]


def _smaller(folder: Path) -> Path:
    """The examples with two worker nodes."""
    shutil.copytree(EXAMPLES, folder)
    file = folder / "cluster.yaml"
    documents = file.read_text().split("\n---\n")
    kept = [one for one in documents if not any(f"hostname: {name}" in one for name in LEFT_OUT)]
    file.write_text("\n---\n".join(kept))
    return folder


async def _second_hop(site: LabSite, script: AgentScript) -> tuple[float, list[Execution]]:
    client = await connect(default_source(site.control_plane.kubeconfig))
    try:
        await asyncio.to_thread(site.until_ready)
        await _hop(site, client, FIRST_HOP)
        for step in (*UPGRADES, *CONTAINERD):
            script.take(step, AGENT_SECONDS)
        before = len(script.executions)
        return await _hop(site, client, SECOND_HOP), script.executions[before:]
    finally:
        await client.aclose()


async def _hop(site: LabSite, client: KubeClusterClient, version: str) -> float:
    key: ClusterKey = site.cluster.key
    arrived = asyncio.create_task(arrival(client, key, version))
    began = time.monotonic()
    where = ["clusterversion", key.name, "-n", key.kube_namespace]
    wish = json.dumps({"spec": {"desiredVersion": version}})
    await asyncio.to_thread(site.control_plane.kubectl, "patch", *where, "--type", "merge", "-p", wish)
    return await arrived - began


def _gaps(executions: Sequence[Execution], steps: Sequence[Step]) -> Iterator[float]:
    """From the end of a node's last Command to the beginning of the next node's first one, and between the Commands of
    one node: all that a node takes beside its agent. Masters and workers of containerd go side by side."""
    own = [one for one in executions if one.step in steps]
    for pool in ("m", "w"):
        line = sorted((one for one in own if one.node.startswith(pool)), key=lambda one: one.started)
        nodes = list(dict.fromkeys(one.node for one in line))
        pauses = [(later.node, later.started - (earlier.finished or 0.0)) for earlier, later in pairwise(line)]
        for node in nodes[1:]:
            yield sum(pause for owner, pause in pauses if owner == node)
