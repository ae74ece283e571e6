"""The machines of simulated clusters: what their core Node, their static pods and their runtime show.

openfuyao-nodes.md §2.3-2.9. A machine is found by the BKENode of its address; it shows itself in the target cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hopline.domain.cluster import NodeFacts, node_facts
from hopline.domain.resources import BKE_CLUSTER, BKE_NODE, LABEL_CLUSTER_NAME, NODE, POD, Document, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.sim.controllers import condition, set_status
from hopline.sim.database import Session
from hopline.sim.kinds import MANAGEMENT
from hopline.sim.pods import digest, pod_status
from hopline.sim.script import DurationScope, duration
from hopline.sim.storage import Storage, deep, timestamp

DEFAULT_REGISTRY = "cr.openfuyao.cn/openfuyao"
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
RUNTIME, AGENT = "runtime", "agent"
"""Fields of `node_states`: `absent` while containerd is removed; the version of the node agent."""
ABSENT = "absent"

SYSTEM = "kube-system"


class Machine(NamedTuple):
    """One node of one cluster."""

    cluster: ClusterKey
    facts: NodeFacts

    @property
    def name(self) -> str:
        """Name of its core Node."""
        return self.facts.display_name

    @property
    def key(self) -> str:
        """`hostname/ip`, the key of its entry in a Command's status."""
        return f"{self.facts.display_name}/{self.facts.ip}"


def _machine(document: Document) -> Machine:
    metadata = document["metadata"]
    name = (metadata.get("labels") or {}).get(LABEL_CLUSTER_NAME, "")
    return Machine(ClusterKey(kube_namespace=metadata["namespace"], name=name), node_facts(document))


def machines(session: Session, kube_namespace: str, cluster_name: str = "") -> list[Machine]:
    """The machines whose BKENodes are in a namespace, by name; of one cluster when it is named."""
    found = [_machine(document) for document in Storage(session, MANAGEMENT).select(BKE_NODE, kube_namespace)]
    return [machine for machine in found if cluster_name in {"", machine.cluster.name}]


def find_machine(session: Session, kube_namespace: str, cluster_name: str, ip: str) -> Machine | None:
    """The machine with an address; its BKENode has the usual name, or any other (openfuyao-nodes.md §0.5)."""
    usual = f"{cluster_name}-{ip.replace('.', '-')}"
    document = Storage(session, MANAGEMENT).find(BKE_NODE, usual, kube_namespace) if cluster_name else None
    machine = _machine(document) if document is not None else None
    if machine is not None and machine.facts.ip == ip and machine.cluster.name == cluster_name:
        return machine
    return next((one for one in machines(session, kube_namespace, cluster_name) if one.facts.ip == ip), None)


def target_storage(session: Session, cluster: ClusterKey) -> Storage | None:
    """The API server that a cluster's nodes belong to; None when the simulation does not know the cluster."""
    server = session.one(
        "SELECT server FROM clusters WHERE kube_namespace = ? AND name = ?", cluster.kube_namespace, cluster.name
    )
    return None if server is None else Storage(session, str(server))


def wanted_version(session: Session, cluster: ClusterKey, field: str) -> str:
    """What BKECluster spec says the node should have: agents read versions there, not in the Command."""
    document = Storage(session, MANAGEMENT).find(BKE_CLUSTER, cluster.name, cluster.kube_namespace)
    return str(deep(document, "spec", "clusterConfig", "cluster", field) or "")


def read_state(session: Session, machine: Machine, field: str) -> str:
    """A fact that only the machine itself knows; empty when it was never set."""
    found = session.one(
        "SELECT value FROM node_states WHERE cluster = ? AND ip = ? AND field = ?",
        str(machine.cluster), machine.facts.ip, field,
    )  # fmt: skip
    return str(found or "")


def write_state(session: Session, machine: Machine, field: str, value: str) -> None:
    """Keep a fact that only the machine itself knows."""
    session.execute(
        "INSERT OR REPLACE INTO node_states VALUES (?, ?, ?, ?)",
        str(machine.cluster), machine.facts.ip, field, value,
    )  # fmt: skip


def image_registry(session: Session, cluster: ClusterKey) -> str:
    """Where the node's images come from (openfuyao-nodes.md §2.9)."""
    document = Storage(session, MANAGEMENT).find(BKE_CLUSTER, cluster.name, cluster.kube_namespace)
    repo: Any = deep(document, "spec", "clusterConfig", "cluster", "imageRepo") or {}
    host, port, prefix = repo.get("domain") or repo.get("ip"), repo.get("port"), repo.get("prefix")
    if not (prefix and host):
        return DEFAULT_REGISTRY
    return f"{host}:{port}/{prefix}" if port else f"{host}/{prefix}"


