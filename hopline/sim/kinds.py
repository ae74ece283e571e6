"""The resource types that a simulated API server knows without being told.

A CustomResourceDefinition that is applied adds its own (`served` table).
"""

from __future__ import annotations

from typing import NamedTuple

from hopline.domain.resources import (
    BKE_CLUSTER,
    BKE_NODE,
    CLUSTER_VERSION,
    COMMAND,
    COMPONENT_VERSION,
    RELEASE_IMAGE,
    UPGRADE_PATH,
    Kind,
)

MANAGEMENT = "management"
"""Name of the management API server inside the file; a target is named by its ClusterKey."""


class Served(NamedTuple):
    """One resource type of one API server."""

    kind: Kind
    has_status: bool
    """status is a subresource: it is written on its own."""
    has_generation: bool
    """metadata.generation counts changes of the spec."""
    is_custom: bool
    """Defined by a CRD: its lists are atomic in server-side apply."""


_BUILT_IN: dict[str, str] = {
    "v1": "Namespace! Node! PersistentVolume! Pod! Service! PersistentVolumeClaim! ReplicationController! "
    "ResourceQuota! ServiceAccount Secret ConfigMap Endpoints Event LimitRange",
    "apps/v1": "Deployment! StatefulSet! DaemonSet! ReplicaSet! ControllerRevision",
    "batch/v1": "Job! CronJob!",
    "autoscaling/v2": "HorizontalPodAutoscaler!",
    "policy/v1": "PodDisruptionBudget!",
    "networking.k8s.io/v1": "Ingress! NetworkPolicy IngressClass",
    "rbac.authorization.k8s.io/v1": "Role RoleBinding ClusterRole ClusterRoleBinding",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition!",
    "apiregistration.k8s.io/v1": "APIService!",
    "admissionregistration.k8s.io/v1": "ValidatingWebhookConfiguration MutatingWebhookConfiguration "
    "ValidatingAdmissionPolicy! ValidatingAdmissionPolicyBinding",
    "scheduling.k8s.io/v1": "PriorityClass",
    "storage.k8s.io/v1": "StorageClass CSIDriver",
    "coordination.k8s.io/v1": "Lease",
    "discovery.k8s.io/v1": "EndpointSlice",
    "events.k8s.io/v1": "Event",
}
"""Group and version → kinds; `!` marks a status subresource."""

_CLUSTER_SCOPED = frozenset(
    {
        "Namespace", "Node", "PersistentVolume", "IngressClass", "ClusterRole", "ClusterRoleBinding",
        "CustomResourceDefinition", "APIService", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "PriorityClass", "StorageClass", "CSIDriver",
    }
)  # fmt: skip

_WITH_GENERATION = frozenset(
    {
        "apps/v1", "batch/v1", "policy/v1", "networking.k8s.io/v1", "apiextensions.k8s.io/v1",
        "admissionregistration.k8s.io/v1",
    }
)  # fmt: skip

_PLATFORM = (
    CLUSTER_VERSION,
    UPGRADE_PATH,
    RELEASE_IMAGE,
    COMPONENT_VERSION,
    BKE_CLUSTER,
    BKE_NODE,
    COMMAND,
)


def _built_in() -> dict[tuple[str, str], Served]:
    table: dict[tuple[str, str], Served] = {}
    for api_version, names in _BUILT_IN.items():
        for marked in names.split():
            name = marked.rstrip("!")
            kind = Kind(api_version=api_version, kind=name, namespaced=name not in _CLUSTER_SCOPED)
            table[api_version, name] = Served(kind, marked.endswith("!"), api_version in _WITH_GENERATION, False)
    return table


_TABLE = _built_in()
_PLATFORM_TABLE = {(kind.api_version, kind.kind): Served(kind, True, True, True) for kind in _PLATFORM}


def known(server: str, api_version: str, kind: str) -> Served | None:
    """The type, if this API server has it from the start; only the management one has the platform's own."""
    found = _TABLE.get((api_version, kind))
    if found is None and server == MANAGEMENT:
        found = _PLATFORM_TABLE.get((api_version, kind))
    return found
