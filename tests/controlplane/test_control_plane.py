"""The test control plane keeps its promises: rollouts as asked for, restarts, counted requests, nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from controlplane.binaries import Binaries
from controlplane.control_plane import ControlPlane, KubectlFailed, NodeShape
from looking import PATIENCE

TESTS = Path(__file__).resolve().parents[1]
ROLLOUT = "hopline.dev/test-rollout"


@pytest.fixture(scope="module")
def node(control_plane: ControlPlane) -> str:
    """A node for the pods of this module."""
    name = "rollouts-1"
    control_plane.create_nodes([NodeShape(name, "10.77.0.1", "v1.33.1")])
    return name


def deployment(kube_namespace: str, name: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """A Deployment of two pods."""
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": kube_namespace},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


def eventually(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Waits for a condition that nothing announces."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.05)


def pods(control_plane: ControlPlane, kube_namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = control_plane.get("pods", "-n", kube_namespace)["items"]
    return found


def seconds_to_ready(pod: dict[str, Any]) -> float:
    """From the pod's creation to its readiness, in whole seconds, as the API shows them."""
    times = {c["type"]: c["lastTransitionTime"] for c in pod["status"]["conditions"]}
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    return (datetime.fromisoformat(times["Ready"]) - created).total_seconds()


def test_server_and_client_report_the_pinned_version(control_plane: ControlPlane) -> None:
    output = control_plane.kubectl("version")
    assert "Server Version: v1.36.1" in output
    assert "Client Version: v1.36.1" in output


@pytest.mark.usefixtures("node")
def test_an_ordinary_deployment_becomes_ready(control_plane: ControlPlane, kube_namespace: str) -> None:
    control_plane.apply(deployment(kube_namespace, "web"))
    control_plane.kubectl("rollout", "status", "deployment/web", "-n", kube_namespace, "--timeout=30s")
    assert [pod["status"]["phase"] for pod in pods(control_plane, kube_namespace)] == ["Running", "Running"]


@pytest.mark.usefixtures("node")
def test_a_slow_rollout_takes_the_time_it_was_given(control_plane: ControlPlane, kube_namespace: str) -> None:
    slow = {ROLLOUT: "slow", "hopline.dev/test-delay": "4s"}
    control_plane.apply(deployment(kube_namespace, "web", slow))
    control_plane.kubectl("rollout", "status", "deployment/web", "-n", kube_namespace, "--timeout=60s")
    assert min(seconds_to_ready(pod) for pod in pods(control_plane, kube_namespace)) >= 3


@pytest.mark.usefixtures("node")
@pytest.mark.parametrize(
    ("behaviour", "phase", "reason"),
    [("fail", "Running", "CrashLoopBackOff"), ("pull-error", "Pending", "ImagePullBackOff")],
)
def test_a_failing_rollout_shows_its_reason_until_it_is_healed(
    control_plane: ControlPlane, kube_namespace: str, behaviour: str, phase: str, reason: str
) -> None:
    def states() -> set[tuple[str, str]]:
        return {
            (pod["status"]["phase"], container["state"].get("waiting", {}).get("reason", ""))
            for pod in pods(control_plane, kube_namespace)
            for container in pod["status"].get("containerStatuses", [])
        }

    control_plane.apply(deployment(kube_namespace, "web", {ROLLOUT: behaviour}))
    eventually(lambda: states() == {(phase, reason)})
    control_plane.kubectl("annotate", "pod", "--all", "-n", kube_namespace, f"{ROLLOUT}-")
    control_plane.kubectl("rollout", "status", "deployment/web", "-n", kube_namespace, "--timeout=30s")
    assert states() == {("Running", "")}


def test_the_api_server_survives_being_killed(control_plane: ControlPlane, kube_namespace: str) -> None:
    control_plane.kubectl("create", "configmap", "kept", "-n", kube_namespace)
    server, before = control_plane.server, control_plane.process_ids["kube-apiserver"]
    control_plane.restart_apiserver()
    assert control_plane.server == server
    assert control_plane.process_ids["kube-apiserver"] != before
    assert control_plane.get("configmap", "kept", "-n", kube_namespace)["metadata"]["name"] == "kept"


@pytest.mark.usefixtures("node")
def test_controllers_and_nodes_go_on_after_a_restart(control_plane: ControlPlane, kube_namespace: str) -> None:
    control_plane.restart_apiserver()
    control_plane.apply(deployment(kube_namespace, "web"))
    control_plane.kubectl("rollout", "status", "deployment/web", "-n", kube_namespace, "--timeout=60s")


