"""Mirror pods of static control plane pods, as a kubelet shows them on the API (openfuyao-nodes.md §2.9)."""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import Any

KUBE_NAMESPACE = "kube-system"
CONFIG_HASH = "kubernetes.io/config.hash"
DEFAULT_REGISTRY = "cr.openfuyao.cn/openfuyao"


class StaticPod(StrEnum):
    """The component of a static pod; the value is its label, its container's name and the start of its pod's name."""

    ETCD = "etcd"
    API_SERVER = "kube-apiserver"
    CONTROLLER_MANAGER = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"

    def pod_name(self, node: str) -> str:
        """Name of the mirror pod on one node."""
        return f"{self.value}-{node}"


KUBERNETES_PODS = (StaticPod.API_SERVER, StaticPod.CONTROLLER_MANAGER, StaticPod.SCHEDULER)


def static_pod_object(component: StaticPod, node: str, version: str, repository: str = "") -> dict[str, Any]:
    """A mirror pod whose image tag is the version without its `v`, with a fresh hash of its manifest."""
    config_hash = secrets.token_hex(16)
    image = f"{repository or f'{DEFAULT_REGISTRY}/{component.value}'}:{image_tag(version)}"
    annotations = {
        CONFIG_HASH: config_hash,
        "kubernetes.io/config.mirror": config_hash,
        "kubernetes.io/config.source": "file",
    }
    if component is StaticPod.ETCD:
        annotations["kubeadm.kubernetes.io/etcd.advertise-client-urls"] = "https://127.0.0.1:2379"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": component.pod_name(node),
            "namespace": KUBE_NAMESPACE,
            "labels": {"component": component.value, "tier": "control-plane"},
            "annotations": annotations,
        },
        "spec": {
            "nodeName": node,
            "hostNetwork": True,
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
            "containers": [{"name": component.value, "image": image}],
        },
    }


def image_tag(version: str) -> str:
    """The tag of a component's image for one of its versions."""
    return version.removeprefix("v")
