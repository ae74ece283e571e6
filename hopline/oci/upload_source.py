"""The file of a blob on its way up: read and hashed once, whatever has to be sent again."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO

from hopline.oci.layout import CHUNK

Moved = Callable[[int], None]
"""Told of bytes that have been read for the first time."""


class UploadSource:
    """One file, up to the size that its blob has. Blocks where it is not async."""

    def __init__(self, path: Path, size: int, moved: Moved) -> None:
        self.path = path
        self._size = size
        self._moved = moved
        self._hash = hashlib.sha256()
        self._hashed = 0
        self._lock = threading.Lock()
        self._file: BinaryIO = path.open("rb")

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._file.close()

    def digest(self) -> str:
        """Of what has been read."""
        return f"sha256:{self._hash.hexdigest()}"

    def whole(self) -> bytes:
        """All of it."""
        return self._read(0, self._size)

    def skip_to(self, offset: int) -> None:
        """Read what is not sent, because it counts for the digest."""
        while self._hashed < offset and self._read(self._hashed, min(CHUNK, offset - self._hashed)):
            pass

    async def parts(self, start: int) -> AsyncIterator[bytes]:
        """From a byte on, none of which may have been left out; the next part is read while this one is on its way."""
        coming = asyncio.ensure_future(asyncio.to_thread(self._read, start, CHUNK))
        try:
            while part := await coming:
                start += len(part)
                coming = asyncio.ensure_future(asyncio.to_thread(self._read, start, CHUNK))
                yield part
        finally:
            await asyncio.gather(coming, return_exceptions=True)

    def _read(self, start: int, count: int) -> bytes:
        # An attempt that was broken off may still read when the next one begins.
        with self._lock:
            part = os.pread(self._file.fileno(), max(0, min(count, self._size - start)), start)
            fresh = start + len(part) - self._hashed
            if fresh > 0:
                self._hash.update(memoryview(part)[len(part) - fresh :])
                self._hashed += fresh
                self._moved(fresh)
        return part
