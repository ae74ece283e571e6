"""The kinds that every Kubernetes API server brings, and their scope: what can be said without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hopline.domain.resources import CUSTOM_RESOURCE_DEFINITION, Document

_CLUSTER_WIDE = """
- ComponentStatus Namespace Node PersistentVolume
admissionregistration.k8s.io MutatingWebhookConfiguration ValidatingWebhookConfiguration
admissionregistration.k8s.io ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
admissionregistration.k8s.io MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
apiextensions.k8s.io CustomResourceDefinition
apiregistration.k8s.io APIService
authentication.k8s.io SelfSubjectReview TokenReview
authorization.k8s.io SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
certificates.k8s.io CertificateSigningRequest ClusterTrustBundle
flowcontrol.apiserver.k8s.io FlowSchema PriorityLevelConfiguration
networking.k8s.io IngressClass IPAddress ServiceCIDR
node.k8s.io RuntimeClass
policy PodSecurityPolicy
rbac.authorization.k8s.io ClusterRole ClusterRoleBinding
resource.k8s.io DeviceClass DeviceTaintRule ResourceSlice
scheduling.k8s.io PriorityClass
storage.k8s.io CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass
storagemigration.k8s.io StorageVersionMigration
"""
_IN_NAMESPACES = """
- Binding ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota
- Secret Service ServiceAccount
apps ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet
authorization.k8s.io LocalSubjectAccessReview
autoscaling HorizontalPodAutoscaler
batch CronJob Job
certificates.k8s.io PodCertificateRequest
coordination.k8s.io Lease LeaseCandidate
discovery.k8s.io EndpointSlice
events.k8s.io Event
extensions DaemonSet Deployment Ingress NetworkPolicy ReplicaSet
networking.k8s.io Ingress NetworkPolicy
policy PodDisruptionBudget
rbac.authorization.k8s.io Role RoleBinding
resource.k8s.io ResourceClaim ResourceClaimTemplate
storage.k8s.io CSIStorageCapacity
"""

OPTIONAL_KINDS = frozenset({"ServiceMonitor", "PodMonitor", "PrometheusRule"})
"""Left out when the cluster does not serve them: not every platform has their operator (openfuyao-api.md §7.4)."""

Scopes = Mapping[tuple[str, str], bool]
"""(group, kind) → whether its objects live in namespaces."""


def _read(table: str, *, namespaced: bool) -> dict[tuple[str, str], bool]:
    rows = (line.split() for line in table.strip().splitlines())
    return {("" if group == "-" else group, kind): namespaced for group, *kinds in rows for kind in kinds}


BUILTIN_SCOPES: Scopes = {**_read(_CLUSTER_WIDE, namespaced=False), **_read(_IN_NAMESPACES, namespaced=True)}


def group_of(api_version: str) -> str:
    """`apps` of `apps/v1`; empty for the core group."""
    return api_version.rpartition("/")[0]


def known_scopes(documents: Iterable[Document]) -> Scopes:
    """Scopes of the built-in kinds and of those that CustomResourceDefinitions among the documents bring."""
    found = dict(BUILTIN_SCOPES)
    for document in documents:
        spec = document.get("spec")
        if document.get("kind") != CUSTOM_RESOURCE_DEFINITION.kind or not isinstance(spec, dict):
            continue
        names: Any = spec.get("names")
        if isinstance(names, dict):
            found[str(spec.get("group")), str(names.get("kind"))] = spec.get("scope") != "Cluster"
    return found


def brought_kinds(documents: Iterable[Document]) -> set[tuple[str, str]]:
    """(`group/version`, kind) of everything that CustomResourceDefinitions among the documents define."""
    found = set()
    for document in documents:
        spec = document.get("spec")
        if document.get("kind") != CUSTOM_RESOURCE_DEFINITION.kind or not isinstance(spec, dict):
            continue
        names: Any = spec.get("names")
        for version in spec.get("versions") or ():
            if isinstance(names, dict) and isinstance(version, dict):
                found.add((f"{spec.get('group')}/{version.get('name')}", str(names.get("kind"))))
    return found
