"""The lab: a cluster on an API server of its own beside the management cluster, and what `make lab` gives a person.

What one API server is enough for is proven in tests/e2e.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controlplane.agent_script import AgentScript, Outcome
from controlplane.audit import AuditEvent
from controlplane.binaries import Binaries, Program
from controlplane.lab_site import ROOT, LabSite

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
TARGET = "v26.06"
WORKER_ACCOUNT = "system:serviceaccount:hopline-system:hopline-worker"


def eventually(condition: Callable[[], bool], site: LabSite, seconds: float = 180) -> None:
    """Waits for a condition that nothing announces; shows the worker's log when it never holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"the condition never held; {(site.data_dir / 'worker.log').read_text()[-3000:]}")
        time.sleep(0.2)


def desire(site: LabSite, version: str) -> None:
    """Types the guide's command."""
    wish = json.dumps({"spec": {"desiredVersion": version}})
    site.control_plane.kubectl("patch", "clusterversion", "east", "-n", "east", "--type=merge", "-p", wish)


def cluster_version(site: LabSite) -> dict[str, Any]:
    status: dict[str, Any] = site.control_plane.get("clusterversion", "east", "-n", "east")["status"]
    return status


def is_ready_at(site: LabSite, version: str) -> bool:
    status = cluster_version(site)
    return (status["currentVersion"], status["phase"]) == (version, "Ready")


def kubelet_versions(site: LabSite) -> set[str]:
    return {node["status"]["nodeInfo"]["kubeletVersion"] for node in site.cluster.target.get("nodes")["items"]}


def assert_walked_once(site: LabSite) -> None:
    """Both hops are recorded; each node is new, was given each Command once, and never two at one time.

    Two hops give a node the same arguments, so that executions are told apart by their Command; a Command that was made
    again for the same work shows as more Commands than hops.
    """
    hops = [(hop["from"], hop["to"], hop["status"]) for hop in cluster_version(site)["upgradeHistory"]]
    assert hops == [("v26.06-rc.2", "v26.06-rc.3", "Succeeded"), ("v26.06-rc.3", TARGET, "Succeeded")]
    assert kubelet_versions(site) == {"v1.34.5-of.1"}
    executions = site.script.executions
    assert {execution.outcome for execution in executions} == {Outcome.SUCCEEDED}
    assert site.script.overlaps() == []
    assert len({(e.node, e.command, e.arguments) for e in executions}) == len(executions)
    assert max(site.script.times_run().values()) <= 2


def applies(site: LabSite) -> list[AuditEvent]:
    """The worker's writes of Deployments and DaemonSets that were no dry run."""
    return [
        event
        for event in site.control_plane.audit_events(user=WORKER_ACCOUNT)
        if event.resource in ("deployments", "daemonsets") and event.is_write and not event.is_dry_run
    ]


def test_a_workload_cluster_is_reached_through_its_secret(control_plane_binaries: Binaries) -> None:
    with LabSite(control_plane_binaries, AgentScript(seconds=0.1), workload=True) as site:
        desire(site, TARGET)
        eventually(lambda: is_ready_at(site, TARGET), site)
        assert_walked_once(site)
        assert site.control_plane.get("nodes")["items"] == []
        assert applies(site) == []


def test_the_lab_starts_and_leaves_nothing(control_plane_binaries: Binaries) -> None:
    command = [sys.executable, "-m", "lab", "--seconds", "0.1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests"), "KUBEBUILDER_ASSETS": ""}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as lab:
        assert lab.stdout
        settings: dict[str, str] = {}
        for line in lab.stdout:
            if line.startswith("  export "):
                name, _, value = line.removeprefix("  export ").strip().partition("=")
                settings[name] = value
            if line.startswith("Ctrl-C ends"):
                break
        kubectl = [control_plane_binaries.path(Program.KUBECTL), "get", "clusterversion", "-n", "east", "-o", "name"]
        answer = subprocess.run(kubectl, env=os.environ | settings, capture_output=True, text=True, check=True)
        assert answer.stdout.strip() == "clusterversion.config.openfuyao.com/east"
        folders = [Path(settings["KUBECONFIG"]).parent, Path(settings["HOPLINE_RELEASES"]).parent]
        assert all(folder.is_dir() for folder in folders)
        lab.send_signal(signal.SIGINT)
        lab.stdout.read()
    assert lab.returncode == 0
    assert not any(folder.exists() for folder in folders)