def test_a_pod_replaced_under_its_name_is_not_deleted(
    control_plane: ControlPlane, kube_namespace: str, node: str
) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "static", "namespace": kube_namespace},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "registry.example/main:1"}]},
    }
    control_plane.apply(pod)
    running = ("wait", "--for=jsonpath={.status.phase}=Running", "pod/static", "-n", kube_namespace, "--timeout=20s")
    for _ in range(10):
        control_plane.kubectl(*running)
        control_plane.kubectl("delete", "pod/static", "-n", kube_namespace, "--force", "--wait=false")
        control_plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    control_plane.kubectl(*running)


def test_what_a_node_reports_about_itself_is_kept(control_plane: ControlPlane, node: str) -> None:
    patch = '{"status": {"nodeInfo": {"kubeletVersion": "v1.34.3-of.1"}}}'
    control_plane.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", patch)
    not_ready = '{"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Test"}]}}'
    control_plane.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p", not_ready)
    control_plane.kubectl("wait", "--for=condition=Ready", f"node/{node}", "--timeout=30s")
    assert control_plane.get("node", node)["status"]["nodeInfo"]["kubeletVersion"] == "v1.34.3-of.1"


def test_requests_of_one_user_can_be_counted(control_plane: ControlPlane, kube_namespace: str) -> None:
    mark = control_plane.audit_mark()
    control_plane.kubectl("create", "configmap", "seen", "-n", kube_namespace, "--from-literal=key=value")
    control_plane.kubectl("get", "configmap", "seen", "-n", kube_namespace)
    events = [e for e in control_plane.audit_events(mark, user="admin") if e.kube_namespace == kube_namespace]
    assert [(e.verb, e.resource, e.code, e.is_write) for e in events] == [
        ("create", "configmaps", 201, True),
        ("get", "configmaps", 200, False),
    ]
    assert events[0].body["data"] == {"key": "value"}
    assert control_plane.audit_events(mark, user="kwok") == []


def test_rbac_decides_about_service_accounts(control_plane: ControlPlane, kube_namespace: str) -> None:
    control_plane.kubectl("create", "serviceaccount", "reader", "-n", kube_namespace)
    kubeconfig = control_plane.kubeconfig_for_service_account(kube_namespace, "reader")
    as_reader = (f"--kubeconfig={kubeconfig}", f"--namespace={kube_namespace}")
    with pytest.raises(KubectlFailed, match="cannot list resource"):
        control_plane.kubectl("get", "pods", *as_reader)
    subject = f"--serviceaccount={kube_namespace}:reader"
    control_plane.kubectl("create", "rolebinding", "reader", "--clusterrole=view", subject, "-n", kube_namespace)

    def may_list() -> bool:
        # kubectl answers "no" with an exit code, and the authorizer learns of a binding a moment after its creation.
        with contextlib.suppress(KubectlFailed):
            return control_plane.kubectl("auth", "can-i", "list", "pods", *as_reader).strip() == "yes"
        return False

    eventually(may_list)


def test_the_products_crds_are_served(control_plane: ControlPlane) -> None:
    names = {crd["metadata"]["name"] for crd in control_plane.get("crds")["items"]}
    assert {"clusterversions.config.openfuyao.com", "commands.bkeagent.bocloud.com"} <= names


def test_two_run_at_once_and_leave_nothing(control_plane: ControlPlane, control_plane_binaries: Binaries) -> None:
    with ControlPlane(control_plane_binaries, users={"alice": ["developers"]}) as other:
        assert other.server != control_plane.server
        assert "developers" in other.kubectl("auth", "whoami", user="alice")
        other.kubectl("create", "namespace", "only-here")
        process_ids, data_dir = list(other.process_ids.values()), other.data_dir
        assert len(process_ids) == 5
    with pytest.raises(KubectlFailed, match="not found"):
        control_plane.kubectl("get", "namespace", "only-here")
    assert not data_dir.exists()
    assert not any(is_running(process_id) for process_id in process_ids)


def test_nothing_outlives_a_killed_test_run(control_plane_binaries: Binaries) -> None:
    program = (
        "import sys; from controlplane.control_plane import ControlPlane\n"
        "plane = ControlPlane(); plane.start(with_controllers=False)\n"
        "print(plane.data_dir, *plane.process_ids.values(), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program]
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as run:
        assert run.stdout
        data_dir, *process_ids = run.stdout.readline().split()
        assert all(is_running(int(process_id)) for process_id in process_ids)
        run.send_signal(signal.SIGKILL)
    eventually(lambda: not Path(data_dir).exists())
    eventually(lambda: not any(is_running(int(process_id)) for process_id in process_ids))


def is_running(process_id: int) -> bool:
    """Whether a process exists and is more than a zombie that nobody has waited for."""
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
