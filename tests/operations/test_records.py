"""What a hop will change is kept as it was, and found again by whoever has to put it back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from builders_domain import component, release
from hopline.domain.errors import InvalidRelease
from hopline.domain.release import ComponentVersion, Release
from hopline.domain.resources import CLUSTER_VERSION, CONFIG_MAP, SECRET, Document, ObjectRef
from hopline.kube.secret_store import SecretStore
from hopline.operations import records
from hopline.operations.records import HopRecorder, HopToRecord, read_record, record_of_hop
from hopline.operations.releases import ReleaseShelf
from hopline.operations.snapshots import ClusterSnapshots
from hopline.ports import Store
from operations.conftest import East

AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def config(name: str, value: str, place: str = "default") -> str:
    labels = "labels: {app: web}"
    return (
        f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {place}, {labels}}}\n"
        f"data: {{mode: {value}}}\n"
    )


class Shelf(ReleaseShelf):
    """Releases that were made here."""

    def __init__(self, *releases: Release) -> None:
        self._made = {one.version: one for one in releases}

    async def release(self, version: str, digest: str = "", **_: Any) -> Release:
        if version not in self._made:
            raise InvalidRelease("not at hand", subject=version)
        return self._made[version]


class Site:
    """Cluster `east`, the recorder under test, and the releases v1 and v2 of the components web and api."""

    def __init__(self, east: East, owner: Document) -> None:
        self.east, self.owner = east, owner
        self.store: Store = SecretStore(east.management)

    async def install(self, text: str, manager: str = "bke") -> None:
        target = await self.east.target()
        for source in records_documents(text):
            kind = CONFIG_MAP if source["kind"] == "ConfigMap" else SECRET
            await target.apply(source, kind=kind, field_manager=manager)

    async def record(
        self, text: str, *, before: str = "", run: str = "run-1", minutes: int = 0, **yaml: Any
    ) -> Mapping[str, list[Document]]:
        shelf, after = Shelf(made("v1", before)), made("v2", text, **yaml)
        snapshots = ClusterSnapshots(self.east.management)
        recorder = HopRecorder(self.east.clusters, shelf, self.store, snapshots, "bke")
        hop = HopToRecord(self.east.key, after, "v1", run, AT + timedelta(minutes=minutes))
        digest = await recorder.record(self.owner, hop)
        if not digest:
            return {}
        (found,) = [one for one in await self.store.records(self.owner) if one.digest == digest]
        return await read_record(self.store, self.owner, found)


def records_documents(text: str) -> list[Document]:
    from hopline.documents.loading import load_documents

    return [source.document for source in load_documents(text, "x.yaml")]


def made(version: str, text: str, **yaml: Any) -> Release:
    declared: ComponentVersion = component("web", version, yaml=yaml)
    return release(version, declared, manifests={f"web@{version}": text})


@pytest.fixture
async def site(east: East) -> Site:
    owner = await east.management.get(
        ObjectRef(kind=CLUSTER_VERSION, name=east.key.name, kube_namespace=east.key.kube_namespace)
    )
    return Site(east, owner)


def names(found: Mapping[str, list[Document]]) -> dict[str, list[str]]:
    return {part: [document["metadata"]["name"] for document in documents] for part, documents in found.items()}


async def test_only_what_will_change_is_kept_as_it_was(site: Site) -> None:
    await site.install(config("same", "a") + config("other", "old"))
    found = await site.record(config("same", "a") + config("other", "new") + config("fresh", "x"))
    assert names(found) == {"web": ["other"]}
    assert found["web"][0]["data"] == {"mode": "old"}
    assert found["web"][0]["metadata"]["uid"]


async def test_a_hop_that_changes_nothing_leaves_no_record(site: Site) -> None:
    await site.install(config("same", "a"))
    assert await site.record(config("same", "a") + config("fresh", "x")) == {}
    assert await site.store.records(site.owner) == []


async def test_what_will_be_pruned_is_kept_too(site: Site) -> None:
    old = config("same", "a") + config("gone", "b")
    await site.install(old)
    assert await site.record(config("same", "a"), before=old) == {}
    prune: dict[str, Any] = {"prune": True, "pruneLabelSelector": {"app": "web"}}
    assert names(await site.record(config("same", "a"), before=old, **prune)) == {"web": ["gone"]}


async def test_an_object_that_is_only_created_or_that_nobody_installed_is_not_kept(site: Site) -> None:
    await site.install(config("other", "old"))
    assert await site.record(config("other", "new"), applyStrategy="CreateOnly") == {}
    absent = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: default}\n"
    assert await site.record(config("other", "new") + absent) == {}


async def test_an_unreadable_kind_is_left_to_the_apply(site: Site) -> None:
    unknown = "---\napiVersion: nowhere.example.test/v1\nkind: Widget\nmetadata: {name: one}\n"
    await site.install(config("other", "old"))
    assert await site.record(config("other", "new") + unknown) == {}


async def test_the_first_record_of_a_run_is_the_one_that_counts(site: Site) -> None:
    await site.install(config("other", "old") + config("second", "old"))
    wanted = config("other", "new") + config("second", "new")
    await site.record(wanted)
    await site.install(config("other", "new"))
    await site.record(wanted, minutes=5)
    await site.record(wanted, run="run-2", minutes=9)
    found = await record_of_hop(site.store, site.owner, "v2", "run-1")
    assert found is not None
    assert names(await read_record(site.store, site.owner, found)) == {"web": ["other", "second"]}
    latest = await record_of_hop(site.store, site.owner, "v2")
    assert latest is not None
    assert latest.about == {"from": "v1", "to": "v2", "run": "run-2"}
    assert await record_of_hop(site.store, site.owner, "v9") is None


async def test_the_oldest_records_are_forgotten(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "KEPT_RECORDS", 2)
    await site.install(config("other", "old"))
    for run in range(4):
        await site.record(config("other", "new"), run=str(run), minutes=run)
    assert [record.about["run"] for record in await site.store.records(site.owner)] == ["2", "3"]


async def test_a_record_is_never_on_an_annotation(site: Site) -> None:
    await site.install(config("other", "old" * 20_000))
    await site.record(config("other", "new"))
    place = site.east.key.kube_namespace
    for item in (await site.east.management.list(CONFIG_MAP, kube_namespace=place)).items:
        assert len(json.dumps(item["metadata"])) < 4000
