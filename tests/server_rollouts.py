"""Node rollouts on a real API server with simulated agents: what the tests of them have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from controlplane.agent_script import AgentScript
from controlplane.agents import NodeAgents
from controlplane.binaries import Binaries
from controlplane.control_plane import ControlPlane
from controlplane.installed_cluster import InstalledCluster, install_cluster
from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.plan import Pool
from hopline.domain.release import InlineHandler
from hopline.kube.client import connect
from hopline.kube.clusters import KubeClusters
from hopline.kube.credentials import default_source
from hopline.operations.one_controller import OneController
from hopline.sim.scenarios import EXAMPLE_CONTROLLER_IMAGE
from rollout_lab import VERSIONS, Handle, rollout_input, rollout_worker, start_rollout

CRDS = Path(__file__).parents[1] / "deploy" / "crds"
_FIELDS = {
    "etcdVersion": InlineHandler.ETCD,
    "kubernetesVersion": InlineHandler.MASTER,
    "containerdVersion": InlineHandler.CONTAINERD,
}


@contextmanager
def installed_with_agents(binaries: Binaries, script: AgentScript, folder: Path) -> Iterator[InstalledCluster]:
    """The example cluster managing itself, at the versions from which it is upgraded."""
    with ControlPlane(binaries) as running:
        running.install_crds(CRDS)
        cluster = install_cluster(running, folder / "releases")
        with NodeAgents(running.kubeconfig, cluster.key.kube_namespace, cluster.nodes, script):
            yield cluster


@asynccontextmanager
async def opened(installed: InstalledCluster) -> AsyncIterator[KubeClusters]:
    """Its clients."""
    management = await connect(default_source(installed.management.kubeconfig))
    clusters = KubeClusters(management, management_cluster=installed.key)
    yield clusters
    await clusters.aclose()


class ServerRollouts:
    """Rollouts on the installed cluster."""

    def __init__(self, client: Client, task_queue: str, installed: InstalledCluster, clusters: KubeClusters) -> None:
        self.client, self.task_queue, self.clusters = client, task_queue, clusters
        self.key, self.server = installed.key, installed.management
        self.where = ("-n", installed.key.kube_namespace)

    def worker(self) -> Worker:
        """Nodes of kwok have no etcd at their addresses, so an operator would have to look."""
        policy = ControllerPolicy(own_images=(EXAMPLE_CONTROLLER_IMAGE,))
        alone = OneController(self.clusters.management, policy)
        return rollout_worker(self.client, self.task_queue, self.clusters, alone=alone, etcd_required=False)

    async def start(self, handler: InlineHandler, pool: Pool, *, seconds: int = 120, **more: Any) -> Handle:
        """Start one rollout; `more` as in `RolloutInput`."""
        request = rollout_input(self.key, handler, pool, seconds=seconds, **more)
        return await start_rollout(self.client, self.task_queue, request)

    def declare(self) -> None:
        """As the opening of a hop does: agents read their versions from there."""
        pairs = ",".join(f'"{field}":"{VERSIONS[handler]}"' for field, handler in _FIELDS.items())
        body = f'{{"spec":{{"clusterConfig":{{"cluster":{{{pairs}}}}}}}}}'
        self.server.kubectl("patch", "bkecluster", self.key.name, *self.where, "--type=merge", "-p", body)
