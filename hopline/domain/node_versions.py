"""What a node runs, as the target cluster shows it, and whether it is well (openfuyao-nodes.md §2.3 to §2.6, §2.9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from hopline.domain.cluster import NodeFacts
from hopline.domain.node_commands import DRAINING_HANDLERS, handler_named
from hopline.domain.pods import is_ready
from hopline.domain.release import InlineHandler
from hopline.domain.resources import ANNOTATION_TAKEN_BY, Document
from hopline.domain.wire import WireModel

STATIC_POD_NAMESPACE = "kube-system"
STATIC_POD_LABELS = "tier=control-plane"
"""Every static pod of the control plane carries it (openfuyao-nodes.md §2.9)."""

KUBERNETES_PODS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
ETCD_POD = "etcd"

_OWN_PODS = {InlineHandler.ETCD: (ETCD_POD,), InlineHandler.MASTER: KUBERNETES_PODS}


class NodeView(WireModel):
    """What the target cluster shows of one node; `node` None: there is no such Node, or it could not be read."""

    node: dict[str, Any] | None = None
    pods: dict[str, dict[str, Any]] = Field(default_factory=dict)


class NodeSighting(WireModel):
    """One node compared with the version that the hop wants.

    Attributes:
        at_target: None: could not look.
        seen: the version or the difference, for a person.
        settled: at the target, healthy, and its BKENode says so: nothing at all is left to do.
        left_cordoned: a run has cordoned it and not given it back.
    """

    node: NodeFacts
    at_target: bool | None = None
    seen: str = ""
    settled: bool = False
    left_cordoned: bool = False


def sight_node(handler: str, version: str, facts: NodeFacts, view: NodeView) -> NodeSighting:
    """Compare every place where a node shows the version of a component."""
    seen = seen_versions(handler, facts, view)
    if not seen:
        missing = "its node agent tells no version" if handler == InlineHandler.AGENT else _no_node(facts)
        return NodeSighting(node=facts, seen=missing)
    other = {place: found for place, found in seen.items() if not is_same_version(found, version)}
    left = view.node is not None and is_left_cordoned(handler, view.node)
    settled = not other and not unhealthy(handler, facts, view) and facts.state in ("", "Ready") and not left
    return NodeSighting(
        node=facts, at_target=not other, seen=_spoken(other or seen), settled=settled, left_cordoned=left
    )


def is_left_cordoned(handler: str, node: Document) -> bool:
    """A run has cordoned it for a component that drains, and ended without giving it back: its mark says so."""
    marked = ANNOTATION_TAKEN_BY in ((node.get("metadata") or {}).get("annotations") or {})
    return marked and handler_named(handler) in DRAINING_HANDLERS


def seen_versions(handler: str, facts: NodeFacts, view: NodeView) -> dict[str, str]:
    """Place → version found there, `none` where nothing is; empty when the node could not be read."""
    kind = handler_named(handler)
    if kind is InlineHandler.AGENT or (view.node is None and kind is not InlineHandler.ETCD):
        return {}
    found: dict[str, str] = {}
    if view.node is not None and kind in (InlineHandler.MASTER, InlineHandler.WORKER):
        found["kubelet"] = _node_info(view.node, "kubeletVersion")
    if view.node is not None and kind is InlineHandler.CONTAINERD:
        runtime, _, number = _node_info(view.node, "containerRuntimeVersion").partition("://")
        found["containerd"] = number if runtime == "containerd" else runtime or "none"
    for component in _OWN_PODS.get(kind, ()):
        pod = view.pods.get(f"{component}-{facts.display_name}")
        found[component] = image_tag(pod, component) if pod else "none"
    return found


def unhealthy(handler: str, facts: NodeFacts, view: NodeView) -> str:
    """What is wrong with a node: not Ready, or a static pod that is not; empty when it is well.

    The component's own pods must be there; others count when they are.
    """
    if view.node is None:
        return _no_node(facts)
    problem = not_ready(view.node)
    if problem:
        return problem
    own = _OWN_PODS.get(handler_named(handler), ())
    for component in (ETCD_POD, *KUBERNETES_PODS):
        name = f"{component}-{facts.display_name}"
        pod = view.pods.get(name)
        if pod is None and component in own:
            return f"pod {STATIC_POD_NAMESPACE}/{name} is not there"
        if pod is not None and not (is_ready(pod) and (pod.get("status") or {}).get("phase") == "Running"):
            phase = (pod.get("status") or {}).get("phase", "unknown")
            return f"pod {STATIC_POD_NAMESPACE}/{name} is not ready (phase {phase})"
    return ""


def not_ready(node: Document) -> str:
    """Why a core Node is not Ready; empty when it is. A Node without that condition is not."""
    ready = next((one for one in _conditions(node) if one.get("type") == "Ready"), {})
    if ready.get("status") == "True":
        return ""
    reason = f": {ready['message']}" if ready.get("message") else ""
    return f"Node {node['metadata']['name']} is not Ready{reason}"


def gate(handler: str, version: str, facts: NodeFacts, view: NodeView) -> str:
    """What a node still waits for after its Command has ended; empty when it may be called done."""
    seen = seen_versions(handler, facts, view)
    other = {place: found for place, found in seen.items() if not is_same_version(found, version)}
    if other:
        return f"{_spoken(other)}, {version} is expected"
    return unhealthy(handler, facts, view)


def is_same_version(found: str, wanted: str) -> bool:
    """A leading `v` does not count: tags and runtimes leave it out (openfuyao-nodes.md §2.9)."""
    return found.removeprefix("v") == wanted.removeprefix("v")


def image_tag(pod: Document, container: str) -> str:
    """Tag of the container of that name, else of the first one; `none` when the image has no tag."""
    containers = (pod.get("spec") or {}).get("containers") or [{}]
    chosen = next((one for one in containers if one.get("name") == container), containers[0])
    image = str(chosen.get("image", "")).partition("@")[0].rpartition("/")[2]
    return image.partition(":")[2] or "none"


def _spoken(versions: Mapping[str, str]) -> str:
    """`kubelet runs v1` for one place, `kubelet and kube-scheduler run v1` for several."""
    places: dict[str, list[str]] = {}
    for place, version in versions.items():
        places.setdefault(version, []).append(place)
    parts = [f"{' and '.join(names)} {'runs' if len(names) == 1 else 'run'} {v}" for v, names in places.items()]
    return ", ".join(parts)


def _no_node(facts: NodeFacts) -> str:
    return f"there is no Node {facts.display_name} in the cluster"


def _node_info(node: Document, field: str) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get(field, "")) or "none"


def _conditions(document: Document) -> list[dict[str, Any]]:
    return (document.get("status") or {}).get("conditions") or []
