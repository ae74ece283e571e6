"""What every `ClusterClient` promises (hopline/ports.py), as tests.

A test module inherits `ClusterClientContract` and overrides the fixture `client`; the API server behind it serves the
CRDs of `deploy/crds/` and has its controllers running (garbage collection, Namespace deletion). Nothing here waits for
a Deployment to become ready.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from contracts.documents import WIDGET, cluster_version, command, config_map, ref, revision, until_gone
from hopline.domain.errors import AlreadyExists, Conflict, NotFound, Rejected
from hopline.domain.resources import (
    CLUSTER_VERSION,
    COMMAND,
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    ObjectRef,
)
from hopline.ports import ClusterClient


class ClusterClientContract:
    """Inherit, override `client`, and every promise is tested."""

    @pytest.fixture
    async def client(self) -> AsyncIterator[ClusterClient]:
        raise NotImplementedError("override the fixture `client`")
        yield

    @pytest.fixture
    async def home(self, client: ClusterClient) -> AsyncIterator[str]:
        """A kube namespace of its own."""
        name = f"contract-{uuid4().hex[:8]}"
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await client.create(document, kind=NAMESPACE)
        yield name
        await client.delete(ObjectRef(kind=NAMESPACE, name=name))

    # --- who and what -------------------------------------------------------------------------------------------

    async def test_identity_is_the_uid_of_kube_system(self, client: ClusterClient) -> None:
        system = await client.get(ObjectRef(kind=NAMESPACE, name="kube-system"))
        assert await client.identity() == system["metadata"]["uid"]
        assert await client.identity() == await client.identity()

    async def test_resolve_tells_the_scope(self, client: ClusterClient) -> None:
        assert await client.resolve("apps/v1", "Deployment") == DEPLOYMENT
        assert await client.resolve("v1", "Namespace") == NAMESPACE
        assert (await client.resolve("rbac.authorization.k8s.io/v1", "ClusterRole")).namespaced is False
        assert await client.resolve(CLUSTER_VERSION.api_version, "ClusterVersion") == CLUSTER_VERSION
        assert (await client.resolve(CLUSTER_VERSION.api_version, "UpgradePath")).namespaced is False

    async def test_resolve_of_a_kind_that_is_not_served(self, client: ClusterClient) -> None:
        with pytest.raises(NotFound):
            await client.resolve(WIDGET.api_version, WIDGET.kind)

    # --- get, list, create --------------------------------------------------------------------------------------

    async def test_get_of_nothing(self, client: ClusterClient, home: str) -> None:
        with pytest.raises(NotFound) as caught:
            await client.get(ref(CONFIG_MAP, home, "absent"))
        assert "absent" in str(caught.value)

    async def test_create_and_get(self, client: ClusterClient, home: str) -> None:
        made = await client.create(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP)
        assert made["metadata"]["uid"] and revision(made) and made["metadata"]["creationTimestamp"]
        assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
        assert await client.get(ref(CONFIG_MAP, home, "one")) == made

    async def test_create_of_a_taken_name(self, client: ClusterClient, home: str) -> None:
        await client.create(config_map(home, "one"), kind=CONFIG_MAP)
        with pytest.raises(AlreadyExists):
            await client.create(config_map(home, "one", {"a": "2"}), kind=CONFIG_MAP)

    async def test_create_in_a_namespace_that_does_not_exist(self, client: ClusterClient) -> None:
        with pytest.raises(NotFound):
            await client.create(config_map("no-such-namespace", "one"), kind=CONFIG_MAP)

    async def test_create_with_a_bad_name(self, client: ClusterClient, home: str) -> None:
        with pytest.raises(Rejected):
            await client.create(config_map(home, "Not_A_Name"), kind=CONFIG_MAP)

    async def test_create_of_a_kind_that_is_not_served(self, client: ClusterClient, home: str) -> None:
        document = {**config_map(home, "one"), "apiVersion": WIDGET.api_version, "kind": WIDGET.kind}
        with pytest.raises(NotFound):
            await client.create(document, kind=WIDGET)

    async def test_create_drops_the_status(self, client: ClusterClient, home: str) -> None:
        made = await client.create(cluster_version(home, phase="Ready"), kind=CLUSTER_VERSION)
        assert not made.get("status")

    async def test_create_dry_run_makes_nothing(self, client: ClusterClient, home: str) -> None:
        answer = await client.create(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP, dry_run=True)
        assert answer["data"] == {"a": "1"}
        with pytest.raises(NotFound):
            await client.get(ref(CONFIG_MAP, home, "one"))

    async def test_create_dry_run_refuses_like_the_real_one(self, client: ClusterClient, home: str) -> None:
        await client.create(config_map(home, "one"), kind=CONFIG_MAP)
        with pytest.raises(AlreadyExists):
            await client.create(config_map(home, "one"), kind=CONFIG_MAP, dry_run=True)

    async def test_list_is_ordered_by_name(self, client: ClusterClient, home: str) -> None:
        for name in ("b", "c", "a"):
            await client.create(command(home, name), kind=COMMAND)
        listing = await client.list(COMMAND, kube_namespace=home)
        assert [item["metadata"]["name"] for item in listing.items] == ["a", "b", "c"]
        assert {(item["apiVersion"], item["kind"]) for item in listing.items} == {(COMMAND.api_version, "Command")}
        assert listing.resource_version

    async def test_list_of_nothing(self, client: ClusterClient, home: str) -> None:
        assert (await client.list(COMMAND, kube_namespace=home)).items == []

    async def test_list_everywhere(self, client: ClusterClient, home: str) -> None:
        await client.create(command(home, "a"), kind=COMMAND)
        listing = await client.list(COMMAND)
        assert home in {item["metadata"]["namespace"] for item in listing.items}

    async def test_list_of_a_kind_that_is_not_served(self, client: ClusterClient, home: str) -> None:
        with pytest.raises(NotFound):
            await client.list(WIDGET, kube_namespace=home)

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("tier=front", ["a", "b"]),
            ("tier==front,track=stable", ["a"]),
            ("tier!=front", ["c", "d"]),
            ("track in (stable, canary)", ["a", "b", "c"]),
            ("track notin (stable)", ["b", "d"]),
            ("track", ["a", "b", "c"]),
            ("!track", ["d"]),
            ("tier in (back),track=stable", ["c"]),
        ],
    )
    async def test_list_by_labels(self, client: ClusterClient, home: str, selector: str, expected: list[str]) -> None:
        await client.create(config_map(home, "a", labels={"tier": "front", "track": "stable"}), kind=CONFIG_MAP)
        await client.create(config_map(home, "b", labels={"tier": "front", "track": "canary"}), kind=CONFIG_MAP)
        await client.create(config_map(home, "c", labels={"tier": "back", "track": "stable"}), kind=CONFIG_MAP)
        await client.create(config_map(home, "d", labels={"mark": "none"}), kind=CONFIG_MAP)
        listing = await client.list(CONFIG_MAP, kube_namespace=home, labels=selector)
        found = [item["metadata"]["name"] for item in listing.items if item["metadata"]["name"] != "kube-root-ca.crt"]
        assert found == expected

    async def test_list_by_a_selector_that_does_not_parse(self, client: ClusterClient, home: str) -> None:
        with pytest.raises(Rejected):
            await client.list(CONFIG_MAP, kube_namespace=home, labels="tier in front")

    # --- patch --------------------------------------------------------------------------------------------------

    async def test_patch_merges(self, client: ClusterClient, home: str) -> None:
        made = await client.create(config_map(home, "one", {"a": "1", "b": "2"}), kind=CONFIG_MAP)
        body = {"data": {"a": None, "c": "3"}, "metadata": {"annotations": {"note": "x"}}}
        patched = await client.patch(ref(CONFIG_MAP, home, "one"), body)
        assert patched["data"] == {"b": "2", "c": "3"}
        assert patched["metadata"]["annotations"] == {"note": "x"}
        assert revision(patched) != revision(made)
        assert await client.get(ref(CONFIG_MAP, home, "one")) == patched

    async def test_patch_removes_an_annotation(self, client: ClusterClient, home: str) -> None:
        document = config_map(home, "one")
        document["metadata"]["annotations"] = {"a": "1", "b": "2"}
        await client.create(document, kind=CONFIG_MAP)
        patched = await client.patch(ref(CONFIG_MAP, home, "one"), {"metadata": {"annotations": {"a": None}}})
        assert patched["metadata"]["annotations"] == {"b": "2"}

    async def test_patch_of_nothing(self, client: ClusterClient, home: str) -> None:
        with pytest.raises(NotFound):
            await client.patch(ref(CONFIG_MAP, home, "absent"), {"data": {"a": "1"}})

    async def test_patch_without_a_change_keeps_the_revision(self, client: ClusterClient, home: str) -> None:
        made = await client.create(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP)
        patched = await client.patch(ref(CONFIG_MAP, home, "one"), {"data": {"a": "1", "b": None}})
        assert revision(patched) == revision(made)

    async def test_patch_with_the_current_revision(self, client: ClusterClient, home: str) -> None:
        made = await client.create(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP)
        body = {"metadata": {"resourceVersion": revision(made)}, "data": {"a": "2"}}
        assert (await client.patch(ref(CONFIG_MAP, home, "one"), body))["data"] == {"a": "2"}

    async def test_patch_with_a_stale_revision(self, client: ClusterClient, home: str) -> None:
        made = await client.create(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP)
        await client.patch(ref(CONFIG_MAP, home, "one"), {"data": {"a": "2"}})
        with pytest.raises(Conflict):
            body = {"metadata": {"resourceVersion": revision(made)}, "data": {"a": "3"}}
            await client.patch(ref(CONFIG_MAP, home, "one"), body)
        assert (await client.get(ref(CONFIG_MAP, home, "one")))["data"] == {"a": "2"}

    async def test_patch_for_another_uid(self, client: ClusterClient, home: str) -> None:
        await client.create(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP)
        body = {"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}, "data": {"a": "2"}}
        with pytest.raises(Rejected):
            await client.patch(ref(CONFIG_MAP, home, "one"), body)

    async def test_patch_replaces_lists(self, client: ClusterClient, home: str) -> None:
        await client.create(command(home, "one"), kind=COMMAND)
        entry = {"id": "other", "command": ["Ping"], "type": "BuiltIn"}
        patched = await client.patch(ref(COMMAND, home, "one"), {"spec": {"commands": [entry]}})
        assert patched["spec"]["commands"] == [entry]

    async def test_patch_cannot_rename(self, client: ClusterClient, home: str) -> None:
        await client.create(config_map(home, "one"), kind=CONFIG_MAP)
        with pytest.raises(Rejected):
            await client.patch(ref(CONFIG_MAP, home, "one"), {"metadata": {"name": "two"}})

    async def test_patch_cannot_add_a_finalizer_to_what_is_being_deleted(
        self, client: ClusterClient, home: str
    ) -> None:
        document = config_map(home, "one")
        document["metadata"]["finalizers"] = ["example.test/hold"]
        await client.create(document, kind=CONFIG_MAP)
        await client.delete(ref(CONFIG_MAP, home, "one"))
        more = {"metadata": {"finalizers": ["example.test/hold", "example.test/more"]}}
        with pytest.raises(Rejected):
            await client.patch(ref(CONFIG_MAP, home, "one"), more)
        await client.patch(ref(CONFIG_MAP, home, "one"), {"metadata": {"finalizers": []}})

    async def test_patch_dry_run_changes_nothing(self, client: ClusterClient, home: str) -> None:
        made = await client.create(config_map(home, "one", {"a": "1"}), kind=CONFIG_MAP)
        answer = await client.patch(ref(CONFIG_MAP, home, "one"), {"data": {"a": "2"}}, dry_run=True)
        assert answer["data"] == {"a": "2"}
        assert await client.get(ref(CONFIG_MAP, home, "one")) == made

    # --- status -------------------------------------------------------------------------------------------------

    async def test_status_patch_writes_nothing_but_the_status(self, client: ClusterClient, home: str) -> None:
        made = await client.create(cluster_version(home), kind=CLUSTER_VERSION)
        body = {
            "metadata": {"annotations": {"note": "x"}},
            "spec": {"desiredVersion": "v26.06"},
            "status": {"phase": "Ready", "currentVersion": "v26.06-rc.2"},
        }
        patched = await client.patch(ref(CLUSTER_VERSION, home, "east"), body, subresource="status")
        assert patched["status"] == {"phase": "Ready", "currentVersion": "v26.06-rc.2"}
        assert patched["spec"] == made["spec"]
        assert "annotations" not in patched["metadata"]
        assert patched["metadata"]["generation"] == made["metadata"]["generation"]
        assert revision(patched) != revision(made)

    async def test_patch_without_subresource_never_changes_the_status(self, client: ClusterClient, home: str) -> None:
        target = ref(CLUSTER_VERSION, home, "east")
        await client.create(cluster_version(home), kind=CLUSTER_VERSION)
        await client.patch(target, {"status": {"phase": "Ready"}}, subresource="status")
        body = {"spec": {"desiredVersion": "v26.06"}, "status": {"phase": "Failed"}}
        patched = await client.patch(target, body)
        assert patched["status"] == {"phase": "Ready"}
        assert patched["spec"]["desiredVersion"] == "v26.06"
        assert patched["metadata"]["generation"] == 2

    async def test_status_patch_with_a_stale_revision(self, client: ClusterClient, home: str) -> None:
        target = ref(CLUSTER_VERSION, home, "east")
        made = await client.create(cluster_version(home), kind=CLUSTER_VERSION)
        await client.patch(target, {"spec": {"desiredVersion": "v26.06"}})
        body = {"metadata": {"resourceVersion": revision(made)}, "status": {"phase": "Ready"}}
        with pytest.raises(Conflict):
            await client.patch(target, body, subresource="status")

    async def test_status_patch_without_a_change_keeps_the_revision(self, client: ClusterClient, home: str) -> None:
        target = ref(CLUSTER_VERSION, home, "east")
        await client.create(cluster_version(home), kind=CLUSTER_VERSION)
        first = await client.patch(target, {"status": {"phase": "Ready"}}, subresource="status")
        again = await client.patch(target, {"status": {"phase": "Ready"}}, subresource="status")
        assert revision(again) == revision(first)

    async def test_status_patch_removes_a_field(self, client: ClusterClient, home: str) -> None:
        target = ref(CLUSTER_VERSION, home, "east")
        await client.create(cluster_version(home), kind=CLUSTER_VERSION)
        both = {"status": {"phase": "Ready", "currentVersion": "v26.06-rc.2"}}
        await client.patch(target, both, subresource="status")
        left = await client.patch(target, {"status": {"phase": None}}, subresource="status")
        assert left["status"] == {"currentVersion": "v26.06-rc.2"}

    async def test_status_patch_dry_run_changes_nothing(self, client: ClusterClient, home: str) -> None:
        target = ref(CLUSTER_VERSION, home, "east")
        made = await client.create(cluster_version(home), kind=CLUSTER_VERSION)
        answer = await client.patch(target, {"status": {"phase": "Ready"}}, subresource="status", dry_run=True)
        assert answer["status"] == {"phase": "Ready"}
        assert await client.get(target) == made

    async def test_status_that_is_a_map_is_merged_by_key(self, client: ClusterClient, home: str) -> None:
        target = ref(COMMAND, home, "ping")
        await client.create(command(home, "ping"), kind=COMMAND)
        for key in ("m1/192.0.2.11", "m2/192.0.2.12"):
            await client.patch(target, {"status": {key: {"phase": "Running", "succeeded": -1}}}, subresource="status")
        status = (await client.get(target))["status"]
        assert {key: entry["phase"] for key, entry in status.items()} == {
            "m1/192.0.2.11": "Running",
            "m2/192.0.2.12": "Running",
        }

    # --- delete -------------------------------------------------------------------------------------------------

    async def test_delete(self, client: ClusterClient, home: str) -> None:
        await client.create(config_map(home, "one"), kind=CONFIG_MAP)
        await client.delete(ref(CONFIG_MAP, home, "one"))
        with pytest.raises(NotFound):
            await client.get(ref(CONFIG_MAP, home, "one"))
        with pytest.raises(NotFound):
            await client.delete(ref(CONFIG_MAP, home, "one"))

    async def test_delete_by_uid(self, client: ClusterClient, home: str) -> None:
        first = await client.create(config_map(home, "one"), kind=CONFIG_MAP)
        await client.delete(ref(CONFIG_MAP, home, "one"), uid=first["metadata"]["uid"])
        await client.create(config_map(home, "one"), kind=CONFIG_MAP)
        with pytest.raises(Conflict):
            await client.delete(ref(CONFIG_MAP, home, "one"), uid=first["metadata"]["uid"])
        assert await client.get(ref(CONFIG_MAP, home, "one"))

    async def test_delete_waits_for_finalizers(self, client: ClusterClient, home: str) -> None:
        document = config_map(home, "one")
        document["metadata"]["finalizers"] = ["example.test/hold"]
        await client.create(document, kind=CONFIG_MAP)
        await client.delete(ref(CONFIG_MAP, home, "one"))
        held = await client.get(ref(CONFIG_MAP, home, "one"))
        assert held["metadata"]["deletionTimestamp"]
        await client.patch(ref(CONFIG_MAP, home, "one"), {"metadata": {"finalizers": None}})
        with pytest.raises(NotFound):
            await client.get(ref(CONFIG_MAP, home, "one"))

    async def test_delete_takes_dependents_along(self, client: ClusterClient, home: str) -> None:
        owner = await client.create(config_map(home, "owner"), kind=CONFIG_MAP)
        dependent = config_map(home, "dependent")
        dependent["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        ]
        await client.create(dependent, kind=CONFIG_MAP)
        await client.delete(ref(CONFIG_MAP, home, "owner"))
        await until_gone(client, ref(CONFIG_MAP, home, "dependent"))

    async def test_delete_of_a_namespace_takes_its_contents_along(self, client: ClusterClient) -> None:
        name = f"contract-{uuid4().hex[:8]}"
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, kind=NAMESPACE)
        await client.create(config_map(name, "one"), kind=CONFIG_MAP)
        await client.delete(ObjectRef(kind=NAMESPACE, name=name))
        await until_gone(client, ref(CONFIG_MAP, name, "one"))
        await until_gone(client, ObjectRef(kind=NAMESPACE, name=name))
