"""What Hopline needs from the outside, as protocols. Adapters: `kube` (real), `sim` (shipped simulator), `files`.

Errors are those of `hopline.domain.errors`: Transient (try again), Blocked (be patient), Permanent and its leaves
NotFound, AlreadyExists, Conflict, Forbidden, Rejected. Adapters never retry and never sleep, with two exceptions that
are theirs alone: a watch re-lists by itself, and an unknown kind refreshes discovery once.

One contract suite (`tests/contracts/`) holds every implementation to the promises written here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.etcd import EtcdSighting
from hopline.domain.plan import Finding
from hopline.domain.release import RawBundle
from hopline.domain.resources import Document, Kind, ObjectRef
from hopline.domain.wire import ClusterKey


class Listing(BaseModel):
    """All objects of one kind at one moment."""

    model_config = ConfigDict(frozen=True)

    items: list[Document]
    resource_version: str


class ChangeType(StrEnum):
    """What a watch reports."""

    SYNCED = "SYNCED"
    """`documents` is the complete current list: at the start, and again after every gap."""
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(BaseModel):
    """One report of a watch; `documents` has one entry, except for SYNCED."""

    model_config = ConfigDict(frozen=True)

    type: ChangeType
    documents: list[Document]


@runtime_checkable
class ClusterClient(Protocol):
    """One Kubernetes API server, by verbs on objects.

    Promises:
    - every request ends within 10 s, by an answer or by Transient;
    - `patch` with `metadata.resourceVersion` in the body fails with Conflict when the object has changed since;
    - a patch or apply that changes nothing leaves `metadata.resourceVersion` as it is;
    - `subresource="status"` writes nothing but the status, and a write without it never changes the status of a kind
      that has the status subresource;
    - `dry_run=True` answers as the real call would and changes nothing;
    - an object with finalizers that is deleted stays, with `metadata.deletionTimestamp`, until they are gone.
    """

    async def identity(self) -> str:
        """uid of the Namespace `kube-system`: the same API server has the same, another one has another."""
        ...

    async def resolve(self, api_version: str, kind: str) -> Kind:
        """The kind with its scope, by discovery. NotFound when this API server does not serve it."""
        ...

    async def get(self, ref: ObjectRef) -> Document:
        """The object. NotFound when it is not there."""
        ...

    async def list(self, kind: Kind, *, kube_namespace: str = "", labels: str = "", fields: str = "") -> Listing:
        """The objects of a kind, in one Namespace or everywhere, that match a label selector; by name order.

        `fields` is a field selector that the kind supports, such as `spec.nodeName=w1` for Pods.
        """
        ...

    async def create(self, document: Document, *, kind: Kind, dry_run: bool = False) -> Document:
        """Make a new object. AlreadyExists when the name is taken."""
        ...

    async def patch(self, ref: ObjectRef, body: Document, *, subresource: str = "", dry_run: bool = False) -> Document:
        """JSON merge patch."""
        ...

    async def apply(
        self, document: Document, *, kind: Kind, field_manager: str, force: bool = False, dry_run: bool = False
    ) -> Document:
        """Server-side apply. Conflict, naming manager and fields, when another manager owns them and not `force`."""
        ...

    async def delete(self, ref: ObjectRef, *, uid: str = "") -> None:
        """Delete with background propagation; with `uid`, Conflict when the object is another one by now."""
        ...

    async def evict(self, pod: ObjectRef, *, uid: str = "", grace_seconds: int = -1) -> None:
        """Ask for a pod's end through its Eviction, which disruption budgets may refuse.

        Accepted means that the pod is going, not that it is gone. -1: the grace of the pod itself. Raises Blocked when
        a budget does not allow it now, Transient with the value `HTTP 429` when the server asks for patience, Rejected
        when more than one budget is over the pod or a webhook refuses it, NotFound when it is gone, and Conflict when
        another pod has its name by now (`uid`).
        """
        ...

    def watch(
        self, kind: Kind, *, kube_namespace: str = "", labels: str = "", name: str = "", fields: str = ""
    ) -> AsyncIterator[Change]:
        """Endless list-and-watch: first SYNCED, then changes; survives 410 Gone and restarts of the API server.

        While the API server is away the iterator waits and then reports SYNCED; it raises only Forbidden and NotFound
        (kind not served).
        """
        ...


class InstallPhase(StrEnum):
    """How far the installation of a node agent is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class InstallState(BaseModel):
    """Observation of one installation of a node agent."""

    model_config = ConfigDict(frozen=True)

    phase: InstallPhase
    message: str = ""


def tell_nobody(message: str) -> None:
    """Nobody wants to know how far it is."""


class NodeAgentInstaller(Protocol):
    """Puts the node agent itself on a node. There is no Command for it (openfuyao-nodes.md §2.2)."""

    async def install(
        self, cluster: ClusterKey, node_ip: str, version: str, *, tell: Callable[[str], None] = tell_nobody
    ) -> InstallState:
        """Start the installation if it is not running or done, and say how far it is. Level-triggered.

        May take as long as the work does, and then says through `tell` what it is at. Cut off anywhere, the next call
        goes on from what the node shows. Raises PortError when nothing can be said of the node just now, or ever.
        """
        ...

    async def review(self, facts: ClusterFacts, nodes: Sequence[NodeFacts], version: str) -> tuple[Finding, ...]:
        """What is in the way of an installation on these nodes, as it looks now; changes nothing."""
        ...


class ShellAnswer(BaseModel):
    """How a script on a node ended; both texts are bounded, and no credential is in them."""

    model_config = ConfigDict(frozen=True)

    code: int
    output: str = ""
    error: str = ""


