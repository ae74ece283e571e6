"""Two sets of programs, before and after the upgrade, each of real Kubernetes and etcd: one go.mod for each.

The newer set is that of the test control plane. The older one is built from the go.mod beside this, together with
`etcdctl` and `etcdutl` of its etcd. Run this file to build both ahead of the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from controlplane.binaries import MODULE, Binaries, Program
from controlplane.go_module import GoModule

_ETCD = "go.etcd.io/etcd/server/v3"
_ETCDCTL = "etcdctl"
_ETCDUTL = "etcdutl"
_SERVERS = (Program.ETCD, Program.API_SERVER, Program.CONTROLLER_MANAGER, Program.SCHEDULER)
NEWER_MODULE = MODULE
OLDER_MODULE = GoModule(
    Path(__file__).resolve().parent,
    "the older programs of the realistic control plane",
    "PYTHONPATH=tests python tests/realistic/programs.py",
)
PACKAGES = {program.value: program.package for program in _SERVERS} | {
    name: f"go.etcd.io/etcd/{name}/v3" for name in (_ETCDCTL, _ETCDUTL)
}
"""File name → import path of every program of the go.mod beside this."""


@dataclass(frozen=True)
class ProgramSet:
    """The servers of one release; the versions are those that they tell, with a `v`."""

    kubernetes: str
    etcd: str
    binaries: Binaries

    def version(self, program: Program) -> str:
        """The version of one server."""
        return self.etcd if program is Program.ETCD else self.kubernetes


@dataclass(frozen=True)
class RealisticPrograms:
    """Everything that the realistic control plane runs."""

    older: ProgramSet
    newer: ProgramSet
    etcdctl: str
    etcdutl: str

    def path(self, program: Program, version: str) -> str:
        """The binary of a server in one of the two versions that there are. Raises KeyError for any other."""
        for one in (self.newer, self.older):
            if one.version(program) == version:
                return one.binaries.path(program)
        raise KeyError(f"{program.value} {version}")


def find_programs() -> RealisticPrograms:
    """Both sets, built first where they are missing, ready ones or not; raises BinariesUnavailable."""
    newer_folder = NEWER_MODULE.built({program.value: program.package for program in Program})
    newer = Binaries({program: newer_folder / program.value for program in Program})
    folder = OLDER_MODULE.built(PACKAGES)
    older = Binaries({program: folder / program.value for program in _SERVERS})
    return RealisticPrograms(
        older=_set(OLDER_MODULE, older),
        newer=_set(NEWER_MODULE, newer),
        etcdctl=str(folder / _ETCDCTL),
        etcdutl=str(folder / _ETCDUTL),
    )


def _set(module: GoModule, binaries: Binaries) -> ProgramSet:
    return ProgramSet(module.kubernetes_version, module.version_of(_ETCD), binaries)


if __name__ == "__main__":
    print(find_programs())
