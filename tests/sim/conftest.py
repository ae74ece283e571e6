"""A simulated cluster whose time stands still until a test moves it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hopline.domain.resources import (
    BKE_CLUSTER,
    COMMAND,
    LABEL_CLUSTER_NAME,
    NODE,
    POD,
    Document,
    Kind,
    ObjectRef,
)
from hopline.domain.wire import ClusterKey
from hopline.sim.client import SimulatedClusterClient
from hopline.sim.clusters import SimulatedClusters, open_simulation
from hopline.sim.scenarios import create_scenario

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
START = 1_800_000_000.0
"""Unix seconds at which every simulation here begins."""


class Clock:
    """Unix seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class World:
    """The example cluster `east`, simulated."""

    def __init__(self, path: Path, clock: Clock, key: ClusterKey) -> None:
        self.path = path
        self.clock = clock
        self.key = key
        self.clusters: SimulatedClusters = open_simulation(path, clock=clock)

    @property
    def management(self) -> SimulatedClusterClient:
        return self.clusters.management

    async def target(self) -> SimulatedClusterClient:
        return await self.clusters.target(self.key)

    async def reopen(self) -> None:
        """As after the death of every process."""
        await self.clusters.aclose()
        self.clusters = open_simulation(self.path, clock=self.clock)

    def ref(self, kind: Kind, name: str) -> ObjectRef:
        return ObjectRef(kind=kind, name=name, kube_namespace=self.key.kube_namespace)

    async def command(self, name: str, *ips: str, words: list[str], **spec: object) -> Document:
        """Create a Command with one instruction."""
        entry = {"id": "upgrade", "command": words, "type": "BuiltIn"}
        return await self.commands(name, *ips, entries=[entry], **spec)

    async def commands(self, name: str, *ips: str, entries: list[Document], **spec: object) -> Document:
        document: Document = {
            "apiVersion": COMMAND.api_version,
            "kind": COMMAND.kind,
            "metadata": {
                "name": name,
                "namespace": self.key.kube_namespace,
                "labels": {LABEL_CLUSTER_NAME: self.key.name},
            },
            "spec": {
                "nodeName": "",
                "suspend": False,
                "backoffLimit": 3,
                "activeDeadlineSecond": 1000,
                "nodeSelector": {"matchLabels": {ip: ip for ip in ips}},
                "commands": entries,
                **spec,
            },
        }
        return await self.management.create(document, kind=COMMAND)

    async def entry(self, name: str, key: str) -> Document:
        """A node's entry in the status of a Command."""
        document = await self.management.get(self.ref(COMMAND, name))
        return dict(document["status"][key])

    async def want(self, **versions: str) -> None:
        """Write versions into the BKECluster's spec."""
        body = {"spec": {"clusterConfig": {"cluster": versions}}}
        await self.management.patch(self.ref(BKE_CLUSTER, self.key.name), body)

    async def node_info(self, name: str) -> dict[str, str]:
        node = await (await self.target()).get(ObjectRef(kind=NODE, name=name))
        return dict(node["status"]["nodeInfo"])

    async def static_pod(self, name: str) -> Document:
        return await (await self.target()).get(ObjectRef(kind=POD, name=name, kube_namespace="kube-system"))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def world(tmp_path: Path, clock: Clock) -> AsyncIterator[World]:
    path = tmp_path / "simulation.db"
    key = create_scenario(path, examples=EXAMPLES, clock=clock)
    made = World(path, clock, key)
    yield made
    await made.clusters.aclose()
