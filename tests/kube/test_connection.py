"""Time limits, credentials that rotate, and what never leaves the process."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
from pathlib import Path

import pytest
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import kube_config

from hopline.domain.errors import ClusterNotReady, Forbidden, Transient
from hopline.domain.resources import CONFIG_MAP, ObjectRef
from hopline.kube import connection
from hopline.kube.client import KubeClusterClient, connect
from hopline.kube.credentials import InCluster, KubeconfigFile, KubeconfigText
from hopline.kube.kubeconfig import Endpoint
from kube.fake_api_server import ORIGIN, Connect, FakeApiServer, Reply, Silence, running, status

ONE = ObjectRef(kind=CONFIG_MAP, name="one", kube_namespace="team")
PATH = "/api/v1/namespaces/team/configmaps/one"
FOUND = Reply({"metadata": {"name": "one"}})
UNAUTHORIZED = status(401, "Unauthorized", "Unauthorized")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_empty(folder: Path) -> bool:
    return not list(folder.iterdir())


def sent_tokens(server: FakeApiServer) -> list[str | None]:
    return [seen.headers.get("Authorization") for seen in server.requests("GET", PATH)]


# --- time limits ----------------------------------------------------------------------------------------------------


async def test_a_server_that_never_answers_is_transient(
    server: FakeApiServer, client: KubeClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TOTAL_SECONDS", 0.2)
    server.answer("GET", PATH, Silence())
    with pytest.raises(Transient) as caught:
        await client.get(ONE)
    assert "did not answer in time" in caught.value.message
    assert (caught.value.subject, caught.value.value) == ("ConfigMap team/one", server.server)


async def test_a_server_that_is_not_there_is_transient(server: FakeApiServer, connected: Connect) -> None:
    document = server.kubeconfig(token="s3cr3t-token")
    document["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{free_port()}"
    client = await connected(KubeconfigText(document, ORIGIN))
    with pytest.raises(Transient, match="cannot be reached: Connection refused") as caught:
        await client.get(ONE)
    assert "s3cr3t" not in str(caught.value)


async def test_a_server_that_speaks_something_else_is_transient(connected: Connect, server: FakeApiServer) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with listener:
        document = server.kubeconfig()
        document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        client = await connected(KubeconfigText(document, ORIGIN))
        with pytest.raises(Transient, match="cannot be reached"):
            await client.get(ONE)


async def test_after_closing_a_request_is_transient(client: KubeClusterClient) -> None:
    await client.aclose()
    with pytest.raises(Transient, match="closed"):
        await client.get(ONE)


@pytest.mark.parametrize("answer", [Reply("<html>sign in</html>"), Reply([1]), Reply("", 302)])
async def test_an_answer_that_is_not_a_document_is_transient(
    server: FakeApiServer, client: KubeClusterClient, answer: Reply
) -> None:
    server.answer("GET", PATH, answer)
    with pytest.raises(Transient, match="not a JSON object"):
        await client.get(ONE)


# --- credentials that rotate ----------------------------------------------------------------------------------------


async def test_after_401_the_token_file_is_read_again(
    server: FakeApiServer, connected: Connect, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "config").write_text(json.dumps(server.kubeconfig(tokenFile="token")))
    client = await connected(KubeconfigFile(tmp_path / "config"))
    server.answer("GET", PATH, FOUND, UNAUTHORIZED, FOUND)
    await client.get(ONE)
    (tmp_path / "token").write_text("second\n")
    with pytest.raises(Transient, match="Unauthorized"):
        await client.get(ONE)
    await client.get(ONE)
    assert sent_tokens(server) == ["Bearer first", "Bearer first", "Bearer second"]


async def test_a_token_file_is_read_again_before_it_is_refused(
    server: FakeApiServer, connected: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_TOKEN_AGE_SECONDS", 0.0)
    (tmp_path / "token").write_text("first")
    (tmp_path / "config").write_text(json.dumps(server.kubeconfig(tokenFile="token")))
    client = await connected(KubeconfigFile(tmp_path / "config"))
    server.answer("GET", PATH, FOUND)
    await client.get(ONE)
    (tmp_path / "token").write_text("second")
    await client.get(ONE)
    (tmp_path / "token").unlink()
    await client.get(ONE)
    assert sent_tokens(server) == ["Bearer first", "Bearer second", "Bearer second"]


async def test_after_401_the_kubeconfig_is_read_again(
    server: FakeApiServer, connected: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    file.write_text(json.dumps(server.kubeconfig(token="first")))
    client = await connected(KubeconfigFile(file))
    server.answer("GET", PATH, UNAUTHORIZED, FOUND)
    async with running() as other:
        other.answer("GET", PATH, FOUND)
        file.write_text(json.dumps(other.kubeconfig(token="second")))
        with pytest.raises(Transient):
            await client.get(ONE)
        await client.get(ONE)
        assert sent_tokens(other) == ["Bearer second"]
    assert client.connection.generation == 1


async def test_an_api_server_that_moved_is_found_without_a_new_client(
    server: FakeApiServer, connected: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    async with running() as old:
        file.write_text(json.dumps(old.kubeconfig()))
        client = await connected(KubeconfigFile(file))
    file.write_text(json.dumps(server.kubeconfig()))
    server.answer("GET", PATH, FOUND)
    with pytest.raises(Transient):
        await client.get(ONE)
    assert await client.get(ONE) == FOUND.body


async def test_another_api_server_has_other_kinds(server: FakeApiServer, connected: Connect, tmp_path: Path) -> None:
    file, group = tmp_path / "config", "/apis/example.test/v1"
    file.write_text(json.dumps(server.kubeconfig()))
    client = await connected(KubeconfigFile(file))
    server.answer("GET", group, Reply({"resources": [{"name": "widgets", "kind": "Widget", "namespaced": True}]}))
    server.answer("GET", PATH, UNAUTHORIZED)
    assert (await client.resolve("example.test/v1", "Widget")).namespaced
    async with running() as other:
        other.answer("GET", group, Reply({"resources": [{"name": "widgets", "kind": "Widget", "namespaced": False}]}))
        file.write_text(json.dumps(other.kubeconfig()))
        with pytest.raises(Transient):
            await client.get(ONE)
        assert not (await client.resolve("example.test/v1", "Widget")).namespaced


async def test_many_401s_read_the_credentials_once(server: FakeApiServer, connected: Connect) -> None:
    class Counting:
        origin = ORIGIN
        loads = 0

        async def load(self) -> Endpoint:
            self.loads += 1
            return Endpoint(server.server, authorization="Bearer same")

    source = Counting()
    client = await connected(source)
    server.answer("GET", PATH, UNAUTHORIZED)
    results = await asyncio.gather(*(client.get(ONE) for _ in range(20)), return_exceptions=True)
    assert {type(result) for result in results} == {Transient}
    assert len(server.seen) == 20
    assert source.loads == 2


async def test_credentials_that_cannot_be_read_again_leave_the_answer_as_it_is(
    server: FakeApiServer, connected: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    file.write_text(json.dumps(server.kubeconfig(token="first")))
    client = await connected(KubeconfigFile(file))
    file.write_text("{")
    server.answer("GET", PATH, UNAUTHORIZED, FOUND)
    with pytest.raises(Transient, match="Unauthorized"):
        await client.get(ONE)
    assert await client.get(ONE) == FOUND.body


async def test_in_cluster(server: FakeApiServer, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("PEM")
    (tmp_path / "token").write_text("abc")
    environment = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    endpoint = await InCluster(tmp_path, environment).load()
    assert (endpoint.server, endpoint.ca, endpoint.token_file) == ("https://10.96.0.1:443", "PEM", tmp_path / "token")
    six = await InCluster(tmp_path, environment | {"KUBERNETES_SERVICE_HOST": "fd00::1"}).load()
    assert six.server == "https://[fd00::1]:443"
    with pytest.raises(ClusterNotReady, match="does not run in a pod"):
        await InCluster(tmp_path, {}).load()
    (tmp_path / "token").unlink()
    with pytest.raises(ClusterNotReady, match="token cannot be read"):
        await InCluster(tmp_path, environment).load()


# --- what never leaves the process ----------------------------------------------------------------------------------


async def test_an_unusable_kubeconfig_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterNotReady) as caught:
        await connect(KubeconfigFile(tmp_path / "absent"))
    assert caught.value.subject == f"kubeconfig {tmp_path / 'absent'}"
    assert "No such file" in caught.value.message
    assert "kubectl" in caught.value.remedy


@pytest.mark.parametrize("user", [{}, {"client-certificate-data": "Zm9v", "client-key-data": "Zm9v"}])
async def test_certificates_that_are_none_are_refused(server: FakeApiServer, user: dict[str, str]) -> None:
    document = server.kubeconfig(**user)
    if not user:
        document["clusters"][0]["cluster"]["certificate-authority-data"] = "Zm9v"
    with pytest.raises(ClusterNotReady, match="certificates or key cannot be used") as caught:
        await connect(KubeconfigText(document, ORIGIN))
    assert caught.value.subject == ORIGIN.subject


async def test_credentials_do_not_follow_a_redirect_to_another_host(
    server: FakeApiServer, client: KubeClusterClient
) -> None:
    async with running() as other:
        server.answer("GET", PATH, Reply(code=302, headers={"Location": f"{other.server}/elsewhere"}))
        other.answer("GET", "/elsewhere", FOUND)
        await client.get(ONE)
        assert sent_tokens(server) == ["Bearer first"]
        assert [seen.headers.get("Authorization") for seen in other.seen] == [None]


async def test_logins_and_proxies_of_the_environment_do_not_reach_a_local_api_server(
    server: FakeApiServer, connected: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login someone password s3cr3t\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("no_proxy", "")
    server.answer("GET", PATH, FOUND)
    client = await connected(KubeconfigText(server.kubeconfig(token="first"), ORIGIN))
    await client.get(ONE)
    assert sent_tokens(server) == ["Bearer first"]


async def test_other_api_servers_are_reached_through_the_proxy(
    server: FakeApiServer, connected: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.server)
    monkeypatch.setenv("no_proxy", "near.example.test")
    document = server.kubeconfig()
    document["clusters"][0]["cluster"]["server"] = "http://far.example.test:6443"
    server.answer("GET", PATH, FOUND)
    client = await connected(KubeconfigText(document, ORIGIN))
    await client.get(ONE)
    assert server.seen[0].headers["Host"] == "far.example.test:6443"


async def test_a_proxy_of_an_unknown_sort_is_refused(server: FakeApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1080")
    document = server.kubeconfig()
    document["clusters"][0]["cluster"]["server"] = "http://far.example.test:6443"
    with pytest.raises(ClusterNotReady, match="proxy of the environment"):
        await connect(KubeconfigText(document, ORIGIN))


async def test_the_library_keeps_nothing(
    server: FakeApiServer, client: KubeClusterClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    server.answer("GET", "/apis/example.test/v1", Reply({"resources": []}))
    with pytest.raises(Exception, match="does not serve"):
        await client.resolve("example.test/v1", "Widget")
    assert is_empty(tmp_path)
    assert kube_config._temp_files == {}
    assert Configuration._default is None


# --- 403 while an API server is replaced ----------------------------------------------------------------------------


async def test_403_is_transient_after_the_api_server_was_away_or_when_told(
    server: FakeApiServer, client: KubeClusterClient
) -> None:
    forbidden = status(403, "Forbidden", 'User "x" cannot get resource')
    server.answer("GET", PATH, forbidden)
    with pytest.raises(Forbidden):
        await client.get(ONE)
    client.forbidden_is_transient = True
    with pytest.raises(Transient):
        await client.get(ONE)
    client.forbidden_is_transient = False
    server.answer("GET", PATH, status(503, "ServiceUnavailable", "starting"), forbidden)
    for _ in range(2):
        with pytest.raises(Transient):
            await client.get(ONE)


async def test_403_is_final_again_once_the_api_server_has_settled(
    server: FakeApiServer, client: KubeClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_REPLACEMENT_SECONDS", 0.0)
    server.answer("GET", PATH, status(503, "ServiceUnavailable", "starting"), status(403, "Forbidden", "cannot get"))
    with pytest.raises(Transient):
        await client.get(ONE)
    with pytest.raises(Forbidden):
        await client.get(ONE)
