"""The example cluster, simulated in real time, with the calls that look into it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from controlplane.control_plane import ControlPlane
from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.resources import BKE_CLUSTER, BKE_NODE, COMMAND, Document, Kind, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.kube.client import connect
from hopline.kube.credentials import KubeconfigFile
from hopline.operations.reading import read_cluster
from hopline.ports import ClusterClient
from hopline.sim import open_simulation
from hopline.sim.scenarios import Durations, create_scenario

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
QUICK = Durations(rollout=0.05, command=0.05, static_pod=0.05, install=0.05)


class East:
    """Cluster `east` of deploy/examples: m1 to m3, w1 to w5."""

    def __init__(self, path: Path, key: ClusterKey) -> None:
        self.key = key
        self.clusters = open_simulation(path)

    @property
    def management(self) -> ClusterClient:
        return self.clusters.management

    async def target(self) -> ClusterClient:
        return await self.clusters.target(self.key)

    async def facts(self) -> ClusterFacts:
        return await read_cluster(self.management, self.key)

    async def node(self, hostname: str) -> NodeFacts:
        return next(one for one in (await self.facts()).nodes if one.hostname == hostname)

    def ref(self, kind: Kind, name: str) -> ObjectRef:
        return ObjectRef(kind=kind, name=name, kube_namespace=self.key.kube_namespace)

    async def commands(self) -> list[Document]:
        return (await self.management.list(COMMAND, kube_namespace=self.key.kube_namespace)).items

    async def node_status(self, hostname: str) -> Document:
        found = await self.management.get(self.ref(BKE_NODE, (await self.node(hostname)).name))
        return dict(found["status"])

    async def set_node(self, hostname: str, **status: object) -> None:
        ref = self.ref(BKE_NODE, (await self.node(hostname)).name)
        await self.management.patch(ref, {"status": status}, subresource="status")

    async def declare(self, **versions: str) -> None:
        """Agents read their versions from the BKECluster's spec."""
        body = {"spec": {"clusterConfig": {"cluster": versions}}}
        await self.management.patch(self.ref(BKE_CLUSTER, self.key.name), body)

    async def patch_cluster(self, body: Document, *, subresource: str = "") -> None:
        await self.management.patch(self.ref(BKE_CLUSTER, self.key.name), body, subresource=subresource)


@pytest_asyncio.fixture
async def east(tmp_path: Path) -> AsyncIterator[East]:
    path = tmp_path / "simulation.db"
    made = East(path, create_scenario(path, examples=EXAMPLES, durations=QUICK))
    yield made
    await made.clusters.aclose()


@pytest_asyncio.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[ClusterClient]:
    """The administrator's client of the real API server."""
    made = await connect(KubeconfigFile(control_plane.kubeconfig))
    yield made
    await made.aclose()
