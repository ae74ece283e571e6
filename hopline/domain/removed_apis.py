"""API versions that Kubernetes no longer serves, and since which minor version.

Sources: the API lifecycle markers in the published Go modules k8s.io/api v0.36.1 (`APILifecycleRemoved`, also in
apiextensions-apiserver and kube-aggregator of the same version), which name the removal for each kind; for kinds that
these modules have forgotten (HorizontalPodAutoscaler v2beta1 and v2beta2, PodSecurityPolicy) the "Deprecated API
Migration Guide" of the Kubernetes documentation. Removals after 1.36 are announcements of the same markers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hopline.domain.errors import InvalidVersion
from hopline.domain.versions import parse_version

_TABLE = """
1.16 apps/v1                          apps/v1beta1 Deployment StatefulSet ControllerRevision
1.16 apps/v1                          apps/v1beta2 Deployment StatefulSet DaemonSet ReplicaSet ControllerRevision
1.16 apps/v1                          extensions/v1beta1 Deployment DaemonSet ReplicaSet
1.16 networking.k8s.io/v1             extensions/v1beta1 NetworkPolicy
1.16 -                                extensions/v1beta1 PodSecurityPolicy
1.22 networking.k8s.io/v1             extensions/v1beta1 Ingress
1.22 networking.k8s.io/v1             networking.k8s.io/v1beta1 Ingress IngressClass
1.22 admissionregistration.k8s.io/v1  admissionregistration.k8s.io/v1beta1 MutatingWebhookConfiguration
1.22 admissionregistration.k8s.io/v1  admissionregistration.k8s.io/v1beta1 ValidatingWebhookConfiguration
1.22 apiextensions.k8s.io/v1          apiextensions.k8s.io/v1beta1 CustomResourceDefinition
1.22 apiregistration.k8s.io/v1        apiregistration.k8s.io/v1beta1 APIService
1.22 authentication.k8s.io/v1         authentication.k8s.io/v1beta1 TokenReview
1.22 authorization.k8s.io/v1          authorization.k8s.io/v1beta1 LocalSubjectAccessReview SubjectAccessReview
1.22 authorization.k8s.io/v1          authorization.k8s.io/v1beta1 SelfSubjectAccessReview SelfSubjectRulesReview
1.22 certificates.k8s.io/v1           certificates.k8s.io/v1beta1 CertificateSigningRequest
1.22 coordination.k8s.io/v1           coordination.k8s.io/v1beta1 Lease
1.22 rbac.authorization.k8s.io/v1     rbac.authorization.k8s.io/v1beta1 ClusterRole ClusterRoleBinding Role RoleBinding
1.22 scheduling.k8s.io/v1             scheduling.k8s.io/v1beta1 PriorityClass
1.22 storage.k8s.io/v1                storage.k8s.io/v1beta1 CSIDriver CSINode StorageClass VolumeAttachment
1.24 storage.k8s.io/v1                storage.k8s.io/v1alpha1 CSIStorageCapacity VolumeAttachment
1.25 batch/v1                         batch/v1beta1 CronJob
1.25 discovery.k8s.io/v1              discovery.k8s.io/v1beta1 EndpointSlice
1.25 events.k8s.io/v1                 events.k8s.io/v1beta1 Event
1.25 autoscaling/v2                   autoscaling/v2beta1 HorizontalPodAutoscaler
1.25 node.k8s.io/v1                   node.k8s.io/v1beta1 RuntimeClass
1.25 policy/v1                        policy/v1beta1 PodDisruptionBudget Eviction
1.25 -                                policy/v1beta1 PodSecurityPolicy
1.26 autoscaling/v2                   autoscaling/v2beta2 HorizontalPodAutoscaler
1.26 flowcontrol.apiserver.k8s.io/v1  flowcontrol.apiserver.k8s.io/v1beta1 FlowSchema PriorityLevelConfiguration
1.27 storage.k8s.io/v1                storage.k8s.io/v1beta1 CSIStorageCapacity
1.29 flowcontrol.apiserver.k8s.io/v1  flowcontrol.apiserver.k8s.io/v1beta2 FlowSchema PriorityLevelConfiguration
1.32 flowcontrol.apiserver.k8s.io/v1  flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema PriorityLevelConfiguration
1.32 admissionregistration.k8s.io/v1  admissionregistration.k8s.io/v1alpha1 ValidatingAdmissionPolicy
1.32 admissionregistration.k8s.io/v1  admissionregistration.k8s.io/v1alpha1 ValidatingAdmissionPolicyBinding
1.32 authentication.k8s.io/v1         authentication.k8s.io/v1alpha1 SelfSubjectReview
1.33 authentication.k8s.io/v1         authentication.k8s.io/v1beta1 SelfSubjectReview
1.34 admissionregistration.k8s.io/v1  admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicy
1.34 admissionregistration.k8s.io/v1  admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicyBinding
1.35 storage.k8s.io/v1                storage.k8s.io/v1alpha1 VolumeAttributesClass
1.37 certificates.k8s.io/v1beta1      certificates.k8s.io/v1alpha1 ClusterTrustBundle
1.37 networking.k8s.io/v1             networking.k8s.io/v1beta1 IPAddress ServiceCIDR
1.37 storage.k8s.io/v1                storage.k8s.io/v1beta1 VolumeAttributesClass
1.38 admissionregistration.k8s.io/v1  admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicy
1.38 admissionregistration.k8s.io/v1  admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicyBinding
1.38 coordination.k8s.io/v1beta1      coordination.k8s.io/v1alpha2 LeaseCandidate
1.38 resource.k8s.io/v1               resource.k8s.io/v1beta1 DeviceClass ResourceSlice
1.38 resource.k8s.io/v1               resource.k8s.io/v1beta1 ResourceClaim ResourceClaimTemplate
1.39 resource.k8s.io/v1               resource.k8s.io/v1beta2 DeviceClass ResourceSlice
1.39 resource.k8s.io/v1               resource.k8s.io/v1beta2 ResourceClaim ResourceClaimTemplate
1.39 resource.k8s.io/v1beta2          resource.k8s.io/v1alpha3 DeviceTaintRule
1.40 admissionregistration.k8s.io/v1  admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicy
1.40 admissionregistration.k8s.io/v1  admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicyBinding
"""
"""One line each: since when, what takes its place (`-`: nothing), the version that is gone, its kinds."""

NEWEST_RELEASED = (1, 36)
"""The newest minor version of Kubernetes that the table knows from its release, not from an announcement."""


@dataclass(frozen=True)
class Removal:
    """`since`: major and minor version of the first Kubernetes without it. `instead`: empty when nothing follows."""

    since: tuple[int, int]
    instead: str

    @property
    def since_text(self) -> str:
        """`1.22`."""
        return ".".join(map(str, self.since))


def _read(table: str) -> Mapping[tuple[str, str], Removal]:
    found = {}
    for line in table.strip().splitlines():
        since, instead, api_version, *kinds = line.split()
        major, minor = since.split(".")
        removal = Removal((int(major), int(minor)), "" if instead == "-" else instead)
        found.update({(api_version, kind): removal for kind in kinds})
    return found


REMOVALS: Mapping[tuple[str, str], Removal] = _read(_TABLE)
"""(`group/version`, kind) → when it went."""


def removal_of(api_version: str, kind: str, kubernetes: str = "") -> Removal | None:
    """The removal that hits an object in a cluster of version `kubernetes`; None when it is served there.

    Without a version, or with one that cannot be read: what no released Kubernetes serves any more.
    """
    removal = REMOVALS.get((api_version, kind))
    return removal if removal is not None and removal.since <= _minor(kubernetes) else None


def _minor(kubernetes: str) -> tuple[int, int]:
    try:
        version = parse_version(kubernetes)
    except InvalidVersion:
        return NEWEST_RELEASED
    return (version.major, version.minor)
