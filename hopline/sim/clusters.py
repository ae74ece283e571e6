"""`Clusters` on the simulation's file: the management server, the targets, and the node agents."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from hopline.domain.errors import ClusterNotReady
from hopline.domain.resources import (
    KUBECONFIG_SECRET_KEY,
    KUBECONFIG_SECRET_SUFFIX,
    NAMESPACE,
    SECRET,
    Document,
    Kind,
)
from hopline.domain.wire import ClusterKey
from hopline.sim import journal
from hopline.sim.behaviour import react, run_due
from hopline.sim.client import SimulatedClusterClient
from hopline.sim.database import Database, Session
from hopline.sim.etcd import SimulatedEtcd
from hopline.sim.installer import SimulatedInstaller
from hopline.sim.journal import Effect, EffectType
from hopline.sim.kinds import MANAGEMENT
from hopline.sim.machines import AGENT, machines, read_state
from hopline.sim.script import Script, server_name
from hopline.sim.storage import Storage
from hopline.sim.watching import Ticker

SEEDED_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", "cluster-system")


def put(storage: Storage, document: Document) -> Document:
    """Keep an object as it stands, status and managedFields included, and let the simulation react."""
    metadata = document["metadata"]
    kind = Kind(api_version=document["apiVersion"], kind=document["kind"])
    old = storage.find(kind, metadata["name"], metadata.get("namespace", ""))
    if old is None:
        new = storage.insert(document)
    else:
        kept = {field: old["metadata"][field] for field in ("uid", "creationTimestamp") if field in old["metadata"]}
        if "generation" in old["metadata"]:
            kept["generation"] = old["metadata"]["generation"] + 1
        new = storage.update({**document, "metadata": {**metadata, **kept}})
    react(storage, old, new)
    return new


def start_server(session: Session, server: str) -> Storage:
    """An API server with the Namespaces that every cluster has; nothing when it is there already."""
    storage = Storage(session, server)
    for name in SEEDED_NAMESPACES:
        if storage.find(NAMESPACE, name) is None:
            labels = {"kubernetes.io/metadata.name": name}
            put(storage, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    return storage


class SimulatedClusters:
    """All API servers of one simulation file, which is made when it is not there.

    Attributes:
        script: faults and durations; its methods are blocking and quick.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.database = Database(path, run_due=run_due, clock=clock)
        self.script = Script(self.database)
        self._ticker = Ticker(self.database)
        self._installer = SimulatedInstaller(self._ticker)
        self._etcd = SimulatedEtcd(self._ticker)
        self._clients: dict[str, SimulatedClusterClient] = {}
        with self.database.writing() as session:
            start_server(session, MANAGEMENT)

    @property
    def management(self) -> SimulatedClusterClient:
        """The management API server."""
        return self.client(MANAGEMENT)

    @property
    def agents(self) -> SimulatedInstaller:
        """Installs node agents."""
        return self._installer

    @property
    def etcd(self) -> SimulatedEtcd:
        """Asks simulated etcd members."""
        return self._etcd

    async def target(self, cluster: ClusterKey) -> SimulatedClusterClient:
        """The API server of a cluster, by its kubeconfig Secret; the management one for a self-managed cluster."""
        return self.client(await self._ticker.run(lambda: self._target_server(cluster)))

    def look_again(self, cluster: ClusterKey) -> None:
        """Nothing: the Secret is read each time."""

    async def aclose(self) -> None:
        """Give the file back."""
        await self._ticker.aclose()

    def client(self, server: str) -> SimulatedClusterClient:
        """The client of a server by its name in the file."""
        if server not in self._clients:
            self._clients[server] = SimulatedClusterClient(self._ticker, server)
        return self._clients[server]

    def add_target(self, cluster: ClusterKey, *, self_managed: bool = False) -> str:
        """Make the API server of a cluster known, and start it when it is one of its own. Its name in the file."""
        server = MANAGEMENT if self_managed else server_name(cluster)
        with self.database.writing() as session:
            start_server(session, server)
            session.execute(
                "INSERT OR REPLACE INTO clusters VALUES (?, ?, ?)", cluster.kube_namespace, cluster.name, server
            )
        return server

    def put(self, document: Document, *, server: str = MANAGEMENT) -> Document:
        """Seed an object as it stands, status and managedFields included; it is not in the journal."""
        with self.database.writing() as session:
            stored = put(Storage(session, server), document)
        self._ticker.wake()
        return stored

    def journal(self, *types: EffectType) -> list[Effect]:
        """What has happened, in order; with `types`, those classes only."""
        with self.database.reading() as session:
            return journal.read(session, *types)

    def agent_versions(self, cluster: ClusterKey) -> dict[str, str]:
        """Version of the node agent on every machine of a cluster, by IP."""
        with self.database.reading() as session:
            found = machines(session, cluster.kube_namespace, cluster.name)
            return {machine.facts.ip: read_state(session, machine, AGENT) for machine in found}

    def _target_server(self, cluster: ClusterKey) -> str:
        with self.database.reading() as session:
            server = session.one(
                "SELECT server FROM clusters WHERE kube_namespace = ? AND name = ?",
                cluster.kube_namespace,
                cluster.name,
            )
            name = f"{cluster.name}{KUBECONFIG_SECRET_SUFFIX}"
            if server == MANAGEMENT:
                return MANAGEMENT
            secret = Storage(session, MANAGEMENT).find(SECRET, name, cluster.kube_namespace)
        subject = f"Secret {cluster.kube_namespace}/{name}"
        remedy = "write the kubeconfig of the cluster into it"
        if secret is None:
            raise ClusterNotReady("the cluster has no kubeconfig Secret", subject=subject, remedy=remedy)
        if not (secret.get("data") or {}).get(KUBECONFIG_SECRET_KEY) or server is None:
            field = f"data.{KUBECONFIG_SECRET_KEY}"
            raise ClusterNotReady("the kubeconfig leads to no API server", subject=subject, field=field, remedy=remedy)
        return str(server)


def open_simulation(path: Path, *, clock: Callable[[], float] = time.time) -> SimulatedClusters:
    """The simulation in a file, which is made when it is not there. Close it with `aclose`."""
    return SimulatedClusters(path, clock=clock)
