"""What `hopline catalogue sync` does: reaches the management cluster itself, without Temporal."""

from __future__ import annotations

from datetime import UTC, datetime

from hopline.operations.catalogue_sync import CatalogueSync, sync_catalogue
from hopline.runtime.settings import Settings
from hopline.wiring import build_clusters, registry_catalogue


async def sync(*, overwrite: bool) -> CatalogueSync:
    """Fetch and write. Raises what `sync_catalogue` raises, and InvalidInput for a setting that cannot be used."""
    settings = Settings.from_environment()
    clusters = await build_clusters(settings)
    try:
        source = registry_catalogue(clusters.management, settings, settings.registry.read())
        return await sync_catalogue(clusters.management, source, datetime.now(UTC), overwrite=overwrite)
    finally:
        await clusters.aclose()
