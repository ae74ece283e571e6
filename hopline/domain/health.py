"""The documented health checks of a manifest component (openfuyao-api.md §7.6), judged on what was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hopline.domain.pods import is_ready
from hopline.domain.release import EndpointReadyCheck, PodReadyCheck
from hopline.domain.resources import Document


def pods_missing(check: PodReadyCheck, pods: Sequence[Document]) -> str:
    """What keeps a PodReady check from passing; empty when it passes."""
    ready = sum(is_ready(pod) for pod in pods)
    place = f"{check.kube_namespace} ({check.label_selector})"
    if not pods:
        return f"no pod in {place}"
    wanted = check.min_ready if check.min_ready > 0 else len(pods)
    return "" if ready >= wanted else f"{ready} of {wanted} pods are ready in {place}"


def endpoint_missing(check: EndpointReadyCheck, endpoints: Document | None) -> str:
    """What keeps an EndpointReady check from passing; empty when it passes."""
    place = f"Endpoints {check.kube_namespace}/{check.service_name}"
    if endpoints is None:
        return f"{place} does not exist"
    for subset in endpoints.get("subsets") or ():
        ports = {port.get("port") for port in subset.get("ports") or () if isinstance(port, Mapping)}
        if subset.get("addresses") and (check.port <= 0 or check.port in ports):
            return ""
    return f"{place} has no ready address" + (f" with port {check.port}" if check.port > 0 else "")
