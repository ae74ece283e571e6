"""In which order the objects of a component are written: classes of kinds, as Helm orders an installation.

Objects of one class do not need each other and are written side by side. Custom resources, and every kind that the
table does not know, come after all workloads; webhooks and aggregated APIs come last, after the servers behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hopline.domain.resources import Document

APPLY_CLASSES: Sequence[tuple[str, ...]] = (
    ("PriorityClass", "Namespace", "CustomResourceDefinition", "RuntimeClass"),
    ("NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy", "PodDisruptionBudget"),
    ("ServiceAccount", "Secret", "ConfigMap", "StorageClass", "CSIDriver", "PersistentVolume"),
    ("PersistentVolumeClaim", "ClusterRole", "Role"),
    ("ClusterRoleBinding", "RoleBinding"),
    ("Service", "Endpoints", "EndpointSlice", "IngressClass"),
    (
        "DaemonSet",
        "Pod",
        "ReplicationController",
        "ReplicaSet",
        "Deployment",
        "StatefulSet",
        "HorizontalPodAutoscaler",
        "Job",
        "CronJob",
        "Ingress",
    ),
    (),
    ("APIService",),
    (
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "MutatingAdmissionPolicy",
    ),
    ("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"),
)
"""First to last. The empty class holds every other kind, custom resources among them."""

_BUILT_IN_GROUPS = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "autoscaling",
        "batch",
        "discovery.k8s.io",
        "extensions",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    }
)
_CLASS_OF = {kind: position for position, kinds in enumerate(APPLY_CLASSES) for kind in kinds}
_OTHERS = APPLY_CLASSES.index(())


def group_of(api_version: str) -> str:
    """API group of an apiVersion; empty for the core group."""
    return api_version.rpartition("/")[0]


def apply_class(document: Document) -> int:
    """Number of the class that a document is written with; a lower one is written earlier.

    The group counts: a Knative `Service` is not the core one.
    """
    if group_of(str(document.get("apiVersion", ""))) not in _BUILT_IN_GROUPS:
        return _OTHERS
    return _CLASS_OF.get(str(document.get("kind", "")), _OTHERS)


def in_apply_order(documents: Iterable[Document]) -> list[tuple[Document, ...]]:
    """The documents by class, first to last, without empty classes; in a class they keep their order."""
    classes: dict[int, list[Document]] = {}
    for document in documents:
        classes.setdefault(apply_class(document), []).append(document)
    return [tuple(classes[position]) for position in sorted(classes)]
