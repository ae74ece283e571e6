"""docs/guide.md and docs/guide.zh-CN.md, typed from top to bottom where `make lab` leads; offline: see the file beside.

With HOPLINE_RECORD_GUIDE set, what was printed is written into both pages, in the places of what they show.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from controlplane.agent_script import AgentScript
from controlplane.binaries import Binaries, Program
from controlplane.lab_site import LabSite
from docs.transcripts import (
    CHINESE,
    ENGLISH,
    INTERRUPT,
    LEFT_OUT,
    Typed,
    matched,
    normal,
    parts,
    rewritten,
    transcript,
    without_repeats,
)
from hopline.runtime.settings import child_environment
from starter.dev_server import server_binary

ROOT = Path(__file__).resolve().parents[3]
RECORD = "HOPLINE_RECORD_GUIDE"
pytestmark = [pytest.mark.slow, pytest.mark.controlplane, pytest.mark.timeout(900)]
ONLY_LOOK = ("kubectl get ", "kubectl describe ", "hopline status ", "hopline versions ", "hopline plan ")
"""What a person types again when the answer has not come yet."""
PATIENCE, RECORDING_PAUSE, WATCH_SECONDS = 30.0, 2.0, 90.0


class Terminal:
    """A newcomer's second terminal, with the variables that `make lab` prints."""

    def __init__(self, lab: LabSite, kubectl_folder: Path) -> None:
        homes = (kubectl_folder, Path(sys.executable).parent, server_binary().parent)
        path = os.pathsep.join([*map(str, homes), os.environ["PATH"]])
        self._environment = child_environment(lab.environment) | {"KUBERC": "off", "PATH": path}

    def type(self, typed: Typed) -> list[str]:
        """What the command prints; one that only looks is typed until it prints what the page shows, or time is up."""
        if typed.is_endless:
            return self._watch(typed)
        only_looks = typed.command.startswith(ONLY_LOOK)
        if only_looks and os.environ.get(RECORD):
            time.sleep(RECORDING_PAUSE)
            return self._run(typed.command)
        deadline = time.monotonic() + (PATIENCE if only_looks else 0)
        while True:
            printed = self._run(typed.command)
            if matched(typed.shown, printed) is not None or time.monotonic() > deadline:
                return printed
            time.sleep(0.5)

    def _run(self, command: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=WATCH_SECONDS,
        )
        return [line.rstrip() for line in done.stdout.splitlines()]

    def _watch(self, typed: Typed) -> list[str]:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {typed.command}"],
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines: list[str] = []
        reading = threading.Thread(target=_read, args=(process, lines.append))
        reading.start()
        beginning = (*typed.shown[:-1], LEFT_OUT)
        deadline = time.monotonic() + WATCH_SECONDS
        while matched(beginning, without_repeats(lines)) is None and time.monotonic() < deadline:
            time.sleep(0.1)
        process.terminate()
        reading.join()
        process.wait()
        printed = without_repeats(lines)
        shown = matched(beginning, printed)
        # What came after the last line that the page shows is after its Ctrl-C.
        return [*(printed if shown is None else shown[:-1]), INTERRUPT]


def _read(process: subprocess.Popen[str], tell: Callable[[str], None]) -> None:
    assert process.stdout
    for line in process.stdout:
        tell(line.rstrip())


@pytest.fixture
def terminal(control_plane_binaries: Binaries) -> Iterator[Terminal]:
    """A lab whose nodes are quicker than those of `make lab`."""
    kubectl_folder = Path(control_plane_binaries.path(Program.KUBECTL)).parent
    with LabSite(control_plane_binaries, AgentScript(seconds=0.05)) as lab:
        yield Terminal(lab, kubectl_folder)


def test_the_guide_shows_what_is_printed(terminal: Terminal) -> None:
    outputs: list[list[str]] = []
    wrong: list[str] = []
    for typed in transcript(parts(ENGLISH.read_text(encoding="utf-8"))[0]):
        printed = terminal.type(typed)
        told = matched(typed.shown, printed)
        outputs.append(printed if told is None else told)
        if told is None:
            wrong.append(_difference(typed, printed))
    if os.environ.get(RECORD):
        for page in (ENGLISH, CHINESE):
            online, offline = parts(page.read_text(encoding="utf-8"))
            page.write_text(rewritten(online, outputs) + offline, encoding="utf-8")
    remedy = f"to record anew: {RECORD}=1 pytest {Path(__file__).relative_to(ROOT)}"
    assert not wrong, "\n\n".join([*wrong, remedy])


def _difference(typed: Typed, printed: Sequence[str]) -> str:
    shown = "\n".join(f"  {normal(line)}" for line in typed.shown)
    real = "\n".join(f"  {normal(line)}" for line in printed)
    return f"$ {typed.command}\nthe page shows\n{shown}\nand printed was\n{real}"
