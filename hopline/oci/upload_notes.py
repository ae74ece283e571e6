"""Where uploads are under way, so that a load which was killed goes on in the middle of a blob.

Each is a small file in a folder beside the package, never in it: what is carried in a package must not be able to say
where bytes are sent. The notes are hints. A registry is asked what has come before anything is sent, and checks the
digest of the whole at the end. Blocks: run it in a thread.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from hopline.domain.wire import WireModel

_LOCK = ".lock"


class UploadNote(WireModel):
    """One upload that is under way.

    Attributes:
        blob: `host/repository@digest`.
        place: where the registry wants the bytes; may hold a token, so it is in no message.
        offset: bytes that were there when it was taken up last.
        times: how often it was taken up at that offset.
    """

    blob: str
    place: str
    offset: int = -1
    times: int = 0


class UploadNotes(Protocol):
    """What is known of uploads that other processes have begun."""

    def find(self, blob: str) -> UploadNote | None:
        """The note of a blob."""
        ...

    def keep(self, note: UploadNote) -> None:
        """Write it down, in place of an older one of the blob."""
        ...

    def drop(self, blob: str) -> None:
        """There is nothing more to know."""
        ...


class NoNotes:
    """Every upload begins anew in every process."""

    def find(self, blob: str) -> UploadNote | None:
        """Nothing."""
        return None

    def keep(self, note: UploadNote) -> None:
        """Nothing."""

    def drop(self, blob: str) -> None:
        """Nothing."""


class FolderNotes:
    """Notes in a folder. One that cannot be read or written is none: it only costs bytes that are sent again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, blob: str) -> UploadNote | None:
        """The note of a blob."""
        try:
            found = UploadNote.model_validate_json(self._file(blob).read_bytes())
        except (OSError, ValidationError):
            return None
        return found if found.blob == blob and found.place else None

    def keep(self, note: UploadNote) -> None:
        """Write it beside its place, then rename."""
        file = self._file(note.blob)
        beside = file.with_suffix(".new")
        try:
            # Nobody else may enter the folder, so nobody else reads what stands in it.
            beside.write_text(note.model_dump_json())
            beside.replace(file)
        except OSError:
            self.drop(note.blob)

    def drop(self, blob: str) -> None:
        """Remove it."""
        try:
            self._file(blob).unlink(missing_ok=True)
        except OSError:
            return

    def _file(self, blob: str) -> Path:
        return self._folder / f"{hashlib.sha256(blob.encode()).hexdigest()}.json"


@contextmanager
def notes_in(folder: Path) -> Iterator[UploadNotes]:
    """Notes in a folder that is made for them, and removed once everything is up.

    Only one process has them at a time: two that sent to one place would spoil it for each other. Another one, and one
    that cannot write there, goes without.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / _LOCK).open("w")
    except OSError:
        yield NoNotes()
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield NoNotes()
            return
        yield FolderNotes(folder)
        shutil.rmtree(folder, ignore_errors=True)
