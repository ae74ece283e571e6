"""`hopline check manifests --kubeconfig` on a real API server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from controlplane.control_plane import ControlPlane

MANIFEST = """
apiVersion: config.openfuyao.com/v1alpha1
kind: UpgradePath
metadata: {name: a, namespace: b}
---
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: a, namespace: b}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: a, namespace: b}
---
apiVersion: apps/v1
kind: Deploymint
metadata: {name: a, namespace: b}
"""


def test_a_cluster_says_which_kinds_it_serves(control_plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MANIFEST)
    command = [sys.executable, "-m", "starter", "check", "manifests", str(tmp_path), "-o", "json"]
    done = subprocess.run(
        [*command, "--kubeconfig", str(control_plane.kubeconfig)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    found = {(f["object"], f["field"], f["severity"], f["line"]) for f in json.loads(done.stdout)["findings"]}
    assert found == {
        ("UpgradePath b/a", "metadata.namespace", "warns", 4),
        ("PodDisruptionBudget b/a", "apiVersion", "warns", 6),
        ("PodDisruptionBudget b/a", "kind", "blocks", 7),
        ("PodMonitor b/a", "kind", "info", 11),
        ("Deploymint b/a", "kind", "blocks", 15),
    }
