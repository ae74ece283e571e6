"""What was read from the management cluster about one cluster: facts, not decisions (openfuyao-api.md §1.6, §1.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from hopline.domain.resources import ANNOTATION_HANDLED, ANNOTATION_PAUSED, BKE_CLUSTER, Document
from hopline.domain.wire import ClusterKey, WireModel

AGENT_READY_BIT = 2
FAILED_BIT = 128


class VersionFields(WireModel):
    """The four versions that BKECluster keeps in spec and in status."""

    open_fuyao: str = Field("", alias="openFuyaoVersion")
    kubernetes: str = Field("", alias="kubernetesVersion")
    etcd: str = Field("", alias="etcdVersion")
    containerd: str = Field("", alias="containerdVersion")


class NodeFacts(WireModel):
    """One BKENode. `roles` as written: master, node, etcd, master/node."""

    name: str
    ip: str
    hostname: str = ""
    roles: tuple[str, ...] = ()
    state: str = ""
    state_code: int = 0
    need_skip: bool = False
    etcd_port: int = 0
    """Where its etcd listens for clients, when the BKENode itself says so; 0: as the cluster says."""

    @property
    def is_control_plane(self) -> bool:
        """Selected by the master phase (openfuyao-nodes.md §0.5)."""
        return "master" in self.roles or "master/node" in self.roles

    @property
    def is_etcd(self) -> bool:
        """Runs an etcd member."""
        return "etcd" in self.roles

    @property
    def is_worker(self) -> bool:
        """Not a control-plane node: a node with both roles belongs to the control-plane pool only (trap B65)."""
        return not self.is_control_plane and not self.is_etcd

    @property
    def is_failed(self) -> bool:
        """Bit 128: an earlier upgrade or bootstrap gave it up."""
        return bool(self.state_code & FAILED_BIT)

    @property
    def agent_ready(self) -> bool:
        """Bit 2: the node agent answers."""
        return bool(self.state_code & AGENT_READY_BIT)

    @property
    def display_name(self) -> str:
        """Hostname, else address: the name of the core Node object."""
        return self.hostname or self.ip


class ClusterFacts(WireModel):
    """One BKECluster with its ClusterVersion and BKENodes, as read at one moment.

    `document` is the whole BKECluster, for template variables and annotations; `generation` is the ClusterVersion's.
    `our_failure`: the last upgrade was a run of ours and failed, by its condition Failing or by the mark of its end.
    """

    key: ClusterKey
    uid: str = ""
    generation: int = 0
    document: dict[str, Any] = Field(default_factory=dict)
    spec: VersionFields = VersionFields()
    status: VersionFields = VersionFields()
    current_version: str = ""
    desired_version: str = ""
    cluster_status: str = ""
    health_state: str = ""
    paused: bool = False
    dry_run: bool = False
    reset: bool = False
    deleting: bool = False
    version_deleting: bool = False
    our_failure: bool = False
    annotations: dict[str, str] = Field(default_factory=dict)
    nodes: tuple[NodeFacts, ...] = ()

    @property
    def subject(self) -> str:
        """For messages."""
        return f"BKECluster {self.key}"

    @property
    def owner_reference(self) -> Document:
        """For objects that go when the BKECluster goes: ReleaseImages and Commands."""
        return {
            "apiVersion": BKE_CLUSTER.api_version,
            "kind": BKE_CLUSTER.kind,
            "name": self.key.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def node_facts(document: Document) -> NodeFacts:
    """Read one BKENode."""
    spec, status = _mapping(document.get("spec")), _mapping(document.get("status"))
    return NodeFacts(
        name=str(_mapping(document.get("metadata")).get("name", "")),
        ip=str(spec.get("ip", "")),
        hostname=str(spec.get("hostname", "") or ""),
        roles=tuple(str(role) for role in _items(spec.get("role"))),
        state=str(status.get("state", "") or ""),
        state_code=_number(status.get("stateCode")),
        need_skip=bool(status.get("needSkip", False)),
        etcd_port=client_port(spec.get("etcd")),
    )


def client_port(settings: object) -> int:
    """The port in `extraArgs` of an etcd section (of BKECluster or BKENode); 0 when it says nothing."""
    arguments = settings.get("extraArgs") if isinstance(settings, Mapping) else None
    if not isinstance(arguments, Mapping):
        return 0
    for name in ("advertise-client-urls", "listen-client-urls"):
        for url in str(arguments.get(name) or "").split(","):
            try:
                found = urlsplit(url.strip()).port
            except ValueError:
                found = None
            if found:
                return found
    return 0


def cluster_facts(cluster: Document, version: Document | None, nodes: list[Document]) -> ClusterFacts:
    """Read a BKECluster, its ClusterVersion (None when there is none) and its BKENodes.

    The current version is ClusterVersion's, else BKECluster's status, else its spec (openfuyao-api.md §3.2 step 6).
    Nodes are sorted by name: the order of the list is not stable (observed.md §6 item 14).
    """
    metadata = _mapping(cluster.get("metadata"))
    spec, status = _mapping(cluster.get("spec")), _mapping(cluster.get("status"))
    versions = VersionFields.model_validate(_strings(_mapping(_mapping(spec.get("clusterConfig")).get("cluster"))))
    recorded = VersionFields.model_validate(_strings(status))
    wish = version or {}
    current = (
        str(_mapping(wish.get("status")).get("currentVersion") or "") or recorded.open_fuyao or versions.open_fuyao
    )
    annotations = {str(k): str(v) for k, v in _mapping(metadata.get("annotations")).items()}
    return ClusterFacts(
        key=ClusterKey(kube_namespace=str(metadata.get("namespace", "")), name=str(metadata.get("name", ""))),
        uid=str(metadata.get("uid", "")),
        generation=_number(_mapping(wish.get("metadata")).get("generation")),
        document=dict(cluster),
        spec=versions,
        status=recorded,
        current_version=current,
        desired_version=str(_mapping(wish.get("spec")).get("desiredVersion") or ""),
        cluster_status=str(status.get("clusterStatus", "") or ""),
        health_state=str(status.get("clusterHealthState", "") or ""),
        paused=bool(spec.get("pause")) or ANNOTATION_PAUSED in annotations,
        dry_run=bool(spec.get("dryRun")),
        reset=bool(spec.get("reset")),
        deleting="deletionTimestamp" in metadata,
        version_deleting="deletionTimestamp" in _mapping(wish.get("metadata")),
        our_failure=_is_our_failure(wish),
        annotations=annotations,
        nodes=tuple(sorted((node_facts(node) for node in nodes), key=lambda node: node.name)),
    )


def _is_our_failure(version: Mapping[str, Any]) -> bool:
    mark = str(_mapping(_mapping(version.get("metadata")).get("annotations")).get(ANNOTATION_HANDLED, ""))
    conditions = _items(_mapping(version.get("status")).get("conditions"))
    is_failing = any(one.get("type") == "Failing" and one.get("status") == "True" for one in conditions)
    return is_failing or mark.endswith(("/Failed", "/Aborted"))


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _strings(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items() if isinstance(value, str)}
