"""The simulated agents speak the documented Command API, so that a rollout proven against them holds on real nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controlplane.agent_script import AgentScript, Outcome, Step
from controlplane.agents import AgentNode, NodeAgents
from controlplane.control_plane import ControlPlane, NodeShape
from controlplane.static_pods import StaticPod, static_pod_object
from looking import PATIENCE

MASTER = AgentNode("agents-master-1", "10.78.0.1")
WORKER = AgentNode("agents-worker-1", "10.78.0.2")
ENTRY = f"{WORKER.name}/{WORKER.ip}"
CLUSTER = "demo"
OLD, NEW = "v1.33.1", "v1.34.3-of.1"


@pytest.fixture(scope="module")
def nodes(control_plane: ControlPlane) -> None:
    """A master with its static pods and a worker, both at the old version."""
    shapes = [NodeShape(MASTER.name, MASTER.ip, OLD, is_control_plane=True), NodeShape(WORKER.name, WORKER.ip, OLD)]
    control_plane.create_nodes(shapes)
    versions = {component: "v3.5.21" if component is StaticPod.ETCD else OLD for component in StaticPod}
    control_plane.apply(*(static_pod_object(of, MASTER.name, version) for of, version in versions.items()))


@pytest.fixture
def agents(control_plane: ControlPlane, kube_namespace: str, nodes: None) -> Iterator[NodeAgents]:
    """Agents of both nodes, and a BKECluster that declares the new versions."""
    versions = {"kubernetesVersion": NEW, "etcdVersion": "v3.6.8", "containerdVersion": "v2.1.1", "ntpServer": ""}
    cluster = {
        "apiVersion": "bke.bocloud.com/v1beta1",
        "kind": "BKECluster",
        "metadata": {"name": CLUSTER, "namespace": kube_namespace},
        "spec": {"clusterConfig": {"cluster": versions}},
    }
    control_plane.apply(cluster)
    with NodeAgents(control_plane.kubeconfig, kube_namespace, [MASTER, WORKER], AgentScript(seconds=0.05)) as running:
        yield running


class Commands:
    """Writes Commands of one Kubernetes namespace and reads what the agents answer."""

    def __init__(self, control_plane: ControlPlane, kube_namespace: str) -> None:
        self._control_plane = control_plane
        self._kube_namespace = kube_namespace

    def send(self, name: str, *arguments: str, nodes: tuple[AgentNode, ...] = (WORKER,), **spec: Any) -> None:
        """Creates a Command of one built-in sub-command."""
        sub_command = {"id": "upgrade", "command": list(arguments), "type": "BuiltIn", "backoffDelay": 3}
        selector = {"matchLabels": {node.ip: node.ip for node in nodes}}
        self._control_plane.apply(
            {
                "apiVersion": "bkeagent.bocloud.com/v1beta1",
                "kind": "Command",
                "metadata": {"name": name, "namespace": self._kube_namespace},
                "spec": {"nodeName": "", "suspend": False, "commands": [sub_command], "nodeSelector": selector} | spec,
            }
        )

    def upgrade(self, name: str, phase: str, node: AgentNode, **spec: Any) -> None:
        """Creates a node upgrade Command with the documented arguments."""
        cluster = f"bkeConfig={self._kube_namespace}:{CLUSTER}"
        self.send(name, "Kubeadm", f"phase={phase}", cluster, "clusterType=bke", nodes=(node,), **spec)

    def read(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._control_plane.get("command", name, "-n", self._kube_namespace)
        return found

    def entry(self, name: str, key: str = ENTRY) -> dict[str, Any]:
        entry: dict[str, Any] = self.read(name).get("status", {}).get(key, {})
        return entry

    def await_phase(self, name: str, phase: str, key: str = ENTRY) -> dict[str, Any]:
        eventually(lambda: self.entry(name, key).get("phase") == phase)
        return self.entry(name, key)

    def kubectl(self, *arguments: str) -> str:
        return self._control_plane.kubectl(*arguments, "-n", self._kube_namespace)


@pytest.fixture
def commands(control_plane: ControlPlane, kube_namespace: str) -> Commands:
    return Commands(control_plane, kube_namespace)


def eventually(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Waits for a condition that nothing announces."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.05)


def node_info(control_plane: ControlPlane, node: AgentNode) -> dict[str, str]:
    info: dict[str, str] = control_plane.get("node", node.name)["status"]["nodeInfo"]
    return info


def test_a_worker_reports_the_version_of_the_bkecluster(
    control_plane: ControlPlane, agents: NodeAgents, commands: Commands
) -> None:
    commands.upgrade("upgrade-node-1", "UpgradeWorker", WORKER, backoffLimit=3, ttlSecondsAfterFinished=600)
    entry = commands.await_phase("upgrade-node-1", "Completed")
    assert (entry["status"], entry["succeeded"], "failed" in entry) == ("True", 1, False)
    assert [(c["id"], c["status"], c["phase"], c["count"]) for c in entry["conditions"]] == [
        ("upgrade", "True", "Completed", 1)
    ]
    assert node_info(control_plane, WORKER)["kubeletVersion"] == NEW
    finalizers = commands.read("upgrade-node-1")["metadata"]["finalizers"]
    assert finalizers == ["command.bkeagent.bocloud.com/finalizers"]
    assert set(agents.script.times_run().values()) == {1}


def test_a_master_replaces_its_static_pods_one_after_another(
    control_plane: ControlPlane, agents: NodeAgents, commands: Commands
) -> None:
    def hashes() -> dict[str, str]:
        found = control_plane.get("pods", "-n", "kube-system", "-l", "tier=control-plane")["items"]
        return {
            pod["metadata"]["labels"]["component"]: pod["metadata"]["annotations"]["kubernetes.io/config.hash"]
            for pod in found
            if pod["spec"]["nodeName"] == MASTER.name
        }

    before = hashes()
    key = f"{MASTER.name}/{MASTER.ip}"
    commands.upgrade("upgrade-node-2", "UpgradeControlPlane", MASTER)
    commands.await_phase("upgrade-node-2", "Completed", key)
    pod = control_plane.get("pod", f"kube-apiserver-{MASTER.name}", "-n", "kube-system")
    assert pod["spec"]["containers"][0]["image"] == "cr.openfuyao.cn/openfuyao/kube-apiserver:1.34.3-of.1"
    assert node_info(control_plane, MASTER)["kubeletVersion"] == NEW
    changed = {component for component, value in hashes().items() if value != before[component]}
    assert changed == {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}

    commands.send("upgrade-node-3", "Kubeadm", "phase=UpgradeEtcd", "etcdVersion=v3.6.9", nodes=(MASTER,))
    commands.await_phase("upgrade-node-3", "Completed", key)
    etcd = control_plane.get("pod", f"etcd-{MASTER.name}", "-n", "kube-system")
    assert etcd["spec"]["containers"][0]["image"] == "cr.openfuyao.cn/openfuyao/etcd:3.6.9"

    unchanged = hashes()
    commands.upgrade("upgrade-node-4", "UpgradeControlPlane", MASTER)
    commands.await_phase("upgrade-node-4", "Completed", key)
    assert hashes() == unchanged


def test_one_command_to_two_nodes_has_two_entries(
    control_plane: ControlPlane, agents: NodeAgents, commands: Commands
) -> None:
    redeploy = ("K8sEnvInit", "init=true", "check=true", "scope=runtime", "containerdVersion=v2.1.5")
    commands.send("k8s-containerd-redeploy-1", *redeploy, nodes=(MASTER, WORKER))
    for node in (MASTER, WORKER):
        commands.await_phase("k8s-containerd-redeploy-1", "Completed", f"{node.name}/{node.ip}")
        assert node_info(control_plane, node)["containerRuntimeVersion"] == "containerd://2.1.5"


def test_attempts_are_repeated_up_to_the_limit(agents: NodeAgents, commands: Commands) -> None:
    agents.script.fail(WORKER.name, Step.PING, times=2)
    commands.send("ping--1", "Ping", backoffLimit=3)
    condition = commands.await_phase("ping--1", "Completed")["conditions"][0]
    assert (condition["count"], len(condition["stdErr"]), condition["stdOut"]) == (3, 2, ["pong", WORKER.name])

    agents.script.fail(WORKER.name, Step.PING, times=2)
    commands.send("ping--2", "Ping", backoffLimit=1)
    entry = commands.await_phase("ping--2", "Failed")
    assert (entry["status"], entry["failed"], entry["conditions"][0]["phase"]) == ("False", 1, "Failed")
    assert agents.script.times_run()[WORKER.name, ("Ping",)] == 5


def test_a_new_agent_takes_a_failed_command_up_again(
    control_plane: ControlPlane, kube_namespace: str, agents: NodeAgents, commands: Commands
) -> None:
    agents.script.fail(WORKER.name, Step.PING, times=1)
    commands.send("ping--1", "Ping")
    commands.await_phase("ping--1", "Failed")
    agents.stop()
    with NodeAgents(control_plane.kubeconfig, kube_namespace, [WORKER], agents.script):
        commands.await_phase("ping--1", "Completed")
    assert [e.outcome for e in agents.script.executions] == [Outcome.FAILED, Outcome.SUCCEEDED]


def test_what_cannot_be_done_is_a_failure_with_a_reason(agents: NodeAgents, commands: Commands) -> None:
    commands.send("strange", "Dance")
    assert commands.await_phase("strange", "Failed")["conditions"][0]["stdErr"] == ["Instruction not found: Dance"]
    commands.send("lost", "Kubeadm", "phase=UpgradeWorker", "bkeConfig=nowhere:nothing")
    assert "not found" in commands.await_phase("lost", "Failed")["conditions"][0]["stdErr"][0]


def test_deleting_a_running_command_does_not_stop_its_work(agents: NodeAgents, commands: Commands) -> None:
    agents.script.hold(WORKER.name, Step.PING)
    commands.send("ping--1", "Ping")
    commands.await_phase("ping--1", "Running")
    eventually(lambda: len(agents.script.executions) == 1)
    commands.kubectl("delete", "command", "ping--1", "--timeout=20s")
    assert agents.script.executions[0].outcome is Outcome.RUNNING

    commands.send("ping--2", "Ping")
    eventually(lambda: len(agents.script.overlaps()) == 1)
    agents.script.release(WORKER.name, Step.PING)
    commands.await_phase("ping--2", "Completed")
    eventually(lambda: {e.outcome for e in agents.script.executions} == {Outcome.SUCCEEDED})


def test_a_suspended_command_goes_on_after_its_present_sub_command(agents: NodeAgents, commands: Commands) -> None:
    agents.script.hold(WORKER.name, Step.PING)
    two = [{"id": name, "command": ["Ping", f"name={name}"], "type": "BuiltIn"} for name in ("first", "second")]
    commands.send("ping--1", commands=two)
    eventually(lambda: len(agents.script.executions) == 1)
    commands.kubectl("patch", "command", "ping--1", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    commands.await_phase("ping--1", "Suspend")
    agents.script.release(WORKER.name, Step.PING)
    eventually(lambda: [c["id"] for c in commands.entry("ping--1")["conditions"]] == ["first"])
    assert commands.entry("ping--1")["phase"] == "Suspend"

    commands.kubectl("patch", "command", "ping--1", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    entry = commands.await_phase("ping--1", "Completed")
    assert [c["id"] for c in entry["conditions"]] == ["first", "second"]
    assert set(agents.script.times_run().values()) == {1}


def test_a_finished_command_is_collected_after_its_time(agents: NodeAgents, commands: Commands) -> None:
    commands.send("ping--1", "Ping", ttlSecondsAfterFinished=1)
    commands.kubectl("wait", "--for=delete", "command/ping--1", "--timeout=30s")
    assert [e.outcome for e in agents.script.executions] == [Outcome.SUCCEEDED]


def test_agents_go_on_after_the_api_server_was_killed(
    control_plane: ControlPlane, agents: NodeAgents, commands: Commands
) -> None:
    agents.script.hold(WORKER.name, Step.PING)
    commands.send("ping--1", "Ping")
    eventually(lambda: len(agents.script.executions) == 1)
    control_plane.kill_apiserver()
    agents.script.release(WORKER.name, Step.PING)
    control_plane.start_apiserver()
    commands.await_phase("ping--1", "Completed")
    commands.send("ping--2", "Ping", "after=restart")
    commands.await_phase("ping--2", "Completed")
    assert set(agents.script.times_run().values()) == {1}
