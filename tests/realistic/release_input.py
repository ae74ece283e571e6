"""The releases and the cluster of the realistic upgrade: etcd and Kubernetes of the older set, then of the newer.

The files are JSON, which is YAML too.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from example_folders import EXAMPLES
from hopline.documents.loading import load_documents
from hopline.domain.resources import CLUSTER_VERSION, COMPONENT_VERSION, LABEL_CLUSTER_NAME, RELEASE_IMAGE, UPGRADE_PATH
from hopline.domain.wire import ClusterKey
from realistic.programs import ProgramSet, RealisticPrograms

KEY = ClusterKey(kube_namespace="realistic", name="realistic")
OLD, NEW = "v41.01", "v41.02"
WORKERS = {"w1": "198.51.100.21", "w2": "198.51.100.22", "w3": "198.51.100.23"}
CHECKS = ("cluster-health", "nodes-ready", "etcd-health", "disk-space")
_WORKLOAD, _WORKLOAD_VERSION = "web", "v1.0.0"
_CODES = {True: 575, False: 527}
_HANDLERS = {
    "etcd": "EnsureEtcdUpgrade",
    "kubernetes-master": "EnsureMasterUpgrade",
    "kubernetes-worker": "EnsureWorkerUpgrade",
}


def write_input(
    folder: Path, releases: Path, programs: RealisticPrograms, nodes: Mapping[str, str], front: tuple[str, int]
) -> Path:
    """A folder for `install_cluster`, and its two releases, which the worker reads too.

    Args:
        nodes: name → address of the control-plane nodes.
        front: host and port of their balancer.
    """
    sets = {OLD: programs.older, NEW: programs.newer}
    for version, program_set in sets.items():
        _write_release(releases / version, version, program_set)
    _write(folder / "upgrade-paths.yaml", _catalogue())
    _write(folder / "cluster.yaml", *_cluster(programs.older, front), *_bke_nodes(nodes))
    (folder / "releases").mkdir()
    for version in sets:
        (folder / "releases" / version).symlink_to(releases / version, target_is_directory=True)
    return folder


def _versions(program_set: ProgramSet) -> dict[str, str]:
    return {"etcd": program_set.etcd} | dict.fromkeys(
        ("kubernetes-master", "kubernetes-worker"), program_set.kubernetes
    )


def _write_release(folder: Path, version: str, program_set: ProgramSet) -> None:
    versions = _versions(program_set) | {_WORKLOAD: _WORKLOAD_VERSION}
    install = [{"name": name, "version": of} for name, of in versions.items()]
    upgrade = [
        {**one, "inline": {"handler": _HANDLERS[one["name"]], "version": "v1.0.0"}} if one["name"] in _HANDLERS else one
        for one in install
    ]
    spec = {"version": version, "install": {"components": install}, "upgrade": {"components": upgrade}}
    _write(folder / "release.yaml", _document(RELEASE_IMAGE, f"release-{version}", spec))
    for name, of in versions.items():
        home = folder / "components" / name / of
        _write(home / "component.yaml", _document(COMPONENT_VERSION, f"{name}-{of}", _component(name, of)))
        if name == _WORKLOAD:
            _write(home / "objects.yaml", *_workload())


def _component(name: str, version: str) -> dict[str, Any]:
    if name == _WORKLOAD:
        return {"name": name, "type": "yaml", "version": version, "yaml": {"namespace": _WORKLOAD}}
    inline = {"handler": _HANDLERS[name], "version": "v1.0.0"}
    needs = [] if name == "etcd" else [{"name": "etcd"}]
    return {"name": name, "type": "inline", "version": version, "dependencies": needs, "inline": inline}


def _workload() -> Sequence[dict[str, Any]]:
    """Pods that drains have to move, one at a time."""
    metadata, labels = {"name": _WORKLOAD, "namespace": _WORKLOAD}, {"app": _WORKLOAD}
    container = {"name": "main", "image": "registry.example.test/web:v1"}
    deployment = {
        "replicas": 4,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget},
    ]


def _catalogue() -> dict[str, Any]:
    checks = [{"name": name, "required": True} for name in CHECKS]
    hop = {"from": OLD, "to": NEW, "preCheck": checks, "postCheck": checks}
    versions = [{"version": version, "installable": True} for version in (OLD, NEW)]
    return _document(UPGRADE_PATH, "openfuyao-upgrade-paths", {"paths": [hop], "versions": versions})


def _cluster(program_set: ProgramSet, front: tuple[str, int]) -> Sequence[dict[str, Any]]:
    """BKECluster and ClusterVersion of the examples, installed at the older release."""
    sources = load_documents((EXAMPLES / "cluster.yaml").read_text(), "cluster.yaml")
    cluster, wish = (copy.deepcopy(dict(source.document)) for source in sources[:2])
    for document in (cluster, wish):
        document["metadata"] |= {"name": KEY.name, "namespace": KEY.kube_namespace}
    versions = {
        "openFuyaoVersion": OLD,
        "kubernetesVersion": program_set.kubernetes,
        "etcdVersion": program_set.etcd,
    }
    cluster["spec"]["controlPlaneEndpoint"] = {"host": front[0], "port": front[1]}
    cluster["spec"]["clusterConfig"]["cluster"] |= versions
    cluster["status"] |= versions | {"addonStatus": []}
    wish["spec"]["desiredVersion"] = wish["status"]["currentVersion"] = OLD
    assert wish["kind"] == CLUSTER_VERSION.kind
    return cluster, wish


def _bke_nodes(nodes: Mapping[str, str]) -> Sequence[dict[str, Any]]:
    return [_bke_node(name, address, is_master=name in nodes) for name, address in {**nodes, **WORKERS}.items()]


def _bke_node(name: str, address: str, *, is_master: bool) -> dict[str, Any]:
    metadata = {
        "name": f"{KEY.name}-{address.replace('.', '-')}",
        "namespace": KEY.kube_namespace,
        "labels": {LABEL_CLUSTER_NAME: KEY.name},
    }
    role = ["master", "etcd"] if is_master else ["node"]
    spec = {"ip": address, "hostname": name, "role": role, "port": "22", "username": "root"}
    status = {"state": "Ready", "stateCode": _CODES[is_master]}
    return {
        "apiVersion": "bke.bocloud.com/v1beta1",
        "kind": "BKENode",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def _document(kind: Any, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}


def _write(file: Path, *documents: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n---\n".join(json.dumps(document, indent=1) for document in documents) + "\n")