class NodeShell(Protocol):
    """A way onto one node, with the rights of root."""

    async def run(
        self, script: str, *arguments: str, data: AsyncIterator[bytes] | None = None, timeout_seconds: float = 60.0
    ) -> ShellAnswer:
        """Run a POSIX shell script with arguments; `data` is what it reads.

        Args:
            timeout_seconds: for the whole of it; with `data`, from the last piece that was taken.

        Raises Transient when the way is cut off (what the script does then is not known), Forbidden when the node does
        not allow it.
        """
        ...


class NodeShells(Protocol):
    """Ways onto the nodes of clusters."""

    def open(self, cluster: ClusterKey, node: NodeFacts) -> AbstractAsyncContextManager[NodeShell]:
        """Raises Transient when the node does not answer, Forbidden when it does not let us in, Rejected when it is not
        the one that it should be, NotFound when there are no credentials."""
        ...

    async def unrecorded_key(self, cluster: ClusterKey, node: NodeFacts) -> str:
        """The fingerprint of a host key that the next `open` would record; empty: it is known, nothing is recorded.

        Raises as `open` does; never signs in.
        """
        ...


class AgentBinary(BaseModel):
    """A node agent for one architecture.

    Attributes:
        path: a file of this machine; empty when it was only looked for.
        sha256: in hex; it is the version of the agent, as nodes show it.
        origin: where it came from.
        vouched: its hash stood beside it, and was right.
    """

    model_config = ConfigDict(frozen=True)

    path: Path | None = None
    sha256: str = ""
    size: int = 0
    origin: str
    vouched: bool = False


class AgentBinaries(Protocol):
    """Where new node agents come from."""

    async def fetch(self, facts: ClusterFacts, version: str, architecture: str) -> AgentBinary:
        """The binary as a file. NotFound when there is none, Rejected when its bytes are not those that its hash
        names, Transient when nobody can say just now."""
        ...

    async def look(self, facts: ClusterFacts, version: str, architecture: str) -> AgentBinary:
        """As `fetch`, without the bytes: that it is there, and what vouches for it."""
        ...


class EtcdProbe(Protocol):
    """Asks the etcd of a cluster, and has its leader changed; changes nothing else."""

    async def look(self, facts: ClusterFacts) -> EtcdSighting:
        """Members, leader, alarms and space, as the members themselves show them; ends within 15 s.

        A member that does not answer is one with a problem, as long as another one answers. Raises ClusterNotReady,
        naming the Secret, when the credentials are not there, or members and credentials do not trust each other; and
        Transient when no member answers, or the credentials cannot be read just now: then nothing is known.
        """
        ...

    async def move_leader(self, facts: ClusterFacts, leader: str, successor: str) -> None:
        """Has the member `leader` hand the lead to `successor`, both by the names of a sighting; ends within 20 s.

        Nothing is done when the former does not lead any more. Raises what `look` raises, and Transient when one of
        them does not answer or refuses: then either may lead.
        """
        ...


class Clusters(Protocol):
    """The API servers that a worker can reach."""

    @property
    def management(self) -> ClusterClient:
        """Holds BKECluster, ClusterVersion, UpgradePath, ReleaseImage, BKENode and Command."""
        ...

    @property
    def agents(self) -> NodeAgentInstaller | None:
        """None: this worker cannot install node agents, and a component that needs it is a blocking finding."""
        ...

    @property
    def etcd(self) -> EtcdProbe:
        """Asks the etcd of the clusters that are upgraded."""
        ...

    async def target(self, cluster: ClusterKey) -> ClusterClient:
        """The cluster that is upgraded: through its kubeconfig Secret, or the management cluster itself.

        Raises ClusterNotReady when there is no usable kubeconfig, Transient when it cannot be read just now.
        """
        ...

    def look_again(self, cluster: ClusterKey) -> None:
        """Trust nothing that is known of the way to a cluster: the next `target` reads its kubeconfig again."""
        ...

    async def aclose(self) -> None:
        """Give back every connection."""
        ...


class ReleaseSource(Protocol):
    """Where release bundles come from."""

    async def fetch(
        self, version: str, *, digest: str = "", cluster: ClusterKey | None = None, anew: bool = False
    ) -> RawBundle:
        """The bundle of a version. With `digest`, InvalidRelease when what is there has another one.

        Args:
            cluster: whose registry is asked; a directory is the same for all.
            anew: ask what the version means now, also where the bytes of `digest` are at hand.

        Raises InvalidRelease when there is no such release, Transient when it cannot be reached just now.
        """
        ...


class StoredRecord(BaseModel):
    """What is known of a record without reading it.

    Attributes:
        digest: `sha256:…` of its bytes.
        size, parts: bytes, and into how many pieces they were cut.
        about: what it is, in the words of whoever stored it.
    """

    model_config = ConfigDict(frozen=True)

    digest: str
    size: int
    parts: int = 1
    about: dict[str, str]
    at: datetime


class Store(Protocol):
    """Records of any size by digest, shared by all workers; each belongs to an object and goes with it.

    `owner` is a namespaced object as it was read. A record that was put can be read by every worker, and a put that was
    cut off leaves nothing that could be read as a record.
    """

    async def put(self, owner: Document, data: bytes, *, about: Mapping[str, str], at: datetime) -> StoredRecord:
        """Keep `data`. The same bytes of the same owner are kept once, as they were put first; safe to repeat."""
        ...

    async def get(self, owner: Document, digest: str) -> bytes:
        """The bytes. NotFound when there is no such record or not all of it, Rejected when they are other ones."""
        ...

    async def records(self, owner: Document) -> list[StoredRecord]:
        """The records of an owner, oldest first; also those of which not all is there."""
        ...

    async def delete(self, owner: Document, digest: str) -> None:
        """Forget a record; one that is not there is no error."""
        ...
