"""Names of the objects that Hopline reads and writes (openfuyao-api.md §1, §2)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

Document = dict[str, Any]
"""A Kubernetes object as JSON, with apiVersion and kind."""

DEFAULT_FIELD_MANAGER = "bke"
"""Objects in the field are owned by it, so ours must be the same by default (design §4)."""


class Kind(BaseModel):
    """A resource type: `api_version` is `group/version`, or `v1` for the core group."""

    model_config = ConfigDict(frozen=True)

    api_version: str
    kind: str
    namespaced: bool = True


class ObjectRef(BaseModel):
    """One object of one type. `kube_namespace` is empty for cluster-scoped objects."""

    model_config = ConfigDict(frozen=True)

    kind: Kind
    name: str
    kube_namespace: str = ""

    def __str__(self) -> str:
        place = f"{self.kube_namespace}/{self.name}" if self.kube_namespace else self.name
        return f"{self.kind.kind} {place}"


CLUSTER_VERSION = Kind(api_version="config.openfuyao.com/v1alpha1", kind="ClusterVersion")
UPGRADE_PATH = Kind(api_version="config.openfuyao.com/v1alpha1", kind="UpgradePath", namespaced=False)
RELEASE_IMAGE = Kind(api_version="config.openfuyao.com/v1alpha1", kind="ReleaseImage")
COMPONENT_VERSION = Kind(api_version="config.openfuyao.com/v1alpha1", kind="ComponentVersion")
BKE_CLUSTER = Kind(api_version="bke.bocloud.com/v1beta1", kind="BKECluster")
BKE_NODE = Kind(api_version="bke.bocloud.com/v1beta1", kind="BKENode")
COMMAND = Kind(api_version="bkeagent.bocloud.com/v1beta1", kind="Command")
NODE = Kind(api_version="v1", kind="Node", namespaced=False)
POD = Kind(api_version="v1", kind="Pod")
NAMESPACE = Kind(api_version="v1", kind="Namespace", namespaced=False)
SECRET = Kind(api_version="v1", kind="Secret")
CONFIG_MAP = Kind(api_version="v1", kind="ConfigMap")
ENDPOINTS = Kind(api_version="v1", kind="Endpoints")
EVENT = Kind(api_version="v1", kind="Event")
DEPLOYMENT = Kind(api_version="apps/v1", kind="Deployment")
STATEFUL_SET = Kind(api_version="apps/v1", kind="StatefulSet")
DAEMON_SET = Kind(api_version="apps/v1", kind="DaemonSet")
SERVICE = Kind(api_version="v1", kind="Service")
POD_DISRUPTION_BUDGET = Kind(api_version="policy/v1", kind="PodDisruptionBudget")
JOB = Kind(api_version="batch/v1", kind="Job")
CUSTOM_RESOURCE_DEFINITION = Kind(
    api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", namespaced=False
)
VALIDATING_WEBHOOKS = Kind(
    api_version="admissionregistration.k8s.io/v1", kind="ValidatingWebhookConfiguration", namespaced=False
)
MUTATING_WEBHOOKS = Kind(
    api_version="admissionregistration.k8s.io/v1", kind="MutatingWebhookConfiguration", namespaced=False
)

ANNOTATION_UPGRADE_READY = "cvo.openfuyao.cn/upgrade-ready"
ANNOTATION_CLUSTER_VERSION = "cvo.openfuyao.cn/cluster-version"
ANNOTATION_UPGRADE_PATH = "cvo.openfuyao.cn/upgrade-path"
ANNOTATION_BKECLUSTER_NAME = "cvo.openfuyao.cn/bkecluster-name"
ANNOTATION_RETRY = "bke.bocloud.com/retry"
ANNOTATION_LAST_UPDATE = "bke.bocloud.com/last-update-configuration"
ANNOTATION_EVENT = "bke.bocloud.com/event"
ANNOTATION_CLUSTER_FROM = "bke.bocloud.com/cluster-from"
ANNOTATION_PAUSED = "cluster.x-k8s.io/paused"
ANNOTATION_TAKEN_BY = "hopline.dev/taken-by"
ANNOTATION_TAKEN_BEFORE = "hopline.dev/taken-before"
ANNOTATION_HANDLED = "hopline.dev/handled"
LABEL_CLUSTER_NAME = "cluster.x-k8s.io/cluster-name"
LABEL_CLUSTER_COMMAND = "bke.bocloud.com/cluster-command"
FINALIZER_COMMAND = "command.bkeagent.bocloud.com/finalizers"
FINALIZER_RELEASE_IMAGE = "releaseimage.config.openfuyao.com/finalizer"
KUBECONFIG_SECRET_SUFFIX = "-kubeconfig"
KUBECONFIG_SECRET_KEY = "value"


def kind_of(document: Document, *, namespaced: bool = True) -> Kind:
    """The type of a document; scope is the caller's knowledge, since a document does not tell it."""
    return Kind(api_version=str(document["apiVersion"]), kind=str(document["kind"]), namespaced=namespaced)


def describe(document: Document) -> str:
    """`Kind namespace/name` for messages."""
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = metadata.get("name", "?")
    kube_namespace = metadata.get("namespace")
    return f"{document.get('kind', '?')} {f'{kube_namespace}/{name}' if kube_namespace else name}"
