"""The same against a real registry (distribution 3) on loopback, with TLS and basic authentication."""

from __future__ import annotations

import json
import ssl
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from absent_parts import present
from artifacts import FILES, Artifact, archived, indexed, titled
from hopline.documents.bundles import parse_bundle
from hopline.domain.errors import InvalidRelease, ReleasePhase, Transient
from hopline.domain.image_references import parse_reference
from hopline.domain.release_origin import RegistryAccess, ReleaseOrigin, ReleasePolicy
from hopline.domain.release_verdict import verdict_on
from hopline.oci.releases import OneOrigin, RegistryReleaseSource
from oci_signed import SIGNATURE_KEYS, held
from registry import programs
from registry.certificates import Authority
from registry.server import PASSWORD, USER, Registry
from starter.__main__ import run

REPOSITORY = "kubernetes/release-image"
pytestmark = pytest.mark.timeout(900)
"""The first test may have to build the registry."""


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    running = Registry(present(programs.registry))
    yield running
    running.close()


def access(registry: Registry, **more: Any) -> RegistryAccess:
    given = {"ca": registry.ca, "username": USER, "password": SecretStr(PASSWORD), "source": "Secret a/b"}
    return RegistryAccess(**{**given, **more})


def source(
    registry: Registry, folder: Path, name: str = REPOSITORY, policy: ReleasePolicy | None = None, **more: Any
) -> RegistryReleaseSource:
    reference = parse_reference(f"{registry.host}/{name}:v26.06")
    origin = ReleaseOrigin((reference,), access(registry, **more), policy or ReleasePolicy())
    return RegistryReleaseSource(OneOrigin(origin), folder)


@pytest.mark.parametrize(
    ("name", "image"),
    [("files", titled()), ("archive", archived()), ("index", indexed({"linux/arm64": titled()}))],
)
async def test_push_and_pull(registry: Registry, tmp_path: Path, name: str, image: Artifact) -> None:
    digest = registry.push(f"packagings/{name}", "v26.06", image)
    raw = await source(registry, tmp_path, f"packagings/{name}").fetch("v26.06")
    assert raw.digest == digest
    assert dict(raw.files) == dict(FILES)
    assert verdict_on(parse_bundle(raw), "v26.06").phase is ReleasePhase.VALID


@pytest.mark.parametrize("kind", ["ecdsa", "rsa", "ed25519"])
@pytest.mark.parametrize("form", ["simple", "bundle"])
async def test_signatures_of_the_real_cosign(registry: Registry, tmp_path: Path, kind: str, form: str) -> None:
    name = f"signed/{kind}-{form}"
    fixture = held(kind, form)
    manifests = {digest: b64decode(text) for digest, text in fixture["manifests"].items()}
    blobs = {digest: b64decode(text) for digest, text in fixture["blobs"].items()}
    last = fixture["digest"]
    registry.push(name, "v26.06", Artifact(manifests.pop(last), blobs=blobs, manifests=manifests))
    for tag, digest in fixture["tags"].items():
        if digest != last:
            registry.push_manifest(name, tag, manifests[digest])
    policy = ReleasePolicy(verify_signature=True, keys=(SIGNATURE_KEYS[kind],))
    assert (await source(registry, tmp_path, name, policy).fetch("v26.06")).signed_by
    policy = ReleasePolicy(verify_signature=True, keys=(SIGNATURE_KEYS["rsa" if kind != "rsa" else "ecdsa"],))
    with pytest.raises(InvalidRelease, match="no signature of the image counts"):
        await source(registry, tmp_path, name, policy).fetch("v26.06")


