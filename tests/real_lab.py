"""Pytest plugin: clusters on the run's real control plane, with worker and watcher as processes under their accounts.

One site per test file: the control plane and the Temporal server are those of the run. Clusters come and go, each with
its own name, nodes and agents. All of them live on the one API server: the one named by HOPLINE_MANAGEMENT_CLUSTER
manages itself with the worker's own rights, the others are reached through their kubeconfig Secret.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from controlplane.administration import Administered
from controlplane.agent_script import AgentScript
from controlplane.agents import NodeAgents
from controlplane.audit import AuditEvent
from controlplane.binaries import Binaries, Program
from controlplane.control_plane import ControlPlane
from controlplane.installed_cluster import InstalledCluster, install_cluster
from controlplane.node_effects import NodeEffects
from controlplane.processes import ManagedProcess, ProcessFamily, wait_until
from controlplane.releases import copy_releases
from controlplane.rest import Rest
from example_folders import EXAMPLES, NOT_YET, SMALL, write_cluster, write_small_releases
from hopline.domain.resources import ANNOTATION_HANDLED
from hopline.domain.wire import ClusterKey
from hopline.runtime.settings import child_environment
from hopline.sim.scenarios import EXAMPLE_CONTROLLER_IMAGE
from starter.dev_server import server_binary
from workflows.identifiers import upgrade_workflow_id

ROOT = Path(__file__).resolve().parent.parent
RBAC = ROOT / "deploy" / "rbac.yaml"
ACCOUNTS = "hopline-system"
WORKER = f"system:serviceaccount:{ACCOUNTS}:hopline-worker"
WATCHER = f"system:serviceaccount:{ACCOUNTS}:hopline-watcher"
TARGET = f"system:serviceaccount:{ACCOUNTS}:target"
GUIDE = ClusterKey(kube_namespace="guide", name="guide")
"""The cluster that manages itself."""

QUICK_SECONDS = 0.05
"""How long a node step takes in these tests."""


@dataclass
class RealCluster:
    """One installed cluster with its agents."""

    installed: InstalledCluster
    agents: NodeAgents
    script: AgentScript
    mark: int
    """Where the audit log stood when the cluster was there."""

    @property
    def key(self) -> ClusterKey:
        """Name and Kubernetes namespace."""
        return self.installed.key

    @property
    def where(self) -> tuple[str, str, str]:
        """`NAME -n NAMESPACE`, as arguments."""
        return self.key.name, "-n", self.key.kube_namespace

    @property
    def workflow_id(self) -> str:
        """The id of its one run."""
        return upgrade_workflow_id(self.key)

    @property
    def master(self) -> str:
        """Its first control-plane node."""
        return f"{self.key.name}-m1"

    @property
    def steps_of_last_hop(self) -> int:
        """What the agents have to do for v26.06: containerd twice and kubernetes on every node, etcd on masters.

        And a snapshot of etcd before the first of them.
        """
        names = [node.name for node in self.installed.nodes]
        return 3 * len(names) + sum("-m" in name for name in names) + 1

    @property
    def steps_of_first_hop(self) -> int:
        """As many for v26.06-rc.3, whose etcd is the one that is there."""
        return 3 * len(self.installed.nodes)

    @property
    def steps_of_both_hops(self) -> int:
        """What the agents have to do in all."""
        return self.steps_of_first_hop + self.steps_of_last_hop


@dataclass
class RealSite:
    """Worker and watcher on the run's control plane, and what a person types."""

    control_plane: ControlPlane
    temporal_address: str
    folder: Path
    family: ProcessFamily
    kubectl_program: str
    task_queue: str = field(default_factory=lambda: f"real-{uuid4().hex[:8]}")
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def releases(self) -> Path:
        """What the worker reads bundles from."""
        return self.folder / "releases"

    @property
    def environment(self) -> dict[str, str]:
        """Variables of every process of Hopline, and of a person's shell."""
        return {
            "KUBECONFIG": str(self.control_plane.kubeconfig),
            "TEMPORAL_ADDRESS": self.temporal_address,
            "HOPLINE_TASK_QUEUE": self.task_queue,
            "HOPLINE_RELEASES": str(self.releases),
            "HOPLINE_MANAGEMENT_CLUSTER": str(GUIDE),
            "HOPLINE_OWN_IMAGES": EXAMPLE_CONTROLLER_IMAGE,
            # The nodes of kwok have no etcd at their addresses.
            "HOPLINE_ETCD_PROBE": "optional",
        }

    def add_cluster(
        self,
        name: str,
        nodes: tuple[int, int] = (1, 1),
        *,
        family: Sequence[str] = (),
        seconds: float = QUICK_SECONDS,
        target: Administered | None = None,
        kubeconfig: bool = True,
    ) -> RealCluster:
        """Installs a cluster at the first version of a family of releases (default: the examples), with agents.

        Args:
            nodes: control-plane and worker nodes.
            family: versions of `SMALL` releases.
            target: the control plane with its nodes and workloads, when that is another one.
            kubeconfig: False leaves a workload cluster without its Secret.
        """
        key = ClusterKey(kube_namespace=name, name=name)
        examples = write_cluster(self.folder / name, key, nodes, family, self.releases)
        return self.add_cluster_of(examples, key, seconds=seconds, target=target, kubeconfig=kubeconfig)

    def add_cluster_of(
        self,
        examples: Path,
        key: ClusterKey,
        *,
        seconds: float = QUICK_SECONDS,
        target: Administered | None = None,
        kubeconfig: bool = True,
        effects: Callable[[Rest, Rest], NodeEffects] = NodeEffects,
    ) -> RealCluster:
        """Installs the cluster of a folder of examples; the worker has to read the same releases."""
        copied = self.folder / key.name / "copied"
        installed = install_cluster(self.control_plane, copied, target=target, examples=examples)
        if key != GUIDE and target is None and kubeconfig:
            self.control_plane.apply(self._kubeconfig_secret(key))
        script = AgentScript(seconds=seconds)
        place = target.kubeconfig if target else None
        agents = NodeAgents(self.control_plane.kubeconfig, key.kube_namespace, installed.nodes, script, place, effects)
        self.stack.enter_context(agents)
        return RealCluster(installed, agents, script, self.control_plane.audit_mark())

    def remove_cluster(self, cluster: RealCluster) -> None:
        """Ends its run, and takes its nodes away, so that the next cluster's rollouts do not wait for them."""
        self.control_plane.kubectl("delete", "clusterversion,bkecluster", *cluster.where, "--ignore-not-found")
        self.run(str(server_binary()), "workflow", "terminate", "--workflow-id", cluster.workflow_id)
        cluster.agents.stop()
        place = cluster.installed.target
        names = [node.name for node in cluster.installed.nodes]
        place.kubectl("delete", "node", *names, "--wait=false")
        # Else the garbage collector leaves them for a minute, and every rollout waits for them.
        at_once = ("--force", "--grace-period=0", "--wait=false")
        for name in names:
            place.kubectl("delete", "pods", "--all-namespaces", f"--field-selector=spec.nodeName={name}", *at_once)

    def _kubeconfig_secret(self, key: ClusterKey) -> dict[str, Any]:
        """Reaches this same API server as another user, so that the audit log tells who wrote what."""
        file = self.control_plane.kubeconfig_for_service_account(ACCOUNTS, "target")
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{key.name}-kubeconfig", "namespace": key.kube_namespace},
            "data": {"value": base64.b64encode(file.read_bytes()).decode()},
        }

    # Processes.

    def start_worker(self, **settings: str) -> ManagedProcess:
        """A worker with the rights of its account, once it polls; `settings` are further variables."""
        mark = self.log_size("worker")
        process = self._start("worker", ["worker"], "hopline-worker", settings)
        wait_until(lambda: "polling task queue" in self.log("worker", mark), process, "polling")
        return process

    def start_watcher(self, **settings: str) -> ManagedProcess:
        """A watcher with the rights of its account; `settings` are further variables."""
        return self._start("watcher", ["starter", "watch"], "hopline-watcher", settings)

    def kill(self, name: str) -> None:
        """kill -9 of `worker` or `watcher`."""
        self.family.stop(self.family.find(name))

    def log(self, name: str, since: int = 0) -> str:
        """What a process has written into its log after a mark."""
        file = self.family.data_dir / f"{name}.log"
        return file.read_bytes()[since:].decode(errors="replace") if file.exists() else ""

    def log_size(self, name: str) -> int:
        """The present end of a log, as a mark."""
        file = self.family.data_dir / f"{name}.log"
        return file.stat().st_size if file.exists() else 0

    def _start(self, name: str, module: list[str], account: str, settings: dict[str, str]) -> ManagedProcess:
        kubeconfig = self.control_plane.kubeconfig_for_service_account(ACCOUNTS, account)
        environment = child_environment(self.environment | {"KUBECONFIG": str(kubeconfig)} | settings)
        return self.family.start(name, [sys.executable, "-m", *module], environment, ROOT)

    # What a person types.

    def run(self, *command: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs a program in a person's shell."""
        return subprocess.run(
            command, cwd=ROOT, env=self._shell(), capture_output=True, text=True, check=False, timeout=timeout
        )

    def open(self, *command: str) -> subprocess.Popen[str]:
        """Starts a program in a person's shell, to be read later."""
        return subprocess.Popen(
            command, cwd=ROOT, env=self._shell(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def hopline(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """`hopline …`"""
        return self.run(*self.hopline_command(*arguments), timeout=timeout)

    def hopline_command(self, *arguments: str) -> list[str]:
        """The command line of `hopline …`, as it is installed."""
        return [str(Path(sys.executable).with_name("hopline")), *arguments]

    def temporal(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`temporal …`"""
        return self.run(str(server_binary()), *arguments)

    def patch_desired_version(self, cluster: RealCluster, version: str) -> None:
        """The guide's command, as it stands there."""
        wish = f'{{"spec":{{"desiredVersion":"{version}"}}}}'
        done = self.run(self.kubectl_program, "patch", "clusterversion", *cluster.where, "--type", "merge", "-p", wish)
        assert done.returncode == 0, done.stderr

    def _shell(self) -> dict[str, str]:
        return child_environment(self.environment) | {"KUBERC": "off", "HOME": str(self.folder)}

    # What a person sees.

    def version(self, cluster: RealCluster) -> dict[str, Any]:
        """The ClusterVersion."""
        document: dict[str, Any] = self.control_plane.get("clusterversion", *cluster.where)
        return document

    def bke(self, cluster: RealCluster) -> dict[str, Any]:
        """The BKECluster."""
        document: dict[str, Any] = self.control_plane.get("bkecluster", *cluster.where)
        return document

    def until(self, enough: Callable[[], bool], what: str, seconds: float = 120) -> None:
        """Looks until the condition holds; shows the worker's log when it never does."""
        deadline = time.monotonic() + seconds
        while not enough():
            if time.monotonic() > deadline:
                pytest.fail(
                    f"not {what} within {seconds:.0f} s\n{self.log('worker')[-3000:]}\n{self.log('watcher')[-2000:]}"
                )
            time.sleep(0.1)

    def until_ready(self, cluster: RealCluster, version: str, seconds: float = 120) -> None:
        """Until `kubectl get clusterversion` shows the version and Ready, and the run has said its last word."""
        for path, value in (("currentVersion", version), ("phase", "Ready")):
            condition = f"--for=jsonpath={{.status.{path}}}={value}"
            done = self.run(
                self.kubectl_program, "wait", "clusterversion", *cluster.where, condition, f"--timeout={seconds:.0f}s",
                timeout=seconds + 10,
            )  # fmt: skip
            seen = self.version(cluster).get("status")
            assert done.returncode == 0, f"{done.stderr}\n{json.dumps(seen, indent=1)}\n{self.log('worker')[-3000:]}"

        self.until(lambda: self.outcome(cluster) == "Done", "handled")

    def outcome(self, cluster: RealCluster) -> str:
        """How the run of the present wish ended, by the mark on the ClusterVersion; empty before its last word."""
        metadata = self.version(cluster)["metadata"]
        generation, _, outcome = metadata.get("annotations", {}).get(ANNOTATION_HANDLED, "").partition("/")
        return outcome if generation == str(metadata["generation"]) else ""

    def runs(self, cluster: RealCluster) -> list[dict[str, Any]]:
        """The executions of its workflow, one per hop, newest first."""
        listed = self.temporal("workflow", "list", "--query", f"WorkflowId='{cluster.workflow_id}'", "-o", "json")
        assert listed.returncode == 0, listed.stderr
        executions: list[dict[str, Any]] = json.loads(listed.stdout)
        return executions

    def applies(
        self, cluster: RealCluster, user: str, resources: Collection[str] = ("configmaps", "deployments", "daemonsets")
    ) -> Counter[tuple[str, str]]:
        """How often a user has written each of such objects since the cluster was installed, dry runs left out."""
        return Counter(
            (event.resource, event.name)
            for event in self.requests(cluster, user)
            if event.resource in resources and event.is_write and not event.is_dry_run and event.code < 300
        )

    def requests(self, cluster: RealCluster, user: str) -> list[AuditEvent]:
        """What a user has asked of the API server since the cluster was installed."""
        return self.control_plane.audit_events(cluster.mark, user)


def in_order(text: str, *words: str) -> bool:
    """Whether the words stand in the text in this order."""
    place = 0
    for word in words:
        place = text.find(word, place)
        if place < 0:
            return False
        place += len(word)
    return True


@pytest.fixture(scope="module")
def site(
    control_plane: ControlPlane,
    control_plane_binaries: Binaries,
    temporal_address: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RealSite]:
    """CRDs, RBAC, catalogue and releases on the run's control plane; one worker and one watcher for a test file."""
    folder = tmp_path_factory.mktemp("site")
    copy_releases(EXAMPLES / "releases", folder / "releases", NOT_YET)
    for versions in SMALL:
        write_small_releases(folder / "releases", versions)
    control_plane.kubectl("apply", "--server-side", "-f", str(RBAC))
    _let_target_do_everything(control_plane)
    control_plane.kubectl("delete", "upgradepath", "--all")
    with ExitStack() as stack:
        family = ProcessFamily("site")
        stack.callback(family.close)
        program = control_plane_binaries.path(Program.KUBECTL)
        running = RealSite(control_plane, temporal_address, folder, family, program, stack=stack)
        running.start_watcher()
        running.start_worker()
        yield running
    control_plane.kubectl("delete", "upgradepath", "--all")


def _let_target_do_everything(control_plane: ControlPlane) -> None:
    """The account behind the kubeconfig Secrets of workload clusters: an administrator there, as in the field."""
    metadata = {"name": "target", "namespace": ACCOUNTS}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "real-lab-target"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "target", "namespace": ACCOUNTS}],
    }
    control_plane.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}, binding)
