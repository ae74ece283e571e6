"""What the node agent's built-in instructions do to a simulated machine (openfuyao-nodes.md §1.4, §2).

An instruction is prepared when it starts (it reads the versions then) and takes effect when it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hopline.domain.etcd_snapshots import BACKUP_FOLDER
from hopline.domain.resources import BKE_CLUSTER
from hopline.domain.wire import ClusterKey
from hopline.sim import snapshots
from hopline.sim.database import Session
from hopline.sim.kinds import MANAGEMENT
from hopline.sim.machines import (
    ABSENT,
    CONTROL_PLANE,
    RUNTIME,
    Machine,
    image_registry,
    read_state,
    replace_static_pod,
    set_node_info,
    set_node_ready,
    static_pod_tag,
    target_storage,
    wanted_version,
    write_state,
)
from hopline.sim.storage import Storage

LINE = "line"


class Instruction(NamedTuple):
    """One entry of `spec.commands`, taken apart."""

    plugin: str
    arguments: dict[str, str]

    @property
    def phase(self) -> str:
        """What scripts call it: the phase of Kubeadm, else the plugin."""
        return self.arguments.get("phase", "") if self.plugin.lower() == "kubeadm" else self.plugin


class Outcome(NamedTuple):
    """How an instruction ended; `error` is empty when it went well."""

    output: tuple[str, ...] = ()
    error: str = ""


def parse(words: list[str], kind: str) -> Instruction:
    """An instruction from its words; a shell line is one plugin with its text as the one argument."""
    if kind != "BuiltIn":
        return Instruction(kind, {LINE: " ".join(words)})
    pairs = (word.partition("=") for word in words[1:])
    return Instruction(words[0] if words else "", {key: value for key, _, value in pairs})


def prepare(session: Session, instruction: Instruction) -> dict[str, str]:
    """The versions that the instruction is going to bring, read at its start; `error` when it cannot run at all."""
    name = instruction.plugin.lower()
    if name not in {*_PLUGINS, *_WITHOUT_EFFECT}:
        return {"error": f"Instruction not found: {instruction.plugin}"}
    if name not in {"kubeadm", "k8senvinit"}:
        return {}
    kube_namespace, _, cluster_name = instruction.arguments.get("bkeConfig", "").partition(":")
    cluster = ClusterKey(kube_namespace=kube_namespace, name=cluster_name)
    if Storage(session, MANAGEMENT).find(BKE_CLUSTER, cluster.name, cluster.kube_namespace) is None:
        return {"error": f"bkecluster {kube_namespace}/{cluster_name} not found"}
    given = instruction.arguments
    return {
        "kubernetes": wanted_version(session, cluster, "kubernetesVersion"),
        "etcd": given.get("etcdVersion") or wanted_version(session, cluster, "etcdVersion"),
        "containerd": given.get("containerdVersion") or wanted_version(session, cluster, "containerdVersion"),
    }


def perform(session: Session, machine: Machine, instruction: Instruction, prepared: dict[str, str]) -> Outcome:
    """Let the instruction take effect."""
    if prepared.get("error"):
        return Outcome(error=prepared["error"])
    plugin = _PLUGINS.get(instruction.plugin.lower())
    if plugin is None:
        return Outcome()
    storage = target_storage(session, machine.cluster)
    if storage is None:
        return Outcome(error=f"the simulation knows no API server of cluster {machine.cluster}")
    return plugin(storage, machine, instruction, prepared)


Plugin = Callable[[Storage, Machine, Instruction, dict[str, str]], Outcome]


def _ping(storage: Storage, machine: Machine, instruction: Instruction, prepared: dict[str, str]) -> Outcome:
    return Outcome(output=("pong", machine.name))


def _kubeadm(storage: Storage, machine: Machine, instruction: Instruction, prepared: dict[str, str]) -> Outcome:
    if instruction.arguments.get("backUpEtcd") == "true":
        snapshots.take(storage.session, machine)
    match instruction.phase:
        case "UpgradeEtcd":
            if machine.facts.is_etcd:
                _upgrade_static_pod(storage, machine, "etcd", prepared["etcd"])
        case "UpgradeControlPlane":
            for component in CONTROL_PLANE:
                _upgrade_static_pod(storage, machine, component, prepared["kubernetes"])
            _upgrade_kubelet(storage, machine, prepared["kubernetes"])
        case "UpgradeWorker":
            _upgrade_kubelet(storage, machine, prepared["kubernetes"])
        case other:
            return Outcome(error=f"unknown command: {other}")
    return Outcome()


def _upgrade_static_pod(storage: Storage, machine: Machine, component: str, version: str) -> None:
    tag = version.removeprefix("v")
    if tag and static_pod_tag(storage, component, machine) != tag:
        registry = image_registry(storage.session, machine.cluster)
        replace_static_pod(storage, component, machine, tag, registry)


def _upgrade_kubelet(storage: Storage, machine: Machine, version: str) -> None:
    set_node_info(storage, machine, kubeletVersion=version, kubeProxyVersion=version)


def _shell(storage: Storage, machine: Machine, instruction: Instruction, prepared: dict[str, str]) -> Outcome:
    """Shell lines have no effect; one that asks for snapshots is answered."""
    if BACKUP_FOLDER not in instruction.arguments.get(LINE, ""):
        return Outcome()
    told = snapshots.tell(storage.session, machine)
    return Outcome(output=("\n".join(told),)) if told else Outcome(error="ls: cannot access: No such file or directory")


def _reset(storage: Storage, machine: Machine, instruction: Instruction, prepared: dict[str, str]) -> Outcome:
    if "containerd-cfg" not in instruction.arguments.get("scope", "").split(","):
        return Outcome()
    if read_state(storage.session, machine, RUNTIME) == ABSENT:
        return Outcome(error="systemctl stop containerd: unit containerd.service not loaded")
    write_state(storage.session, machine, RUNTIME, ABSENT)
    set_node_ready(storage, machine, ready=False, message="container runtime is down")
    return Outcome()


def _environment(storage: Storage, machine: Machine, instruction: Instruction, prepared: dict[str, str]) -> Outcome:
    """The runtime is installed only where none is detected."""
    if "runtime" not in instruction.arguments.get("scope", "").split(","):
        return Outcome()
    if read_state(storage.session, machine, RUNTIME) == ABSENT:
        write_state(storage.session, machine, RUNTIME, "")
        version = prepared["containerd"].removeprefix("v")
        set_node_info(storage, machine, containerRuntimeVersion=f"containerd://{version}")
        set_node_ready(storage, machine, ready=True)
    return Outcome()


_PLUGINS: dict[str, Plugin] = {
    "ping": _ping,
    "kubeadm": _kubeadm,
    "reset": _reset,
    "k8senvinit": _environment,
    "shell": _shell,
}
_WITHOUT_EFFECT = frozenset(
    {
        "installcontainerd", "installdocker", "installcridocker", "switchcluster", "cert", "runkubelet", "ha",
        "downloader", "backup", "collect", "manifests", "shutdown", "selfupdate", "preprocess", "postprocess",
        "kubernetes",
    }
)  # fmt: skip
