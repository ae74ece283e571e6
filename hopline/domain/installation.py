"""Is a manifest component installed at all? (openfuyao-api.md §7.4)

A component that a cluster never had is left alone. Anchors are the workloads by which that is decided: fixed ones for
three components, else the workloads of the component's own manifests; one that exists is enough, and a component
without any counts as installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hopline.domain.other_controllers import PLATFORM_CONTROLLER, PROVIDER
from hopline.domain.resources import DAEMON_SET, DEPLOYMENT, STATEFUL_SET, Document, ObjectRef

KNOWN_ANCHORS: Mapping[str, ObjectRef] = {
    "kube-proxy": ObjectRef(kind=DAEMON_SET, name="kube-proxy", kube_namespace="kube-system"),
    "coredns": ObjectRef(kind=DEPLOYMENT, name="coredns", kube_namespace="kube-system"),
    PROVIDER: PLATFORM_CONTROLLER,
}
"""component → the workload that shows it is installed."""

_WORKLOADS = {kind.kind: kind for kind in (DEPLOYMENT, DAEMON_SET, STATEFUL_SET)}


def anchors(component: str, documents: Iterable[Document]) -> tuple[ObjectRef, ...]:
    """The workloads of which one must exist; empty: there is nothing to decide by."""
    if component in KNOWN_ANCHORS:
        return (KNOWN_ANCHORS[component],)
    found = []
    for document in documents:
        kind = _WORKLOADS.get(str(document.get("kind")))
        if kind is not None and document.get("apiVersion") == kind.api_version:
            metadata = document["metadata"]
            place = str(metadata.get("namespace") or "default")
            found.append(ObjectRef(kind=kind, name=str(metadata["name"]), kube_namespace=place))
    return tuple(found)
