"""Children that end with whoever started them, however that ends; `kill -9` of a test run or of the demo included."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def start(
    command: Sequence[str], *, log: Path | None, environment: Mapping[str, str] | None = None, outlives: bool = False
) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own, so that Ctrl-C reaches it only through us.

    Args:
        log: file that its output is added to; thrown away when None.
        environment: None for a copy of our own.
        outlives: it may go on after our end. Otherwise the kernel ends it with us, where the kernel is Linux.
    """
    output = log.open("ab") if log else None
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output or subprocess.DEVNULL,
            stderr=output or subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
            preexec_fn=None if outlives else _end_with_parent(),
        )
    finally:
        if output:
            output.close()


def stop(process: subprocess.Popen[bytes], patience: float = 5.0) -> None:
    """End a child: politely, then by force after `patience` seconds."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def _end_with_parent() -> Callable[[], None] | None:
    """What the child does before it becomes its program; everything that could allocate happens before the fork."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return ask_kernel
