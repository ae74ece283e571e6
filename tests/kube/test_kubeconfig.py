"""What a kubeconfig says, and how a broken one is refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from hopline.domain.errors import ClusterNotReady
from hopline.kube.kubeconfig import Origin, parse_kubeconfig, read_kubeconfig
from kube.fake_api_server import ORIGIN

PEM = "-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n"
DATA = base64.b64encode(PEM.encode()).decode()


def kubeconfig(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    return {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "east", "user": "admin"}}],
        "clusters": [{"name": "east", "cluster": {"server": "https://10.0.0.1:6443/", **(cluster or {})}}],
        "users": [{"name": "admin", "user": user or {}}],
        **top,
    }


def local(folder: Path) -> Origin:
    return Origin(f"kubeconfig {folder / 'config'}", "", "correct the file", folder)


def test_certificates_from_data() -> None:
    document = kubeconfig(
        {"certificate-authority-data": DATA, "tls-server-name": "api.east", "proxy-url": "http://proxy:3128"},
        {"client-certificate-data": DATA, "client-key-data": DATA},
    )
    endpoint = read_kubeconfig(document, ORIGIN)
    assert endpoint.server == "https://10.0.0.1:6443"
    assert (endpoint.ca, endpoint.client_certificate, endpoint.client_key) == (PEM, PEM, PEM)
    assert (endpoint.tls_server_name, endpoint.proxy, endpoint.verify) == ("api.east", "http://proxy:3128", True)


def test_certificates_from_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(PEM)
    endpoint = read_kubeconfig(kubeconfig({"certificate-authority": "ca.pem"}), local(tmp_path))
    assert endpoint.ca == PEM


def test_data_wins_over_files(tmp_path: Path) -> None:
    document = kubeconfig({"certificate-authority": "absent.pem", "certificate-authority-data": DATA})
    assert read_kubeconfig(document, local(tmp_path)).ca == PEM


def test_identities(tmp_path: Path) -> None:
    assert read_kubeconfig(kubeconfig(user={"token": "abc"}), ORIGIN).authorization == "Bearer abc"
    assert read_kubeconfig(kubeconfig(user={"token": "abc\n  def"}), ORIGIN).authorization == "Bearer abcdef"
    basic = read_kubeconfig(kubeconfig(user={"username": "u", "password": "p"}), ORIGIN).authorization
    assert basic == f"Basic {base64.b64encode(b'u:p').decode()}"
    assert (
        read_kubeconfig(kubeconfig(user={"tokenFile": "t", "token": "old"}), local(tmp_path)).token_file
        == tmp_path / "t"
    )
    plugin = {"command": "aws", "apiVersion": "client.authentication.k8s.io/v1"}
    assert read_kubeconfig(kubeconfig(user={"exec": plugin}), local(tmp_path)).plugin == plugin
    assert read_kubeconfig(kubeconfig({"insecure-skip-tls-verify": True}), ORIGIN).verify is False


def test_another_context_can_be_named() -> None:
    document = kubeconfig()
    document["contexts"].append({"name": "other", "context": {"cluster": "west"}})
    document["clusters"].append({"name": "west", "cluster": {"server": "http://west"}})
    assert read_kubeconfig(document, ORIGIN, context="other").server == "http://west"


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        (["a"], "data.value", "not a mapping"),
        ({}, "data.value: current-context", "no current context"),
        (kubeconfig(**{"current-context": ""}), "current-context", "no current context"),
        (kubeconfig(**{"current-context": 3}), "current-context", "not a text"),
        (kubeconfig(**{"current-context": "gone"}), "contexts", "no context 'gone'"),
        (kubeconfig(contexts=None), "contexts", "no context 'main'"),
        (kubeconfig(clusters=[{"name": "west", "cluster": {}}]), "clusters", "no cluster 'east'"),
        (kubeconfig(users=[]), "users", "no user 'admin'"),
        (kubeconfig({"server": ""}), "clusters[east].cluster.server", "https://"),
        (kubeconfig({"server": "10.0.0.1:6443"}), "clusters[east].cluster.server", "https://"),
        (kubeconfig({"server": "https://u:p@host"}), "clusters[east].cluster.server", "https://"),
        (kubeconfig({"server": "https://host:99999"}), "clusters[east].cluster.server", "https://"),
        (
            kubeconfig({"proxy-url": "socks5://proxy"}),
            "clusters[east].cluster.proxy-url",
            "http:// and https:// proxies",
        ),
        (kubeconfig({"certificate-authority-data": "%%%"}), "certificate-authority-data", "base64"),
        (kubeconfig({"certificate-authority-data": "/w=="}), "certificate-authority-data", "base64"),
        (kubeconfig({"certificate-authority": "/etc/ca"}), "certificate-authority", "may not name files"),
        (kubeconfig(user={"tokenFile": "/etc/shadow"}), "users[admin].user.tokenFile", "may not name files"),
        (kubeconfig(user={"client-certificate": "/x"}), "client-certificate", "may not name files"),
        (kubeconfig(user={"exec": {"command": "sh", "apiVersion": "v1"}}), "users[admin].user.exec", "may not run"),
        (kubeconfig(user={"auth-provider": {"name": "oidc"}}), "users[admin].user.auth-provider", "not supported"),
        (kubeconfig(user={"as": "root"}), "users[admin].user.as", "not supported"),
        (kubeconfig(user={"client-certificate-data": DATA}), "users[admin].user", "no client key"),
        (kubeconfig(user={"client-key-data": DATA}), "users[admin].user", "no client certificate"),
    ],
)
def test_a_broken_kubeconfig_names_secret_field_and_remedy(document: object, field: str, message: str) -> None:
    with pytest.raises(ClusterNotReady) as caught:
        read_kubeconfig(document, ORIGIN)
    assert caught.value.subject == "Secret team/east-kubeconfig"
    assert field in caught.value.field
    assert caught.value.field.startswith("data.value")
    assert message in caught.value.message
    assert caught.value.remedy == ORIGIN.remedy


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterNotReady) as caught:
        read_kubeconfig(kubeconfig({"certificate-authority": "ca.pem"}), local(tmp_path))
    assert f"{tmp_path / 'ca.pem'} cannot be read: No such file or directory" in caught.value.message


def test_a_command_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterNotReady, match="command and apiVersion"):
        read_kubeconfig(kubeconfig(user={"exec": {"args": ["x"]}}), local(tmp_path))


def test_yaml_and_json_are_read() -> None:
    assert parse_kubeconfig("current-context: main\nkind: Config\n", ORIGIN) == {
        "current-context": "main",
        "kind": "Config",
    }
    assert parse_kubeconfig(json.dumps(kubeconfig()), ORIGIN) == kubeconfig()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "users:\n- {name: a, user: {token: s3cr3t-value}",
        "a: 1\n---\nb: 2\n",
        "s3cr3t-value",
        "a: b: s3cr3t-value",
        "\t- s3cr3t-value",
    ],
)
def test_a_text_that_does_not_parse_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ClusterNotReady) as caught:
        parse_kubeconfig(text, ORIGIN)
    assert caught.value.subject == "Secret team/east-kubeconfig"
    assert "s3cr3t" not in str(caught.value)


def test_secrets_are_not_shown_by_repr() -> None:
    user = {"token": "s3cr3t-token", "client-certificate-data": DATA, "client-key-data": DATA}
    shown = repr(read_kubeconfig(kubeconfig({"certificate-authority-data": DATA}, user), ORIGIN))
    assert "s3cr3t" not in shown
    assert "BEGIN" not in shown
