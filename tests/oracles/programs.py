"""The two reference programs of this folder: built with Go, kept outside the tree, asked line by line.

Run this file to build them ahead of the tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from controlplane.go_module import BinariesUnavailable, go_toolchain, locked

MODULE = Path(__file__).resolve().parent
BUILD_COMMAND = "PYTHONPATH=tests python tests/oracles/programs.py"
BUILD_TIMEOUT_SECONDS = 240.0


class Reference(StrEnum):
    """A program; the value is its folder here and the name of its binary."""

    RENDER = "render"
    """Go's text/template with the documented functions."""
    READ = "read"
    """YAML as kubectl splits and reads it."""


@dataclass(frozen=True)
class Answer:
    """What a reference says: `result` when it is `ok`, else `error`."""

    ok: bool
    result: Any
    error: str


class Oracle:
    """A running reference program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, request: Mapping[str, Any]) -> Answer:
        """The answer to one request. A program that has died is an AssertionError: it must survive any input."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the reference ended at {request!r}"
        answer = json.loads(line)
        return Answer(answer["ok"], answer.get("result"), answer.get("error", ""))


@contextmanager
def running(reference: Reference) -> Iterator[Oracle]:
    """Starts a reference, building it first where needed, and ends it. Raises BinariesUnavailable."""
    program = built() / reference.value
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Oracle(process)
        finally:
            process.kill()


def built() -> Path:
    """The folder with both programs; raises BinariesUnavailable."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hopline" / "oracles"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / _key()
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            _build(folder, go_toolchain())
    return folder


def _key() -> str:
    digest = hashlib.sha256()
    sources = [MODULE / "go.mod", MODULE / "go.sum", *MODULE.rglob("*.go")]
    for source in sorted(sources):
        digest.update(source.relative_to(MODULE).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    digest.update(" ".join(os.uname()[::4]).encode())
    return digest.hexdigest()[:16]


def _build(folder: Path, go: str) -> None:
    """Builds beside the final folder and renames, so that a half-done build is never taken for a whole one."""
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    packages = [f"./{reference.value}" for reference in Reference]
    command = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", f"{partial}/", *packages]
    environment = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    done = subprocess.run(
        command, cwd=MODULE, env=environment, capture_output=True, text=True, check=False, timeout=BUILD_TIMEOUT_SECONDS
    )
    if done.returncode:
        reason = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise BinariesUnavailable(f"no reference programs:\n{reason}\ninstall Go, then run: {BUILD_COMMAND}")
    partial.rename(folder)


if __name__ == "__main__":
    print(built())
