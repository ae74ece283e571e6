"""Quick upgrades for tests of the story: components of one object each, on one control-plane and one worker node."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHistory
from temporalio.exceptions import ApplicationError

from hopline.domain.resources import (
    BKE_CLUSTER,
    EVENT,
    RELEASE_IMAGE,
    UPGRADE_PATH,
    Document,
    Kind,
    ObjectRef,
)
from hopline.domain.status import RunState, UpgradeStatus
from hopline.domain.wire import ClusterKey
from hopline.sim import open_simulation
from hopline.sim.journal import Effect, EffectType
from hopline.sim.kinds import MANAGEMENT
from hopline.sim.releases import CLUSTER, COMPONENT_NAMESPACE, small_components, write_examples
from hopline.sim.scenarios import CATALOGUE_FILE, CLUSTER_FILE, RELEASES, Durations, create_scenario
from looking import PATIENCE, Seen, until_enough
from starter.requests import Requests
from upgrade_lab import EXAMPLES, QUICK, UpgradeLab, rename

RC2, RC3, FINAL = VERSIONS = ("v26.06-rc.2", "v26.06-rc.3", "v26.06")
CATALOGUE_NAME = "openfuyao-upgrade-paths"

GRAPH: Mapping[str, tuple[str, ...]] = {
    "base": (),
    "left": ("base",),
    "right": ("base",),
    "top": ("left", "right"),
}
"""Three batches: base; left and right; top."""

Prepare = Callable[[Path], None]


class RunEndSeen(NamedTuple):
    """How a run ended."""

    type: str
    message: str


class SmallLab(UpgradeLab):
    """A simulated cluster `small` of which every component is one object named like it."""

    @property
    def requests(self) -> Requests:
        """What the terminal and the watcher ask with."""
        return Requests(self.client, self.task_queue)

    async def end(self) -> RunEndSeen:
        """How the newest run has ended: the type of its error, or `Done`."""
        try:
            await self.handle.result()
        except WorkflowFailureError as failure:
            cause = failure.cause
            assert isinstance(cause, ApplicationError), cause
            return RunEndSeen(str(cause.type), cause.message)
        return RunEndSeen("Done", "")

    async def close_status(self) -> WorkflowExecutionStatus | None:
        """How the newest execution stands with the Temporal service."""
        return (await self.handle.describe()).status

    async def histories(self, first_run_id: str) -> list[WorkflowHistory]:
        """Every execution of a run, from the first one on."""
        found: list[WorkflowHistory] = []
        run_id = first_run_id
        while run_id:
            history = await self.client.get_workflow_handle(self.handle.id, run_id=run_id).fetch_history()
            found.append(history)
            last = history.events[-1]
            run_id = last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
        return found

    async def activity_ids(self, first_run_id: str) -> list[str]:
        """Every activity that a run has asked for, as `<hop>/<component>/<step>/<call>` where it is a component's."""
        return [
            event.activity_task_scheduled_event_attributes.activity_id
            for history in await self.histories(first_run_id)
            for event in history.events
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        ]

    def writes(self, subject: str = "", *, server: str = MANAGEMENT, verb: str = "") -> list[Effect]:
        """What clients changed on a server, in order; `subject` as `Kind` or `Kind namespace/name`."""
        return [
            effect
            for effect in self.clusters.journal(EffectType.WRITE)
            if effect.server == server
            and subject in ("", effect.subject, effect.subject.split()[0])
            and verb in ("", effect.verb)
        ]

    def applied(self, component: str) -> list[Effect]:
        """How often the object of a component was really changed."""
        place = f" {COMPONENT_NAMESPACE}/{component}"
        return [one for one in self.writes(server=str(self.cluster)) if one.subject.endswith(place)]

    async def events(self, reason: str = "") -> list[Document]:
        """The Kubernetes Events, optionally of one reason."""
        listing = await self.clusters.management.list(EVENT, kube_namespace=self.cluster.kube_namespace)
        return [event for event in listing.items if not reason or event["reason"] == reason]

    async def annotate(self, kind: Kind, changes: Mapping[str, str | None]) -> Document:
        """Change annotations as a person would."""
        return await self.patch(kind, {"metadata": {"annotations": dict(changes)}})

    async def annotations(self, kind: Kind = BKE_CLUSTER) -> dict[str, str]:
        """All annotations of the BKECluster or ClusterVersion."""
        document = await (self.bke() if kind is BKE_CLUSTER else self.version())
        return dict(document["metadata"].get("annotations") or {})

    async def delete(self, kind: Kind) -> None:
        """Delete the BKECluster or ClusterVersion."""
        ref = ObjectRef(kind=kind, name=self.cluster.name, kube_namespace=self.cluster.kube_namespace)
        await self.clusters.management.delete(ref)

    async def forget_release_image(self, version: str) -> None:
        """Delete the ReleaseImage of a version."""
        name = f"release-{version}"
        ref = ObjectRef(kind=RELEASE_IMAGE, name=name, kube_namespace=self.cluster.kube_namespace)
        await self.clusters.management.delete(ref)

    async def edit_catalogue(self, change: Callable[[list[dict[str, Any]]], None]) -> Document:
        """Change `spec.paths` of the catalogue on the server."""
        ref = ObjectRef(kind=UPGRADE_PATH, name=CATALOGUE_NAME)
        found = await self.clusters.management.get(ref)
        change(found["spec"]["paths"])
        return await self.clusters.management.patch(ref, {"spec": {"paths": found["spec"]["paths"]}})

    async def block(self, source: str, target: str, *, blocked: bool = True) -> None:
        """Block an edge of the catalogue, or unblock it."""

        def change(paths: list[dict[str, Any]]) -> None:
            edge = next(one for one in paths if (one["from"], one["to"]) == (source, target))
            edge["blocked"] = blocked

        await self.edit_catalogue(change)

    async def held(self) -> UpgradeStatus:
        """Wait for the first hold."""
        return await self.until(RunState.HELD, PATIENCE)

    async def held_and_told(self) -> UpgradeStatus:
        """Wait for the first hold, and until objects and events tell of it: events are the last writes of a hold."""
        status = await self.held()
        await self.until_seen(lambda: self.events("UpgradeHeld"), bool)
        return status

    async def held_again(self, before: UpgradeStatus) -> UpgradeStatus:
        """Wait for the next hold after one that was seen."""
        return await self.until_status(
            lambda seen: seen.state is RunState.HELD and seen.since != before.since, PATIENCE
        )

    async def until_record(self, enough: Callable[[Document], bool], seconds: float = PATIENCE) -> Document:
        """Wait until the BKECluster shows something; what is published follows the work."""
        return await self.until_seen(self.bke, enough, seconds)

    async def until_version(self, enough: Callable[[Document], bool], seconds: float = PATIENCE) -> Document:
        """Wait until the ClusterVersion shows something."""
        return await self.until_seen(self.version, enough, seconds)

    @staticmethod
    async def until_seen(
        look: Callable[[], Awaitable[Seen]], enough: Callable[[Seen], bool], seconds: float = PATIENCE
    ) -> Seen:
        """Look until it is enough."""
        return await until_enough(look, enough, seconds)

    @staticmethod
    def declared(bke: Document) -> dict[str, str]:
        """The versions that node agents read from the BKECluster's spec."""
        return dict(bke["spec"]["clusterConfig"]["cluster"])

    @staticmethod
    def end_state(version: Document) -> tuple[str, str]:
        """Current version and phase of a ClusterVersion."""
        return version["status"]["currentVersion"], version["status"]["phase"]

    def object_file(self, version: str, component: str) -> Path:
        """The manifest of a component in a bundle."""
        return self.examples / RELEASES / version / "components" / component / version / "object.yaml"


