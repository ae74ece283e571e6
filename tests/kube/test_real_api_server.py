"""What only a real API server can show: restarts, roles, pages, kubeconfig Secrets, and what is left on disk."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from controlplane.control_plane import ControlPlane
from hopline.domain.errors import ClusterNotReady, Conflict, Forbidden, Rejected, Transient
from hopline.domain.resources import (
    CLUSTER_VERSION,
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    SECRET,
    UPGRADE_PATH,
    Document,
    Kind,
    ObjectRef,
)
from hopline.domain.wire import ClusterKey
from hopline.kube.client import KubeClusterClient, connect
from hopline.kube.clusters import KubeClusters
from hopline.kube.credentials import KubeconfigFile, KubeconfigText
from hopline.kube.kubeconfig import Origin
from hopline.ports import Change, ChangeType

PATIENCE_SECONDS = 60.0


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[KubeClusterClient]:
    connected = await connect(KubeconfigFile(control_plane.kubeconfig))
    yield connected
    await connected.aclose()


def config_map(kube_namespace: str, name: str, **data: str) -> Document:
    metadata = {"name": name, "namespace": kube_namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def in_namespace(kube_namespace: str, name: str) -> ObjectRef:
    return ObjectRef(kind=CONFIG_MAP, name=name, kube_namespace=kube_namespace)


async def next_about(changes: AsyncIterator[Change], name: str) -> ChangeType:
    """The type of the next report about an object."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for change in changes:
            if name in {item["metadata"]["name"] for item in change.documents}:
                return change.type
    raise AssertionError("the watch ended by itself")


async def test_a_watch_survives_a_restart_of_the_api_server(
    control_plane: ControlPlane, client: KubeClusterClient, kube_namespace: str
) -> None:
    await client.create(config_map(kube_namespace, "before"), kind=CONFIG_MAP)
    changes = client.watch(CONFIG_MAP, kube_namespace=kube_namespace)
    async with aclosing(changes):
        assert await next_about(changes, "before") is ChangeType.SYNCED
        waiting = asyncio.create_task(next_about(changes, "after"))
        await asyncio.to_thread(control_plane.kill_apiserver)
        with pytest.raises(Transient):
            await client.get(in_namespace(kube_namespace, "before"))
        await asyncio.to_thread(control_plane.start_apiserver)
        await client.create(config_map(kube_namespace, "after"), kind=CONFIG_MAP)
        assert await waiting in {ChangeType.ADDED, ChangeType.SYNCED}
        await client.create(config_map(kube_namespace, "later"), kind=CONFIG_MAP)
        assert await next_about(changes, "later") in {ChangeType.ADDED, ChangeType.SYNCED}


async def test_a_watch_of_a_service_account_survives_a_restart(
    control_plane: ControlPlane, kube_namespace: str
) -> None:
    """An API server that has just started knows no roles yet: the 403 of that moment must not end the watch."""
    control_plane.kubectl("create", "serviceaccount", "reader", "-n", kube_namespace)
    control_plane.kubectl(
        "create", "role", "reader", "--verb=get,list,watch", "--resource=configmaps", "-n", kube_namespace
    )
    account = f"--serviceaccount={kube_namespace}:reader"
    control_plane.kubectl("create", "rolebinding", "reader", "--role=reader", account, "-n", kube_namespace)
    client = await connect(KubeconfigFile(control_plane.kubeconfig_for_service_account(kube_namespace, "reader")))
    with pytest.raises(Forbidden) as caught:
        await client.get(ObjectRef(kind=SECRET, name="x", kube_namespace=kube_namespace))
    assert "reader" in caught.value.message
    assert "RBAC" in caught.value.remedy
    changes = client.watch(CONFIG_MAP, kube_namespace=kube_namespace)
    async with aclosing(changes):
        assert (await anext(changes)).type is ChangeType.SYNCED
        waiting = asyncio.create_task(next_about(changes, "after"))
        await asyncio.to_thread(control_plane.restart_apiserver)
        control_plane.kubectl("create", "configmap", "after", "-n", kube_namespace)
        assert await waiting in {ChangeType.ADDED, ChangeType.SYNCED}
    await client.aclose()


async def test_a_write_on_a_stale_read_is_a_conflict(client: KubeClusterClient, kube_namespace: str) -> None:
    made = await client.create(config_map(kube_namespace, "one", a="1"), kind=CONFIG_MAP)
    one = in_namespace(kube_namespace, "one")
    await client.patch(one, {"data": {"a": "2"}})
    body = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
    with pytest.raises(Conflict) as caught:
        await client.patch(one, body)
    assert caught.value.owners == ()
    with pytest.raises(Conflict):
        await client.delete(one, uid="00000000-0000-0000-0000-000000000000")
    assert (await client.get(one))["data"] == {"a": "2"}


async def test_an_ownership_conflict_tells_who_owns_what_also_in_a_dry_run(
    control_plane: ControlPlane, client: KubeClusterClient, kube_namespace: str
) -> None:
    control_plane.apply(config_map(kube_namespace, "one", a="1", b="1"))
    wanted = config_map(kube_namespace, "one", a="2", b="2")
    for dry_run in (True, False):
        with pytest.raises(Conflict) as caught:
            await client.apply(wanted, kind=CONFIG_MAP, field_manager="bke", dry_run=dry_run)
        assert sorted(caught.value.owners) == [("test", ".data.a"), ("test", ".data.b")]
    taken = await client.apply(wanted, kind=CONFIG_MAP, field_manager="bke", force=True)
    assert taken["data"] == {"a": "2", "b": "2"}


