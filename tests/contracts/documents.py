"""Documents that both the simulator and a real API server accept, and waiting for what a watch reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from hopline.domain.resources import CLUSTER_VERSION, COMMAND, Document, Kind, ObjectRef
from hopline.ports import Change, ChangeType, ClusterClient

PATIENCE_SECONDS = 20.0
"""For what the API server's own controllers do, and for a watch to report."""

WIDGET = Kind(api_version="nowhere.example.test/v1", kind="Widget")


def config_map(
    kube_namespace: str, name: str, data: dict[str, str] | None = None, labels: dict[str, str] | None = None
) -> Document:
    document: Document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": kube_namespace},
    }
    if data:
        document["data"] = data
    if labels:
        document["metadata"]["labels"] = labels
    return document


def cluster_version(kube_namespace: str, name: str = "east", **status: Any) -> Document:
    document: Document = {
        "apiVersion": CLUSTER_VERSION.api_version,
        "kind": CLUSTER_VERSION.kind,
        "metadata": {"name": name, "namespace": kube_namespace},
        "spec": {"desiredVersion": "v26.06-rc.2"},
    }
    if status:
        document["status"] = status
    return document


def command(kube_namespace: str, name: str) -> Document:
    """A Command that no agent takes: it selects an address that no node has."""
    return {
        "apiVersion": COMMAND.api_version,
        "kind": COMMAND.kind,
        "metadata": {"name": name, "namespace": kube_namespace},
        "spec": {
            "nodeName": "",
            "suspend": False,
            "nodeSelector": {"matchLabels": {"203.0.113.99": "203.0.113.99"}},
            "commands": [{"id": "ping", "command": ["Ping"], "type": "BuiltIn"}],
        },
    }


def deployment(kube_namespace: str, *containers: Document, replicas: int | None = None) -> Document:
    spec: Document = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": list(containers)}},
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": kube_namespace},
        "spec": spec,
    }


def ref(kind: Kind, kube_namespace: str, name: str) -> ObjectRef:
    return ObjectRef(kind=kind, name=name, kube_namespace=kube_namespace)


def revision(document: Document) -> str:
    return str(document["metadata"]["resourceVersion"])


async def until(changes: AsyncIterator[Change], change: ChangeType, name: str = "") -> Change:
    """The next report of this type (about this object); others before it are passed over."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await anext(changes)
            if found.type is change and (not name or found.documents[0]["metadata"]["name"] == name):
                return found


async def until_gone(client: ClusterClient, target: ObjectRef) -> None:
    """Return when the object does not exist any more."""
    changes = client.watch(target.kind, kube_namespace=target.kube_namespace, name=target.name)
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for change in changes:
            if change.type is ChangeType.DELETED or (change.type is ChangeType.SYNCED and not change.documents):
                return
