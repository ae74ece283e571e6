"""Which API server a cluster has, and how little it costs to know."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hopline.domain.errors import ClusterNotReady, NotFound, Transient
from hopline.domain.wire import ClusterKey
from hopline.kube import clusters
from hopline.kube.client import KubeClusterClient
from hopline.kube.clusters import KubeClusters
from hopline.ports import Clusters
from kube.fake_api_server import FakeApiServer, Reply, running, status

EAST = ClusterKey(kube_namespace="team", name="east")
SECRET = "/api/v1/namespaces/team/secrets/east-kubeconfig"
SYSTEM = "/api/v1/namespaces/kube-system"
ABSENT = status(404, "NotFound", 'secrets "east-kubeconfig" not found', name="east-kubeconfig")


@pytest.fixture
async def reached(client: KubeClusterClient) -> AsyncIterator[KubeClusters]:
    made = KubeClusters(client)
    yield made
    await made.aclose()


@pytest.fixture
async def target() -> AsyncIterator[FakeApiServer]:
    async with running() as started:
        started.answer("GET", SYSTEM, Reply({"metadata": {"uid": "uid-of-east"}}))
        yield started


def secret(kubeconfig: Any, version: str = "1", key: str = "value") -> Reply:
    text = kubeconfig if isinstance(kubeconfig, str) else json.dumps(kubeconfig)
    data = {key: base64.b64encode(text.encode()).decode()}
    return Reply({"metadata": {"uid": "uid-secret", "resourceVersion": version}, "data": data})


def authorizations(server: FakeApiServer) -> list[str | None]:
    return [seen.headers.get("Authorization") for seen in server.seen]


async def test_it_is_the_port(reached: KubeClusters, client: KubeClusterClient) -> None:
    port: Clusters = reached
    assert port.management is client
    assert port.agents is None


async def test_a_target_is_reached_through_its_secret_which_is_read_once(
    server: FakeApiServer, target: FakeApiServer, reached: KubeClusters
) -> None:
    server.answer("GET", SECRET, secret(target.kubeconfig(token="abc")))
    first = await reached.target(EAST)
    assert await first.identity() == "uid-of-east"
    for _ in range(5):
        assert await reached.target(EAST) is first
    assert len(server.requests("GET", SECRET)) == 1
    assert authorizations(target) == ["Bearer abc"]


async def test_after_a_minute_the_secret_is_looked_at_again(
    server: FakeApiServer, target: FakeApiServer, reached: KubeClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "LOOK_AGAIN_SECONDS", 0.0)
    one, two = target.kubeconfig(token="one"), target.kubeconfig(token="two")
    server.answer("GET", SECRET, secret(one, "1"), secret(one, "1"), secret(two, "2"))
    client = await reached.target(EAST)
    for _ in range(2):
        assert await reached.target(EAST) is client
        await client.identity()
    assert authorizations(target) == ["Bearer one", "Bearer two"]


async def test_after_401_the_secret_is_read_again(
    server: FakeApiServer, target: FakeApiServer, reached: KubeClusters
) -> None:
    server.answer(
        "GET", SECRET, secret(target.kubeconfig(token="one"), "1"), secret(target.kubeconfig(token="two"), "2")
    )
    client = await reached.target(EAST)
    target.answer("GET", SYSTEM, status(401, "Unauthorized", "Unauthorized"), Reply({"metadata": {"uid": "u"}}))
    with pytest.raises(Transient):
        await client.identity()
    assert await client.identity() == "u"
    assert authorizations(target) == ["Bearer one", "Bearer two"]


async def test_a_target_that_moved_is_found_by_those_who_hold_it(
    server: FakeApiServer, target: FakeApiServer, reached: KubeClusters
) -> None:
    async with running() as old:
        server.answer("GET", SECRET, secret(old.kubeconfig(), "1"), secret(target.kubeconfig(), "2"))
        client = await reached.target(EAST)
    with pytest.raises(Transient):
        await client.identity()
    assert await client.identity() == "uid-of-east"
    assert await reached.target(EAST) is client


async def test_without_a_secret_it_is_the_management_cluster_only_if_said_so(
    server: FakeApiServer, client: KubeClusterClient
) -> None:
    server.answer("GET", SECRET, ABSENT)
    made = KubeClusters(client, management_cluster=EAST)
    assert await made.target(EAST) is client
    assert await made.target(EAST) is client
    assert len(server.requests("GET", SECRET)) == 1, "the absence of the Secret is remembered for a minute too"
    west = ClusterKey(kube_namespace="team", name="west")
    server.answer("GET", "/api/v1/namespaces/team/secrets/west-kubeconfig", ABSENT)
    with pytest.raises(ClusterNotReady) as caught:
        await made.target(west)
    assert caught.value.subject == "Secret team/west-kubeconfig"
    assert caught.value.field == "data.value"
    assert "kubectl create secret generic west-kubeconfig -n team" in caught.value.remedy
    assert "HOPLINE_MANAGEMENT_CLUSTER=team/west" in caught.value.remedy


async def test_a_secret_wins_over_the_management_cluster(
    server: FakeApiServer, target: FakeApiServer, client: KubeClusterClient
) -> None:
    server.answer("GET", SECRET, secret(target.kubeconfig()))
    made = KubeClusters(client, management_cluster=EAST)
    assert await (await made.target(EAST)).identity() == "uid-of-east"
    await made.aclose()


async def test_a_secret_that_goes_away_takes_the_cluster_with_it(
    server: FakeApiServer, target: FakeApiServer, reached: KubeClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "LOOK_AGAIN_SECONDS", 0.0)
    server.answer("GET", SECRET, secret(target.kubeconfig()), ABSENT)
    client = await reached.target(EAST)
    with pytest.raises(ClusterNotReady):
        await reached.target(EAST)
    with pytest.raises(Transient, match="closed"):
        await client.identity()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Reply({"metadata": {"uid": "u", "resourceVersion": "1"}}), "holds no kubeconfig"),
        (secret("x: y", key="config"), "holds no kubeconfig"),
        (secret("{"), "not YAML"),
        (secret("{}"), "no current context"),
        (Reply({"metadata": {"uid": "u", "resourceVersion": "1"}, "data": {"value": "/w=="}}), "not a text"),
    ],
)
async def test_an_unusable_secret_is_refused_by_name(
    server: FakeApiServer, reached: KubeClusters, answer: Reply, message: str
) -> None:
    server.answer("GET", SECRET, answer)
    with pytest.raises(ClusterNotReady, match=message) as caught:
        await reached.target(EAST)
    assert caught.value.subject == "Secret team/east-kubeconfig"
    assert caught.value.field.startswith("data.value")
    assert "kubectl" in caught.value.remedy


async def test_a_secret_that_is_mended_is_used(
    server: FakeApiServer, target: FakeApiServer, reached: KubeClusters
) -> None:
    server.answer("GET", SECRET, secret("{", "1"), secret(target.kubeconfig(), "2"))
    with pytest.raises(ClusterNotReady):
        await reached.target(EAST)
    assert await (await reached.target(EAST)).identity() == "uid-of-east"


async def test_a_secret_that_cannot_be_read_just_now_is_transient(server: FakeApiServer, reached: KubeClusters) -> None:
    server.answer("GET", SECRET, status(503, "ServiceUnavailable", "starting"))
    with pytest.raises(Transient):
        await reached.target(EAST)


async def test_a_secret_that_may_not_be_read_is_not_one_that_is_absent(
    server: FakeApiServer, client: KubeClusterClient
) -> None:
    server.answer("GET", SECRET, status(403, "Forbidden", "cannot get resource secrets"))
    with pytest.raises(Exception, match="cannot get resource secrets") as caught:
        await KubeClusters(client, management_cluster=EAST).target(EAST)
    assert not isinstance(caught.value, ClusterNotReady | NotFound)


async def test_closing_closes_all(server: FakeApiServer, target: FakeApiServer, reached: KubeClusters) -> None:
    server.answer("GET", SECRET, secret(target.kubeconfig()))
    client = await reached.target(EAST)
    await reached.aclose()
    for closed in (client, reached.management):
        with pytest.raises(Transient, match="closed"):
            await closed.identity()


async def test_asked_to_look_again_it_trusts_nothing_that_it_knows(
    server: FakeApiServer, target: FakeApiServer, reached: KubeClusters
) -> None:
    async with running() as old:
        server.answer("GET", SECRET, secret(old.kubeconfig(), "1"), ABSENT, secret(target.kubeconfig(token="new"), "2"))
        await reached.target(EAST)
    reached.look_again(EAST)
    with pytest.raises(ClusterNotReady, match="there is no kubeconfig"):
        await reached.target(EAST)
    assert await (await reached.target(EAST)).identity() == "uid-of-east"
    assert authorizations(target) == ["Bearer new"]
    reached.look_again(ClusterKey(kube_namespace="team", name="nobody"))
