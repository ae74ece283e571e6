"""Kills process groups and deletes their data when whoever started this is gone, however that happened.

Reads lines from standard input: `+<group>` takes a process group into care, `-<group>` releases it. The end of the
input is the sign: a pipe closes when its writer exits, so this also works after `kill -9` of a test run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path


def main(data_dir: Path) -> None:
    """Waits for the end of standard input, then cleans up."""
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line.startswith("+"):
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    shutil.rmtree(data_dir, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
