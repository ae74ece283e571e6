"""Paths of kinds, and how few questions they cost."""

from __future__ import annotations

import asyncio

import pytest

from hopline.domain.errors import NotFound, Rejected, Transient
from hopline.domain.resources import BKE_NODE, CONFIG_MAP, NODE, Kind, ObjectRef
from hopline.kube.client import KubeClusterClient
from kube.fake_api_server import FakeApiServer, Reply, status

WIDGET = Kind(api_version="example.test/v1", kind="Widget")
GROUP = "/apis/example.test/v1"
RESOURCES = Reply(
    {
        "resources": [
            {"name": "widgets", "kind": "Widget", "namespaced": True},
            {"name": "widgets/status", "kind": "Widget", "namespaced": True},
            {"name": "plants", "kind": "Plant", "namespaced": False},
        ]
    }
)


def widget(name: str = "one") -> ObjectRef:
    return ObjectRef(kind=WIDGET, name=name, kube_namespace="team")


async def test_known_kinds_need_no_question(server: FakeApiServer, client: KubeClusterClient) -> None:
    paths = {
        "/api/v1/namespaces/team/configmaps/one": ObjectRef(kind=CONFIG_MAP, name="one", kube_namespace="team"),
        "/api/v1/nodes/n1": ObjectRef(kind=NODE, name="n1"),
        "/apis/bke.bocloud.com/v1beta1/namespaces/team/bkenodes/n1": ObjectRef(
            kind=BKE_NODE, name="n1", kube_namespace="team"
        ),
    }
    for path, ref in paths.items():
        server.answer("GET", path, Reply({"metadata": {"name": ref.name}}))
        await client.get(ref)
    assert [seen.path for seen in server.seen] == list(paths)


async def test_other_kinds_are_asked_for_once(server: FakeApiServer, client: KubeClusterClient) -> None:
    server.answer("GET", GROUP, RESOURCES)
    server.answer("GET", f"{GROUP}/namespaces/team/widgets/one", Reply())
    server.answer("GET", f"{GROUP}/plants/fern", Reply())
    await asyncio.gather(*(client.get(widget()) for _ in range(10)))
    plant = await client.resolve(WIDGET.api_version, "Plant")
    assert plant.namespaced is False
    await client.get(ObjectRef(kind=plant, name="fern"))
    assert len(server.requests("GET", GROUP)) == 1


async def test_scope_comes_from_the_server(server: FakeApiServer, client: KubeClusterClient) -> None:
    server.answer("GET", GROUP, RESOURCES)
    server.answer("GET", f"{GROUP}/plants/fern", Reply())
    claimed = Kind(api_version=WIDGET.api_version, kind="Plant", namespaced=True)
    await client.get(ObjectRef(kind=claimed, name="fern", kube_namespace="team"))
    assert server.seen[-1].path == f"{GROUP}/plants/fern"


async def test_a_kind_that_is_not_served_is_asked_for_once_a_time(
    server: FakeApiServer, client: KubeClusterClient
) -> None:
    gadget = Kind(api_version=WIDGET.api_version, kind="Gadget")
    server.answer("GET", GROUP, RESOURCES)
    for _ in range(2):
        with pytest.raises(NotFound, match="does not serve"):
            await client.list(gadget, kube_namespace="team")
    assert len(server.requests("GET", GROUP)) == 2
    later = {"name": "gadgets", "kind": "Gadget", "namespaced": True}
    server.answer("GET", GROUP, Reply({"resources": [later]}))
    server.answer("GET", f"{GROUP}/namespaces/team/gadgets", Reply({"items": [], "metadata": {"resourceVersion": "1"}}))
    await client.list(gadget, kube_namespace="team")
    assert len(server.requests("GET", GROUP)) == 3


