"""Which bytes of a folder of fetched images go, when it has grown too large or too old.

What a pinned digest needs stays: the index or manifest itself, and everything that either names. What was used within
the last hour stays too, because somebody may be in the middle of a pull. The rest goes by age, then, the longest unused
first, until the folder is as small as it shall be. Whatever goes can be fetched again by its digest.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopline.domain.image_references import is_digest

GRACE_SECONDS = 3600.0
MAX_MANIFEST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Bounds:
    """How large and how old a folder may become; 0: without bound."""

    size: int
    unused_seconds: float


@dataclass(frozen=True)
class KeptBlob:
    """One blob: the hex digits of its digest, its bytes, and when it was last used."""

    name: str
    size: int
    used: float


def kept_blobs(root: Path) -> list[KeptBlob]:
    """Every blob of a folder. Blocks."""
    found = []
    for path in (root / "blobs" / "sha256").glob("*"):
        with contextlib.suppress(OSError):
            if is_digest(f"sha256:{path.name}"):
                seen = path.stat()
                found.append(KeptBlob(path.name, seen.st_size, seen.st_mtime))
    return found


def too_much(blobs: Iterable[KeptBlob], needed: Collection[str], bounds: Bounds, now: float) -> list[KeptBlob]:
    """The blobs that go. `needed`: hex digits of those that must not."""
    blobs = sorted(blobs, key=lambda blob: (blob.used, blob.name))
    total = sum(blob.size for blob in blobs)
    gone = []
    for blob in blobs:
        unused = now - blob.used
        if blob.name in needed or unused < GRACE_SECONDS:
            continue
        is_old = bool(bounds.unused_seconds) and unused > bounds.unused_seconds
        if is_old or (bounds.size and total > bounds.size):
            gone.append(blob)
            total -= blob.size
    return gone


def needed_by(root: Path, pinned: Iterable[str]) -> set[str]:
    """The hex digits of everything below pinned digests, as far as it is here. Blocks."""
    found: set[str] = set()
    waiting = [digest.removeprefix("sha256:") for digest in pinned if is_digest(digest)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _named_in(root / "blobs" / "sha256" / name)
    return found


def prune(root: Path, pinned: Collection[str], bounds: Bounds, now: float) -> tuple[int, int]:
    """How many blobs have gone, and how many bytes they were. Blocks; a file that cannot be removed stays."""
    count = size = 0
    for blob in too_much(kept_blobs(root), needed_by(root, pinned), bounds, now):
        with contextlib.suppress(OSError):
            (root / "blobs" / "sha256" / blob.name).unlink()
            count, size = count + 1, size + blob.size
    if count:
        _drop_notes(root)
    return count, size


def _named_in(path: Path) -> Iterator[str]:
    """The digests that a manifest or index names; none for anything else."""
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            return
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    if not isinstance(document, dict):
        return
    for key in ("manifests", "layers"):
        entries = document.get(key)
        for entry in entries if isinstance(entries, list) else ():
            yield from _digest_in(entry)
    yield from _digest_in(document.get("config"))


def _digest_in(entry: Any) -> Iterator[str]:
    digest = entry.get("digest") if isinstance(entry, dict) else None
    if isinstance(digest, str) and is_digest(digest):
        yield digest.removeprefix("sha256:")


def _drop_notes(root: Path) -> None:
    """Signatures of images that are not here any more, and what tags meant that named them."""
    left = {blob.name for blob in kept_blobs(root)}
    for path in (root / "signatures").glob("*.json"):
        if path.stem not in left:
            path.unlink(missing_ok=True)
    for path in (root / "tags").glob("*.json"):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if str(json.loads(path.read_bytes()).get("digest")).removeprefix("sha256:") not in left:
                path.unlink()