async def test_a_tag_that_is_missing(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(InvalidRelease, match=r"MANIFEST_UNKNOWN|NAME_UNKNOWN") as caught:
        await source(registry, tmp_path, "nothing/here").fetch("v26.06")
    assert caught.value.phase is ReleasePhase.MANIFEST_MISSING


@pytest.mark.parametrize("login", [{"username": ""}, {"password": SecretStr("wrong")}])
async def test_wrong_and_missing_credentials(registry: Registry, tmp_path: Path, login: dict[str, Any]) -> None:
    with pytest.raises(Transient, match="does not let us in") as caught:
        await source(registry, tmp_path, **login).fetch("v26.06")
    assert "wrong" not in str(caught.value)


async def test_a_certificate_of_nobody_we_know(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(Transient, match="certificate is not accepted"):
        await source(registry, tmp_path, ca="").fetch("v26.06")
    registry.push(REPOSITORY, "v26.06", titled())
    assert await source(registry, tmp_path, ca="", verify_tls=False).fetch("v26.06")


@pytest.fixture
async def expired(tmp_path: Path) -> AsyncIterator[tuple[str, str]]:
    """A TLS server whose certificate ended yesterday: host and authority."""
    authority = Authority(expired=True)
    place = authority.write(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place["certificate"], place["key"])
    runner = web.AppRunner(web.Application(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield f"127.0.0.1:{runner.addresses[0][1]}", authority.pem
    await runner.cleanup()


async def test_a_certificate_that_has_expired(expired: tuple[str, str], tmp_path: Path) -> None:
    host, ca = expired
    origin = ReleaseOrigin((parse_reference(f"{host}/a:v26.06"),), RegistryAccess(ca=ca))
    with pytest.raises(Transient, match="expired"):
        await RegistryReleaseSource(OneOrigin(origin), tmp_path / "store").fetch("v26.06")


async def test_plain_http_where_tls_is_spoken_and_the_other_way_round(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(Transient):
        await source(registry, tmp_path, plain_http=True).fetch("v26.06")


async def test_a_registry_that_is_stopped_and_comes_back(registry: Registry, tmp_path: Path) -> None:
    digest = registry.push(REPOSITORY, "v26.06", titled())
    policy = ReleasePolicy(allow_cache_fallback=True)
    await source(registry, tmp_path).fetch("v26.06")
    registry.stop()
    try:
        with pytest.raises(Transient, match="cannot be reached"):
            await source(registry, tmp_path).fetch("v26.06")
        kept = await source(registry, tmp_path, policy=policy).fetch("v26.06")
        assert (kept.digest, kept.cache_fallback) == (digest, True)
    finally:
        registry.start()
    assert not (await source(registry, tmp_path, policy=policy).fetch("v26.06")).cache_fallback


# --- hopline release show ------------------------------------------------------------------------------------------


@pytest.fixture
def options(registry: Registry, tmp_path: Path) -> list[str]:
    """What the command needs to get in."""
    (tmp_path / "ca.pem").write_text(registry.ca)
    login = {"auths": {registry.host: {"auth": b64encode(f"{USER}:{PASSWORD}".encode()).decode()}}}
    (tmp_path / "auth.json").write_text(json.dumps(login))
    return ["--ca", str(tmp_path / "ca.pem"), "--auth-file", str(tmp_path / "auth.json"), "-o", "json"]


def test_show(registry: Registry, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    digest = registry.push("show/release-image", "v26.06", titled())
    reference = f"{registry.host}/show/release-image:v26.06"
    assert run(["release", "show", reference, *options]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "reference": reference,
        "digest": digest,
        "version": "v26.06",
        "phase": "Valid",
        "components": [{"name": "coredns", "version": "v1.12.0", "type": "yaml", "dependencies": []}],
        "signature": {"required": False, "verified": False, "keys": []},
        "findings": [],
    }


def test_show_what_is_not_there(registry: Registry, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["release", "show", f"{registry.host}/show/nothing:v26.06", *options]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["phase"], answer["findings"][0]["severity"]) == ("ManifestMissing", "blocks")


def test_show_with_a_key(
    registry: Registry, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.push("show/unsigned", "v26.06", titled())
    (tmp_path / "cosign.pub").write_text(SIGNATURE_KEYS["ecdsa"])
    key = ["--key", str(tmp_path / "cosign.pub")]
    assert run(["release", "show", f"{registry.host}/show/unsigned:v26.06", *key, *options]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert answer["phase"] == "Invalid"
    assert answer["signature"] == {"required": True, "verified": False, "keys": []}
    assert "not signed" in answer["findings"][0]["message"]
