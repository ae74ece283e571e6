"""An OCI image layout on disk: blobs by digest, and names in an index (docs/offline.md).

```
<root>/oci-layout               {"imageLayoutVersion": "1.0.0"}
<root>/index.json               what has a name: `org.opencontainers.image.ref.name` is `repository:tag`
<root>/blobs/sha256/<hex>       manifests, configs, layers
<root>/blobs/.partial-<hex>     what a build has fetched of a blob so far; never in a package
```

Blobs are written beside their place and renamed, so a name that is there stands for all of its bytes. Reading one
checks its digest. Blocks: run it in a thread.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopline.domain.errors import InvalidDocument, Permanent
from hopline.domain.image_references import is_digest
from hopline.oci.manifests import OCI_INDEX, Descriptor, Manifest, digest_of, read_manifest

REF_NAME = "org.opencontainers.image.ref.name"
CONTAINERD_NAME = "io.containerd.image.name"
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
CHUNK = 1024 * 1024
"""Bytes that are read and hashed at a time."""

_MARK_FILE, _INDEX_FILE = "oci-layout", "index.json"
_MAX_INDEX_BYTES = 64 * 1024 * 1024
_REMEDY = "carry the package over again, or build it again"


@dataclass(frozen=True)
class NamedManifest:
    """An entry of the index: a name, and the manifest or index that it stands for."""

    name: str
    descriptor: Descriptor


class OciLayout:
    """One layout. It need not exist yet where it is written."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def is_there(self) -> bool:
        """Does the folder say that it is a layout?"""
        return (self.root / _MARK_FILE).is_file() and (self.root / _INDEX_FILE).is_file()

    def blob(self, digest: str) -> Path:
        """The place of a blob. ValueError for what is no digest."""
        if not is_digest(digest):
            raise ValueError(f"{digest!r} is no digest")
        return self.root / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def partial(self, digest: str) -> Path:
        """Where a blob grows while it is fetched, on the same file system as its place."""
        return self.root / "blobs" / f".partial-{self.blob(digest).name}"

    def has(self, digest: str, size: int) -> bool:
        """A blob of this size is there; its bytes are checked when they are read."""
        try:
            return self.blob(digest).stat().st_size == size
        except OSError:
            return False

    def names(self) -> tuple[NamedManifest, ...]:
        """Every entry of the index that has a name; one without is reached from others only.

        Raises InvalidDocument when this is no layout, or its index cannot be read.
        """
        place = self.root / _INDEX_FILE
        try:
            body = _at_most(place, _MAX_INDEX_BYTES)
        except OSError as error:
            raise _no_layout(place, error.strerror or str(error)) from None
        found = read_manifest(str(place), body)
        if found is None or not found.is_index:
            raise _no_layout(place, "no index")
        named = [(_name(entry), entry) for entry in found.manifests]
        return tuple(NamedManifest(name, entry) for name, entry in named if name)

    def manifest(self, digest: str) -> Manifest:
        """A manifest or index by digest. Raises InvalidDocument when it is not there, damaged, or none."""
        found = read_manifest(str(self.blob(digest)), self.small(digest, MAX_MANIFEST_BYTES))
        if found is None:
            raise corrupt(self.blob(digest), "mediaType", "no manifest")
        return found

    def small(self, digest: str, limit: int) -> bytes:
        """The bytes of a blob of at most `limit` bytes, which have its digest. Raises InvalidDocument."""
        place = self.blob(digest)
        try:
            body = _at_most(place, limit)
        except OSError:
            raise missing(place) from None
        if len(body) > limit:
            raise corrupt(place, "size", f"over {limit} bytes")
        if digest_of(body) != digest:
            raise corrupt(place, "digest", digest_of(body))
        return body

    def check(self, digest: str, size: int) -> None:
        """Read a blob to its end. Raises InvalidDocument when it is not there, too short, or has other bytes."""
        place = self.blob(digest)
        try:
            if (found := place.stat().st_size) != size:
                raise corrupt(place, "size", f"{found}, listed with {size}")
            with place.open("rb") as file:
                real = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        except FileNotFoundError:
            raise missing(place) from None
        if real != digest:
            raise corrupt(place, "digest", real)

    def create(self) -> None:
        """Make the folders. Raises Permanent when they cannot be written."""
        with writing(self.root):
            (self.root / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
            (self.root / _MARK_FILE).write_text('{"imageLayoutVersion":"1.0.0"}')

    def put(self, digest: str, content: bytes) -> None:
        """Write a small blob. Raises Permanent when it cannot be written, ValueError for another digest."""
        if digest_of(content) != digest:
            raise ValueError(f"the bytes are not {digest}")
        with writing(self.blob(digest)):
            write_whole(self.blob(digest), content)

    def write_index(self, entries: Iterable[tuple[str, str, int, str]]) -> None:
        """Name manifests: name, digest, size and media type of each. Raises Permanent."""
        manifests = [
            {"mediaType": kind, "digest": digest, "size": size, "annotations": {REF_NAME: name}}
            for name, digest, size, kind in entries
        ]
        document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests}
        with writing(self.root / _INDEX_FILE):
            write_whole(self.root / _INDEX_FILE, json.dumps(document, indent=1).encode())


class writing:  # noqa: N801
    """Turns "no space left" and its like into a fault that names the place."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise unwritable(self._place, error) from None


def write_whole(place: Path, content: bytes) -> None:
    """Write beside the place, then rename: a killed process leaves nothing half-written under the name."""
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(place)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def unwritable(place: Path, error: OSError) -> Permanent:
    """The fault of a place that cannot be written: a full disk, or no rights."""
    return Permanent(
        f"a file cannot be written: {error.strerror or error}",
        subject=str(place),
        remedy="make room or correct the rights there, then give the same command again: it goes on where it stopped",
    )


def missing(place: Path) -> InvalidDocument:
    """A blob that the layout should have."""
    return InvalidDocument("the package lacks a blob", subject=str(place), field="digest", remedy=_REMEDY)


def corrupt(place: Path, field: str, value: str) -> InvalidDocument:
    """A blob with other bytes than its name says."""
    return InvalidDocument(
        "a blob of the package is not what its name says", subject=str(place), field=field, value=value, remedy=_REMEDY
    )


def _no_layout(place: Path, why: str) -> InvalidDocument:
    return InvalidDocument("this is no OCI layout", subject=str(place), value=why, remedy=_REMEDY)


def _name(entry: Descriptor) -> str:
    annotations: Mapping[str, Any] = entry.annotations
    return str(annotations.get(REF_NAME) or annotations.get(CONTAINERD_NAME) or "")


def _at_most(place: Path, limit: int) -> bytes:
    with place.open("rb") as file:
        return file.read(limit + 1)
