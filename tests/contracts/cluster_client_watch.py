"""What every `ClusterClient` promises about watches; see cluster_client.py."""

from __future__ import annotations

import asyncio

import pytest

from contracts.cluster_client import ClusterClientContract
from contracts.documents import PATIENCE_SECONDS, WIDGET, cluster_version, command, config_map, ref, revision, until
from hopline.domain.errors import NotFound
from hopline.domain.resources import CLUSTER_VERSION, COMMAND, CONFIG_MAP
from hopline.ports import ChangeType, ClusterClient


class WatchContract(ClusterClientContract):
    """Watches; inherit beside ClusterClientContract's own tests."""

    async def test_watch_starts_with_the_complete_list(self, client: ClusterClient, home: str) -> None:
        await client.create(command(home, "b"), kind=COMMAND)
        await client.create(command(home, "a"), kind=COMMAND)
        changes = client.watch(COMMAND, kube_namespace=home)
        async with asyncio.timeout(PATIENCE_SECONDS):
            first = await anext(changes)
        assert first.type is ChangeType.SYNCED
        assert sorted(item["metadata"]["name"] for item in first.documents) == ["a", "b"]
        assert {(item["apiVersion"], item["kind"]) for item in first.documents} == {(COMMAND.api_version, "Command")}

    async def test_watch_of_nothing_is_synced_and_empty(self, client: ClusterClient, home: str) -> None:
        changes = client.watch(COMMAND, kube_namespace=home)
        async with asyncio.timeout(PATIENCE_SECONDS):
            first = await anext(changes)
        assert (first.type, first.documents) == (ChangeType.SYNCED, [])

    async def test_watch_reports_every_kind_of_change(self, client: ClusterClient, home: str) -> None:
        changes = client.watch(COMMAND, kube_namespace=home)
        await until(changes, ChangeType.SYNCED)
        made = await client.create(command(home, "one"), kind=COMMAND)
        added = await until(changes, ChangeType.ADDED)
        assert added.documents == [made]
        patched = await client.patch(ref(COMMAND, home, "one"), {"spec": {"suspend": True}})
        modified = await until(changes, ChangeType.MODIFIED)
        assert revision(modified.documents[0]) == revision(patched)
        await client.delete(ref(COMMAND, home, "one"))
        gone = await until(changes, ChangeType.DELETED)
        assert gone.documents[0]["metadata"]["name"] == "one"

    async def test_watch_reports_status_changes(self, client: ClusterClient, home: str) -> None:
        await client.create(cluster_version(home), kind=CLUSTER_VERSION)
        changes = client.watch(CLUSTER_VERSION, kube_namespace=home, name="east")
        await until(changes, ChangeType.SYNCED)
        body = {"status": {"phase": "Ready"}}
        await client.patch(ref(CLUSTER_VERSION, home, "east"), body, subresource="status")
        modified = await until(changes, ChangeType.MODIFIED)
        assert modified.documents[0]["status"]["phase"] == "Ready"

    async def test_watch_of_one_name(self, client: ClusterClient, home: str) -> None:
        await client.create(config_map(home, "other"), kind=CONFIG_MAP)
        changes = client.watch(CONFIG_MAP, kube_namespace=home, name="one")
        assert (await until(changes, ChangeType.SYNCED)).documents == []
        await client.create(config_map(home, "another"), kind=CONFIG_MAP)
        await client.create(config_map(home, "one"), kind=CONFIG_MAP)
        async with asyncio.timeout(PATIENCE_SECONDS):
            first = await anext(changes)
        assert (first.type, first.documents[0]["metadata"]["name"]) == (ChangeType.ADDED, "one")

    async def test_watch_by_labels(self, client: ClusterClient, home: str) -> None:
        await client.create(config_map(home, "in", labels={"track": "stable"}), kind=CONFIG_MAP)
        await client.create(config_map(home, "out", labels={"track": "canary"}), kind=CONFIG_MAP)
        changes = client.watch(CONFIG_MAP, kube_namespace=home, labels="track=stable")
        first = await until(changes, ChangeType.SYNCED)
        assert [item["metadata"]["name"] for item in first.documents] == ["in"]
        await client.patch(ref(CONFIG_MAP, home, "out"), {"metadata": {"labels": {"track": "stable"}}})
        assert (await until(changes, ChangeType.ADDED)).documents[0]["metadata"]["name"] == "out"
        await client.patch(ref(CONFIG_MAP, home, "in"), {"metadata": {"labels": {"track": None}}})
        assert (await until(changes, ChangeType.DELETED)).documents[0]["metadata"]["name"] == "in"

    async def test_watch_of_one_namespace(self, client: ClusterClient, home: str) -> None:
        changes = client.watch(CONFIG_MAP, kube_namespace=home, labels="mark=here")
        await until(changes, ChangeType.SYNCED)
        elsewhere = config_map("default", f"{home}-elsewhere", labels={"mark": "here"})
        await client.create(elsewhere, kind=CONFIG_MAP)
        await client.delete(ref(CONFIG_MAP, "default", f"{home}-elsewhere"))
        await client.create(config_map(home, "one", labels={"mark": "here"}), kind=CONFIG_MAP)
        async with asyncio.timeout(PATIENCE_SECONDS):
            first = await anext(changes)
        assert first.documents[0]["metadata"]["name"] == "one"

    async def test_watch_shows_a_deletion_that_waits_for_a_finalizer(self, client: ClusterClient, home: str) -> None:
        document = config_map(home, "one")
        document["metadata"]["finalizers"] = ["example.test/hold"]
        await client.create(document, kind=CONFIG_MAP)
        changes = client.watch(CONFIG_MAP, kube_namespace=home, name="one")
        await until(changes, ChangeType.SYNCED)
        await client.delete(ref(CONFIG_MAP, home, "one"))
        assert (await until(changes, ChangeType.MODIFIED)).documents[0]["metadata"]["deletionTimestamp"]
        await client.patch(ref(CONFIG_MAP, home, "one"), {"metadata": {"finalizers": []}})
        await until(changes, ChangeType.DELETED)

    async def test_two_watches_see_the_same(self, client: ClusterClient, home: str) -> None:
        watches = [client.watch(COMMAND, kube_namespace=home) for _ in range(2)]
        for changes in watches:
            await until(changes, ChangeType.SYNCED)
        await client.create(command(home, "one"), kind=COMMAND)
        for changes in watches:
            await until(changes, ChangeType.ADDED, "one")

    async def test_watch_of_a_kind_that_is_not_served(self, client: ClusterClient) -> None:
        with pytest.raises(NotFound):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await anext(client.watch(WIDGET))
