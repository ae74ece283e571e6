"""Node objects as a kubelet would register them; kwok plays their kubelets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NOT_READY_TAINT = "node.kubernetes.io/not-ready"
CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
_CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "1000", "ephemeral-storage": "1Ti"}


@dataclass(frozen=True)
class NodeShape:
    """One machine of the test cluster: its name on the API, its address, and the versions that it starts with."""

    name: str
    ip: str
    kubelet_version: str
    is_control_plane: bool = False
    container_runtime_version: str = "containerd://1.7.0"


def node_object(shape: NodeShape) -> dict[str, Any]:
    """The Node object, with its own versions and addresses in status."""
    labels = {"kubernetes.io/hostname": shape.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    if shape.is_control_plane:
        labels[CONTROL_PLANE_LABEL] = ""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": shape.name, "labels": labels},
        "status": {
            "addresses": [{"type": "InternalIP", "address": shape.ip}, {"type": "Hostname", "address": shape.name}],
            "allocatable": _CAPACITY,
            "capacity": _CAPACITY,
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": shape.container_runtime_version,
                "kernelVersion": "6.6.0",
                "kubeProxyVersion": "",
                "kubeletVersion": shape.kubelet_version,
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "openEuler 22.03",
                "systemUUID": "",
            },
        },
    }
