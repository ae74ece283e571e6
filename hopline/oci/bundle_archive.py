"""The tarball of a bundle: written in one stream, and unpacked without trusting a name in it. Blocks.

Written with fixed times and owners, so that equal contents give equal bytes, and stored without compression: layers and
packages are compressed already.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, BinaryIO

from hopline.domain.errors import InvalidDocument
from hopline.domain.offline_bundle import BUNDLE_FILE, CONFIG_FILE, TOP_LEVEL_PATTERN, is_inside
from hopline.oci.layout import CHUNK, corrupt, unwritable, writing

_GZIP_MAGIC = b"\x1f\x8b"
_STORED = 0
_MARKS = (BUNDLE_FILE, CONFIG_FILE)
_REMEDY = "carry the tarball over again, and compare its checksum"
_VOLUME_DEPTH = 3
"""Parts of the path of a file that lies directly in `NAME/volumes`."""

Moved = Callable[[int], None]


@dataclass(frozen=True)
class Entry:
    """A file for the tarball: its path from the top of the bundle, where it lies now, and what it must be."""

    path: str
    file: Path
    digest: str
    size: int


def write_archive(target: Path, name: str, entries: Iterable[Entry], moved: Moved) -> None:
    """Write the tarball beside its place, then rename it.

    Raises:
        InvalidDocument: a file is not what it was when it was fetched; it is removed, so that it is fetched again.
        Permanent: the tarball cannot be written.
    """
    partial = target.with_name(f".{target.name}.partial")
    links: list[str] = []
    try:
        with writing(target), partial.open("wb") as raw:
            with gzip.GzipFile("", "wb", _STORED, raw, mtime=0) as packed, _opened(packed) as archive:
                for entry in entries:
                    _add(archive, name, entry, moved)
                    if fnmatch(entry.path, f"volumes/{TOP_LEVEL_PATTERN}"):
                        links.append(entry.path)
                for path in links:
                    _link(archive, name, path)
            raw.flush()
            os.fsync(raw.fileno())
        with writing(target):
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _opened(stream: gzip.GzipFile) -> tarfile.TarFile:
    archive = tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK)  # noqa: SIM115
    archive.copybufsize = CHUNK  # type: ignore[attr-defined]
    return archive


def _add(archive: tarfile.TarFile, name: str, entry: Entry, moved: Moved) -> None:
    info = tarfile.TarInfo(f"{name}/{entry.path}")
    info.size = entry.size
    info.mode = 0o644
    try:
        with entry.file.open("rb") as file:
            if (found := os.fstat(file.fileno()).st_size) != entry.size:
                raise corrupt(entry.file, "size", f"{found}, fetched with {entry.size}")
            reader = _Hashed(file, moved)
            archive.addfile(info, reader)
            if reader.digest != entry.digest:
                raise corrupt(entry.file, "digest", reader.digest)
    except FileNotFoundError:
        raise corrupt(entry.file, "file", "gone") from None
    except InvalidDocument:
        entry.file.unlink(missing_ok=True)
        raise


def _link(archive: tarfile.TarFile, name: str, path: str) -> None:
    info = tarfile.TarInfo(path.rpartition("/")[2])
    info.type = tarfile.LNKTYPE
    info.linkname = f"{name}/{path}"
    archive.addfile(info)


class _Hashed:
    """Reads through, and knows the digest of what it has read."""

    def __init__(self, file: BinaryIO, moved: Moved) -> None:
        self._file = file
        self._moved = moved
        self._hash = hashlib.sha256()

    def read(self, count: int = -1, /) -> bytes:
        """The next bytes."""
        part = self._file.read(count)
        self._hash.update(part)
        self._moved(len(part))
        return part

    @property
    def digest(self) -> str:
        """Of everything so far."""
        return f"sha256:{self._hash.hexdigest()}"


def unpack_archive(tarball: Path, folder: Path, moved: Moved) -> Path:
    """Unpack a package below a folder, and return the folder in it.

    A file that is there with its size was unpacked whole by an earlier attempt and is not written again.

    Raises:
        InvalidDocument: cut off, damaged, no tarball, or something in it that leads out of the folder.
        Permanent: the folder cannot be written.
    """
    tops: dict[str, None] = {}
    with opened_archive(tarball) as archive:
        for info, path in archive_members(tarball, archive):
            tops[path.partition("/")[0]] = None
            place = folder / path
            with writing(place):
                if info.isdir():
                    place.mkdir(parents=True, exist_ok=True)
                elif not (place.is_file() and place.stat().st_size == info.size):
                    _extract(tarball, archive, info, place, moved)
                    continue
            moved(info.size)
    # Full packages of the existing tools have a folder of programs beside their own.
    packages = [top for top in tops if len(tops) == 1 or any((folder / top / one).is_file() for one in _MARKS)]
    if len(packages) != 1:
        value = ", ".join(list(tops)[:5]) or "nothing"
        raise _refused(tarball, "the tarball is no package: it must hold one folder", value)
    return folder / packages[0]


def archive_members(tarball: Path, archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, str]]:
    """Files and folders with their paths; hard links of the top are the binaries, which are in the folder."""
    for info in archive:
        path = info.name.removeprefix("./").rstrip("/")
        if path in ("", ".") and info.isdir():
            continue
        if not is_inside(path):
            raise _refused(tarball, "a path in the tarball leads out of it", info.name)
        if info.islnk() and "/" not in path and is_inside(info.linkname.removeprefix("./")):
            continue
        if not (info.isreg() or info.isdir()):
            raise _refused(tarball, "the tarball holds something that is neither a file nor a folder", info.name)
        yield info, path


def _extract(tarball: Path, archive: tarfile.TarFile, info: tarfile.TarInfo, place: Path, moved: Moved) -> None:
    source = archive.extractfile(info)
    assert source is not None
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f".{place.name}.partial")
    try:
        with partial.open("wb") as file:
            while part := read_part(source, tarball):
                file.write(part)
                moved(len(part))
            if file.tell() != info.size:
                raise _cut_off(tarball, f"{file.tell()} of {info.size} bytes of {info.name}")
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)


def read_part(source: object, tarball: Path) -> bytes:
    try:
        return source.read(CHUNK)  # type: ignore[attr-defined, no-any-return]
    except (EOFError, zlib.error, tarfile.TarError, gzip.BadGzipFile) as error:
        raise _cut_off(tarball, str(error)) from None


@contextmanager
def opened_archive(tarball: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarball.open("rb") as raw:
            magic = raw.read(2)
            raw.seek(0)
            stream: IO[bytes] = gzip.GzipFile(fileobj=raw) if magic == _GZIP_MAGIC else raw  # type: ignore[assignment]
            with tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK) as archive:
                yield archive
            # What stands behind the last entry is read too: only the end tells whether the whole came over.
            while stream.read(CHUNK):
                pass
    except (EOFError, zlib.error, tarfile.TarError, gzip.BadGzipFile) as error:
        raise _cut_off(tarball, str(error)) from None
    except FileNotFoundError as error:
        if error.filename == str(tarball):
            raise _refused(tarball, "there is no such package", "not there") from None
        raise unwritable(tarball, error) from None


def _cut_off(tarball: Path, why: str) -> InvalidDocument:
    return _refused(tarball, "the tarball is cut off or damaged, or is no tarball", why)


def _refused(tarball: Path, message: str, value: str) -> InvalidDocument:
    return InvalidDocument(message, subject=str(tarball), field="tarball", value=value, remedy=_REMEDY)
