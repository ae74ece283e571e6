"""Blobs on disk, by digest: what a name says can be checked at any time, so many workers may share one folder.

```
<root>/blobs/sha256/<hex>      manifests, layers and signatures, as they came
<root>/signatures/<hex>.json   the signatures of an image, judged anew whenever they are used
<root>/tags/<hex>.json         what a tag named when it was last seen; <hex> is the SHA-256 of the reference
```

A file is written beside its place and renamed, so that a killed process leaves nothing half-written that counts. Every
read checks the digest; what has another one is removed and fetched again. A folder that cannot be written costs only
further requests. Blocks: run it in a thread.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

from hopline.domain.image_references import is_digest
from hopline.oci.manifests import digest_of
from hopline.oci.signatures import FoundSignature

logger = logging.getLogger(__name__)

LEFTOVER_SECONDS = 3600.0
_PARTIAL = ".partial-"


USED_SECONDS = 600.0
"""A use is noted once in ten minutes: the longest unused is what goes first when the folder is pruned."""


class BlobStore:
    """A folder of blobs. It need not exist yet."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, digest: str) -> bytes | None:
        """The bytes of a digest; None when they are not here, or are not those any more."""
        path = self._blob(digest)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if digest_of(content) == digest:
            _mark_used(path)
            return content
        logger.warning("%s does not hold what its name says; it is fetched again", path)
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def put(self, digest: str, content: bytes) -> bool:
        """Keep bytes that have this digest. False when the folder cannot be written; a full disk fails no pull."""
        return self._write(self._blob(digest), content)

    def remember(self, reference: str, digest: str) -> bool:
        """What a tag names now."""
        return self._write(self._tag(reference), json.dumps({"reference": reference, "digest": digest}).encode())

    def recall(self, reference: str) -> str:
        """What a tag named when it was last seen; empty when nobody knows."""
        try:
            found = json.loads(self._tag(reference).read_bytes())
        except (OSError, ValueError):
            return ""
        digest = found.get("digest") if isinstance(found, dict) and found.get("reference") == reference else None
        return digest if isinstance(digest, str) and is_digest(digest) else ""

    def keep_signatures(self, digest: str, found: Iterable[FoundSignature]) -> bool:
        """The signatures of an image, for a time without a registry. They are judged anew whenever they are used."""
        entries = [
            {"mediaType": one.media_type, "content": b64encode(one.content).decode(), "signature": one.signature}
            for one in found
        ]
        return self._write(self._signatures(digest), json.dumps(entries).encode())

    def kept_signatures(self, digest: str) -> tuple[FoundSignature, ...] | None:
        """The signatures that were kept; None when nobody has looked, or the file cannot be read."""
        try:
            return tuple(
                FoundSignature(entry["mediaType"], b64decode(entry["content"]), entry["signature"])
                for entry in json.loads(self._signatures(digest).read_bytes())
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _signatures(self, digest: str) -> Path:
        return self._root / "signatures" / f"{digest.removeprefix('sha256:')}.json"

    def sweep(self) -> None:
        """Remove what killed processes have left half-written; what is younger than an hour may still be in work."""
        oldest = time.time() - LEFTOVER_SECONDS
        for path in self._root.glob(f"**/{_PARTIAL}*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def _blob(self, digest: str) -> Path:
        if not is_digest(digest):
            raise ValueError(f"{digest!r} is no digest")
        return self._root / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def _tag(self, reference: str) -> Path:
        return self._root / "tags" / f"{digest_of(reference.encode()).removeprefix('sha256:')}.json"

    def _write(self, path: Path, content: bytes) -> bool:
        temporary = ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=_PARTIAL, dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except OSError as error:
            logger.warning("%s cannot be kept: %s; it will be fetched again", path, error.strerror or error)
            if temporary:
                with contextlib.suppress(OSError):
                    Path(temporary).unlink()
            return False
        return True


def _mark_used(path: Path) -> None:
    """The time of a blob's file is when it was last used. A folder that cannot be written is only read."""
    with contextlib.suppress(OSError):
        if path.stat().st_mtime < time.time() - USED_SECONDS:
            os.utime(path)