def make_node(
    storage: Storage, machine: Machine, kubelet: str, containerd: str, *, labels: dict[str, str] | None = None
) -> Document:
    """The core Node of a machine, Ready."""
    role = "control-plane" if machine.facts.is_control_plane else "worker"
    return storage.insert(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": machine.name,
                "labels": {
                    "kubernetes.io/hostname": machine.name,
                    f"node-role.kubernetes.io/{role}": "",
                    **(labels or {}),
                },
            },
            "spec": {},
            "status": {
                "addresses": [
                    {"type": "InternalIP", "address": machine.facts.ip},
                    {"type": "Hostname", "address": machine.name},
                ],
                "conditions": [
                    condition("DiskPressure", storage.now, status=False, reason="KubeletHasNoDiskPressure"),
                    condition("Ready", storage.now, reason="KubeletReady"),
                ],
                "nodeInfo": {
                    "kubeletVersion": kubelet,
                    "kubeProxyVersion": kubelet,
                    "containerRuntimeVersion": f"containerd://{containerd.removeprefix('v')}",
                    "operatingSystem": "linux",
                    "architecture": "amd64",
                    "osImage": "openEuler 24.03 (LTS)",
                    "kernelVersion": "6.6.0",
                    "machineID": digest(machine.key, 32),
                    "systemUUID": digest([machine.key], 32),
                    "bootID": digest([machine.key, 1], 32),
                },
            },
        }
    )


def set_node_info(storage: Storage, machine: Machine, **info: str) -> None:
    """Let the kubelet report other versions."""
    node = storage.find(NODE, machine.name)
    if node is not None:
        status = {**node["status"], "nodeInfo": {**node["status"]["nodeInfo"], **info}}
        set_status(storage, node, status)


def set_node_ready(storage: Storage, machine: Machine, *, ready: bool, message: str = "") -> None:
    """Let the kubelet report whether the node is Ready."""
    node = storage.find(NODE, machine.name)
    if node is None:
        return
    others = [entry for entry in node["status"].get("conditions") or () if entry["type"] != "Ready"]
    reason = "KubeletReady" if ready else "KubeletNotReady"
    mine = condition("Ready", storage.now, status=ready, reason=reason, message=message)
    set_status(storage, node, {**node["status"], "conditions": [*others, mine]})


def static_pod_ref(component: str, machine: Machine) -> ObjectRef:
    """The mirror pod of a static pod."""
    return ObjectRef(kind=POD, name=f"{component}-{machine.name}", kube_namespace=SYSTEM)


def static_pod_tag(storage: Storage, component: str, machine: Machine) -> str:
    """Image tag of a static pod's container; empty when there is no such pod."""
    ref = static_pod_ref(component, machine)
    pod = storage.find(ref.kind, ref.name, ref.kube_namespace)
    image = str(pod["spec"]["containers"][0]["image"]) if pod is not None else ""
    return image.rpartition(":")[2]


def replace_static_pod(storage: Storage, component: str, machine: Machine, tag: str, registry: str) -> None:
    """The kubelet restarts a static pod from a new manifest: a new mirror pod under the same name, with another hash.

    It is Ready at once, or after the scripted time.
    """
    ref = static_pod_ref(component, machine)
    old = storage.find(ref.kind, ref.name, ref.kube_namespace)
    if old is not None:
        storage.remove(old)
    pod = _static_pod(storage, component, machine, f"{registry}/{component}:{tag}")
    seconds = duration(storage.session, DurationScope.STATIC_POD, name=component) if old is not None else 0.0
    pod["status"] = pod_status(pod, storage.now, waiting="ContainerCreating" if seconds > 0 else "")
    uid = storage.insert(pod)["metadata"]["uid"]
    if seconds > 0:
        storage.session.schedule(seconds, "machine.pod ready", server=storage.server, uid=uid)


def _static_pod(storage: Storage, component: str, machine: Machine, image: str) -> Document:
    name, moment = f"{component}-{machine.name}", timestamp(storage.now)
    config = digest([image, name], 32)
    annotations = {
        "kubernetes.io/config.hash": config,
        "kubernetes.io/config.mirror": config,
        "kubernetes.io/config.seen": moment,
        "kubernetes.io/config.source": "file",
    }
    if component == "etcd":
        annotations["kubeadm.kubernetes.io/etcd.advertise-client-urls"] = f"https://{machine.facts.ip}:2379"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": SYSTEM,
            "labels": {"component": component, "tier": "control-plane"},
            "annotations": annotations,
        },
        "spec": {
            "nodeName": machine.name,
            "hostNetwork": True,
            "priorityClassName": "system-node-critical",
            "containers": [{"name": component, "image": image}],
        },
    }


def _pod_ready(session: Session, server: str, uid: str) -> None:
    storage = Storage(session, server)
    pod = storage.find_uid(uid)
    if pod is not None:
        set_status(storage, pod, pod_status(pod, session.now))


ACTIONS: dict[str, Callable[..., None]] = {"machine.pod ready": _pod_ready}