@pytest.mark.parametrize("group_is_served", [True, False])
async def test_a_kind_that_is_defined_but_not_served_yet_is_transient(
    server: FakeApiServer, client: KubeClusterClient, group_is_served: bool
) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    names = ("gadgets.example.test", "gadgets.other.test")
    server.answer("GET", definitions, Reply({"items": [{"metadata": {"name": name}} for name in names]}))
    spec = {"names": {"kind": "Gadget"}, "versions": [{"name": "v1", "served": True}, {"name": "v2", "served": False}]}
    server.answer("GET", f"{definitions}/gadgets.example.test", Reply({"spec": spec}))
    if group_is_served:
        server.answer("GET", GROUP, RESOURCES)
    with pytest.raises(Transient, match="defined but not served yet"):
        await client.resolve(WIDGET.api_version, "Gadget")
    assert server.requests("GET", definitions)[0].headers["Accept"].startswith("application/json;as=PartialObject")
    for api_version, kind in ((WIDGET.api_version, "Typo"), ("example.test/v2", "Gadget")):
        with pytest.raises(NotFound):
            await client.resolve(api_version, kind)


async def test_an_account_that_may_not_read_definitions_gets_an_answer_all_the_same(
    server: FakeApiServer, client: KubeClusterClient
) -> None:
    forbidden = status(403, "Forbidden", "cannot list resource customresourcedefinitions")
    server.answer("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", forbidden)
    with pytest.raises(NotFound):
        await client.resolve(WIDGET.api_version, "Widget")


async def test_a_group_that_is_not_served(server: FakeApiServer, client: KubeClusterClient) -> None:
    with pytest.raises(NotFound) as caught:
        await client.resolve("nowhere.example.test/v1", "Widget")
    assert caught.value.subject == "Widget (nowhere.example.test/v1)"
    assert "CustomResourceDefinition" in caught.value.remedy


async def test_custom_kinds_that_we_know_are_still_asked_for_by_resolve(
    server: FakeApiServer, client: KubeClusterClient
) -> None:
    with pytest.raises(NotFound):
        await client.resolve(BKE_NODE.api_version, BKE_NODE.kind)


async def test_a_server_that_fails_is_not_one_without_the_kind(
    server: FakeApiServer, client: KubeClusterClient
) -> None:
    server.answer("GET", GROUP, status(503, "ServiceUnavailable", "starting"), RESOURCES)
    with pytest.raises(Transient):
        await client.resolve(WIDGET.api_version, "Widget")
    assert await client.resolve(WIDGET.api_version, "Widget") == WIDGET


async def test_a_kind_that_went_away_is_asked_for_again(server: FakeApiServer, client: KubeClusterClient) -> None:
    server.answer("GET", GROUP, RESOURCES)
    with pytest.raises(NotFound, match="does not serve"):
        await client.get(widget())
    renamed = {"name": "widgetz", "kind": "Widget", "namespaced": True}
    server.answer("GET", GROUP, Reply({"resources": [renamed]}))
    server.answer("GET", f"{GROUP}/namespaces/team/widgetz/one", Reply())
    await client.get(widget())


async def test_an_object_that_is_absent_costs_no_question(server: FakeApiServer, client: KubeClusterClient) -> None:
    server.answer("GET", GROUP, RESOURCES)
    path = f"{GROUP}/namespaces/team/widgets/one"
    server.answer("GET", path, status(404, "NotFound", 'widgets "one" not found', name="one"))
    for _ in range(3):
        with pytest.raises(NotFound, match="not found"):
            await client.get(widget())
    assert len(server.requests("GET", GROUP)) == 1


async def test_names_are_quoted(server: FakeApiServer, client: KubeClusterClient) -> None:
    server.answer("GET", "/api/v1/namespaces/team/configmaps/a/../b?c", Reply())
    await client.get(ObjectRef(kind=CONFIG_MAP, name="a/../b?c", kube_namespace="team"))
    assert len(server.seen) == 1


async def test_a_namespaced_object_needs_its_namespace(server: FakeApiServer, client: KubeClusterClient) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    for call in (
        client.get(ObjectRef(kind=CONFIG_MAP, name="one")),
        client.create(document, kind=CONFIG_MAP),
        client.apply(document, kind=CONFIG_MAP, field_manager="bke"),
    ):
        with pytest.raises(Rejected) as caught:
            await call
        assert caught.value.field == "metadata.namespace"
    with pytest.raises(Rejected, match="needs a name"):
        await client.apply({**document, "metadata": {}}, kind=CONFIG_MAP, field_manager="bke")
    assert server.seen == []
