"""The lines of the openFuyao upgrade guide (online part, failure, FAQ), letter by letter; a person who types them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from hopline.domain.resources import ANNOTATION_RETRY
from hopline.domain.wire import ClusterKey
from real_lab import RealSite
from starter.dev_server import server_binary

VERSION_OF_THE_GUIDE = "v26.06"


class Line(StrEnum):
    """One command of the guide; the placeholders are the guide's: name of the cluster, and its Kubernetes namespace."""

    CLUSTER = "kubectl get bkecluster <集群名称> -n <命名空间>"
    PATHS = "kubectl get upgradepath openfuyao-upgrade-paths -o yaml"
    PATCH = (
        "kubectl patch clusterversion <集群名称> -n <命名空间> --type merge -p "
        """'{"spec":{"desiredVersion":"v26.06"}}'"""
    )
    EDIT = "kubectl edit clusterversion <集群名称> -n <命名空间>"
    WATCH_VERSION = "kubectl get clusterversion <集群名称> -n <命名空间> -w"
    WATCH_CLUSTER = "kubectl get bkecluster <集群名称> -n <命名空间> -w"
    CURRENT_VERSION = "kubectl get clusterversion <集群名称> -n <命名空间> -o jsonpath='{.status.currentVersion}'"
    PHASE = "kubectl get clusterversion <集群名称> -n <命名空间> -o jsonpath='{.status.phase}'"
    HEALTH = "kubectl get bkecluster <集群名称> -n <命名空间> -o jsonpath='{.status.clusterHealthState}'"
    VERSION_YAML = "kubectl get clusterversion <集群名称> -n <命名空间> -o yaml"
    LAST_FAILURE = (
        "kubectl get bkecluster <集群名称> -n <命名空间> -o jsonpath='{.status.declarativeUpgrade.lastFailure}'"
    )
    ANY_PATHS = "kubectl get upgradepath"
    PATH_RULES = "kubectl get upgradepath openfuyao-upgrade-paths -o jsonpath='{.spec.paths}'"


class OfflineLine(StrEnum):
    """The lines of the offline section, before and after the package is carried; a version and an address are theirs.

    The guide says to put one's own version in the place of v26.06-rc.2.
    """

    CREATE = (
        "kubectl create configmap cm.v26.06-rc.2 -n openfuyao-patch \\\n"
        '  --from-literal=v26.06-rc.2="$(cat VersionConfig-v26.06-rc.2.yaml)"'
    )
    INDEX = (
        "kubectl patch configmap bke-config -n cluster-system --type merge \\\n"
        """  -p '{"data":{"patch.v26.06-rc.2":"cm.v26.06-rc.2"}}'"""
    )
    BUILD = "bke build -f VersionConfig-v26.06-rc.2.yaml -t offline-v26.06-rc.2.tar.gz"
    UNPACK = "tar -xzvf /etc/openFuyao/offline-v26.06-rc.2.tar.gz"
    LOAD = "bke registry patch --source ./offline-v26.06-rc.2 --target <引导节点IP>:40443"
    COPY = "cp containerd-*.tar.gz /bke/mount/source_registry/files/"

    def with_own(self, version: str, address: str) -> str:
        """The line in one piece, as a person types it."""
        typed = self.replace("v26.06-rc.2", version).replace("<引导节点IP>:40443", address)
        return typed.replace(" \\\n  ", " ")


EVENTS = "kubectl get events -n <命名空间>"
WATCH_EVENTS = f"{EVENTS} -w"
DESCRIBE = "kubectl describe clusterversion <集群名称> -n <命名空间>"
RETRY = f"kubectl annotate bkecluster <集群名称> -n <命名空间> {ANNOTATION_RETRY}="
"""What a person adds to the guide's lines: to look closer, and to go on after a repair."""


@dataclass(frozen=True)
class Person:
    """Somebody at a shell with kubectl, hopline and temporal, who looks after one cluster."""

    site: RealSite
    key: ClusterKey

    def type(self, line: str, *, version: str = VERSION_OF_THE_GUIDE, editor: str = "") -> str:
        """What a line prints; it must succeed. `version` stands where the guide has its own, `editor` opens files."""
        done = self.site.run(*self._command(line, version, editor))
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def watching(self, *lines: str) -> Iterator[list[str]]:
        """Leaves lines that never end running, each in a terminal of its own; the list is what they have printed.

        The guide's own lines show their object at once: nothing happens before they do.
        """
        printed: list[str] = []
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            files = [folder / str(number) for number in range(len(lines))]
            stack.callback(lambda: printed.extend(file.read_text() for file in files))
            for line, file in zip(lines, files, strict=True):
                file.touch()
                process = self.site.open(*self._command(f"exec {line} > {file}", "", ""))
                stack.callback(process.communicate)
                stack.callback(process.terminate)
            own = [file for line, file in zip(lines, files, strict=True) if isinstance(line, Line)]
            self.site.until(lambda: all(file.stat().st_size for file in own), "shown")
            yield printed

    def _command(self, line: str, version: str, editor: str) -> list[str]:
        typed = line.replace("<集群名称>", self.key.name).replace("<命名空间>", self.key.kube_namespace)
        if version:
            typed = typed.replace(VERSION_OF_THE_GUIDE, version)
        homes = (Path(self.site.kubectl_program).parent, Path(sys.executable).parent, server_binary().parent)
        path = os.pathsep.join([*map(str, homes), os.environ["PATH"]])
        return ["env", f"PATH={path}", f"KUBE_EDITOR={editor}", "bash", "-c", typed]
