"""A simulated management cluster whose one node is a real sshd; the agent on it answers as the binary there does."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hooked_clusters import Call, HookedClusters
from hopline.domain.agent_push import HostKeyPolicy
from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.resources import BKE_CLUSTER, BKE_NODE, CLUSTER_VERSION, COMMAND, LABEL_CLUSTER_NAME, Document
from hopline.domain.wire import ClusterKey
from hopline.files.agent_binaries import RepositoryAgentBinaries
from hopline.operations.agent_push import AgentPlace, PushedAgents
from hopline.operations.reading import read_cluster
from hopline.ports import ClusterClient, InstallState, NodeAgentInstaller, NodeShells
from hopline.sim.clusters import SimulatedClusters, open_simulation
from hopline.ssh.access import SecretName
from hopline.ssh.nodes import Patience, SshNodes
from ssh.sshd import ACCOUNT, Sshd

KEY = ClusterKey(kube_namespace="east", name="east")
OLD, NEW = "v1.0.2", "v1.0.3"
SECRET_NAME = "node-access"
PING_SECONDS = 2.0
"""Simulated agents answer within a fraction of it; one that is deaf never does."""

QUICK = Patience(connect=5.0, sign_in=5.0, alive=1.0, alive_count=2)


def sha256(content: bytes) -> str:
    """As nodes show it."""
    return hashlib.sha256(content).hexdigest()


def secret(**texts: str) -> Document:
    """The Secret of the lab; `_` in a key stands for `-`, but in known_hosts."""
    keys = {key if key == "known_hosts" else key.replace("_", "-"): text for key, text in texts.items()}
    data = {key: base64.b64encode(text.encode()).decode() for key, text in keys.items()}
    metadata = {"name": SECRET_NAME, "namespace": KEY.kube_namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def cluster_objects(sshd: Sshd, repository: str, username: str = ACCOUNT) -> list[Document]:
    """BKECluster, ClusterVersion and the one BKENode, which is the sshd."""
    host, _, port = repository.removeprefix("http://").partition("/")[0].partition(":")
    labels = {LABEL_CLUSTER_NAME: KEY.name}

    def document(kind: Any, name: str, **parts: Any) -> Document:
        metadata = {"name": name, "namespace": KEY.kube_namespace, "labels": labels}
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **parts}

    spec = {"clusterConfig": {"cluster": {"httpRepo": {"ip": host, "port": port, "prefix": "files"}}}}
    node = {"ip": sshd.address, "hostname": "m1", "role": ["master/node"], "port": str(sshd.port), "username": username}
    return [
        document(BKE_CLUSTER, KEY.name, spec=spec, status={"openFuyaoVersion": "v26.06-rc.2"}),
        document(CLUSTER_VERSION, KEY.name, spec={}, status={"currentVersion": "v26.06-rc.2"}),
        document(BKE_NODE, "east-m1", spec={**node, "password": "ENC(aes)"}, status={"state": "Ready", "stateCode": 2}),
    ]


class PushClusters(HookedClusters):
    """Simulated clusters of a worker that pushes agents."""

    installer: NodeAgentInstaller

    @property
    def agents(self) -> NodeAgentInstaller:
        return self.installer


@dataclass
class PushLab:
    """Everything that one push meets."""

    sshd: Sshd
    clusters: SimulatedClusters
    hooked: PushClusters
    files: Path
    cache: Path
    told: list[str] = field(default_factory=list)
    policy: HostKeyPolicy = HostKeyPolicy.STRICT

    def offer(self, content: bytes, version: str = NEW, *, vouched: bool = True) -> str:
        """A new agent in the file repository; its hash."""
        file = self.files / f"bkeagent-{version.removeprefix('v')}-linux-amd64"
        file.write_bytes(content)
        if vouched:
            file.with_name(f"{file.name}.sha256").write_text(f"{sha256(content)}  {file.name}\n")
        return sha256(content)

    def grant(self, **texts: str) -> None:
        """The Secret: by default the account's key, and the right host key."""
        given = {"username": ACCOUNT, "ssh_privatekey": self.sshd.user_key.read_text(), **texts}
        given.setdefault("known_hosts", self.sshd.known_hosts)
        self.clusters.put(secret(**given))

    @property
    def management(self) -> ClusterClient:
        return self.hooked.management

    @property
    def shells(self) -> SshNodes:
        return SshNodes(self.management, SecretName(SECRET_NAME), self.policy, QUICK)

    def agents(self, shells: NodeShells | None = None) -> PushedAgents:
        """As a worker that has just been started."""
        place = AgentPlace(binary=str(self.sshd.binary), ping_seconds=PING_SECONDS)
        return PushedAgents(self.management, shells or self.shells, RepositoryAgentBinaries(self.cache), place)

    async def push(self, version: str = NEW, shells: NodeShells | None = None) -> InstallState:
        """Bring the node to a version."""
        return await self.agents(shells).install(KEY, self.sshd.address, version, tell=self.told.append)

    async def facts(self) -> ClusterFacts:
        return await read_cluster(self.management, KEY)

    async def node(self) -> NodeFacts:
        return (await self.facts()).nodes[0]

    async def commands(self) -> list[str]:
        """Names of every Command that is there."""
        listing = await self.management.list(COMMAND, kube_namespace=KEY.kube_namespace)
        return [one["metadata"]["name"] for one in listing.items]


@contextmanager
def repository(folder: Path) -> Iterator[str]:
    """A file repository over HTTP; its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/files"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def hear_as_the_binary_does(sshd: Sshd, clusters: SimulatedClusters) -> Any:
    """Before a Ping is made, the simulated agent becomes as deaf as what runs on the node."""

    def before(call: Call) -> None:
        if call.verb != "create" or not call.subject.startswith("Command"):
            return
        clusters.script.clear_all()
        if not sshd.runs or b"DEAF" in sshd.runs:
            clusters.script.agent_down(sshd.address)

    return before


@asynccontextmanager
async def push_lab(folder: Path, sshd: Sshd) -> AsyncIterator[PushLab]:
    """A lab with a file repository; the node has no agent yet, and there is no Secret."""
    files = folder / "served" / "files"
    files.mkdir(parents=True)
    clusters = open_simulation(folder / "simulation.db")
    hooked = PushClusters(clusters, before=hear_as_the_binary_does(sshd, clusters))
    with repository(folder / "served") as address:
        clusters.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KEY.kube_namespace}})
        for document in cluster_objects(sshd, address):
            clusters.put(document)
        clusters.add_target(KEY, self_managed=True)
        clusters.script.command_seconds(0.05)
        try:
            yield PushLab(sshd, clusters, hooked, files, folder / "cache")
        finally:
            await clusters.aclose()
