"""Pytest plugin: a simulated cluster, a worker in this process, and the verbs that a test needs to play an upgrade."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError

from hopline.domain.plan import SchedulingMode
from hopline.domain.resources import BKE_CLUSTER, CLUSTER_VERSION, Document, ObjectRef
from hopline.domain.status import RunState, UpgradeStatus
from hopline.domain.wire import ClusterKey
from hopline.files.releases import DirectoryReleaseSource
from hopline.runtime.settings import Settings
from hopline.sim import open_simulation
from hopline.sim.clusters import SimulatedClusters
from hopline.sim.scenarios import EXAMPLE_CONTROLLER_IMAGE, Durations, create_scenario
from hopline.wiring import Ports
from looking import PATIENCE
from worker.composition import build_worker
from workflows.cluster_upgrade import ClusterUpgrade
from workflows.identifiers import upgrade_workflow_id
from workflows.messages import UpgradeInput

EXAMPLES = Path(__file__).parent.parent / "deploy" / "examples"
EAST = ClusterKey(kube_namespace="east", name="east")
QUICK = Durations(rollout=0.05, command=0.05, pick_up=0.0, static_pod=0.05, install=0.05)


class UpgradeLab:
    """One simulated cluster with its own task queue and examples folder; workers come and go."""

    def __init__(self, client: Client, task_queue: str, folder: Path, cluster: ClusterKey = EAST) -> None:
        self.client = client
        self.task_queue = task_queue
        self.cluster = cluster
        self.folder = folder
        self.examples = folder / "examples"
        self.file = folder / "simulation.db"
        self.clusters: SimulatedClusters
        self.changes: dict[str, Any] = {}
        """Settings of the next worker that differ."""

    def settings(self, mode: SchedulingMode = SchedulingMode.BATCHES, slots: int = 8) -> Settings:
        """What a worker process would read from its environment."""
        return Settings(
            task_queue=self.task_queue,
            simulation=self.file,
            releases=self.examples / "releases",
            mode=mode,
            slots=slots,
            own_images=EXAMPLE_CONTROLLER_IMAGE,
        ).model_copy(update=self.changes)

    @asynccontextmanager
    async def worker(
        self, mode: SchedulingMode = SchedulingMode.BATCHES, slots: int = 8, clusters: SimulatedClusters | None = None
    ) -> AsyncIterator[None]:
        """A worker polls while the block lasts."""
        settings = self.settings(mode, slots)
        releases = DirectoryReleaseSource(settings.releases_directory)
        ports = Ports(clusters=clusters or self.clusters, releases=releases)
        async with build_worker(self.client, ports, settings, search_attributes=True):
            yield

    async def start(self, desired: str, **more: Any) -> WorkflowHandle[Any, Any]:
        """Start the run as the temporal CLI would."""
        request = UpgradeInput(cluster=self.cluster, desired_version=desired, **more)
        return await self.client.start_workflow(
            ClusterUpgrade.run,
            request.model_dump(mode="json", exclude_none=True),
            id=upgrade_workflow_id(self.cluster),
            task_queue=self.task_queue,
        )

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        """The one run of the cluster, whichever execution it is in."""
        return self.client.get_workflow_handle(upgrade_workflow_id(self.cluster))

    async def status(self) -> UpgradeStatus:
        """The status document."""
        return await self.handle.query(ClusterUpgrade.status)

    async def until(self, state: RunState, seconds: float = PATIENCE) -> UpgradeStatus:
        """Wait for a state of the run; for one that ends it, until its last word is stored and it is closed."""
        status = await self.until_status(lambda status: status.state is state, seconds)
        if state.is_final:
            with suppress(WorkflowFailureError):
                await self.handle.result()
        return status

    async def until_status(self, enough: Callable[[UpgradeStatus], bool], seconds: float = PATIENCE) -> UpgradeStatus:
        """Wait until the status document satisfies a condition."""
        seen: UpgradeStatus | None = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    seen = await self.status()
                    if enough(seen):
                        return seen
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"never came there; last seen: {seen}") from None

    async def failure(self) -> ApplicationError:
        """How a run that must not succeed has ended."""
        with pytest.raises(WorkflowFailureError) as caught:
            await self.handle.result()
        cause = caught.value.cause
        assert isinstance(cause, ApplicationError), cause
        return cause

    async def version(self) -> Document:
        """The ClusterVersion."""
        return await self._get(CLUSTER_VERSION)

    async def bke(self) -> Document:
        """The BKECluster."""
        return await self._get(BKE_CLUSTER)

    async def _get(self, kind: Any) -> Document:
        ref = ObjectRef(kind=kind, name=self.cluster.name, kube_namespace=self.cluster.kube_namespace)
        return await self.clusters.management.get(ref)

    async def patch(self, kind: Any, body: Document, subresource: str = "") -> Document:
        """Change the ClusterVersion or BKECluster as a person would."""
        ref = ObjectRef(kind=kind, name=self.cluster.name, kube_namespace=self.cluster.kube_namespace)
        return await self.clusters.management.patch(ref, body, subresource=subresource)


LabFactory = Callable[..., Awaitable[UpgradeLab]]


@pytest_asyncio.fixture
async def make_lab(temporal_client: Client, task_queue: str, tmp_path: Path) -> AsyncIterator[LabFactory]:
    """Makes simulated clusters of `deploy/examples`; their runs are ended with the test."""
    made: list[UpgradeLab] = []

    async def make(
        nodes: tuple[int, int] | None = (3, 2),
        durations: Durations = QUICK,
        name: str = "east",
        self_managed: bool = False,
    ) -> UpgradeLab:
        folder = tmp_path / name
        folder.mkdir()
        lab = UpgradeLab(temporal_client, task_queue, folder)
        shutil.copytree(EXAMPLES, lab.examples)
        rename(lab.examples / "cluster.yaml", task_queue)
        lab.cluster = ClusterKey(kube_namespace="east", name=f"east-{task_queue}")
        create_scenario(lab.file, examples=lab.examples, nodes=nodes, durations=durations, self_managed=self_managed)
        lab.clusters = open_simulation(lab.file)
        made.append(lab)
        return lab

    yield make
    for lab in made:
        await end_run(lab)
        await lab.clusters.aclose()


def rename(file: Path, suffix: str) -> None:
    """Every test has a cluster name, and so a workflow id, of its own on the shared server."""
    text = file.read_text()
    file.write_text(
        text.replace("name: east\n", f"name: east-{suffix}\n").replace(
            "cluster.x-k8s.io/cluster-name: east\n", f"cluster.x-k8s.io/cluster-name: east-{suffix}\n"
        )
    )


async def end_run(lab: UpgradeLab) -> None:
    """No run outlives its test."""
    try:
        await lab.handle.terminate("the test is over")
    except Exception as error:  # noqa: BLE001 - the run may be closed, or may never have been started
        assert "not found" in str(error) or "completed" in str(error), error


@pytest_asyncio.fixture
async def lab(make_lab: LabFactory) -> UpgradeLab:
    """A quick cluster of three control-plane and two worker nodes at v26.06-rc.2."""
    return await make_lab()
