"""Everything bad that a release image may be, pushed to a real registry: each is refused by name, and harms nothing."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from absent_parts import present
from artifacts import FILES, TAR_TYPE, TITLE, Artifact, archived, indexed, of_layers, tar, titled
from hopline.documents.bundles import parse_bundle
from hopline.domain.errors import HoplineError, InvalidRelease, ReleasePhase, Transient
from hopline.domain.image_references import parse_reference
from hopline.domain.release_origin import RegistryAccess, ReleaseOrigin, ReleasePolicy
from hopline.oci.client import RegistryClient
from hopline.oci.releases import OneOrigin, RegistryReleaseSource
from hopline.oci.transport import Patience
from hopline.oci.unpacking import Limits
from oci_signed import SIGNATURE_KEYS
from registry import programs
from registry.server import PASSWORD, USER, Registry
from scripted_registry import ScriptedRegistry, serving

pytestmark = pytest.mark.timeout(900)
WHOLE = {path: text.encode() for path, text in FILES.items()}
LIMITS = Limits(unpacked_bytes=1_000_000, file_bytes=100_000)


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    running = Registry(present(programs.registry))
    yield running
    running.close()


def partial_files(folder: Path) -> list[Path]:
    return list(folder.rglob(".partial-*"))


class World:
    """A real registry, and a worker's own folder."""

    def __init__(self, registry: Registry, folder: Path, repository: str) -> None:
        self.registry, self.folder, self.repository = registry, folder, repository
        self.access = RegistryAccess(ca=registry.ca, username=USER, password=SecretStr(PASSWORD), source="Secret a/b")

    def push(self, image: Artifact) -> str:
        return self.registry.push(self.repository, "v26.06", image)

    async def fetch(self, **policy: Any) -> Any:
        reference = parse_reference(f"{self.registry.host}/{self.repository}:v26.06")
        origin = ReleaseOrigin((reference,), self.access, ReleasePolicy(**policy))
        return await RegistryReleaseSource(OneOrigin(origin), self.folder, limits=LIMITS).fetch("v26.06")

    def whole(self) -> bool:
        """Nothing half-written is left."""
        return not partial_files(self.folder)


@pytest.fixture
def world(registry: Registry, tmp_path: Path, request: pytest.FixtureRequest) -> World:
    name = "".join(letter for letter in request.node.name.lower() if letter.isalnum())
    return World(registry, tmp_path / "store", f"bad/{name[:60]}")


def layer(content: bytes) -> Artifact:
    return of_layers([(content, {}, TAR_TYPE)])


BAD: dict[str, tuple[Artifact, str]] = {
    "no YAML": (archived(tar({"bin/tool": b"\x7fELF", "README.txt": b"hello"})), "holds no YAML file"),
    "traversal": (archived(tar({**WHOLE, "../../etc/cron.d/x.yaml": b"a: 1"})), "leaves the bundle"),
    "traversal in a title": (titled({**FILES, "../release.yaml": "a: 1"}), "leaves the bundle"),
    "symlink": (archived(tar({"release.yaml": WHOLE["release.yaml"]}, links={"components": "/etc"})), "link"),
    "layer bomb": (archived(tar({**WHOLE, "filler.bin": bytes(50_000_000)})), "unpack to too much"),
    "one huge file": (archived(tar({**WHOLE, "components/huge.yaml": b"#" * 200_000})), "too large"),
    "truncated archive": (layer(tar(WHOLE)[:-200]), "cannot be unpacked"),
    "no archive": (layer(b"this is no archive" * 100), "cannot be unpacked"),
    "zstd": (layer(b"\x28\xb5\x2f\xfd" + bytes(100)), "zstd"),
    "two files of one title": (
        of_layers([(b"a: 1", {TITLE: "release.yaml"}, "text/yaml"), (b"a: 2", {TITLE: "release.yaml"}, "text/yaml")]),
        "same title",
    ),
    "not UTF-8": (of_layers([(b"a: \xff", {TITLE: "release.yaml"}, "text/yaml")]), "UTF-8"),
}


@pytest.mark.parametrize(("image", "told"), BAD.values(), ids=BAD.keys())
async def test_an_image_that_cannot_be_used(world: World, image: Artifact, told: str) -> None:
    world.push(image)
    with pytest.raises(HoplineError, match=told) as caught:
        await world.fetch()
    assert not isinstance(caught.value, Transient), "it is final"
    assert caught.value.subject and caught.value.remedy
    assert world.whole()
    assert not list(world.folder.parent.rglob("cron.d"))


@pytest.mark.parametrize("platform", ["linux/arm64", "linux/riscv64", "windows/amd64"])
async def test_a_bundle_from_another_architecture_is_the_same_bundle(world: World, platform: str) -> None:
    digest = world.push(indexed({"unknown/unknown": archived(tar({"a.txt": b""})), platform: titled()}))
    raw = await world.fetch()
    assert (raw.digest, dict(raw.files)) == (digest, dict(FILES))


