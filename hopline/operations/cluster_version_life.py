"""Writing what a ClusterVersion needs while no run is open; the caller has seen that none is.

Creates are idempotent by name; patches carry `metadata.resourceVersion`, so that whoever writes in the meantime wins.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hopline.domain.cluster_version_life import (
    Care,
    completed_status,
    installed_version,
    new_cluster_version,
    settled_status,
)
from hopline.domain.errors import AlreadyExists
from hopline.domain.resources import CLUSTER_VERSION, Document, ObjectRef
from hopline.operations.events import EventRecord, Regarding, tell
from hopline.ports import ClusterClient

OLD_TRIGGER_IGNORED = "OldTriggerIgnored"


class ClusterVersionLife:
    """Makes, completes and settles ClusterVersions of one management cluster."""

    def __init__(self, management: ClusterClient) -> None:
        self._management = management

    async def give(self, care: Care, version: Document | None, cluster: Document) -> bool:
        """Do what `care_for` has found. False: somebody else was faster, and there is nothing to do any more.

        Raises what the client raises: Conflict when an object has changed since it was seen.
        """
        now = datetime.now(UTC)
        match care:
            case Care.MAKE:
                return await self._make(cluster, now)
            case Care.COMPLETE if version is not None:
                version = await self._patch(version, completed_status(version, cluster, now))
                message = f"ClusterVersion {version['metadata']['name']}: {installed_version(cluster)} is recorded"
                await self.tell(cluster, Regarding.BKE_CLUSTER, care.value, message)
                return True
            case Care.SETTLE if version is not None:
                version = await self._patch(version, settled_status(version, cluster, now))
                current = version["status"]["currentVersion"]
                message = f"desired version is {current} again, which the cluster has: no upgrade is asked for"
                await self.tell(version, Regarding.CLUSTER_VERSION, care.value, message)
                return True
            case _:
                return False

    async def _make(self, cluster: Document, now: datetime) -> bool:
        try:
            made = await self._management.create(new_cluster_version(cluster), kind=CLUSTER_VERSION)
        except AlreadyExists:
            return False
        await self._patch(made, completed_status(made, cluster, now))
        message = f"made the ClusterVersion of this cluster: {installed_version(cluster)} is installed and desired"
        await self.tell(cluster, Regarding.BKE_CLUSTER, Care.MAKE.value, message)
        return True

    async def _patch(self, version: Document, status: dict[str, Any]) -> Document:
        metadata = version["metadata"]
        ref = ObjectRef(kind=CLUSTER_VERSION, name=metadata["name"], kube_namespace=metadata["namespace"])
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        return await self._management.patch(ref, body, subresource="status")

    async def tell(
        self, document: Document, regarding: Regarding, reason: str, message: str, *, warning: bool = False
    ) -> None:
        """An event about an object, once per generation and reason."""
        metadata = document["metadata"]
        record = EventRecord(
            number=0, regarding=regarding, reason=reason, message=message, warning=warning, at=datetime.now(UTC)
        )
        await tell(
            self._management, record, document, f"{metadata.get('uid')}/{metadata.get('generation', 0)}/{reason}"
        )
