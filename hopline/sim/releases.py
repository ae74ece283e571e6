"""Folders of releases for tests and benchmarks: any graph of components, each of which does next to nothing.

The files are JSON, which is YAML too.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hopline.domain.resources import (
    BKE_CLUSTER,
    CLUSTER_VERSION,
    COMPONENT_VERSION,
    RELEASE_IMAGE,
    UPGRADE_PATH,
    Document,
)
from hopline.domain.wire import ClusterKey
from hopline.sim.scenarios import CATALOGUE_FILE, CLUSTER_FILE, RELEASES

COMPONENT_NAMESPACE = "hopline-test"
CLUSTER = ClusterKey(kube_namespace="east", name="east")

OBSERVED_GRAPH: Mapping[str, tuple[str, ...]] = {
    "pre": (),
    "provider-config": ("pre",),
    "agent-config": ("provider-config",),
    "containerd-config": ("provider-config",),
    "etcd-config": ("agent-config", "containerd-config"),
    "master-config": ("etcd-config",),
    "worker-config": ("etcd-config",),
    "proxy-config": ("master-config", "worker-config"),
    "dns-config": ("master-config", "worker-config"),
    "network-config": ("master-config", "worker-config"),
}
"""Ten components in six batches, the shape of the hop that was measured (observed.md §2)."""


@dataclass(frozen=True)
class SmallComponent:
    """A component of one object: a ConfigMap, or a Deployment that is rolled out (`Script.rollout_seconds`)."""

    name: str
    dependencies: tuple[str, ...] = ()
    rolls_out: bool = False


def small_components(graph: Mapping[str, Sequence[str]], *, roll_out: bool = False) -> list[SmallComponent]:
    """Components from a graph of dependencies."""
    return [SmallComponent(name, tuple(needs), roll_out) for name, needs in graph.items()]


def layered(count: int, width: int) -> dict[str, tuple[str, ...]]:
    """A graph of `count` components in layers of `width`; each depends on the whole layer before its own."""
    names = [f"c{index:02d}" for index in range(count)]
    return {
        name: tuple(names[max(0, index // width - 1) * width : index // width * width])
        for index, name in enumerate(names)
    }


def write_examples(folder: Path, versions: Sequence[str], components: Sequence[SmallComponent]) -> Path:
    """A folder for `create_scenario`: a cluster at the first version, and a hop from each version to the next.

    Every hop changes every component. There are no nodes: give `create_scenario` their numbers.
    """
    _write(folder / CATALOGUE_FILE, _catalogue(versions))
    _write(folder / CLUSTER_FILE, *_cluster(versions[0]))
    for version in versions:
        release = folder / RELEASES / version
        _write(release / "release.yaml", _release(version, components))
        for component in components:
            home = release / "components" / component.name / version
            _write(home / "component.yaml", _component(version, component))
            _write(home / "object.yaml", _object(version, component))
    return folder


def _write(file: Path, *documents: Document) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "\n---\n".join(json.dumps(document, indent=1) for document in documents)
    file.write_text(text + "\n", encoding="utf-8")


def _catalogue(versions: Sequence[str]) -> Document:
    hops = [{"from": old, "to": new} for old, new in itertools.pairwise(versions)]
    spec = {"paths": hops, "versions": [{"version": version} for version in versions]}
    return {
        "apiVersion": UPGRADE_PATH.api_version,
        "kind": UPGRADE_PATH.kind,
        "metadata": {"name": "openfuyao-upgrade-paths"},
        "spec": spec,
    }


def _cluster(version: str) -> tuple[Document, Document]:
    metadata = {"name": CLUSTER.name, "namespace": CLUSTER.kube_namespace}
    versions = {
        "openFuyaoVersion": version,
        "kubernetesVersion": "v1.34.3-of.1",
        "etcdVersion": "v3.6.7-of.1",
        "containerdVersion": "v2.1.1",
    }
    cluster: Document = {
        "apiVersion": BKE_CLUSTER.api_version,
        "kind": BKE_CLUSTER.kind,
        "metadata": metadata,
        "spec": {"clusterConfig": {"cluster": {**versions, "ntpServer": "192.0.2.5:123"}}},
        "status": {"ready": True, **versions, "clusterStatus": "Ready", "clusterHealthState": "Healthy"},
    }
    ready = {"type": "Ready", "status": "True", "reason": "InstallComplete"}
    wish: Document = {
        "apiVersion": CLUSTER_VERSION.api_version,
        "kind": CLUSTER_VERSION.kind,
        "metadata": metadata,
        "spec": {"desiredVersion": version},
        "status": {
            "currentVersion": version,
            "phase": "Ready",
            "conditions": [{**ready, "message": "", "lastTransitionTime": "2026-07-30T08:12:00Z"}],
        },
    }
    return cluster, wish


def _release(version: str, components: Sequence[SmallComponent]) -> Document:
    listed = [{"name": component.name, "version": version} for component in components]
    return {
        "apiVersion": RELEASE_IMAGE.api_version,
        "kind": RELEASE_IMAGE.kind,
        "metadata": {"name": f"release-{version}"},
        "spec": {"version": version, "install": {"components": listed}, "upgrade": {"components": listed}},
    }


def _component(version: str, component: SmallComponent) -> Document:
    return {
        "apiVersion": COMPONENT_VERSION.api_version,
        "kind": COMPONENT_VERSION.kind,
        "metadata": {"name": f"{component.name}-{version}"},
        "spec": {
            "name": component.name,
            "type": "yaml",
            "version": version,
            "dependencies": [{"name": name} for name in component.dependencies],
            "yaml": {"namespace": COMPONENT_NAMESPACE},
        },
    }


def _object(version: str, component: SmallComponent) -> Document:
    metadata = {"name": component.name, "namespace": COMPONENT_NAMESPACE}
    if not component.rolls_out:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"version": version}}
    labels = {"app": component.name}
    container = {"name": "main", "image": f"registry.example.test/{component.name}:{version}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
