"""Following the catalogue's registry, one round at a time."""

from __future__ import annotations

from datetime import UTC, datetime

from temporalio import activity

from activities.failures import translated
from activities.heartbeats import heartbeating
from activities.requests import ManagementFence
from hopline.domain.errors import InvalidInput
from hopline.domain.wire import WireModel
from hopline.operations.catalogue_sync import CatalogueSource, CatalogueSync, follow_catalogue
from hopline.ports import ClusterClient


class CatalogueRequest(WireModel):
    """In which management cluster; see `RunRequest.management_uid`."""

    management_uid: str = ""


class CatalogueActivities:
    """Writes the one UpgradePath of the management cluster, and its condition `Fetched`."""

    def __init__(self, management: ClusterClient, source: CatalogueSource | None, fence: ManagementFence) -> None:
        self._management = management
        self._source = source
        self._fence = fence

    @activity.defn
    @translated
    async def sync_catalogue(self, request: CatalogueRequest) -> CatalogueSync:
        """What `hopline catalogue sync` does. Raises Refused where the present catalogue has to stay."""
        await self._fence.check_identity(request.management_uid, "the catalogue to follow is")
        if self._source is None:
            raise InvalidInput(
                "this worker follows no registry",
                subject="environment",
                field="HOPLINE_RELEASES",
                value="set",
                remedy="unset it, and start the worker again",
            )
        async with heartbeating():
            return await follow_catalogue(self._management, self._source, datetime.now(UTC))
