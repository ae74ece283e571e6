"""Files of a package, put where machines fetch them: each whole and with its checksum, or not at all. Blocks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from hopline.domain.errors import InvalidDocument
from hopline.domain.offline_bundle import BundledFile
from hopline.domain.wire import WireModel
from hopline.oci.bundle_loading import Brought
from hopline.oci.layout import CHUNK, corrupt, writing
from hopline.oci.packages import Package

Moved = Callable[[int], None]


class InstalledFile(WireModel):
    """One file at its place. `digest` is of the bytes that are there now."""

    name: str
    path: str
    digest: str
    size: int
    state: Brought


def install_files(package: Package, folder: Path, moved: Moved) -> Iterator[InstalledFile]:
    """Copy every file that is not there yet.

    Raises:
        InvalidDocument: the package lacks a file, or it is not what its checksum says; its place is untouched.
        Permanent: the folder cannot be written.
    """
    for file in package.bundle.files:
        source, target = package.root / file.path, folder / file.installed
        yield _install(file, source, target, moved)


def _install(file: BundledFile, source: Path, target: Path, moved: Moved) -> InstalledFile:
    with writing(target):
        there = _digest(target) if target.is_file() and target.stat().st_size == file.size else ""
        wanted = file.digest or _digest_in_package(source)
        if there == wanted:
            moved(file.size)
            return InstalledFile(
                name=file.installed, path=str(target), digest=there, size=file.size, state=Brought.THERE
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.partial")
        try:
            _copy(source, beside, wanted, moved)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    return InstalledFile(name=file.installed, path=str(target), digest=wanted, size=file.size, state=Brought.NEW)


def _copy(source: Path, target: Path, wanted: str, moved: Moved) -> None:
    found = hashlib.sha256()
    try:
        reading = source.open("rb")
    except FileNotFoundError:
        raise _lacking(source) from None
    with reading, target.open("wb") as writing_to:
        while part := reading.read(CHUNK):
            found.update(part)
            writing_to.write(part)
            moved(len(part))
        writing_to.flush()
        os.fsync(writing_to.fileno())
    target.chmod(0o644)
    if (real := f"sha256:{found.hexdigest()}") != wanted:
        raise corrupt(source, "digest", f"{real}, listed as {wanted}")


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def _digest_in_package(source: Path) -> str:
    try:
        return _digest(source)
    except FileNotFoundError:
        raise _lacking(source) from None


def _lacking(source: Path) -> InvalidDocument:
    return InvalidDocument(
        "the package lacks a file", subject=str(source), field="file", remedy="carry the package over again"
    )