class SmallLabFactory(Protocol):
    """Makes labs; everything of them ends with the test."""

    async def __call__(
        self,
        graph: Mapping[str, Sequence[str]] = ...,
        versions: Sequence[str] = ...,
        *,
        roll_out: bool = ...,
        durations: Durations = ...,
        name: str = ...,
        nodes: tuple[int, int] = ...,
        prepare: Prepare | None = ...,
    ) -> SmallLab:
        """A cluster at the first version, and releases for a hop to each of the others."""
        ...


def build_lab(
    client: Client,
    task_queue: str,
    folder: Path,
    *,
    graph: Mapping[str, Sequence[str]] = GRAPH,
    versions: Sequence[str] = VERSIONS,
    roll_out: bool = False,
    durations: Durations = QUICK,
    nodes: tuple[int, int] = (1, 1),
    prepare: Prepare | None = None,
) -> SmallLab:
    """Write the folder of examples, let `prepare` change it, and seed the simulation."""
    folder.mkdir()
    lab = SmallLab(client, task_queue, folder)
    write_examples(lab.examples, versions, small_components(graph, roll_out=roll_out))
    lab.cluster = ClusterKey(kube_namespace=CLUSTER.kube_namespace, name=f"{folder.name}-{task_queue}")
    file = lab.examples / CLUSTER_FILE
    file.write_text(file.read_text().replace(f'"name": "{CLUSTER.name}"', f'"name": "{lab.cluster.name}"'))
    if prepare is not None:
        prepare(lab.examples)
    create_scenario(lab.file, examples=lab.examples, nodes=nodes, durations=durations)
    lab.clusters = open_simulation(lab.file)
    return lab


