"""How soon a person sees the plan, and how the path search grows."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from uuid import uuid4

from temporalio.client import Client

from benchmarks.measure import Figure, median, spread
from benchmarks.sample_hops import EXAMPLES
from hopline.domain.catalogue import Catalogue, Edge
from hopline.domain.upgrade_graph import UpgradeGraph
from hopline.domain.wire import ClusterKey
from hopline.files.releases import DirectoryReleaseSource
from hopline.runtime.settings import Settings
from hopline.sim import open_simulation
from hopline.sim.scenarios import EXAMPLE_CONTROLLER_IMAGE, create_scenario
from hopline.wiring import Ports
from worker.composition import build_worker
from workflows.identifiers import CLUSTER_INSPECTION
from workflows.messages import InspectionInput, InspectionResult, Question

EAST = ClusterKey(kube_namespace="east", name="east")
ROUNDS = 5
VERSIONS = 1000
EDGES_PER_VERSION = 30


async def plan_shown(client: Client) -> list[Figure]:
    """From the request to the plan, on the simulated cluster of three and five nodes; the first one is cold."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "simulation.db"
        create_scenario(file, examples=EXAMPLES)
        clusters = open_simulation(file)
        queue = f"plan-{uuid4().hex[:8]}"
        settings = Settings(
            task_queue=queue,
            simulation=file,
            releases=EXAMPLES / "releases",
            own_images=EXAMPLE_CONTROLLER_IMAGE,
        )
        ports = Ports(clusters=clusters, releases=DirectoryReleaseSource(EXAMPLES / "releases"))
        seconds = []
        async with build_worker(client, ports, settings, search_attributes=True):
            for number in range(ROUNDS):
                began = time.monotonic()
                await client.execute_workflow(
                    CLUSTER_INSPECTION,
                    InspectionInput(cluster=EAST, question=Question.PLAN, desired_version="v26.06"),
                    id=f"{queue}-{number}",
                    task_queue=queue,
                    result_type=InspectionResult,
                )
                seconds.append(time.monotonic() - began)
        await clusters.aclose()
    return [Figure("plan shown after the request, cold", seconds[0], "s", 2.0, spread(seconds, "s"))]


def path_search() -> list[Figure]:
    """A catalogue of 1,000 versions: check it, find the longest way, list what can be reached."""
    names = [f"v{20 + number // 100}.{number % 100:02d}" for number in range(VERSIONS)]
    edges = tuple(
        Edge(from_version=names[start], to_version=names[end])
        for start in range(VERSIONS)
        for end in range(start + 1, min(start + 1 + EDGES_PER_VERSION, VERSIONS))
    )
    catalogue = Catalogue(name="bench", edges=edges)
    seconds = []
    for _ in range(3):
        began = time.monotonic()
        graph = UpgradeGraph(catalogue)
        route = graph.find_path(names[0], names[-1])
        reached = graph.reachable(names[0])
        seconds.append(time.monotonic() - began)
    detail = f"{len(edges)} edges, {len(route.hops)} hops, {len(reached.versions)} reachable"
    return [Figure(f"path and reachable versions over {VERSIONS} versions", median(seconds), "s", 2.0, detail)]
