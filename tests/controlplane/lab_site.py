"""Everything that an upgrade on a real API server needs, running: control plane, Temporal, worker, watcher, agents."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from controlplane.agent_script import AgentScript
from controlplane.agents import NodeAgents
from controlplane.binaries import Binaries
from controlplane.control_plane import ControlPlane
from controlplane.installed_cluster import EXAMPLES, NOT_YET, InstalledCluster, install_cluster
from controlplane.processes import ManagedProcess, ProcessFamily, wait_until
from hopline.runtime.settings import child_environment
from hopline.sim.scenarios import EXAMPLE_CONTROLLER_IMAGE
from starter.dev_server import DevServer, answers, start_dev_server

ROOT = Path(__file__).resolve().parents[2]
ACCOUNTS = "hopline-system"


def _has_told(process: ManagedProcess, words: str) -> bool:
    return words in process.log.read_text(errors="replace")


class LabSite:
    """One cluster, and every process of Hopline under the rights of deploy/rbac.yaml.

    The cluster manages itself; as a `workload` cluster it has a control plane of its own and a kubeconfig Secret.
    `settings` are further variables of the worker's environment, as HOPLINE_MODE; components `without` are left out.
    """

    def __init__(
        self,
        binaries: Binaries,
        script: AgentScript,
        *,
        examples: Path = EXAMPLES,
        without: Collection[str] = NOT_YET,
        workload: bool = False,
        ui: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.script = script
        self._binaries, self._examples, self._workload, self._ui = binaries, examples, workload, ui
        self._settings, self._without = dict(settings or {}), without
        self._stack = ExitStack()
        self.control_plane: ControlPlane
        self.cluster: InstalledCluster
        self.server: DevServer
        self._family: ProcessFamily

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.control_plane = stack.enter_context(ControlPlane(self._binaries))
            self._family = ProcessFamily("lab")
            stack.callback(self._family.close)
            self.control_plane.install_crds(ROOT / "deploy" / "crds")
            self.control_plane.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy" / "rbac.yaml"))
            releases = self._family.data_dir / "releases"
            target = stack.enter_context(ControlPlane(self._binaries)) if self._workload else None
            self.cluster = install_cluster(
                self.control_plane, releases, target=target, examples=self._examples, without=self._without
            )
            stack.enter_context(self._agents())
            self._start_server()
            self._worker = self.start_worker()
            self._watcher = self.start_watcher()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which a person's kubectl, hopline and temporal meet this site."""
        settings = {
            "KUBECONFIG": str(self.control_plane.kubeconfig),
            "TEMPORAL_ADDRESS": self.server.address,
            "HOPLINE_RELEASES": str(self.cluster.releases),
            "HOPLINE_OWN_IMAGES": EXAMPLE_CONTROLLER_IMAGE,
            # The nodes of kwok have addresses of documentation, and no etcd there.
            "HOPLINE_ETCD_PROBE": "optional",
        }
        return settings | ({"HOPLINE_MANAGEMENT_CLUSTER": str(self.cluster.key)} if not self._workload else {})

    @property
    def data_dir(self) -> Path:
        """Folder with the logs of worker, watcher and server, `<name>.log`."""
        return self._family.data_dir

    def start_worker(self) -> ManagedProcess:
        """A worker with the rights of its account; returns at once: it polls a moment later."""
        return self._start_ours("worker", [sys.executable, "-m", "worker"], "hopline-worker")

    def start_watcher(self) -> ManagedProcess:
        """A watcher with the rights of its account; returns at once."""
        return self._start_ours("watcher", [sys.executable, "-m", "starter", "watch"], "hopline-watcher")

    def until_ready(self) -> None:
        """Returns when the worker polls and the watcher watches."""
        for process, words in ((self._worker, "polling task queue"), (self._watcher, "watching ClusterVersions")):
            wait_until(partial(_has_told, process, words), process, words)

    def _start_ours(self, name: str, command: list[str], account: str) -> ManagedProcess:
        kubeconfig = self.control_plane.kubeconfig_for_service_account(ACCOUNTS, account)
        settings = self.environment | {"KUBECONFIG": str(kubeconfig)} | self._settings
        return self._family.start(name, command, child_environment(settings), ROOT)

    def _agents(self) -> NodeAgents:
        management, target = self.cluster.management.kubeconfig, self.cluster.target.kubeconfig
        return NodeAgents(management, self.cluster.key.kube_namespace, self.cluster.nodes, self.script, target)

    def _start_server(self) -> None:
        log = self._family.data_dir / "temporal.log"
        popen, self.server = start_dev_server(ui=self._ui, log=log)
        self._family.adopt(ManagedProcess("temporal", popen, log))
        asyncio.run(answers(popen, self.server.address, log))
