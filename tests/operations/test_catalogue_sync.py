"""The catalogue of a registry brought into a simulated management cluster: what replaces what, and what never does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from artifacts import titled
from hopline.domain.catalogue_status import ANNOTATION_DIGEST, ANNOTATION_FETCHED_AT, fetch_trouble
from hopline.domain.errors import InvalidCatalogue, Transient
from hopline.domain.release_origin import RegistryDefaults
from hopline.domain.resources import CONFIG_MAP, UPGRADE_PATH, Document, ObjectRef
from hopline.oci.releases import RegistryReleaseSource
from hopline.operations.catalogue_sync import CatalogueSync, SyncAction, sync_catalogue
from hopline.operations.release_origins import CatalogueOrigins
from scripted_registry import ScriptedRegistry, serving

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def paths(*edges: str, name: str = "paths") -> str:
    listed = "".join(
        f'    - {{from: "{one.split()[0]}", to: "{one.split()[1]}"}}\n' for one in edges or ("v26.06 v26.09",)
    )
    head = f"apiVersion: config.openfuyao.com/v1alpha1\nkind: UpgradePath\nmetadata: {{name: {name}}}\n"
    return f"{head}spec:\n  paths:\n{listed}"


class World:
    """A registry with a catalogue, and the management cluster that follows it."""

    def __init__(self, east: Any, registry: ScriptedRegistry, folder: Path) -> None:
        self.management, self.registry, self.folder = east.management, registry, folder

    def publish(self, text: str, file: str = "paths.yaml") -> str:
        return self.registry.push("latest", titled({file: text}))

    async def sync(self, now: datetime = NOW, *, overwrite: bool = False) -> CatalogueSync:
        source = RegistryReleaseSource(
            CatalogueOrigins(self.management, RegistryDefaults(plain_http=True)), self.folder
        )
        return await sync_catalogue(self.management, source, now, overwrite=overwrite)

    async def refusal(self, text: str | None = None, **more: Any) -> InvalidCatalogue:
        if text is not None:
            self.publish(text)
        before = (await self.held())["spec"]
        with pytest.raises(InvalidCatalogue) as caught:
            await self.sync(**more)
        assert caught.value.subject and caught.value.remedy
        assert (await self.held())["spec"] == before
        return caught.value

    async def held(self) -> Document:
        (one,) = (await self.management.list(UPGRADE_PATH)).items
        return one

    async def edit(self, **patch: Any) -> None:
        ref = ObjectRef(kind=UPGRADE_PATH, name=(await self.held())["metadata"]["name"])
        await self.management.patch(ref, patch)


@pytest_asyncio.fixture
async def world(east: Any, tmp_path: Path) -> AsyncIterator[World]:
    async with serving(ScriptedRegistry()) as registry:
        for one in (await east.management.list(UPGRADE_PATH)).items:
            await east.management.delete(ObjectRef(kind=UPGRADE_PATH, name=one["metadata"]["name"]))
        metadata = {"name": "bke-config", "namespace": "cluster-system"}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"otherRepo": registry.host}}
        await east.management.create(config, kind=CONFIG_MAP)
        yield World(east, registry, tmp_path / "store")


async def test_created_then_unchanged_then_updated(world: World) -> None:
    digest = world.publish(paths())
    made = await world.sync()
    assert (made.action, made.name, made.digest, made.paths) == (SyncAction.CREATED, "paths", digest, 1)
    held = await world.held()
    assert held["spec"]["paths"] == [{"from": "v26.06", "to": "v26.09"}]
    assert held["metadata"]["annotations"][ANNOTATION_DIGEST] == digest
    world.registry.requests.clear()
    assert (await world.sync(LATER)).action is SyncAction.UNCHANGED
    assert len(world.registry.requests) == 1
    assert await world.held() == held
    digest = world.publish(paths("v26.06 v26.09", "v26.09 v26.12"))
    assert (await world.sync(LATER)).action is SyncAction.UPDATED
    annotations = (await world.held())["metadata"]["annotations"]
    assert (annotations[ANNOTATION_DIGEST], annotations[ANNOTATION_FETCHED_AT]) == (digest, "2026-11-30T12:05:00Z")


async def test_the_present_name_stays(world: World) -> None:
    world.publish(paths(name="one"))
    await world.sync()
    world.publish(paths("v26.06 v26.12", name="other"))
    assert (await world.sync()).name == "one"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("spec: [", "paths.yaml"),
        ("kind: ConfigMap\napiVersion: v1\n", "not one document"),
        (paths() + "---\n" + paths(), "not one document"),
        (paths("v26.09 v26.06"), "goes backwards"),
        (paths("v26.06 v26.09", "v26.06 v26.09"), ""),
        (paths().partition("spec:")[0] + "spec: {paths: []}\n", "without any edge"),
        (paths("v26.03 v26.06"), "older than the present one"),
    ],
    ids=["no YAML", "another kind", "two documents", "backwards edge", "duplicate", "empty", "a step back"],
)
async def test_what_never_replaces_a_good_one(world: World, text: str, told: str) -> None:
    world.publish(paths())
    await world.sync()
    assert told in str(await world.refusal(text))
    trouble = fetch_trouble(await world.held())
    assert trouble is not None
    assert trouble.last_good == "2026-11-30T12:00:00Z"


async def test_an_image_without_the_file(world: World) -> None:
    world.publish(paths())
    await world.sync()
    world.publish(paths(), file="catalogue.yaml")
    assert "holds no paths.yaml" in (await world.refusal()).message


async def test_what_a_person_has_edited_is_not_overwritten_without_a_word(world: World) -> None:
    world.publish(paths())
    await world.sync()
    await world.edit(spec={"paths": [{"from": "v26.06", "to": "v26.09", "blocked": True}]})
    assert "--overwrite" in (await world.refusal()).remedy
    assert "edited" in (await world.refusal(paths("v26.06 v26.12"))).message
    assert (await world.sync(overwrite=True)).action is SyncAction.UPDATED
    assert (await world.sync()).action is SyncAction.UNCHANGED
    assert fetch_trouble(await world.held()) is None


async def test_what_a_person_has_made_is_kept_and_what_the_existing_controller_made_is_followed(world: World) -> None:
    spec = {"paths": [{"from": "v26.06", "to": "v26.07"}]}
    document = {
        "apiVersion": UPGRADE_PATH.api_version,
        "kind": "UpgradePath",
        "metadata": {"name": "mine"},
        "spec": spec,
    }
    await world.management.create(document, kind=UPGRADE_PATH)
    await world.refusal(paths())
    await world.edit(metadata={"annotations": {ANNOTATION_DIGEST: "sha256:old"}})
    assert (await world.sync()).action is SyncAction.UPDATED


async def test_a_registry_that_is_away_is_told_once_and_forgotten_when_it_is_back(world: World) -> None:
    world.publish(paths())
    await world.sync()
    held = dict(world.registry.manifests)
    world.registry.manifests["latest"] = b"not a manifest"
    for now in (LATER, LATER + timedelta(minutes=5)):
        with pytest.raises(Transient):
            await world.sync(now)
    trouble = fetch_trouble(await world.held())
    assert trouble is not None
    assert trouble.since == "2026-11-30T12:05:00Z"
    world.registry.manifests = held
    await world.sync()
    assert fetch_trouble(await world.held()) is None


async def test_nothing_says_where_it_lies(world: World) -> None:
    world.publish(paths())
    await world.sync()
    ref = ObjectRef(kind=CONFIG_MAP, name="bke-config", kube_namespace="cluster-system")
    await world.management.patch(ref, {"data": {"otherRepo": None}})
    assert "nothing says where" in (await world.refusal()).message
