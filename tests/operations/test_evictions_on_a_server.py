"""Every answer to an eviction told apart in what a drain says, through a proxy before the real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from controlplane.control_plane import ControlPlane
from controlplane.nodes import NodeShape
from eviction_proxy import EvictionProxy, status
from hopline.domain.node_strategy import DrainPolicy, DrainRules
from hopline.kube.client import KubeClusterClient, connect
from hopline.kube.credentials import KubeconfigFile
from hopline.operations.node_cordons import cordon, uncordon
from hopline.operations.node_drain import DrainObservation, NodeDrain
from hopline.operations.node_watch import NodePhase
from looking import PATIENCE

NODES = ("evict-1", "evict-2")
RUN = "cluster-upgrade/evictions"
BUDGET = {"reason": "DisruptionBudget", "message": "The disruption budget web needs 3 healthy pods and has 3 currently"}
CANNOT = "Cannot evict pod as it would violate the pod's disruption budget."
ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "429 with a budget": (
        status(429, "TooManyRequests", CANNOT, BUDGET),
        "its disruption budget does not allow it now (Cannot evict pod as it would violate the pod's disruption budget."
        " The disruption budget web needs 3 healthy pods",
    ),
    "429 without one": (status(429, "TooManyRequests", "slow down"), "overloaded, no budget is in the way (slow down)"),
    "500, two budgets": (
        status(500, "InternalError", "This pod has more than one PodDisruptionBudget, which the eviction subresource "
               "does not support."),
        "more than one PodDisruptionBudget is over it",
    ),
    "500, a fault": (status(500, "InternalError", "etcd is away"), "the API server gave no answer (etcd is away)"),
    "403 by a webhook": (
        status(403, "Forbidden", 'admission webhook "guard.example.com" denied the request: not at noon'),
        "an admission webhook refuses it",
    ),
    "403 by RBAC": (status(403, "Forbidden", "pods is forbidden"), "this account may not evict it"),
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """Two nodes, and a workload on the first."""
    control_plane.create_nodes(
        NodeShape(name, f"192.0.2.{number}", "v1.34.3") for number, name in enumerate(NODES, start=60)
    )
    labels = {"app": "web"}
    spec = {"containers": [{"name": "c", "image": "i:1"}], "nodeSelector": {"kubernetes.io/hostname": NODES[0]}}
    template = {"metadata": {"labels": labels}, "spec": spec}
    control_plane.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        }
    )
    control_plane.kubectl("rollout", "status", "deployment/web", "-n", "default", "--timeout=60s")
    return control_plane


@pytest_asyncio.fixture
async def proxy(cluster: ControlPlane, tmp_path: Path) -> AsyncIterator[tuple[EvictionProxy, KubeClusterClient]]:
    made = EvictionProxy(cluster.kubeconfig)
    async with made.running(tmp_path) as kubeconfig:
        client = await connect(KubeconfigFile(kubeconfig))
        await cordon(client, NODES[0], RUN)
        yield made, client
        await uncordon(client, NODES[0], RUN)
        await client.aclose()


@pytest.mark.parametrize("name", ANSWERS)
async def test_each_answer_has_its_own_words(proxy: tuple[EvictionProxy, KubeClusterClient], name: str) -> None:
    server, client = proxy
    server.answer, words = ANSWERS[name]
    rules = DrainRules(policy=DrainPolicy.WAIT, timeout_seconds=2)
    drain = NodeDrain(client, NODES[0], rules, datetime.now(UTC) + timedelta(seconds=2), RUN)
    seen = await drain.carry_on(DrainObservation(), timeout_seconds=20, quiet_seconds=20)
    assert seen.phase is NodePhase.FAILED
    assert words in seen.message
    assert server.evictions == 2


async def test_a_pod_that_is_gone_or_another_one_by_now_is_looked_at_again(
    proxy: tuple[EvictionProxy, KubeClusterClient],
) -> None:
    server, client = proxy
    rules = DrainRules(policy=DrainPolicy.WAIT, timeout_seconds=30)
    for answer in (status(404, "NotFound", 'pods "web" not found'), status(409, "Conflict", "the uid is another one")):
        server.answer = answer
        drain = NodeDrain(client, NODES[0], rules, datetime.now(UTC) + timedelta(seconds=30), RUN)
        seen = await drain.carry_on(DrainObservation(), timeout_seconds=2, quiet_seconds=2)
        assert seen.phase is NodePhase.WAITING
    server.answer = None
    drain = NodeDrain(client, NODES[0], rules, datetime.now(UTC) + timedelta(seconds=30), RUN)
    async with asyncio.timeout(PATIENCE):
        seen = await drain.carry_on(DrainObservation(), timeout_seconds=35, quiet_seconds=35)
    assert (seen.phase, seen.message) == (NodePhase.DONE, f"{NODES[0]} is drained")
