"""The catalogue of a registry on a real API server, which keeps no field that its schema does not know."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from artifacts import titled
from hopline.domain.errors import InvalidCatalogue
from hopline.domain.release_origin import RegistryDefaults
from hopline.domain.resources import CONFIG_MAP, NAMESPACE, UPGRADE_PATH, Document, ObjectRef
from hopline.oci.releases import RegistryReleaseSource
from hopline.operations.catalogue_sync import SyncAction, sync_catalogue
from hopline.operations.release_origins import CatalogueOrigins
from hopline.ports import ClusterClient
from scripted_registry import ScriptedRegistry, serving

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def publish(registry: ScriptedRegistry, *edges: Sequence[str]) -> None:
    spec = {"paths": [{"from": old, "to": new, "unheardOf": True, "notes": "ä"} for old, new in edges], "alsoNew": 1}
    head = {"apiVersion": "config.openfuyao.com/v1alpha1", "kind": "UpgradePath", "metadata": {"name": "published"}}
    registry.push("latest", titled({"paths.yaml": json.dumps({**head, "spec": spec})}))


async def held(client: ClusterClient) -> Document:
    (one,) = (await client.list(UPGRADE_PATH)).items
    return one


async def test_a_field_that_the_server_does_not_know_is_no_edit_of_a_person(
    client: ClusterClient, tmp_path: Path
) -> None:
    async with serving(ScriptedRegistry()) as registry:
        metadata = {"name": "bke-config", "namespace": "cluster-system"}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"otherRepo": registry.host}}
        place = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cluster-system"}}
        await client.apply(place, kind=NAMESPACE, field_manager="test")
        await client.create(config, kind=CONFIG_MAP)
        source = RegistryReleaseSource(CatalogueOrigins(client, RegistryDefaults(plain_http=True)), tmp_path)

        async def sync() -> SyncAction:
            return (await sync_catalogue(client, source, NOW)).action

        publish(registry, ("v26.06", "v26.09"))
        assert await sync() is SyncAction.CREATED
        before = await held(client)
        assert "unheardOf" not in before["spec"]["paths"][0]
        assert await sync() is SyncAction.UNCHANGED
        assert await held(client) == before
        publish(registry, ("v26.06", "v26.09"), ("v26.09", "v26.12"))
        assert await sync() is SyncAction.UPDATED
        assert await sync() is SyncAction.UNCHANGED
        ref = ObjectRef(kind=UPGRADE_PATH, name="published")
        await client.patch(ref, {"spec": {"paths": [{"from": "v26.06", "to": "v26.12"}]}})
        with pytest.raises(InvalidCatalogue, match="made or edited"):
            await sync()