async def test_writes_carry_the_field_manager(client: KubeClusterClient, kube_namespace: str) -> None:
    await client.create(config_map(kube_namespace, "one", a="1"), kind=CONFIG_MAP)
    after = await client.patch(in_namespace(kube_namespace, "one"), {"data": {"b": "2"}})
    managers = {(entry["manager"], entry["operation"]) for entry in after["metadata"]["managedFields"]}
    assert managers == {("bke", "Update")}


async def test_content_that_the_schema_forbids_names_the_field(client: KubeClusterClient, kube_namespace: str) -> None:
    metadata = {"name": "east", "namespace": kube_namespace}
    document = {"apiVersion": CLUSTER_VERSION.api_version, "kind": CLUSTER_VERSION.kind, "metadata": metadata}
    with pytest.raises(Rejected) as caught:
        await client.create({**document, "spec": {"desiredVersion": 26}}, kind=CLUSTER_VERSION)
    assert "spec.desiredVersion" in str(caught.value)
    with pytest.raises(Rejected):
        await client.create({**document, "spec": {"desiredVersion": 26}}, kind=CLUSTER_VERSION, dry_run=True)


async def test_long_lists_come_whole(
    control_plane: ControlPlane, client: KubeClusterClient, kube_namespace: str
) -> None:
    control_plane.apply(*(config_map(kube_namespace, f"c{number:03}") for number in range(300)))
    listing = await client.list(CONFIG_MAP, kube_namespace=kube_namespace)
    names = [item["metadata"]["name"] for item in listing.items if item["metadata"]["name"].startswith("c")]
    assert names == [f"c{number:03}" for number in range(300)]


async def resolved(client: KubeClusterClient, api_version: str, kind: str) -> Kind:
    """The kind, as soon as the API server serves what it has accepted."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return await client.resolve(api_version, kind)
            except Transient as problem:
                assert problem.message == "the kind is defined but not served yet"
                await asyncio.sleep(0.05)


async def test_a_kind_is_found_as_soon_as_its_definition_is_established(client: KubeClusterClient) -> None:
    group = "kube-test.example.test"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition: Document = {
        "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITION.kind,
        "metadata": {"name": f"mice.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": "Mouse", "plural": "mice", "singular": "mouse"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    with pytest.raises(Exception, match="does not serve"):
        await client.resolve(f"{group}/v1", "Mouse")
    ref = ObjectRef(kind=CUSTOM_RESOURCE_DEFINITION, name=f"mice.{group}")
    changes = client.watch(CUSTOM_RESOURCE_DEFINITION, name=ref.name)
    await client.apply(definition, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="bke")
    async with asyncio.timeout(PATIENCE_SECONDS), aclosing(changes):
        async for change in changes:
            conditions = [one for item in change.documents for one in item.get("status", {}).get("conditions") or ()]
            if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
                break
    mouse = await resolved(client, f"{group}/v1", "Mouse")
    assert mouse.namespaced is False
    document = {"apiVersion": f"{group}/v1", "kind": "Mouse", "metadata": {"name": "one"}}
    await client.apply(document, kind=mouse, field_manager="bke")
    assert [item["metadata"]["name"] for item in (await client.list(mouse)).items] == ["one"]
    await client.delete(ref)


async def test_a_workload_cluster_is_reached_through_its_secret(
    control_plane: ControlPlane, client: KubeClusterClient, kube_namespace: str
) -> None:
    east = ClusterKey(kube_namespace=kube_namespace, name="east")
    made = KubeClusters(client)
    with pytest.raises(ClusterNotReady):
        await made.target(east)
    kubeconfig = base64.b64encode(control_plane.kubeconfig.read_bytes()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "east-kubeconfig", "namespace": kube_namespace},
        "data": {"value": kubeconfig},
    }
    await client.create(document, kind=SECRET)
    target = await made.target(east)
    assert target is not client
    assert await target.identity() == await client.identity()
    await made.aclose()


async def test_keys_do_not_stay_on_disk(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = control_plane.data_dir / "certificates"
    document = json.loads(control_plane.kubeconfig.read_text())
    document["users"][0]["user"] |= {
        "client-certificate-data": base64.b64encode((certificates / "apiserver.crt").read_bytes()).decode(),
        "client-key-data": base64.b64encode((certificates / "apiserver.key").read_bytes()).decode(),
    }
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    client = await connect(KubeconfigText(document, Origin("Secret team/east-kubeconfig", "data.value", "")))
    assert (await client.list(UPGRADE_PATH)).resource_version
    assert not list(tmp_path.iterdir())  # noqa: ASYNC240
    await client.aclose()


async def test_a_certificate_that_is_not_trusted_is_told(control_plane: ControlPlane) -> None:
    document = json.loads(control_plane.kubeconfig.read_text())
    del document["clusters"][0]["cluster"]["certificate-authority-data"]
    client = await connect(KubeconfigText(document, Origin("Secret team/east-kubeconfig", "data.value", "")))
    with pytest.raises(Transient, match="is not trusted") as caught:
        await client.identity()
    assert "certificate-authority-data" in caught.value.remedy
    await client.aclose()