def build_sample(
    client: Client, task_queue: str, folder: Path, *, nodes: tuple[int, int] = (1, 1), durations: Durations = QUICK
) -> SmallLab:
    """The cluster of `deploy/examples` with its six batches, on few nodes."""
    folder.mkdir()
    lab = SmallLab(client, task_queue, folder)
    shutil.copytree(EXAMPLES, lab.examples)
    rename(lab.examples / CLUSTER_FILE, task_queue)
    lab.cluster = ClusterKey(kube_namespace=CLUSTER.kube_namespace, name=f"{CLUSTER.name}-{task_queue}")
    create_scenario(lab.file, examples=lab.examples, nodes=nodes, durations=durations)
    lab.clusters = open_simulation(lab.file)
    return lab


def edit_json(file: Path, change: Callable[[dict[str, Any]], None], *, document: int = 0) -> None:
    """Change one document of a file that `write_examples` wrote."""
    documents = [json.loads(text) for text in file.read_text().split("\n---\n")]
    change(documents[document])
    file.write_text("\n---\n".join(json.dumps(one, indent=1) for one in documents) + "\n")


def strategy(component: str, versions: Iterable[str] = VERSIONS, **fields: Any) -> Prepare:
    """A preparation that gives a component an `upgradeStrategy`."""

    def prepare(examples: Path) -> None:
        for version in versions:
            file = examples / RELEASES / version / "components" / component / version / "component.yaml"
            edit_json(file, lambda document: document["spec"].update(upgradeStrategy=fields))

    return prepare


def seeded(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Prepare:
    """A preparation that changes BKECluster and ClusterVersion before the simulation begins."""

    def prepare(examples: Path) -> None:
        file = examples / CLUSTER_FILE
        bke, version = (json.loads(text) for text in file.read_text().split("\n---\n"))
        change(bke, version)
        file.write_text("\n---\n".join(json.dumps(one, indent=1) for one in (bke, version)) + "\n")

    return prepare


def with_checks(**checks: Any) -> Prepare:
    """A preparation that gives every edge `preCheck` and `postCheck`."""

    def prepare(examples: Path) -> None:
        def change(document: dict[str, Any]) -> None:
            for edge in document["spec"]["paths"]:
                edge.update(checks)

        edit_json(examples / CATALOGUE_FILE, change)

    return prepare


def both(*preparations: Prepare) -> Prepare:
    """One after the other."""

    def prepare(examples: Path) -> None:
        for one in preparations:
            one(examples)

    return prepare


def payload_sizes(history: WorkflowHistory) -> list[tuple[int, str]]:
    """Bytes and event type of every event of a history: no payload is larger than its event."""
    return sorted(
        ((event.ByteSize(), EventType.Name(event.event_type)) for event in history.events),
        reverse=True,
    )


@asynccontextmanager
async def polling(*labs: SmallLab) -> AsyncIterator[None]:
    """A worker for each of some clusters."""
    if not labs:
        yield
        return
    async with labs[0].worker(), polling(*labs[1:]):
        yield
