"""Node-level components as Commands for node agents: which nodes, which instructions, in the documented shape.

Names, arguments and their order, labels, selector and limits are those of openfuyao-nodes.md §1.8 and of the recorded
objects (observed.md §6); only containerd differs on purpose: one node at a time, where the existing controller resets
every node at once (B64).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.components import pool_nodes
from hopline.domain.errors import InvalidRelease
from hopline.domain.plan import Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import (
    ANNOTATION_CLUSTER_FROM,
    COMMAND,
    LABEL_CLUSTER_COMMAND,
    LABEL_CLUSTER_NAME,
    Document,
)
from hopline.domain.wire import WireEnum, WireModel

BACKOFF_LIMIT = 3
ACTIVE_DEADLINE_SECONDS = 1000
TTL_SECONDS = 600
DEFAULT_CLUSTER_TYPE = "bke"


class NodeStep(WireEnum):
    """One instruction for one node; a component has one of them, containerd two."""

    UPGRADE = "upgrade"
    RESET = "reset"
    """Take the old runtime away."""
    REDEPLOY = "redeploy"
    """Put the new runtime there."""
    INSTALL = "install"
    """The agent itself: no Command (openfuyao-nodes.md §2.2)."""
    UNKNOWN = "unknown"


_PHASES = {
    InlineHandler.ETCD: "UpgradeEtcd",
    InlineHandler.MASTER: "UpgradeControlPlane",
    InlineHandler.WORKER: "UpgradeWorker",
}
_STEPS: Mapping[InlineHandler, tuple[NodeStep, ...]] = {
    InlineHandler.AGENT: (NodeStep.INSTALL,),
    InlineHandler.CONTAINERD: (NodeStep.RESET, NodeStep.REDEPLOY),
    **dict.fromkeys(_PHASES, (NodeStep.UPGRADE,)),
}


DRAINING_HANDLERS = frozenset({InlineHandler.CONTAINERD, InlineHandler.MASTER, InlineHandler.WORKER})
"""Their work restarts kubelet or runtime under the pods of a node, so the node is drained before (design §8)."""


def handler_named(handler: str) -> InlineHandler:
    """The node-level handler of that name. Raises InvalidRelease for any other."""
    try:
        found = InlineHandler(handler)
    except ValueError:
        found = InlineHandler.PRE_UPGRADE_RESOURCES
    if found not in _STEPS:
        raise InvalidRelease(
            "this inline handler does not work on nodes",
            subject="ComponentVersion",
            field="spec.inline.handler",
            value=handler,
            remedy="use one of " + ", ".join(sorted(one.value for one in _STEPS)),
        )
    return found


def steps_of(handler: str) -> tuple[NodeStep, ...]:
    """The instructions that raise one node, in order."""
    return _STEPS[handler_named(handler)]


class PoolMembers(WireModel):
    """The nodes of one component in one pool, by name; `left_out` says who was left out and why."""

    nodes: tuple[NodeFacts, ...] = ()
    left_out: tuple[str, ...] = ()


def members_of(facts: ClusterFacts, handler: str, pool: Pool) -> PoolMembers:
    """The nodes to be raised, sorted by name.

    Nodes with the Failed bit are left out, as documented, but never in silence (openfuyao-nodes.md §0.5); `needSkip`
    counts for worker nodes alone.
    """
    nodes: list[NodeFacts] = []
    left_out: list[str] = []
    for node in sorted(pool_nodes(facts.nodes, pool, handler_named(handler)), key=lambda node: node.name):
        if node.is_failed:
            left_out.append(f"{node.display_name} (failed earlier, status.stateCode {node.state_code} has bit 128)")
        elif node.need_skip and pool is Pool.WORKERS:
            left_out.append(f"{node.display_name} (status.needSkip is true)")
        else:
            nodes.append(node)
    return PoolMembers(nodes=tuple(nodes), left_out=tuple(left_out))


class NodeCommand(WireModel):
    """What one Command tells one node; the name is `prefix-<unix second>`.

    Attributes:
        shell: id and text of a shell line that comes after it; empty: none.
    """

    prefix: str
    id: str
    arguments: tuple[str, ...]
    backoff_ignore: bool = False
    backoff_delay: int = 0
    ttl_seconds: int = 0
    remove_after_wait: bool = False
    shell: tuple[str, ...] = ()


def command_prefix(handler: str, step: NodeStep, node_ip: str) -> str:
    """The documented name without its unix second."""
    if handler_named(handler) is InlineHandler.CONTAINERD:
        return f"k8s-containerd-{step.value}"
    return f"upgrade-node-{node_ip}"


def node_command(facts: ClusterFacts, handler: str, version: str, node: NodeFacts, step: NodeStep) -> NodeCommand:
    """The instruction for one step on one node."""
    kind = handler_named(handler)
    prefix = command_prefix(handler, step, node.ip)
    config = f"bkeConfig={facts.key.kube_namespace}:{facts.key.name}"
    if step is NodeStep.RESET:
        reset = ("Reset", config, "scope=containerd-cfg", "extra=")
        return NodeCommand(prefix=prefix, id="reset", arguments=reset, backoff_ignore=True, remove_after_wait=True)
    if step is NodeStep.REDEPLOY:
        redeploy = ("K8sEnvInit", "init=true", "check=true", "scope=runtime", config, f"containerdVersion={version}")
        return NodeCommand(
            prefix=prefix,
            id="init and check node env",
            arguments=redeploy,
            backoff_delay=5,
            remove_after_wait=True,
        )
    return _upgrade(facts, kind, version, node, backs_up=_takes_snapshot(facts, kind, node))


def etcd_snapshot_command(facts: ClusterFacts, node: NodeFacts, version: str, tell: tuple[str, str]) -> NodeCommand:
    """The upgrade of etcd with a backup, to the version that is there, and a shell line that tells of the file."""
    return _upgrade(facts, InlineHandler.ETCD, version, node, backs_up=True).model_copy(update={"shell": tell})


def _upgrade(facts: ClusterFacts, kind: InlineHandler, version: str, node: NodeFacts, *, backs_up: bool) -> NodeCommand:
    upgrade = [
        "Kubeadm",
        f"phase={_PHASES[kind]}",
        f"bkeConfig={facts.key.kube_namespace}:{facts.key.name}",
        f"clusterType={facts.annotations.get(ANNOTATION_CLUSTER_FROM) or DEFAULT_CLUSTER_TYPE}",
        f"backUpEtcd={'true' if backs_up else 'false'}",
    ]
    if kind is InlineHandler.ETCD:
        upgrade.append(f"etcdVersion={version}")
    prefix = command_prefix(kind.value, NodeStep.UPGRADE, node.ip)
    return NodeCommand(prefix=prefix, id="upgrade", arguments=tuple(upgrade), backoff_delay=3, ttl_seconds=TTL_SECONDS)


def _takes_snapshot(facts: ClusterFacts, kind: InlineHandler, node: NodeFacts) -> bool:
    """The first etcd node that is worked on: one that was left out would take none at all (openfuyao-nodes.md §2.4)."""
    if kind is InlineHandler.WORKER:
        return False
    etcd = members_of(facts, InlineHandler.ETCD.value, Pool.CONTROL_PLANE).nodes
    return bool(etcd) and etcd[0].name == node.name


def command_document(facts: ClusterFacts, command: NodeCommand, node: NodeFacts, name: str) -> Document:
    """The Command object, field by field as recorded; zero values are left out as Go leaves them out."""
    entry: dict[str, Any] = {"id": command.id, "command": list(command.arguments), "type": "BuiltIn"}
    if command.backoff_ignore:
        entry["backoffIgnore"] = True
    if command.backoff_delay:
        entry["backoffDelay"] = command.backoff_delay
    entries = [entry]
    if command.shell:
        entries.append({"id": command.shell[0], "command": [command.shell[1]], "type": "Shell"})
    spec: dict[str, Any] = {
        "nodeName": "",
        "suspend": False,
        "commands": entries,
        "backoffLimit": BACKOFF_LIMIT,
        "activeDeadlineSecond": ACTIVE_DEADLINE_SECONDS,
        "nodeSelector": {"matchLabels": {node.ip: node.ip}},
    }
    if command.ttl_seconds:
        spec["ttlSecondsAfterFinished"] = command.ttl_seconds
    return command_object(facts, name, spec)


def command_object(facts: ClusterFacts, name: str, spec: Document) -> Document:
    """A Command of this cluster: labels and owner as documented (openfuyao-nodes.md §1.8)."""
    return {
        "apiVersion": COMMAND.api_version,
        "kind": COMMAND.kind,
        "metadata": {
            "name": name,
            "namespace": facts.key.kube_namespace,
            "labels": {LABEL_CLUSTER_COMMAND: "", LABEL_CLUSTER_NAME: facts.key.name},
            "ownerReferences": [facts.owner_reference],
        },
        "spec": spec,
    }


def is_for(document: Document, node: NodeFacts) -> bool:
    """The Command reaches this node, alone or among others."""
    spec = _mapping(document.get("spec"))
    labels = _mapping(_mapping(spec.get("nodeSelector")).get("matchLabels"))
    return spec.get("nodeName") in (node.hostname or node.ip, node.ip) or any(
        key and labels.get(key) == key for key in (node.ip, node.hostname)
    )


def is_of_node_upgrade(document: Document, node: NodeFacts) -> bool:
    """A Command for this node alone with one of the names that node upgrades have, whoever made it (`Unique`, §1.8)."""
    base, _, number = str(_mapping(document.get("metadata")).get("name", "")).rpartition("-")
    bases = {command_prefix(InlineHandler.WORKER.value, NodeStep.UPGRADE, node.ip)}
    bases |= {
        command_prefix(InlineHandler.CONTAINERD.value, step, node.ip) for step in _STEPS[InlineHandler.CONTAINERD]
    }
    return base in bases and number.isdecimal() and _is_for_alone(document, node)


def is_collected(document: Document) -> bool:
    """The agent deletes it by itself some time after its success (§1.7)."""
    return bool(_mapping(document.get("spec")).get("ttlSecondsAfterFinished"))


def is_same_work(document: Document, command: NodeCommand, node: NodeFacts) -> bool:
    """The Command tells this node, and no other, exactly this: then it is as good as one of our own."""
    commands = _mapping(document.get("spec")).get("commands") or ()
    told = [tuple(_mapping(one).get("command") or ()) for one in commands]
    return _is_for_alone(document, node) and told == [
        command.arguments,
        *([command.shell[1:]] if command.shell else []),
    ]


def _is_for_alone(document: Document, node: NodeFacts) -> bool:
    spec = _mapping(document.get("spec"))
    labels = _mapping(_mapping(spec.get("nodeSelector")).get("matchLabels"))
    return dict(labels) == {node.ip: node.ip} and not spec.get("nodeName")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
