"""The programs of the test control plane: ready ones from KUBEBUILDER_ASSETS, else built from the go.mod beside this.

The build takes about five minutes on two cores. Run this file to build ahead of the tests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from controlplane.go_module import BinariesUnavailable, GoModule

MODULE_DIR = Path(__file__).resolve().parent
_READY_MADE = "KUBEBUILDER_ASSETS"
MODULE = GoModule(
    MODULE_DIR,
    "the test control plane",
    "PYTHONPATH=tests python tests/controlplane/binaries.py",
    f"(or set {_READY_MADE} to a folder with ready binaries)",
)


class Program(StrEnum):
    """One program of the control plane; the value is the file name of its binary."""

    ETCD = "etcd"
    API_SERVER = "kube-apiserver"
    CONTROLLER_MANAGER = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
    KUBECTL = "kubectl"
    KWOK = "kwok"

    @property
    def package(self) -> str:
        """Go import path of the program's main package: one of the `tool` lines of go.mod."""
        return {Program.ETCD: "go.etcd.io/etcd/server/v3", Program.KWOK: "sigs.k8s.io/kwok/cmd/kwok"}.get(
            self, f"k8s.io/kubernetes/cmd/{self.value}"
        )


@dataclass(frozen=True)
class Binaries:
    """Where each program of the control plane lies on this machine."""

    paths: Mapping[Program, Path]

    def path(self, program: Program) -> str:
        """Absolute path of one program, as a command's first argument."""
        return str(self.paths[program])


def find_binaries() -> Binaries:
    """The programs of this machine, built first where they are missing; raises BinariesUnavailable."""
    ready = _ready_made()
    missing = [program for program in Program if program not in ready]
    if not missing:
        return Binaries(ready)
    folder = MODULE.built({program.value: program.package for program in missing})
    return Binaries(ready | {program: folder / program.value for program in missing})


def _ready_made() -> dict[Program, Path]:
    """Programs of KUBEBUILDER_ASSETS (usually etcd, kube-apiserver and kubectl), none when it is not set."""
    folder = os.environ.get(_READY_MADE, "")
    if not folder:
        return {}
    found = {program: Path(folder).resolve() / program.value for program in Program}
    found = {program: path for program, path in found.items() if os.access(path, os.X_OK)}
    required = {Program.ETCD, Program.API_SERVER, Program.KUBECTL}
    if absent := sorted(required - found.keys()):
        raise BinariesUnavailable(
            f"{_READY_MADE}={folder} holds no {', '.join(absent)}: name a complete folder, or unset it to build them"
        )
    return found


__all__ = ["MODULE", "MODULE_DIR", "Binaries", "BinariesUnavailable", "Program", "find_binaries"]

if __name__ == "__main__":
    for program, path in find_binaries().paths.items():
        print(f"{program.value}\t{path}")
