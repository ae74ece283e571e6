"""Writing the status of UpgradePaths, which no run owns: printer columns and `Validated` (openfuyao-api.md §4.4)."""

from __future__ import annotations

from datetime import UTC, datetime

from hopline.domain.catalogue_status import catalogue_status
from hopline.domain.resources import UPGRADE_PATH, Document, ObjectRef
from hopline.ports import ClusterClient


async def write_catalogue_status(management: ClusterClient, document: Document) -> bool:
    """Judge an UpgradePath and write its status when that is news; whether it was.

    Raises what the client raises: Conflict when it has changed since it was seen.
    """
    status = catalogue_status(document, datetime.now(UTC))
    if not status:
        return False
    metadata = document["metadata"]
    body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
    await management.patch(ObjectRef(kind=UPGRADE_PATH, name=metadata["name"]), body, subresource="status")
    return True
