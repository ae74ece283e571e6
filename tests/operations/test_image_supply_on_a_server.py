"""The guide's two lines, typed in a shell against the real API server, leave a list that the plan reads."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

from bundle_lab import version_config
from controlplane.control_plane import ControlPlane
from hopline.domain.cluster import ClusterFacts, cluster_facts
from hopline.domain.image_supply import ImageWish
from hopline.domain.plan import Severity, SupplyMode
from hopline.operations.image_supply import SeenImages, review_supply
from hopline.ports import ClusterClient

VERSION = "v26.06"
LINES = """
kubectl create configmap cm.v26.06 -n openfuyao-patch \\
  --from-literal=v26.06="$(cat VersionConfig-v26.06.yaml)"
kubectl patch configmap bke-config -n cluster-system --type merge \\
  -p '{"data":{"patch.v26.06":"cm.v26.06"}}'
"""


def offline_cluster() -> ClusterFacts:
    repository = {"domain": "deploy.bocloud.k8s", "port": "40443", "prefix": "kubernetes"}
    document = {
        "metadata": {"namespace": "east", "name": "east"},
        "spec": {"clusterConfig": {"cluster": {"imageRepo": repository}}},
    }
    return cluster_facts(document, None, [])


async def test_the_lines_of_the_guide(control_plane: ControlPlane, client: ClusterClient, tmp_path: Path) -> None:
    for kube_namespace in ("openfuyao-patch", "cluster-system"):
        control_plane.kubectl("create", "namespace", kube_namespace)
    control_plane.kubectl("create", "configmap", "bke-config", "-n", "cluster-system")
    seen, facts = SeenImages(), offline_cluster()
    seen.wishes = [
        ImageWish(VERSION, f"deploy.bocloud.k8s:40443/kubernetes/{name}", "a test") for name in ("web:v2", "other:v1")
    ]
    _, (missing,) = await review_supply(client.get, facts, [VERSION], seen)
    assert missing.severity is Severity.INFO
    (tmp_path / "VersionConfig-v26.06.yaml").write_text(version_config("cr.openfuyao.cn", VERSION))
    environment = os.environ | {
        "KUBECONFIG": str(control_plane.kubeconfig),
        "PATH": f"{Path(control_plane.kubectl_program).parent}:{os.environ['PATH']}",
    }
    await asyncio.to_thread(subprocess.run, ["sh", "-ec", LINES], cwd=tmp_path, env=environment, check=True, timeout=60)
    supply, (unlisted,) = await review_supply(client.get, facts, [VERSION], seen)
    assert supply.mode is SupplyMode.OFFLINE
    assert [(one.version, one.object) for one in supply.lists] == [(VERSION, "ConfigMap openfuyao-patch/cm.v26.06")]
    assert supply.lists[0].images > 10
    assert "kubernetes/other:v1" in unlisted.message
    assert "kubernetes/web:v2" not in unlisted.message
