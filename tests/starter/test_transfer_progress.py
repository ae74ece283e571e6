"""Progress of transfers: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from starter import transfer_progress
from starter.terminal import Output, Terminal
from starter.transfer_progress import TransferProgress, counted


def told(*, is_terminal: bool) -> str:
    """What two transfers in two threads show."""
    stream = io.StringIO()
    terminal = Terminal(Output.TEXT)
    terminal.out = Console(file=stream, force_terminal=is_terminal, width=100, markup=False, highlight=False)
    with TransferProgress(terminal, "loading") as progress:
        progress.expect(4 * 1024 * 1024)
        threads = [threading.Thread(target=progress.moved, args=(1024 * 1024,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        progress.tell("kubernetes/etcd:v3.6.8  brought")
    return stream.getvalue()


def test_a_bar_on_a_terminal() -> None:
    shown = told(is_terminal=True)
    assert "loading" in shown and "2.1/4.2 MB" in shown
    assert "kubernetes/etcd:v3.6.8  brought" in shown


def test_a_line_now_and_then_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(is_terminal=False) == "kubernetes/etcd:v3.6.8  brought\n"
    monkeypatch.setattr(transfer_progress, "SECONDS_BETWEEN_LINES", 0.0)
    shown = told(is_terminal=False)
    assert "loading: 2 MiB of 4 MiB\n" in shown


def test_one_and_many() -> None:
    assert (counted(1, "file"), counted(0, "file"), counted(2, "image")) == ("1 file", "0 files", "2 images")
