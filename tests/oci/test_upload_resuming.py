"""A load that was killed in the middle of a blob goes on there, where the registry lets it; else it begins anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web
from pydantic import SecretStr

from artifacts import digest_of
from hopline.domain.errors import InvalidDocument, Rejected, Transient
from hopline.domain.image_references import parse_reference
from hopline.domain.release_origin import RegistryAccess
from hopline.oci import upload_sessions
from hopline.oci.client import MAX_RESUMES
from hopline.oci.manifests import Descriptor
from hopline.oci.upload_notes import FolderNotes, NoNotes, UploadNotes, notes_in
from hopline.oci.upload_sessions import SMALL
from hopline.oci.uploads import RegistryWriter
from offline_lab import noise
from scripted_registry import serving
from scripted_uploads import UploadRegistry

BIG = noise("big", 5 * SMALL)
DIGEST = digest_of(BIG)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_sessions, "PAUSE_SECONDS", 0.0)


@pytest.fixture
async def registry() -> AsyncIterator[UploadRegistry]:
    async with serving(UploadRegistry()) as running:
        yield running


@pytest.fixture
def notes(tmp_path: Path) -> FolderNotes:
    (tmp_path / "notes").mkdir()
    return FolderNotes(tmp_path / "notes")


def noted(notes: FolderNotes) -> list[Path]:
    return list(notes._folder.glob("*.json"))


async def bring(registry: UploadRegistry, folder: Path, notes: UploadNotes, content: bytes = BIG) -> int:
    """One process that uploads; returns the bytes that were there before."""
    file = folder / "blob"
    await asyncio.to_thread(file.write_bytes, content)
    moved: list[int] = []
    async with RegistryWriter(registry.host, RegistryAccess(plain_http=True)) as writer:
        reference = parse_reference(f"{registry.host}/a:v1")
        kept = await writer.upload(reference, Descriptor(DIGEST, len(BIG)), file, moved.append, notes)
    assert sum(moved) == len(BIG)
    return kept


async def begun(registry: UploadRegistry, folder: Path, notes: UploadNotes) -> int:
    """A process whose registry goes away in the middle of the blob, and that gives up; returns what has come."""
    before = registry.before
    registry.break_after = [2 * SMALL]
    registry.before = _away
    with pytest.raises(Transient):
        await bring(registry, folder, notes)
    registry.before = before
    (held,) = registry.uploads.values()
    assert 2 * SMALL <= len(held) < len(BIG)
    return len(held)


async def test_the_next_process_sends_only_what_is_missing(
    registry: UploadRegistry, notes: FolderNotes, tmp_path: Path
) -> None:
    there = await begun(registry, tmp_path, notes)
    assert len(noted(notes)) == 1
    assert await bring(registry, tmp_path, notes) == there
    assert registry.offsets == [0, there] and registry.received == len(BIG)
    assert registry.blobs[DIGEST] == BIG
    assert noted(notes) == []


async def test_what_was_whole_is_only_ended(registry: UploadRegistry, notes: FolderNotes, tmp_path: Path) -> None:
    await begun(registry, tmp_path, notes)
    registry.uploads["0"][:] = BIG
    assert await bring(registry, tmp_path, notes) == len(BIG)
    assert registry.offsets == [0] and registry.blobs[DIGEST] == BIG


async def test_without_notes_it_begins_anew(registry: UploadRegistry, tmp_path: Path) -> None:
    await begun(registry, tmp_path, NoNotes())
    assert await bring(registry, tmp_path, NoNotes()) == 0
    assert registry.offsets == [0, 0] and registry.blobs[DIGEST] == BIG


async def test_a_process_whose_registry_is_still_away_keeps_its_place(
    registry: UploadRegistry, notes: FolderNotes, tmp_path: Path
) -> None:
    there = await begun(registry, tmp_path, notes)

    async def away(request: web.Request) -> web.StreamResponse | None:
        return web.Response(status=503)

    registry.before = away
    with pytest.raises(Transient):
        await bring(registry, tmp_path, notes)
    registry.before = None
    assert await bring(registry, tmp_path, notes) == there


def _forgotten(registry: UploadRegistry) -> None:
    registry.uploads.clear()


def _silent_about_bytes(registry: UploadRegistry) -> None:
    registry.ranges = lambda count: ""


def _says_nonsense(registry: UploadRegistry) -> None:
    registry.ranges = lambda count: f"{count}"


def _has_too_much(registry: UploadRegistry) -> None:
    registry.ranges = lambda count: f"0-{len(BIG)}"


def _has_nothing(registry: UploadRegistry) -> None:
    registry.uploads["0"].clear()


def _never_content(registry: UploadRegistry) -> None:
    registry.behind = MAX_RESUMES


def _has_other_bytes(registry: UploadRegistry) -> None:
    registry.uploads["0"][7] ^= 1


def _answers(method: str, status: int) -> Callable[[UploadRegistry], None]:
    def change(registry: UploadRegistry) -> None:
        async def refuse(request: web.Request) -> web.StreamResponse | None:
            is_old = request.path.endswith("/0") and request.method == method
            return web.Response(status=status) if is_old else None

        registry.before = refuse

    return change


@pytest.mark.parametrize(
    "change",
    [
        _forgotten,
        _silent_about_bytes,
        _says_nonsense,
        _has_too_much,
        _has_nothing,
        _never_content,
        _has_other_bytes,
        _answers("GET", 404),
        _answers("GET", 405),
        _answers("GET", 500),
        _answers("PATCH", 400),
        _answers("PATCH", 404),
        _answers("PATCH", 416),
        _answers("PUT", 416),
    ],
)
async def test_registries_that_do_not_go_on_get_it_from_its_beginning(
    registry: UploadRegistry, notes: FolderNotes, tmp_path: Path, change: Callable[[UploadRegistry], None]
) -> None:
    await begun(registry, tmp_path, notes)
    change(registry)
    assert await bring(registry, tmp_path, notes) == 0
    assert registry.blobs[DIGEST] == BIG
    assert registry.offsets[-1] == 0
    assert noted(notes) == []


async def test_an_upload_that_never_gets_on_is_given_up(
    registry: UploadRegistry, notes: FolderNotes, tmp_path: Path
) -> None:
    there = await begun(registry, tmp_path, notes)
    _answers("PATCH", 500)(registry)
    for _ in range(MAX_RESUMES):
        with pytest.raises(Transient):
            await bring(registry, tmp_path, notes)
    assert len(registry.uploads["0"]) == there
    assert await bring(registry, tmp_path, notes) == 0
    assert "0" not in registry.uploads and registry.blobs[DIGEST] == BIG


async def test_a_registry_that_still_writes_is_asked_again(
    registry: UploadRegistry, notes: FolderNotes, tmp_path: Path
) -> None:
    there = await begun(registry, tmp_path, notes)
    registry.behind = 2
    assert await bring(registry, tmp_path, notes) == there
    assert registry.received == len(BIG)


async def test_addresses_that_hold_the_state_of_an_upload(notes: FolderNotes, tmp_path: Path) -> None:
    async with serving(UploadRegistry(is_stateful=True)) as running:
        assert isinstance(running, UploadRegistry)
        there = await begun(running, tmp_path, notes)
        assert await bring(running, tmp_path, notes) == there
        assert running.received == len(BIG) and running.blobs[DIGEST] == BIG


@pytest.mark.parametrize("said", [lambda path: path.rpartition("/")[2], lambda path: None])
async def test_addresses_that_are_relative_or_not_said_again(
    registry: UploadRegistry, notes: FolderNotes, tmp_path: Path, said: Callable[[str], str | None]
) -> None:
    registry.location = lambda path: said(path) or (path if len(registry.uploads) == 1 and not registry.offsets else "")
    there = await begun(registry, tmp_path, notes)
    assert await bring(registry, tmp_path, notes) == there
    assert registry.blobs[DIGEST] == BIG


async def test_an_upload_at_another_host_goes_on_there_without_credentials(notes: FolderNotes, tmp_path: Path) -> None:
    async with serving(UploadRegistry()) as store, serving(UploadRegistry()) as front:
        assert isinstance(store, UploadRegistry) and isinstance(front, UploadRegistry)

        async def sends_away(request: web.Request) -> web.StreamResponse | None:
            if request.headers.get("Authorization") is None:
                return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="x"'})
            store.uploads.setdefault("0", bytearray())
            place = f"http://{store.host}/v2/a/blobs/uploads/0"
            return web.Response(status=202, headers={"Location": place})

        front.before = sends_away
        file = tmp_path / "blob"
        await asyncio.to_thread(file.write_bytes, BIG)
        descriptor, reference = Descriptor(DIGEST, len(BIG)), parse_reference(f"{front.host}/a:v1")
        access = RegistryAccess(plain_http=True, username="u", password=SecretStr("secret"))
        store.break_after = [SMALL]
        store.before = _away
        async with RegistryWriter(front.host, access) as writer:
            with pytest.raises(Transient):
                await writer.upload(reference, descriptor, file, lambda size: None, notes)
            store.before = None
            assert await writer.upload(reference, descriptor, file, lambda size: None, notes) >= SMALL
        assert store.received == len(BIG) and store.blobs[DIGEST] == BIG
        assert any(front.authorizations) and not any(store.authorizations)


async def _away(request: web.Request) -> web.StreamResponse | None:
    """Nothing can be asked."""
    return web.Response(status=503) if request.method == "GET" else None


async def test_a_file_that_has_changed_meanwhile_is_never_ended(
    registry: UploadRegistry, notes: FolderNotes, tmp_path: Path
) -> None:
    await begun(registry, tmp_path, notes)
    with pytest.raises(InvalidDocument, match="not what its name says"):
        await bring(registry, tmp_path, notes, BIG[:-1] + b"x")
    assert registry.blobs == {} and registry.uploads == {} and noted(notes) == []


async def test_a_registry_that_refuses_a_fresh_upload_is_believed(
    registry: UploadRegistry, notes: FolderNotes, tmp_path: Path
) -> None:
    _answers("PATCH", 413)(registry)
    with pytest.raises(Rejected, match="does not take it"):
        await bring(registry, tmp_path, notes)
    assert registry.count("POST") == 1


def test_notes_are_of_one_process_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / ".bundle.uploads"
    with notes_in(folder) as first, notes_in(folder) as second:
        assert isinstance(first, FolderNotes) and isinstance(second, NoNotes)
    assert not folder.exists()
    with pytest.raises(RuntimeError), notes_in(folder):
        raise RuntimeError
    assert folder.is_dir(), "what is under way outlives a failure"


def test_where_nothing_can_be_written_there_are_no_notes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with notes_in(tmp_path / "file" / "x") as notes:
        assert isinstance(notes, NoNotes)


async def test_notes_that_say_nothing_useful(registry: UploadRegistry, notes: FolderNotes, tmp_path: Path) -> None:
    await begun(registry, tmp_path, notes)
    (note,) = noted(notes)
    for content in ("", "[]", '{"blob": "other", "place": "/v2/x"}', note.read_text().replace("/v2/", "")[:40]):
        note.write_text(content)
        assert await bring(registry, tmp_path, notes) == 0