async def test_two_releases_with_one_version(world: World) -> None:
    """The tag decides, and what it does not name is refused by whoever requires it."""
    first = world.push(titled())
    second = world.push(titled({**FILES, "components/more.yaml": "a: 1\n"}))
    assert (await world.fetch()).digest == second
    assert (await world.fetch(digest=first)).digest == first
    lies = {**FILES, "release.yaml": FILES["release.yaml"].replace("version: v26.06\n", "version: v26.03\n")}
    world.push(titled(lies))
    with pytest.raises(InvalidRelease, match=r"holds release v26\.03") as caught:
        parse_bundle(await world.fetch())
    assert caught.value.phase is ReleasePhase.INVALID


async def test_a_digest_and_a_key_that_do_not_match(world: World) -> None:
    world.push(titled())
    with pytest.raises(InvalidRelease, match="not the one that is required"):
        await world.fetch(digest=f"sha256:{'0' * 64}")
    with pytest.raises(InvalidRelease, match="not signed"):
        await world.fetch(verify_signature=True, keys=(SIGNATURE_KEYS["rsa"],))


async def test_a_full_disk_costs_no_pull(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    digest = world.push(titled())
    monkeypatch.setattr(os, "fsync", full)
    assert (await world.fetch()).digest == digest
    assert [path for path in world.folder.rglob("*") if path.is_file()] == []
    monkeypatch.undo()
    await world.fetch()
    assert (world.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")).is_file()


@pytest.mark.parametrize("damage", [b"", b"{}", b"\0" * 100], ids=["empty", "another", "zeros"])
async def test_a_cache_that_was_damaged_by_hand(world: World, damage: bytes) -> None:
    world.push(titled())
    before = await world.fetch()
    kept = list((world.folder / "blobs" / "sha256").iterdir())
    for path in kept:
        path.write_bytes(damage)
    (world.folder / "tags" / "junk.json").write_bytes(damage)
    assert (await world.fetch()).files == before.files
    world.registry.stop()
    try:
        assert (await world.fetch(allow_cache_fallback=True)).files == before.files
        for path in kept:
            path.write_bytes(damage)
        with pytest.raises(Transient):
            await world.fetch(allow_cache_fallback=True)
    finally:
        world.registry.start()


# --- what a registry answers: a scripted one, because a real one does it only when broken ---------------------------


async def nothing(request: web.Request) -> web.StreamResponse:
    """The connection ends without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def half(request: web.Request) -> web.StreamResponse:
    """Says how long it is, and stops in the middle, every time."""
    answer = web.StreamResponse(headers={"Content-Length": "100000"})
    await answer.prepare(request)
    await answer.write(b"half of it")
    assert request.transport is not None
    request.transport.abort()
    return answer


def answer(status: int, **more: Any) -> Any:
    async def say(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, **more)

    return say


HTML = {"text": "<!DOCTYPE html><html>Sign in</html>", "content_type": "text/html"}


@pytest.mark.parametrize("where", ["/manifests/", "/blobs/"])
@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (answer(401), "does not let us in"),
        (answer(429, headers={"Retry-After": "7"}), "fewer requests"),
        (answer(500), "has a fault"),
        (answer(200, **HTML), "web page"),
        (answer(404, **HTML), "web page"),
        (answer(200, body=b""), "registry"),
        (nothing, "cannot be reached"),
        (half, "registry"),
    ],
    ids=["401", "429", "500", "HTML", "HTML with 404", "empty", "nothing", "truncated"],
)
async def test_what_may_pass_is_pending_and_never_a_verdict(
    tmp_path: Path, where: str, handler: Any, told: str
) -> None:
    async with serving(ScriptedRegistry()) as scripted:
        digest = scripted.push("v26.06", titled())

        async def fault(request: web.Request) -> web.StreamResponse | None:
            return await handler(request) if where in request.path else None

        scripted.before = fault
        origin = ReleaseOrigin((parse_reference(f"{scripted.host}/a:v26.06"),), RegistryAccess(plain_http=True))
        patience = Patience(connect=2.0, silence=2.0)
        source = RegistryReleaseSource(
            OneOrigin(origin), tmp_path, connect=lambda host, access: RegistryClient(host, access, patience)
        )
        with pytest.raises(Transient, match=told) as caught:
            await source.fetch("v26.06")
        assert caught.value.retry_after == (7.0 if told == "fewer requests" else 0.0)
        assert not partial_files(tmp_path)
        scripted.before = None
        assert (await source.fetch("v26.06")).digest == digest, "and when it has passed, nothing is left of it"


async def test_silence_is_pending(tmp_path: Path) -> None:
    async with serving(ScriptedRegistry()) as scripted:
        scripted.push("v26.06", titled())
        over = asyncio.Event()

        async def silent(request: web.Request) -> web.StreamResponse:
            await over.wait()
            return web.Response()

        scripted.before = silent
        origin = ReleaseOrigin((parse_reference(f"{scripted.host}/a:v26.06"),), RegistryAccess(plain_http=True))
        patience = replace(Patience(), silence=0.3)
        source = RegistryReleaseSource(
            OneOrigin(origin), tmp_path, connect=lambda host, access: RegistryClient(host, access, patience)
        )
        with pytest.raises(Transient, match="is silent"):
            await source.fetch("v26.06")
        over.set()
