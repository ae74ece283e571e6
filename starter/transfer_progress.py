"""Progress of long transfers: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import TransferSpeedColumn as Speed

from starter.terminal import Terminal

SECONDS_BETWEEN_LINES = 10.0


class TransferProgress:
    """One bar for everything that moves, and what is told above it."""

    def __init__(self, terminal: Terminal, label: str) -> None:
        self._terminal = terminal
        self._label = label
        self._lock = threading.Lock()
        self._expected = 0
        self._here = 0
        self._next = time.monotonic() + SECONDS_BETWEEN_LINES
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Self:
        if self._terminal.talk.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), Speed(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=self._terminal.talk, transient=True)
            self._task = self._bar.add_task(self._label, total=0)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def expect(self, size: int) -> None:
        """So many bytes more have to move."""
        with self._lock:
            self._expected += size
        self._show()

    def moved(self, size: int) -> None:
        """So many bytes have moved."""
        with self._lock:
            self._here += size
        self._show()

    def tell(self, text: str) -> None:
        """A line."""
        self._terminal.tell([text])

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=self._here, total=self._expected)
            return
        with self._lock:
            is_time = time.monotonic() >= self._next
            if is_time:
                self._next = time.monotonic() + SECONDS_BETWEEN_LINES
        if is_time:
            self.tell(f"{self._label}: {_mib(self._here)} of {_mib(self._expected)}")


def counted(number: int, word: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:.0f} MiB"
