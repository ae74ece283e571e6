"""A simulated API server with three nodes, for operations on the objects of components."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from builders_domain import component, release, sample_facts
from hopline.domain.resources import Document, Kind, ObjectRef
from hopline.operations.component_objects import ComponentObjects, read_objects
from hopline.sim.client import SimulatedClusterClient
from hopline.sim.clusters import SimulatedClusters, open_simulation
from hopline.sim.journal import EffectType
from hopline.sim.script import Verb


class Lab:
    """One API server, its script, and makers of components for it."""

    def __init__(self, path: Path) -> None:
        self.ahead = 0.0
        """Seconds that the cluster's clock is ahead of ours."""
        self.clusters: SimulatedClusters = open_simulation(path, clock=lambda: time.time() + self.ahead)
        self.script = self.clusters.script
        for number in range(3):
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            self.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}, "status": ready})

    @property
    def client(self) -> SimulatedClusterClient:
        return self.clusters.management

    def put(self, document: Document) -> None:
        self.clusters.put(document)

    def namespace(self, name: str) -> None:
        self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def objects(self, text: str, *, name: str = "web", version: str = "v2", **yaml: Any) -> ComponentObjects:
        """The component `name` with one manifest file; `yaml` as in `spec.yaml`, Namespace `web` by default."""
        declared = component(name, version, yaml={"namespace": "web", **yaml})
        files = {f"{name}@{version}": text}
        return read_objects(release("v26.06", declared, manifests=files), declared, sample_facts())

    async def get(self, kind: Kind, name: str, kube_namespace: str = "web") -> Document:
        return await self.client.get(ObjectRef(kind=kind, name=name, kube_namespace=kube_namespace))

    async def apply_as(self, manager: str, document: Document) -> None:
        """Somebody else, or an earlier release, writes."""
        kind = await self.client.resolve(document["apiVersion"], document["kind"])
        await self.client.apply(document, kind=kind, field_manager=manager, force=True)

    async def install(self, text: str) -> None:
        """The component stands there as an earlier release brought it."""
        for source in self.objects(text).sources:
            await self.apply_as(
                "bke", {**source.document, "metadata": {"namespace": "web", **source.document["metadata"]}}
            )

    def written(self) -> list[str]:
        """Subjects of everything that `bke` has really changed, in order."""
        return [effect.subject for effect in self.clusters.journal(EffectType.WRITE) if effect.manager == "bke"]

    def spent(self, before: Counter[Verb]) -> dict[str, int]:
        """Requests since `before` (a copy of `client.requests`), without discovery."""
        now = self.client.requests
        counted = (verb for verb in Verb if verb is not Verb.DISCOVER)
        return {verb.value: now[verb] - before[verb] for verb in counted if now[verb] > before[verb]}


@pytest.fixture(name="lab")
async def simulated_lab(tmp_path: Path) -> AsyncIterator[Lab]:
    """An empty cluster with the Namespace `web`."""
    lab = Lab(tmp_path / "sim.db")
    lab.namespace("web")
    yield lab
    await lab.clusters.aclose()
