"""Opening and closing a hop: the wish, the release image, annotations and declared versions."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field
from temporalio import activity

from activities.failures import translated
from activities.heartbeats import heartbeating
from activities.planning import Ledger
from activities.requests import ManagementFence, RunRequest
from activities.target import minding_target
from hopline.domain.cluster import ClusterFacts, cluster_facts
from hopline.domain.errors import NotFound
from hopline.domain.plan import PlanOutline
from hopline.domain.release import Release
from hopline.domain.resources import BKE_CLUSTER, CLUSTER_VERSION, Document, ObjectRef
from hopline.domain.timestamps import timestamp
from hopline.domain.wire import WireModel
from hopline.operations import hop_objects
from hopline.operations.one_controller import OneController
from hopline.operations.publication import Publisher
from hopline.operations.reading import read_objects
from hopline.operations.records import HopRecorder, HopToRecord
from hopline.operations.releases import ReleaseShelf
from hopline.operations.target_reach import TargetReach
from hopline.ports import ClusterClient


class OpenHop(RunRequest):
    """Everything that the first writes of a hop need.

    Attributes:
        keep_wish: the ClusterVersion asks for another version by now: that wish stays, and waits.
    """

    desired_version: str
    keep_wish: bool = False
    outline: PlanOutline
    hop_index: int
    targets: dict[str, str]
    ledger: Ledger
    now: datetime


class OpenedHop(WireModel):
    """What the opening saw, and the digest of the record of what was there before; empty when nothing changes."""

    generation: int = 0
    record: str = ""


class CloseHop(RunRequest):
    """Give back what carries the mark of this workflow.

    Attributes:
        ledger: what stood there before; None: this run has taken nothing, so the mark of an earlier one tells.
        restore: spec versions of components that were never started.
    """

    ledger: Ledger | None = None
    restore: dict[str, str] = Field(default_factory=dict)


class ClosedHop(WireModel):
    """Whether something had to be given back, and what could not be."""

    gave_back: bool = False
    refused: str = ""


class Presence(WireModel):
    """What a run must hear that publishes nothing just now.

    Attributes:
        gone: which of ClusterVersion and BKECluster is deleted or being deleted, as a sentence; empty: both live.
        other_controller: another controller that has come, as a sentence; empty: we are alone.
    """

    gone: str = ""
    other_controller: str = ""


class HopActivities:
    """Writes for `ClusterUpgrade` around a hop."""

    def __init__(
        self,
        management: ClusterClient,
        publisher: Publisher,
        fence: ManagementFence,
        shelf: ReleaseShelf,
        one_controller: OneController,
        recorder: HopRecorder,
    ) -> None:
        self._recorder = recorder
        self.reach = TargetReach(recorder.clusters)
        self._one_controller = one_controller
        self._management = management
        self._publisher = publisher
        self._fence = fence
        self._shelf = shelf

    @activity.defn
    @translated
    @minding_target
    async def open_hop(self, request: OpenHop) -> OpenedHop:
        """The wish, the ReleaseImage `Valid`, the annotations, the declared versions, the record, in this order."""
        await self._fence.check(request)
        async with heartbeating():
            await self._one_controller.require_alone()
            bke, version = await read_objects(self._management, request.cluster)
            facts = cluster_facts(bke, version, [])
            version, generation = await self._accept_wish(request, facts, version)
            hop = request.outline.hops[request.hop_index]
            release = await self._shelf.release(hop.to_version, hop.release_digest, cluster=request.cluster)
            await hop_objects.ensure_release_image(self._management, facts, release, timestamp(request.now))
            annotations = hop_objects.annotations_of_hop(
                request.cluster, request.outline, hop.to_version, request.workflow_id
            )
            bke = await hop_objects.announce_hop(self._management, bke, annotations, request.ledger.before())
            bke = await hop_objects.open_targets(self._management, bke, request.targets)
            self._publisher.know(request.cluster, bke, version)
            return OpenedHop(generation=generation, record=await self._record(request, release, version))

    async def _record(self, request: OpenHop, release: Release, owner: Document) -> str:
        """Keep the objects that the hop may change as they are before it."""
        hop = request.outline.hops[request.hop_index]
        return await self._recorder.record(
            owner, HopToRecord(request.cluster, release, hop.from_version, request.run_id, request.now)
        )

    async def _accept_wish(self, request: OpenHop, facts: ClusterFacts, found: Document) -> tuple[Document, int]:
        """The ClusterVersion with the wish of this run, and its generation if that had to be written or is another."""
        ref = ObjectRef(kind=CLUSTER_VERSION, name=request.cluster.name, kube_namespace=request.cluster.kube_namespace)
        # Later on another desired version is a newer wish: it is refused now, and carried out after this run.
        if facts.desired_version == request.desired_version or request.hop_index > 0 or request.keep_wish:
            return found, 0
        planned_at, generation = request.ledger.generation, int(found["metadata"].get("generation", 0) or 0)
        if planned_at and generation != planned_at:
            return found, generation
        body = {
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            "spec": {"desiredVersion": request.desired_version},
        }
        found = await self._management.patch(ref, body)
        return found, int(found["metadata"].get("generation", 0) or 0)

    @activity.defn
    @translated
    async def close_hop(self, request: CloseHop) -> ClosedHop:
        """Remove our annotations and marks; a cluster that is gone has nothing to give back to.

        A webhook that refuses the old versions is reported in the result: it must not keep a run from ending.
        """
        await self._fence.check(request)
        async with heartbeating():
            try:
                withdrawn = await hop_objects.withdraw_hop(
                    self._management,
                    request.cluster,
                    request.workflow_id,
                    request.ledger.annotations if request.ledger else None,
                    request.restore,
                )
            except NotFound:
                return ClosedHop()
            finally:
                self._publisher.forget(request.cluster)
            return ClosedHop(gave_back=withdrawn.gave_back, refused=withdrawn.refused)

    @activity.defn
    @translated
    async def look_for_deletion(self, request: RunRequest) -> Presence:
        """Whether there is still something to upgrade, for a run that publishes nothing just now."""
        await self._fence.check(request)
        async with heartbeating():
            for kind in (CLUSTER_VERSION, BKE_CLUSTER):
                ref = ObjectRef(kind=kind, name=request.cluster.name, kube_namespace=request.cluster.kube_namespace)
                try:
                    found = await self._management.get(ref)
                except NotFound as error:
                    return Presence(gone=str(error))
                if since := found["metadata"].get("deletionTimestamp"):
                    return Presence(gone=f"{ref} is being deleted since {since}")
            other = await self._one_controller.refusal()
            return Presence(other_controller=str(other) if other else "")
