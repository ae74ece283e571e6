"""Where a blob grows while it comes: a file beside its place, which the next attempt or process goes on with."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from hopline.oci.layout import CHUNK, unwritable

Moved = Callable[[int], None]
"""Told of bytes that are here; less than nothing when they have to come again."""


class FileSink:
    """One growing file. Written and hashed in threads, `CHUNK` bytes at a time. Open it first, close it last."""

    def __init__(self, path: Path, moved: Moved) -> None:
        self._path = path
        self._moved = moved
        self._buffer = bytearray()
        self._hash = hashlib.sha256()
        self._written = 0
        self._file: FileIO | None = None

    @property
    def size(self) -> int:
        """Bytes that have come."""
        return self._written + len(self._buffer)

    async def open(self) -> None:
        """Begin where the last process stopped. Raises Permanent when the file cannot be written."""
        await asyncio.to_thread(self._open)
        self._moved(self._written)

    async def write(self, part: bytes) -> None:
        """Add bytes. Raises Permanent when the disk is full."""
        self._buffer += part
        self._moved(len(part))
        if len(self._buffer) >= CHUNK:
            await self._flush()

    async def restart(self) -> None:
        """Forget everything."""
        self._moved(-self.size)
        self._buffer.clear()
        await asyncio.to_thread(self._cut)

    async def digest(self) -> str:
        """Of everything that has come, which is then on disk."""
        await self._flush()
        return f"sha256:{self._hash.hexdigest()}"

    async def keep(self, place: Path) -> None:
        """Rename the file to its place. Raises Permanent when that is not possible."""
        await asyncio.to_thread(self._keep, place)

    async def close(self) -> None:
        """Write what has come, for the next attempt."""
        if self._file is not None:
            try:
                await self._flush()
            finally:
                await asyncio.to_thread(self._file.close)
                self._file = None

    async def _flush(self) -> None:
        if self._buffer:
            part, self._buffer = self._buffer, bytearray()
            await asyncio.to_thread(self._append, part)

    def _open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a+b", buffering=0)
            self._file.seek(0)
            while part := self._file.read(CHUNK):
                self._hash.update(part)
                self._written += len(part)
        except OSError as error:
            raise unwritable(self._path, error) from None

    def _append(self, part: bytearray) -> None:
        assert self._file is not None
        try:
            left = memoryview(part)
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise unwritable(self._path, error) from None
        self._hash.update(part)
        self._written += len(part)

    def _cut(self) -> None:
        assert self._file is not None
        self._file.truncate(0)
        self._hash = hashlib.sha256()
        self._written = 0

    def _keep(self, place: Path) -> None:
        assert self._file is not None
        try:
            os.fsync(self._file.fileno())
            place.parent.mkdir(parents=True, exist_ok=True)
            self._path.replace(place)
        except OSError as error:
            raise unwritable(place, error) from None
