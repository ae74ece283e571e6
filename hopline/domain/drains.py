"""What becomes of each pod of a node that is drained, by a stated policy (design §8, "Nodes").

| pod | what happens |
|---|---|
| mirror pod (of a static one) | stays: the kubelet owns it |
| ended (Succeeded, Failed) | stays: nothing runs |
| going already | waited for |
| of a DaemonSet that exists | stays: it would come back at once |
| tolerates the cordon | stays: it would come back at once |
| of a DaemonSet that is gone | evicted: nobody brings it back, and the garbage collector takes it anyway |
| without a controller (bare) | blocks: nobody makes it again; policy `skip` leaves it, `force` evicts it |
| with emptyDir data | evicted, and named in the plan: the data goes with it |
| any other | evicted: its controller makes it again elsewhere |

Pods with devices (extended resources) that stay are named: a restart of kubelet or runtime passes under them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hopline.domain.node_strategy import DrainPolicy
from hopline.domain.resources import Document
from hopline.domain.wire import WireEnum, WireModel

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
MIRROR = "kubernetes.io/config.mirror"


class PodFate(WireEnum):
    """What a drain does with a pod."""

    EVICT = "evict"
    GOING = "going"
    LEAVE = "leave"
    BLOCK = "block"
    UNKNOWN = "unknown"


class PodDecision(WireModel):
    """One pod of the node: what happens to it and why. `devices`: extended resources that it holds."""

    kube_namespace: str
    name: str
    uid: str
    fate: PodFate
    reason: str
    devices: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"pod {self.kube_namespace}/{self.name}"


def decide_pod(pod: Document, policy: DrainPolicy, daemon_sets: Collection[str] | None) -> PodDecision:
    """The fate of one pod.

    Args:
        daemon_sets: uids of every DaemonSet; None: could not look, so each of them counts as present.
    """
    metadata = _mapping(pod.get("metadata"))
    fate, reason = _fate(pod, metadata, policy, daemon_sets)
    return PodDecision(
        kube_namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        fate=fate,
        reason=reason,
        devices=devices_of(pod),
    )


def _fate(
    pod: Document, metadata: Mapping[str, Any], policy: DrainPolicy, daemon_sets: Collection[str] | None
) -> tuple[PodFate, str]:
    owner = _controller(metadata)
    is_daemon = owner.get("kind") == "DaemonSet"
    if MIRROR in _mapping(metadata.get("annotations")):
        return PodFate.LEAVE, "the kubelet owns it"
    if _mapping(pod.get("status")).get("phase") in ("Succeeded", "Failed"):
        return PodFate.LEAVE, "it has ended"
    if is_daemon and (daemon_sets is None or owner.get("uid") in daemon_sets):
        return PodFate.LEAVE, f"DaemonSet {owner.get('name')} would bring it back at once"
    if "deletionTimestamp" in metadata:
        return PodFate.GOING, "it is going already"
    if not is_daemon and tolerates_cordon(pod):
        return PodFate.LEAVE, "it tolerates the cordon, so it would come back at once"
    if is_daemon:
        return PodFate.EVICT, f"its DaemonSet {owner.get('name')} is gone"
    if not owner:
        return _bare(policy)
    if _has_empty_dir(pod):
        return PodFate.EVICT, "its emptyDir data goes with it"
    return PodFate.EVICT, f"{owner.get('kind')} {owner.get('name')} makes it again elsewhere"


def _bare(policy: DrainPolicy) -> tuple[PodFate, str]:
    if policy is DrainPolicy.FORCE:
        return PodFate.EVICT, "it has no controller: nobody makes it again"
    if policy is DrainPolicy.SKIP:
        return PodFate.LEAVE, "it has no controller: nobody would make it again"
    return PodFate.BLOCK, "it has no controller: nobody would make it again"


def tolerates_cordon(pod: Document) -> bool:
    """Whether the scheduler would put it on a cordoned node."""
    for one in _mapping(pod.get("spec")).get("tolerations") or ():
        toleration = _mapping(one)
        if toleration.get("effect") not in (None, "", "NoSchedule"):
            continue
        key, exists = toleration.get("key") or "", toleration.get("operator") == "Exists"
        if (exists and key in ("", UNSCHEDULABLE_TAINT)) or (
            key == UNSCHEDULABLE_TAINT and not toleration.get("value")
        ):
            return True
    return False


def devices_of(pod: Document) -> tuple[str, ...]:
    """Extended resources that a pod asks for, by name."""
    found: set[str] = set()
    spec = _mapping(pod.get("spec"))
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = _mapping(_mapping(container).get("resources"))
        for part in ("requests", "limits"):
            found |= {str(name) for name in _mapping(resources.get(part)) if is_device(str(name))}
    return tuple(sorted(found))


def is_device(resource: str) -> bool:
    """An extended resource, which a device plugin offers: its name has a domain that is not Kubernetes' own."""
    domain, separator, _ = resource.partition("/")
    return bool(separator) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def devices_offered(node: Document) -> dict[str, str]:
    """Allocatable devices of a core Node, as written there."""
    allocatable = _mapping(_mapping(node.get("status")).get("allocatable"))
    return {str(name): str(value) for name, value in sorted(allocatable.items()) if is_device(str(name))}


def devices_missing(before: Mapping[str, str], node: Document) -> str:
    """Devices that a node no longer offers as before its work began, as a sentence; empty: all are there."""
    now = devices_offered(node)
    for name, value in before.items():
        if _count(now.get(name, "0")) < _count(value):
            return f"Node {node['metadata']['name']} offers {now.get(name, '0')} of {value} {name}"
    return ""


def _count(value: str) -> int:
    """Devices are whole; a quantity with a suffix, which no plugin writes, counts as one."""
    return int(value) if value.isdigit() else 1


def _has_empty_dir(pod: Document) -> bool:
    return any("emptyDir" in _mapping(volume) for volume in _mapping(pod.get("spec")).get("volumes") or ())


def _controller(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    owners = metadata.get("ownerReferences") or ()
    return next((_mapping(owner) for owner in owners if _mapping(owner).get("controller")), {})


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
