"""The example cluster on real control planes, as it stands after its installation: nodes, pods, objects, workloads."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.administration import Administered
from controlplane.agents import AgentNode
from controlplane.control_plane import ControlPlane
from controlplane.nodes import NodeShape
from controlplane.releases import copy_releases
from controlplane.static_pods import KUBERNETES_PODS, StaticPod, static_pod_object
from hopline.documents.loading import load_documents
from hopline.domain.cluster import ClusterFacts, cluster_facts
from hopline.domain.release import Release
from hopline.domain.resources import (
    DEFAULT_FIELD_MANAGER,
    KUBECONFIG_SECRET_KEY,
    KUBECONFIG_SECRET_SUFFIX,
    Document,
)
from hopline.domain.template_variables import PLACES, variables
from hopline.domain.templates import render
from hopline.domain.wire import ClusterKey
from hopline.sim.scenarios import read_release

EXAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "examples"
NOT_YET = frozenset({"bkeagent"})
"""Components of the examples that need what a real control plane with simulated agents does not have: SSH to nodes."""


@dataclass(frozen=True)
class InstalledCluster:
    """One cluster: its name, the releases that it can be upgraded to, its nodes, and where its nodes and pods live."""

    key: ClusterKey
    releases: Path
    nodes: Sequence[AgentNode]
    management: ControlPlane
    target: Administered


def install_cluster(
    management: ControlPlane,
    folder: Path,
    *,
    target: Administered | None = None,
    examples: Path = EXAMPLES,
    without: Collection[str] = NOT_YET,
) -> InstalledCluster:
    """Puts the cluster of an examples folder on a control plane that has our CRDs.

    `folder` receives the releases. With a `target` the nodes and workloads live there, and the management cluster gets
    the kubeconfig Secret; without one the cluster manages itself.
    """
    documents = [*_documents(examples / "upgrade-paths.yaml"), *_documents(examples / "cluster.yaml")]
    facts = _facts(documents)
    releases = copy_releases(examples / "releases", folder, without)
    place = target or management
    management.kubectl("create", "namespace", facts.key.kube_namespace)
    # A ClusterVersion of no BKECluster is something that a watcher warns of.
    management.apply(*sorted(documents, key=lambda one: one["kind"] == "ClusterVersion"))
    # The ClusterVersion first: one without a current version beside a ready cluster is one that a watcher has to adopt.
    told = sorted(
        (document for document in documents if "status" in document), key=lambda one: one["kind"] == "BKECluster"
    )
    management.apply(*told, subresource="status")
    if target:
        management.apply(_kubeconfig_secret(facts.key, target))
    _add_nodes(place, facts, _registry(documents))
    _install_release(place, facts, read_release(releases / facts.current_version, facts.current_version))
    nodes = [AgentNode(node.hostname, node.ip) for node in facts.nodes]
    return InstalledCluster(facts.key, releases, nodes, management, place)


def _documents(file: Path) -> list[Document]:
    return [source.document for source in load_documents(file.read_text(), str(file))]


def _facts(documents: Iterable[Document]) -> ClusterFacts:
    kinds: dict[str, list[Document]] = {}
    for document in documents:
        kinds.setdefault(document["kind"], []).append(document)
    return cluster_facts(kinds["BKECluster"][0], kinds["ClusterVersion"][0], kinds["BKENode"])


def _registry(documents: Iterable[Document]) -> str:
    [cluster] = [document for document in documents if document["kind"] == "BKECluster"]
    repository: dict[str, Any] = cluster["spec"]["clusterConfig"]["cluster"]["imageRepo"]
    return f"{repository['domain']}:{repository['port']}/{repository['prefix']}"


def _kubeconfig_secret(cluster: ClusterKey, target: Administered) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{cluster.name}{KUBECONFIG_SECRET_SUFFIX}", "namespace": cluster.kube_namespace},
        "data": {KUBECONFIG_SECRET_KEY: base64.b64encode(target.kubeconfig.read_bytes()).decode()},
    }


def _add_nodes(place: Administered, facts: ClusterFacts, registry: str) -> None:
    runtime = f"containerd://{facts.status.containerd.removeprefix('v')}"
    place.create_nodes(
        NodeShape(node.hostname, node.ip, facts.status.kubernetes, node.is_control_plane, runtime)
        for node in facts.nodes
    )
    pods = [
        static_pod_object(component, node.hostname, version, f"{registry}/{component.value}")
        for node in facts.nodes
        for component, version in (
            *([(StaticPod.ETCD, facts.status.etcd)] if node.is_etcd else []),
            *((of, facts.status.kubernetes) for of in KUBERNETES_PODS if node.is_control_plane),
        )
    ]
    place.apply(*pods)
    place.kubectl("wait", "--for=condition=Ready", "pod", "-n", "kube-system", "-l", "tier=control-plane")


def _install_release(place: Administered, facts: ClusterFacts, release: Release) -> None:
    """Applies the manifests of the present release as its installation did, and waits for its workloads."""
    documents: list[Document] = []
    for ref in release.install:
        component = release.component(ref.name, ref.version)
        assert component, f"release {release.version} lists {ref.name} {ref.version} and does not have it"
        for file in release.files_of(component.name, component.version):
            text = render(file.text, variables(facts, release, component, file.path), file.path, PLACES)
            documents += [source.document for source in load_documents(text, file.path)]
    namespaces = {document["metadata"].get("namespace", "") for document in documents} - {"", "kube-system"}
    named = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(namespaces)]
    place.apply(*named, *documents, field_manager=DEFAULT_FIELD_MANAGER)
    for document in documents:
        if document["kind"] in ("Deployment", "DaemonSet"):
            name = f"{document['kind']}/{document['metadata']['name']}"
            place.kubectl("rollout", "status", name, "-n", document["metadata"]["namespace"], "--timeout=60s")
