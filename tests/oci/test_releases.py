"""Releases from registries: what is asked, in which order, what is kept, and what every fault means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from artifacts import FILES, RELEASE, Artifact, archived, digest_of, indexed, tar, titled
from hopline.documents.bundles import content_digest, parse_bundle
from hopline.domain.errors import HoplineError, InvalidRelease, ReleasePhase, Transient
from hopline.domain.image_references import ImageReference
from hopline.domain.release import BundleSource, RawBundle
from hopline.domain.release_origin import RegistryAccess, ReleaseOrigin, ReleasePolicy
from hopline.domain.release_verdict import verdict_on
from hopline.domain.wire import ClusterKey
from hopline.oci.releases import RegistryReleaseSource
from hopline.oci.unpacking import Limits
from looking import PATIENCE
from oci_signed import SIGNATURE_KEYS, signed_registry
from scripted_registry import ScriptedRegistry, serving

NAME = "kubernetes/release-image"
ALL = {path: text.encode() for path, text in FILES.items()}
PLAIN = RegistryAccess(plain_http=True)


@dataclass
class World:
    """Registries by name, a source that asks them in this order, and where it keeps things."""

    registries: list[ScriptedRegistry]
    folder: Path
    policy: ReleasePolicy = field(default_factory=ReleasePolicy)
    notice: str = ""
    access: RegistryAccess = PLAIN
    limits: Limits = field(default_factory=Limits)
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def first(self) -> ScriptedRegistry:
        return self.registries[0]

    async def origin(self, cluster: ClusterKey | None, version: str) -> ReleaseOrigin:
        references = tuple(ImageReference(one.host, NAME, version) for one in self.registries)
        return ReleaseOrigin(references, self.access, self.policy, self.notice)

    async def keys(self, cluster: ClusterKey | None, signature_key: str) -> tuple[str, ...]:
        return (self.secrets.get(signature_key, signature_key),)

    def source(self) -> RegistryReleaseSource:
        """A new one, as another worker on the same folder would have."""
        return RegistryReleaseSource(self, self.folder, limits=self.limits)

    async def fetch(self, version: str = "v26.06", **more: Any) -> RawBundle:
        return await self.source().fetch(version, **more)

    async def refusal(self, **more: Any) -> InvalidRelease:
        with pytest.raises(InvalidRelease) as caught:
            await self.fetch(**more)
        assert caught.value.subject and caught.value.remedy
        return caught.value

    async def pending(self, **more: Any) -> Transient:
        with pytest.raises(Transient) as caught:
            await self.fetch(**more)
        return caught.value

    def break_all(self, status: int = 503) -> None:
        for one in self.registries:
            one.before = answering(status)


def answering(status: int) -> Callable[[web.Request], Any]:
    async def before(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status)

    return before


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        found = [await stack.enter_async_context(serving(ScriptedRegistry())) for _ in range(2)]
        found[0].push("v26.06", titled())
        yield World(found, tmp_path / "store")


# --- packagings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "image",
    [titled(), archived(), archived(tar({"./release.yaml": b"old"}), tar(ALL))],
    ids=["files", "archive", "layers"],
)
async def test_a_release_in_every_packaging(world: World, image: Artifact) -> None:
    digest = world.first.push("v26.06", image)
    raw = await world.fetch()
    assert dict(raw.files) == dict(FILES)
    assert (raw.digest, raw.content_digest) == (digest, content_digest(FILES))
    assert (raw.source, raw.cache_fallback) == (BundleSource.OCI, False)
    assert raw.origin == f"{world.first.host}/{NAME}:v26.06@{digest}"
    assert verdict_on(parse_bundle(raw), "v26.06").phase is ReleasePhase.VALID


@pytest.mark.parametrize("platforms", [("linux/arm64", "linux/amd64"), ("linux/arm64",), ("windows/amd64",)])
async def test_an_index(world: World, platforms: tuple[str, ...]) -> None:
    other = titled({**FILES, "components/coredns/v1.12.0/other.yaml": "a: 1"})
    images = {platform: titled() if platform == platforms[-1] else other for platform in platforms}
    digest = world.first.push("v26.06", indexed({"unknown/unknown": other, **images}))
    raw = await world.fetch()
    assert raw.digest == digest
    assert dict(raw.files) == dict(FILES)


async def test_an_index_of_nothing_but_attestations(world: World) -> None:
    world.first.push("v26.06", indexed({"unknown/unknown": titled()}))
    assert "no manifest of any platform" in (await world.refusal()).value


# --- what is asked, and what is kept -------------------------------------------------------------------------------


async def test_each_blob_crosses_the_wire_once(world: World) -> None:
    files = {**FILES, **{f"components/coredns/v1.12.0/{n}.yaml": f"n: {n}" for n in range(18)}}
    world.first.push("v26.06", titled({**files, "components/coredns/v1.12.0/twin.yaml": "n: 0"}))
    await world.fetch()
    assert world.first.count("/blobs/") == len(files)
    assert len(world.first.requests) == len(files) + 1
    await world.fetch()
    assert len(world.first.requests) == len(files) + 2


async def test_pinned_bytes_need_no_request(world: World) -> None:
    raw = await world.fetch()
    world.first.requests.clear()
    world.break_all()
    again = await world.fetch(digest=raw.digest)
    assert again.files == raw.files
    assert again.digest == raw.digest
    assert not world.first.requests


async def test_pinned_bytes_that_are_missing_are_fetched_by_digest(world: World, tmp_path: Path) -> None:
    raw = await world.fetch()
    world.first.push("v26.06", titled({**FILES, "more.yaml": "a: 1"}))
    elsewhere = replace(world, folder=tmp_path / "another worker")
    assert (await elsewhere.fetch(digest=raw.digest)).files == raw.files


async def test_one_damaged_blob_is_fetched_again_alone(world: World) -> None:
    raw = await world.fetch()
    blob = digest_of(RELEASE.encode())
    path = world.folder / "blobs" / "sha256" / blob.removeprefix("sha256:")
    path.write_bytes(b"edited by hand")
    world.first.requests.clear()
    assert (await world.fetch(digest=raw.digest)).files == raw.files
    assert world.first.requests == [f"GET /v2/{NAME}/blobs/{blob}"]


async def test_a_tag_that_moved_is_told_from_the_pinned_bytes(world: World) -> None:
    raw = await world.fetch()
    moved = world.first.push("v26.06", titled({**FILES, "more.yaml": "a: 1"}))
    error = await world.refusal(digest=raw.digest, anew=True)
    assert "has changed since the plan was made" in error.message
    assert moved in error.value and raw.digest in error.value
    assert (await world.fetch(digest=raw.digest)).files == raw.files


async def test_a_pull_that_was_killed_goes_on_where_it_was(world: World) -> None:
    hung = asyncio.Event()

    async def third_blob_hangs(request: web.Request) -> web.StreamResponse | None:
        if "/blobs/" in request.path and world.first.count("/blobs/") >= 3:
            hung.set()
            await asyncio.sleep(60)
        return None

    world.first.before = third_blob_hangs
    pull = asyncio.ensure_future(world.fetch())
    await asyncio.wait_for(hung.wait(), PATIENCE)
    blobs = world.folder / "blobs" / "sha256"
    for _ in range(3000):
        if len([path for path in blobs.iterdir() if path.name[0] != "."]) == 3:
            break
        await asyncio.sleep(0.01)
    pull.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pull
    for path in blobs.iterdir():
        assert path.name.startswith(".partial-") or digest_of(path.read_bytes()) == f"sha256:{path.name}"
    world.first.before = None
    world.first.requests.clear()
    assert dict((await world.fetch()).files) == dict(FILES)
    assert world.first.count("/blobs/") == 1


async def test_a_folder_that_cannot_be_written_costs_only_requests(world: World) -> None:
    world.folder.write_text("a file in the way")
    assert dict((await world.fetch()).files) == dict(FILES)
    assert dict((await world.fetch()).files) == dict(FILES)


# --- candidates and faults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [404, 401, 403, 429, 500, 502])
async def test_the_second_candidate_is_asked_when_the_first_fails(world: World, status: int) -> None:
    first, second = world.registries
    first.before = answering(status)
    second.push("v26.06", titled())
    assert second.host in (await world.fetch()).origin


async def test_the_second_candidate_is_not_asked_without_need(world: World) -> None:
    await world.fetch()
    assert not world.registries[1].requests


async def test_nobody_has_it(world: World) -> None:
    world.first.manifests.clear()
    error = await world.refusal()
    assert error.phase is ReleasePhase.MANIFEST_MISSING
    assert "there is no release image of v26.06" in error.message
    assert all(one.host in error.value for one in world.registries)


async def test_who_answers_decides(world: World) -> None:
    """A domain and an address are two ways to one registry; that one way is closed says nothing."""
    first, second = world.registries
    first.before = answering(503)
    assert (await world.refusal()).phase is ReleasePhase.MANIFEST_MISSING
    assert "503" in (await world.refusal()).value
    second.push("v26.06", titled({"README.md": "no yaml"}))
    assert "no YAML" in (await world.refusal()).message


async def test_no_usable_answer_stays_pending_with_every_reason(world: World) -> None:
    world.registries[0].before = answering(401)
    world.registries[1].before = answering(500)
    error = await world.pending()
    assert "401" in error.value and "500" in error.value
    assert all(one.host in error.value for one in world.registries)


async def test_an_authority_that_cannot_be_read_is_a_refusal(world: World) -> None:
    world.access = RegistryAccess(ca="no certificate")
    assert "certificate cannot be read" in (await world.refusal()).message


async def test_a_blob_that_the_registry_lost(world: World) -> None:
    world.first.blobs.clear()
    error = await world.refusal()
    assert error.phase is ReleasePhase.INVALID
    assert "does not have" in error.message


async def test_an_image_that_is_too_large_is_not_fetched(world: World) -> None:
    world.limits = Limits(layer_bytes=100)
    assert "too large" in (await world.refusal()).message
    world.limits = Limits(total_bytes=300)
    assert "too large" in (await world.refusal()).message
    assert world.first.count("/blobs/") == 0


async def test_another_version_than_was_asked_for(world: World) -> None:
    world.first.push("v26.09", titled())
    raw = await world.fetch("v26.09")
    with pytest.raises(InvalidRelease, match=r"holds release v26\.06"):
        parse_bundle(raw)


async def test_a_component_that_the_bundle_lacks(world: World) -> None:
    files = {path: text for path, text in FILES.items() if "coredns" not in path}
    world.first.push("v26.06", titled(files))
    verdict = verdict_on(parse_bundle(await world.fetch()), "v26.06")
    assert verdict.phase is ReleasePhase.COMPATIBILITY_FAILED
    assert "lacks" in verdict.message


# --- digest and signature ------------------------------------------------------------------------------------------


async def test_the_digest_that_is_required_may_be_the_index_or_the_manifest(world: World) -> None:
    image = titled()
    index = world.first.push("v26.06", indexed({"linux/amd64": image}))
    for digest in (index, image.digest):
        world.policy = ReleasePolicy(digest=digest)
        assert (await world.fetch()).digest == digest
    world.policy = ReleasePolicy(digest="sha256:" + "0" * 64)
    error = await world.refusal()
    assert "not the one that is required" in error.message
    assert index in error.value


async def test_a_required_digest_of_an_image_that_is_nowhere(world: World) -> None:
    world.first.manifests.clear()
    world.policy = ReleasePolicy(digest="sha256:" + "0" * 64)
    assert (await world.refusal()).phase is ReleasePhase.MANIFEST_MISSING


async def test_a_release_that_names_a_digest_of_its_own(world: World) -> None:
    text = RELEASE.replace("  version: v26.06\n", f"  version: v26.06\n  digest: sha256:{'1' * 64}\n")
    world.first.push("v26.06", titled({**FILES, "release.yaml": text}))
    assert (await world.refusal()).field == "spec.digest"


@pytest.mark.parametrize("kind", ["ecdsa", "rsa", "ed25519"])
@pytest.mark.parametrize("form", ["simple", "bundle"])
async def test_signed_by_the_real_cosign(world: World, kind: str, form: str) -> None:
    digest = signed_registry(world.first, kind, form)
    world.policy = ReleasePolicy(verify_signature=True, keys=(SIGNATURE_KEYS[kind],))
    raw = await world.fetch()
    assert raw.digest == digest
    assert len(raw.signed_by) == 1
    others = tuple(text for name, text in SIGNATURE_KEYS.items() if name != kind)
    world.policy = ReleasePolicy(verify_signature=True, keys=others)
    error = await world.refusal()
    assert (error.phase, error.message) == (ReleasePhase.INVALID, "no signature of the image counts")
    world.policy = ReleasePolicy(verify_signature=True, keys=(*others, SIGNATURE_KEYS[kind]))
    assert (await world.fetch()).signed_by == raw.signed_by


@pytest.mark.parametrize("form", ["simple", "bundle"])
async def test_a_signature_over_the_manifest_below_an_index(world: World, form: str) -> None:
    digest = signed_registry(world.first, "ecdsa", form)
    entry = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest}
    body = world.first.manifests[digest]
    index = indexed({})
    document = index.body.replace(b'"manifests": []', _entry(entry, len(body)))
    world.first.manifests["v26.06"] = document
    world.policy = ReleasePolicy(verify_signature=True, keys=(SIGNATURE_KEYS["ecdsa"],))
    raw = await world.fetch()
    assert (raw.digest, len(raw.signed_by)) == (digest_of(document), 1)


def _entry(entry: dict[str, str], size: int) -> bytes:
    pairs = ", ".join(f'"{key}": "{value}"' for key, value in entry.items())
    return f'"manifests": [{{{pairs}, "size": {size}}}]'.encode()


async def test_a_signature_of_another_image_does_not_count(world: World) -> None:
    old = signed_registry(world.first, "ecdsa", "simple")
    new = world.first.push("v26.06", titled({**FILES, "more.yaml": "a: 1"}))
    signature = world.first.manifests[f"{old.replace(':', '-')}.sig"]
    world.policy = ReleasePolicy(verify_signature=True, keys=(SIGNATURE_KEYS["ecdsa"],))
    assert "not signed" in (await world.refusal()).message
    world.first.manifests[f"{new.replace(':', '-')}.sig"] = signature
    error = await world.refusal()
    assert error.message == "no signature of the image counts"
    assert f"over {old}" in error.value


async def test_that_nobody_could_look_is_no_verdict(world: World) -> None:
    signed_registry(world.first, "ecdsa", "simple")
    world.policy = ReleasePolicy(verify_signature=True, keys=(SIGNATURE_KEYS["ecdsa"],))

    async def before(request: web.Request) -> web.StreamResponse | None:
        return web.Response(status=500) if request.path.endswith(".sig") else None

    world.first.before = before
    world.registries.pop()
    assert "fault" in (await world.pending()).message


async def test_a_signature_that_the_release_itself_requires(world: World) -> None:
    text = RELEASE.replace(
        "  version: v26.06\n", "  version: v26.06\n  verifySignature: true\n  signatureKey: k8s://a/b\n"
    )
    world.first.push("v26.06", titled({**FILES, "release.yaml": text}))
    world.secrets["k8s://a/b"] = SIGNATURE_KEYS["rsa"]
    assert "not signed" in (await world.refusal()).message
    world.secrets["k8s://a/b"] = "no key"
    assert "no public key" in (await world.refusal()).message
    world.first.push("v26.06", titled({**FILES, "release.yaml": text.replace("  signatureKey: k8s://a/b\n", "")}))
    assert "nothing says by which key" in (await world.refusal()).message


async def test_a_changed_key_does_not_stop_pinned_bytes(world: World, tmp_path: Path) -> None:
    digest = signed_registry(world.first, "ecdsa", "simple")
    world.policy = ReleasePolicy(verify_signature=True, keys=(SIGNATURE_KEYS["rsa"],))
    elsewhere = replace(world, folder=tmp_path / "another worker")
    assert (await elsewhere.fetch(digest=digest)).digest == digest
    assert "counts" in (await elsewhere.refusal(digest=digest, anew=True)).message


# --- while no registry answers -------------------------------------------------------------------------------------


async def test_the_last_bytes_count_only_where_that_is_allowed(world: World) -> None:
    raw = await world.fetch()
    world.break_all()
    await world.pending()
    world.policy = ReleasePolicy(allow_cache_fallback=True)
    kept = await world.fetch()
    assert kept.files == raw.files
    assert (kept.source, kept.cache_fallback) == (BundleSource.DISK, True)
    assert "out of reach" in kept.notices[-1]
    assert (await world.fetch(digest=raw.digest, anew=True)).cache_fallback
    await world.pending(digest="sha256:" + "0" * 64, anew=True)
    await world.pending(version="v26.09")


async def test_the_release_itself_may_allow_it(world: World) -> None:
    text = RELEASE.replace("  version: v26.06\n", "  version: v26.06\n  allowCacheFallback: true\n")
    world.first.push("v26.06", titled({**FILES, "release.yaml": text}))
    await world.fetch()
    world.break_all()
    assert (await world.fetch()).cache_fallback


async def test_a_withdrawn_release_is_no_fault_of_the_registry(world: World) -> None:
    await world.fetch()
    world.first.manifests.clear()
    world.policy = ReleasePolicy(allow_cache_fallback=True)
    assert (await world.refusal()).phase is ReleasePhase.MANIFEST_MISSING


async def test_kept_bytes_are_held_to_the_same_signature(world: World) -> None:
    signed_registry(world.first, "ed25519", "bundle")
    good = ReleasePolicy(verify_signature=True, keys=(SIGNATURE_KEYS["ed25519"],), allow_cache_fallback=True)
    world.policy = replace(good, verify_signature=False)
    await world.fetch()
    world.break_all()
    world.policy = good
    await world.pending()
    for one in world.registries:
        one.before = None
    await world.fetch()
    world.break_all()
    kept = await world.fetch()
    assert kept.cache_fallback and kept.signed_by
    world.policy = replace(good, keys=(SIGNATURE_KEYS["rsa"],))
    assert "counts" in (await world.refusal()).message


async def test_a_damaged_copy_does_not_count(world: World) -> None:
    await world.fetch()
    (world.folder / "blobs" / "sha256" / digest_of(RELEASE.encode())[7:]).write_bytes(b"edited")
    world.break_all()
    world.policy = ReleasePolicy(allow_cache_fallback=True)
    await world.pending()


async def test_what_is_said_about_the_origin_is_passed_on(world: World) -> None:
    world.notice = "releases come from the public repository"
    assert (await world.fetch()).notices == ("releases come from the public repository",)


async def test_no_fault_leaves_anything_open(world: World) -> None:
    world.break_all()
    faults: list[HoplineError] = [await world.pending() for _ in range(3)]
    assert len(faults) == 3
    assert not [task for task in asyncio.all_tasks() if "_blob" in str(task.get_coro())]
