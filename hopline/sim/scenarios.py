"""Simulations to start from: a cluster as it stands after its installation, seeded from documents and bundles."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from hopline.documents.bundles import content_digest, parse_bundle
from hopline.documents.loading import load_documents
from hopline.domain.cluster import AGENT_READY_BIT, ClusterFacts, cluster_facts
from hopline.domain.errors import InvalidInput
from hopline.domain.release import BundleSource, ComponentVersion, RawBundle, Release
from hopline.domain.resources import (
    BKE_CLUSTER,
    BKE_NODE,
    CLUSTER_VERSION,
    DEFAULT_FIELD_MANAGER,
    KUBECONFIG_SECRET_KEY,
    KUBECONFIG_SECRET_SUFFIX,
    LABEL_CLUSTER_NAME,
    NAMESPACE,
    Document,
)
from hopline.domain.template_variables import PLACES, variables
from hopline.domain.templates import render
from hopline.domain.wire import ClusterKey
from hopline.sim import etcd
from hopline.sim.api import ApiServer
from hopline.sim.behaviour import react
from hopline.sim.clusters import SimulatedClusters, open_simulation, put, start_server
from hopline.sim.database import Session
from hopline.sim.kinds import MANAGEMENT
from hopline.sim.machines import (
    AGENT,
    CONTROL_PLANE,
    Machine,
    image_registry,
    machines,
    make_node,
    replace_static_pod,
    write_state,
)
from hopline.sim.script import Script
from hopline.sim.storage import Storage

CLUSTER_FILE, CATALOGUE_FILE, RELEASES = "cluster.yaml", "upgrade-paths.yaml", "releases"
EXAMPLE_CONTROLLER_IMAGE = "registry.example.test:40443/kubernetes/cluster-api-provider-bke"
"""What `provider` of deploy/examples runs. In a simulation and in a lab it is a stand-in that does nothing, so it is
declared as our own (HOPLINE_OWN_IMAGES); a real one would be another controller."""

CONTROL_PLANE_CODE, WORKER_CODE = 575, 527
"""status.stateCode of nodes that were installed well (observed.md §1)."""


@dataclass(frozen=True)
class Durations:
    """How long things take in a scenario, in seconds; more in `Script`.

    Attributes:
        command: one instruction of a Command on one node.
        static_pod: until a replaced static pod is Ready, after its Command.
    """

    rollout: float = 0.0
    command: float = 0.0
    pick_up: float = 0.0
    static_pod: float = 0.0
    install: float = 0.0
    job: float = 0.0

    def write(self, script: Script) -> None:
        """Set them in a simulation."""
        script.rollout_seconds(self.rollout)
        script.command_seconds(self.command)
        script.pick_up_seconds(self.pick_up)
        script.static_pod_seconds(self.static_pod)
        script.install_seconds(self.install)
        script.job_seconds(self.job)


def create_scenario(
    path: Path,
    *,
    examples: Path,
    nodes: tuple[int, int] | None = None,
    durations: Durations = Durations(),
    self_managed: bool = False,
    clock: Callable[[], float] = time.time,
) -> ClusterKey:
    """Make a simulation file with the cluster of `examples`, and say its name. Blocks.

    Args:
        path: where the file goes; it must not exist.
        examples: a folder with `cluster.yaml`, `upgrade-paths.yaml` and `releases/<version>/`, as deploy/examples.
        nodes: control-plane and worker nodes in place of those in `cluster.yaml`.
        self_managed: the cluster is the management cluster itself; else it has an API server and a kubeconfig Secret.

    Raises:
        InvalidInput: the file exists, or the folder lacks something.
        InvalidDocument, InvalidRelease: a file of the folder is unusable.
    """
    if path.exists():
        raise InvalidInput(
            "there is a simulation already", subject=str(path), remedy="delete the file, or open it as it is"
        )
    scenario = _read_scenario(examples, nodes)
    simulation = open_simulation(path, clock=clock)
    try:
        _seed(simulation, scenario, self_managed=self_managed)
        durations.write(simulation.script)
    finally:
        simulation.database.close()
    return scenario.facts.key


@dataclass(frozen=True)
class _Scenario:
    documents: tuple[Document, ...]
    facts: ClusterFacts
    release: Release


def _read_scenario(examples: Path, nodes: tuple[int, int] | None) -> _Scenario:
    cluster, version, found = None, None, []
    documents = [*_documents(examples / CATALOGUE_FILE), *_documents(examples / CLUSTER_FILE)]
    for document in documents:
        if document["kind"] == BKE_CLUSTER.kind:
            cluster = document
        elif document["kind"] == CLUSTER_VERSION.kind:
            version = document
        elif document["kind"] == BKE_NODE.kind:
            found.append(document)
    if cluster is None:
        file = str(examples / CLUSTER_FILE)
        raise InvalidInput("the file has no BKECluster", subject=file, remedy="add the document")
    if nodes is not None:
        key = ClusterKey(kube_namespace=cluster["metadata"]["namespace"], name=cluster["metadata"]["name"])
        documents = [document for document in documents if document["kind"] != BKE_NODE.kind]
        found = list(_made_nodes(key, *nodes))
        documents.extend(found)
        cluster.setdefault("status", {})["agentStatus"] = {
            "replies": len(found),
            "unavailableReplies": 0,
            "status": f"{len(found)}/{len(found)}",
        }
    facts = cluster_facts(cluster, version, found)
    release = read_release(examples / RELEASES / facts.current_version, facts.current_version)
    return _Scenario(tuple(documents), facts, release)


def _documents(file: Path) -> list[Document]:
    if not file.is_file():
        raise InvalidInput("the folder of the scenario lacks a file", subject=str(file), remedy="see deploy/examples")
    return [source.document for source in load_documents(file.read_text(encoding="utf-8"), str(file))]


def read_release(folder: Path, version: str) -> Release:
    """The bundle in a folder. Raises InvalidRelease or InvalidDocument."""
    files = {
        file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8")
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
    raw = RawBundle(
        version=version, digest=content_digest(files), source=BundleSource.DISK, origin=str(folder), files=files
    )
    return parse_bundle(raw)


def _made_nodes(cluster: ClusterKey, control_plane: int, workers: int) -> Iterable[Document]:
    for index in range(control_plane + workers):
        is_master = index < control_plane
        name = f"m{index + 1}" if is_master else f"w{index - control_plane + 1}"
        yield _bke_node(cluster, name, f"198.18.{index // 250}.{index % 250 + 1}", is_master=is_master)


def _bke_node(cluster: ClusterKey, hostname: str, ip: str, *, is_master: bool) -> Document:
    return {
        "apiVersion": BKE_NODE.api_version,
        "kind": BKE_NODE.kind,
        "metadata": {
            "name": f"{cluster.name}-{ip.replace('.', '-')}",
            "namespace": cluster.kube_namespace,
            "labels": {LABEL_CLUSTER_NAME: cluster.name},
        },
        "spec": {
            "ip": ip,
            "hostname": hostname,
            "role": ["master", "etcd"] if is_master else ["node"],
            "port": "22",
            "username": "root",
        },
        "status": {"state": "Ready", "stateCode": CONTROL_PLANE_CODE if is_master else WORKER_CODE},
    }


def _seed(simulation: SimulatedClusters, scenario: _Scenario, *, self_managed: bool) -> None:
    facts = scenario.facts
    server = simulation.add_target(facts.key, self_managed=self_managed)
    with simulation.database.writing() as session:
        management = start_server(session, MANAGEMENT)
        for document in scenario.documents:
            _ensure_home(management, document)
            put(management, document)
        if not self_managed:
            put(management, _kubeconfig(facts.key, server))
        put(management, etcd.credentials(facts.key))
        _seed_machines(session, server, scenario)
        _install(session, server, scenario)


def _ensure_home(storage: Storage, document: Document) -> None:
    name = document["metadata"].get("namespace", "")
    if name and storage.find(NAMESPACE, name) is None:
        put(storage, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def _kubeconfig(cluster: ClusterKey, server: str) -> Document:
    text = f"the simulated API server {server}"
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": f"{cluster.name}{KUBECONFIG_SECRET_SUFFIX}", "namespace": cluster.kube_namespace},
        "data": {KUBECONFIG_SECRET_KEY: base64.b64encode(text.encode()).decode()},
    }


def _seed_machines(session: Session, server: str, scenario: _Scenario) -> None:
    facts, storage = scenario.facts, Storage(session, server)
    agent = next((ref.version for ref in scenario.release.install if ref.name == "bkeagent"), "")
    registry = image_registry(session, facts.key)
    for machine in machines(session, facts.key.kube_namespace, facts.key.name):
        make_node(storage, machine, facts.status.kubernetes, facts.status.containerd)
        for component, version in _static_pods(machine, facts):
            replace_static_pod(storage, component, machine, version.removeprefix("v"), registry)
        if machine.facts.state_code & AGENT_READY_BIT:
            write_state(session, machine, AGENT, agent)


def _static_pods(machine: Machine, facts: ClusterFacts) -> list[tuple[str, str]]:
    found = [("etcd", facts.status.etcd)] if machine.facts.is_etcd else []
    if machine.facts.is_control_plane:
        found.extend((component, facts.status.kubernetes) for component in CONTROL_PLANE)
    return found


def _install(session: Session, server: str, scenario: _Scenario) -> None:
    """Apply the manifests of the current release, as its installation did."""
    storage = Storage(session, server)
    api = ApiServer(storage, react, journaled=False)
    for ref in scenario.release.install:
        component = scenario.release.component(ref.name, ref.version)
        for document in _rendered(scenario, component) if component is not None else ():
            _place(storage, document, component.yaml.kube_namespace if component is not None else "")
            api.apply(document, field_manager=DEFAULT_FIELD_MANAGER, force=True)


def _rendered(scenario: _Scenario, component: ComponentVersion) -> list[Document]:
    found: list[Document] = []
    for file in scenario.release.files_of(component.name, component.version):
        data = variables(scenario.facts, scenario.release, component, file.path)
        text = render(file.text, data, file.path, PLACES)
        found.extend(source.document for source in load_documents(text, file.path))
    return found


def _place(storage: Storage, document: Document, default: str) -> None:
    """Give a namespaced object its place, and make the Namespace when the component did not bring it."""
    served = storage.served(document["apiVersion"], document["kind"])
    if served is not None and served.kind.namespaced:
        document["metadata"].setdefault("namespace", default or "default")
        _ensure_home(storage, document)
