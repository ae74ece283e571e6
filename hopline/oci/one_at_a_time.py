"""A work folder that one process has at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hopline.domain.errors import InvalidInput
from hopline.oci.layout import writing

_LOCK = ".lock"


@contextmanager
def alone(work: Path, *, who: str, field: str, remedy: str) -> Iterator[None]:
    """The folder, made where it is not there; its lock ends with the process.

    Raises InvalidInput when another process has it, Permanent when it cannot be made.
    """
    with writing(work):
        work.mkdir(parents=True, exist_ok=True)
        lock = (work / _LOCK).open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another {who} works on this bundle"
            raise InvalidInput(message, subject=str(work), field=field, remedy=remedy) from None
        yield
