"""Bringing blobs to registries that break off, forget, refuse and lie; on a scripted server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from artifacts import digest_of, titled
from hopline.domain.errors import InvalidDocument, NotFound, Rejected, Transient
from hopline.domain.image_references import parse_reference
from hopline.domain.release_origin import RegistryAccess
from hopline.oci.manifests import Descriptor, read_manifest
from hopline.oci.upload_sessions import SMALL
from hopline.oci.uploads import RegistryWriter
from offline_lab import noise
from scripted_registry import serving
from scripted_uploads import UploadRegistry

BIG = noise("big", 5 * SMALL)


@pytest.fixture
async def registry() -> AsyncIterator[UploadRegistry]:
    async with serving(UploadRegistry()) as running:
        yield running


async def bring(registry: UploadRegistry, file: Path, content: bytes, digest: str = "") -> list[int]:
    """Upload a file; returns what was told of moved bytes."""
    await asyncio.to_thread(file.write_bytes, content)
    moved: list[int] = []
    descriptor = Descriptor(digest or digest_of(content), len(content))
    async with RegistryWriter(registry.host, RegistryAccess(plain_http=True)) as writer:
        reference = parse_reference(f"{registry.host}/a:v1")
        await writer.upload(reference, descriptor, file, moved.append)
        assert await writer.has_blob(reference, descriptor)
    return moved


@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1, len(BIG)])
async def test_a_blob_of_any_size(registry: UploadRegistry, tmp_path: Path, size: int) -> None:
    moved = await bring(registry, tmp_path / "blob", BIG[:size])
    assert registry.blobs[digest_of(BIG[:size])] == BIG[:size]
    assert sum(moved) == size


async def test_a_transfer_that_breaks_off_goes_on_where_the_registry_stopped(
    registry: UploadRegistry, tmp_path: Path
) -> None:
    registry.break_after = [SMALL, 3 * SMALL]
    moved = await bring(registry, tmp_path / "blob", BIG)
    assert registry.blobs[digest_of(BIG)] == BIG
    assert len(registry.offsets) == 3
    assert registry.offsets[0] == 0 < registry.offsets[1] < registry.offsets[2]
    assert sum(moved) == len(BIG)


async def test_a_registry_that_forgets_an_upload_gets_it_again(registry: UploadRegistry, tmp_path: Path) -> None:
    registry.forget = 1
    await bring(registry, tmp_path / "blob", BIG)
    assert registry.blobs[digest_of(BIG)] == BIG


async def test_a_blob_that_is_not_what_its_name_says_is_never_ended(registry: UploadRegistry, tmp_path: Path) -> None:
    for content in (BIG, b"small"):
        with pytest.raises(InvalidDocument, match="not what its name says") as caught:
            await bring(registry, tmp_path / "blob", content, f"sha256:{'a' * 64}")
        assert caught.value.subject == str(tmp_path / "blob")
    assert registry.blobs == {}
    assert not [request for request in registry.requests if request.startswith("PUT")]


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (401, Transient, "does not let us in"),
        (403, Transient, "does not let us in"),
        (404, NotFound, "no place for it"),
        (405, Rejected, "takes no uploads"),
        (413, Rejected, "does not take it"),
        (429, Transient, "wants fewer requests"),
        (500, Transient, "has a fault"),
    ],
)
async def test_what_registries_answer(
    registry: UploadRegistry, tmp_path: Path, status: int, error: type[Exception], words: str
) -> None:
    async def refuse(request: web.Request) -> web.Response | None:
        return web.json_response({"errors": [{"code": "NO"}]}, status=status) if request.method == "POST" else None

    registry.before = refuse
    with pytest.raises(error, match=words):
        await bring(registry, tmp_path / "blob", b"x")


async def test_a_web_page_is_no_registry(registry: UploadRegistry, tmp_path: Path) -> None:
    async def page(request: web.Request) -> web.Response | None:
        return web.Response(status=404, text="<html>", content_type="text/html") if request.method == "POST" else None

    registry.before = page
    with pytest.raises(Transient, match="web page"):
        await bring(registry, tmp_path / "blob", b"x")


async def test_no_byte_goes_to_a_place_without_tls(registry: UploadRegistry) -> None:
    async with RegistryWriter("127.0.0.1:1", RegistryAccess()) as writer:
        with pytest.raises(Transient, match="without TLS"):
            async with writer._transport.ask(
                "PATCH", f"http://{registry.host}/v2/a/blobs/uploads/1", subject="x", scope="y"
            ):
                pass
    assert registry.requests == []


async def test_a_manifest_by_tag_and_digest(registry: UploadRegistry) -> None:
    image = titled()
    manifest = read_manifest("x", image.body)
    assert manifest is not None
    reference = parse_reference(f"{registry.host}/a:v1")
    async with RegistryWriter(registry.host, RegistryAccess(plain_http=True)) as writer:
        assert await writer.named(reference) == ""
        await writer.put_manifest(reference, manifest)
        assert await writer.named(reference) == image.digest
