"""Pods and Endpoints of a simulated cluster, as its kubelets and controllers would show them."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

from hopline.domain.resources import ENDPOINTS, NODE, POD, Document, Kind
from hopline.sim.controllers import condition
from hopline.sim.selectors import labels_of, object_selector
from hopline.sim.storage import Storage, deep, timestamp

SERVICE = Kind(api_version="v1", kind="Service")


def digest(value: Any, length: int = 10) -> str:
    """A stable short name for a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:length]


def owner_reference(document: Document) -> Document:
    """The controller reference of a dependent."""
    return {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": document["metadata"]["name"],
        "uid": document["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def node_names(storage: Storage) -> list[str]:
    """The nodes of this cluster, by name."""
    return storage.names(NODE)


def pod_status(pod: Document, moment: float, *, waiting: str = "") -> Document:
    """Status of a pod that runs and is Ready, or (`waiting`: why) does not get that far."""
    ready = not waiting
    state = {"running": {"startedAt": timestamp(moment)}} if ready else {"waiting": {"reason": waiting}}
    containers = deep(pod, "spec", "containers") or []
    address = int(digest(pod["metadata"]["name"], 4), 16)
    return {
        "phase": "Running" if ready else "Pending",
        "startTime": timestamp(moment),
        "podIP": f"10.250.{address // 256}.{address % 256}",
        "conditions": [
            condition("PodScheduled", moment),
            condition("Initialized", moment),
            condition("ContainersReady", moment, status=ready, reason="" if ready else "ContainersNotReady"),
            condition("Ready", moment, status=ready, reason="" if ready else "ContainersNotReady"),
        ],
        "containerStatuses": [
            {
                "name": container.get("name", ""),
                "image": container.get("image", ""),
                "ready": ready,
                "started": ready,
                "restartCount": 0,
                "state": state,
            }
            for container in containers
        ],
    }


def is_ready(pod: Document) -> bool:
    """Ready is True, and it is not on its way out."""
    conditions = deep(pod, "status", "conditions") or []
    ready = any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def make_pod(
    storage: Storage, owner: Document, name: str, node: str, labels: dict[str, str], *, waiting: str = ""
) -> Document:
    """A pod from the template of its workload."""
    template = copy.deepcopy(deep(owner, "spec", "template") or {})
    metadata = {**(template.get("metadata") or {}), "name": name, "namespace": owner["metadata"]["namespace"]}
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["ownerReferences"] = [owner_reference(owner)]
    spec = {**(template.get("spec") or {}), "nodeName": node}
    pod: Document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    pod["status"] = pod_status(pod, storage.now, waiting=waiting)
    return storage.insert(pod)


def sync_endpoints(storage: Storage, kube_namespace: str) -> None:
    """Let the Endpoints of every Service of a namespace name its ready pods."""
    services = storage.select(SERVICE, kube_namespace)
    pods = storage.select(POD, kube_namespace) if services else []
    for service in services:
        selector = deep(service, "spec", "selector")
        if selector:
            accepts = object_selector({"matchLabels": selector})
            ready = [pod for pod in pods if is_ready(pod) and accepts(labels_of(pod))]
            _write_endpoints(storage, service, ready)


def _write_endpoints(storage: Storage, service: Document, ready: list[Document]) -> None:
    subsets = []
    if ready:
        ports = [_port(entry, ready[0]) for entry in deep(service, "spec", "ports") or ()]
        subsets = [{"addresses": [_address(pod) for pod in ready], "ports": ports}]
    metadata = service["metadata"]
    found = storage.find(ENDPOINTS, metadata["name"], metadata["namespace"])
    if found is None:
        storage.insert(
            {
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": {
                    "name": metadata["name"],
                    "namespace": metadata["namespace"],
                    "ownerReferences": [owner_reference(service)],
                },
                "subsets": subsets,
            }
        )
    elif found.get("subsets") != subsets:
        found["subsets"] = subsets
        storage.update(found)


def _address(pod: Document) -> Document:
    metadata = pod["metadata"]
    target = {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
    return {"ip": pod["status"]["podIP"], "nodeName": pod["spec"]["nodeName"], "targetRef": target}


def _port(entry: Document, pod: Document) -> Document:
    wanted: Any = entry.get("targetPort", entry["port"])
    if isinstance(wanted, str):
        named = [
            port["containerPort"]
            for container in pod["spec"].get("containers") or ()
            for port in container.get("ports") or ()
            if port.get("name") == wanted
        ]
        wanted = named[0] if named else entry["port"]
    port = {"port": wanted, "protocol": entry.get("protocol", "TCP")}
    if entry.get("name"):
        port["name"] = entry["name"]
    return port
