"""Commands that make credentials."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from hopline.domain.errors import ClusterNotReady
from hopline.domain.resources import CONFIG_MAP, ObjectRef
from hopline.kube import plugin
from hopline.kube.client import connect
from hopline.kube.credentials import KubeconfigFile
from kube.fake_api_server import Connect, FakeApiServer, Reply

ONE = ObjectRef(kind=CONFIG_MAP, name="one", kube_namespace="team")
PATH = "/api/v1/namespaces/team/configmaps/one"


def signing_in(server: FakeApiServer, folder: Path, script: str) -> KubeconfigFile:
    command = folder / "sign-in"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    section = {
        "command": str(command),
        "apiVersion": "client.authentication.k8s.io/v1",
        "args": ["--cluster", "east"],
        "env": [{"name": "PROFILE", "value": "upgrades"}],
    }
    (folder / "config").write_text(json.dumps(server.kubeconfig(exec=section)))
    return KubeconfigFile(folder / "config")


async def test_a_command_makes_the_token_and_runs_again_when_it_expires(
    server: FakeApiServer, connected: Connect, tmp_path: Path
) -> None:
    script = (
        f"echo run >> {tmp_path}/runs\n"
        f"n=$(wc -l < {tmp_path}/runs | tr -d ' ')\n"
        """expiry='"expirationTimestamp": "2020-01-01T00:00:00Z"'\n"""
        """printf '{"status": {"token": "%s-%s-%s", %s}}' "$PROFILE" "$2" "$n" "$expiry"\n"""
    )
    client = await connected(signing_in(server, tmp_path, script))
    server.answer("GET", PATH, Reply())
    await client.get(ONE)
    assert server.seen[0].headers["Authorization"] == "Bearer upgrades-east-2"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo no network >&2; exit 3", "sign-in ended with 3: no network"),
        ("echo hello", "did not print an ExecCredential"),
        ("echo '{\"status\": {}}'", "neither a token nor a certificate"),
        ("exec sleep 60", "did not end within 0 s"),
    ],
)
async def test_a_command_that_fails_is_named(
    server: FakeApiServer, tmp_path: Path, script: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in script:
        monkeypatch.setattr(plugin, "PLUGIN_SECONDS", 0.3)
    with pytest.raises(ClusterNotReady) as caught:
        await connect(signing_in(server, tmp_path, script))
    assert message in caught.value.message
    assert caught.value.subject == f"kubeconfig {tmp_path / 'config'}"


async def test_a_command_that_is_not_installed_is_named(server: FakeApiServer, tmp_path: Path) -> None:
    source = signing_in(server, tmp_path, "")
    (tmp_path / "sign-in").unlink()
    with pytest.raises(ClusterNotReady, match="cannot be started: No such file"):
        await connect(source)
