"""Planning: one activity, pure functions over what was read (design §2.1)."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from pydantic import Field
from temporalio import activity

from activities.failures import translated
from activities.heartbeats import heartbeating
from activities.requests import ManagementFence, RunRequest
from activities.target import PATIENT_ATTEMPTS, minding_target
from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import InvalidDocument, InvalidRelease, PortError, Refusal, Transient
from hopline.domain.left_failed import is_abandoned_hop, is_to_be_taken_over
from hopline.domain.plan import Finding, HopPlan, PlanOutline, SchedulingMode, outline_of
from hopline.domain.resources import ANNOTATION_TAKEN_BY
from hopline.domain.wire import WireModel
from hopline.operations.hop_objects import HOP_ANNOTATIONS, SPEC, taken_before
from hopline.operations.node_review import NodeReview
from hopline.operations.planning import Planner, require_startable
from hopline.operations.release_status import tell_refused_release
from hopline.operations.target_reach import TargetReach
from hopline.ports import ClusterClient


class Ledger(WireModel):
    """What a hop takes on the BKECluster, with the values before it was taken (design §2.6).

    Attributes:
        annotations: key → value before; None: it was absent.
        targets: version field of `spec` → value before.
        adopted: the marks of an earlier run stood there, which ended without giving them back.
        left_failed: another controller has left the cluster as it is.
        generation: of the ClusterVersion; 0: nobody has looked.
    """

    annotations: dict[str, str | None] = Field(default_factory=dict)
    targets: dict[str, str] = Field(default_factory=dict)
    adopted: bool = False
    left_failed: bool = False
    generation: int = 0

    def before(self) -> dict[str, str | None]:
        """The mark `hopline.dev/taken-before`: a run that ended without giving back tells the next one."""
        return {**self.annotations, **{f"{SPEC}{field}": value for field, value in self.targets.items()}}


class PlanRequest(RunRequest):
    """Plan the whole way to a version; `waiting` is what the workflow already says of a fault that may pass."""

    desired_version: str
    mode: str = ""
    slots: int = 8
    waiting: str = ""


class PlannedRun(WireModel):
    """The pinned plan: the outline of every hop, and the first hop in full (none when it is already there).

    With `waiting` there is none yet: the sentence says which fault is waited for, and the workflow asks again.
    """

    from_version: str = ""
    outline: PlanOutline = PlanOutline(digest="", hops=())
    waiting: str = ""
    hop: HopPlan | None = None
    findings: tuple[Finding, ...] = ()
    ledger: Ledger = Ledger()
    generation: int = 0


class HopRequest(RunRequest):
    """Decide again what hop `hop_index` has to do, from what is there now; the pinned digests must hold."""

    outline: PlanOutline
    hop_index: int
    mode: str = ""
    slots: int = 8
    waiting: str = ""


class PlannedHop(WireModel):
    """The hop in full, and what it will take; `waiting` as in `PlannedRun`."""

    hop: HopPlan | None = None
    ledger: Ledger = Ledger()
    waiting: str = ""


def news_of(fault: Transient, known: str) -> str:
    """What a fault that lasts is told as, when the workflow does not say it yet; empty: it is simply asked again."""
    said = str(fault)
    return said if said != known and activity.info().attempt > PATIENT_ATTEMPTS else ""


class PlanningActivities:
    """Reads catalogue, releases and cluster; changes nothing but the status of a ReleaseImage that is refused."""

    def __init__(
        self,
        planner: Planner,
        fence: ManagementFence,
        reach: TargetReach,
        nodes: NodeReview | None = None,
        management: ClusterClient | None = None,
    ) -> None:
        self._planner = planner
        self._management = management
        self._nodes = nodes
        self.reach = reach
        self._fence = fence

    @activity.defn
    @translated
    async def plan_upgrade(self, request: PlanRequest) -> PlannedRun:
        """Check everything that can be known before the first write. Raises Refused."""
        await self._fence.check(request)
        async with heartbeating():
            await self._planner.require_alone()
            try:
                facts, plan = await self._planner.plan(
                    request.cluster, request.desired_version, mode=SchedulingMode(request.mode), slots=request.slots
                )
            except (InvalidRelease, InvalidDocument) as error:
                await self._tell(request, error)
                raise
            except Transient as fault:
                if waiting := news_of(fault, request.waiting):
                    return PlannedRun(waiting=waiting)
                raise
            for conflict in await self._planner.conflicts(request.cluster, plan) if plan.blocking else ():
                await self._tell(request, conflict)
            reviewed = await self._nodes.review(facts, plan) if self._nodes else plan
            require_startable(reviewed)
            return PlannedRun(
                from_version=facts.current_version,
                outline=outline_of(plan),
                hop=plan.hops[0] if plan.hops else None,
                findings=reviewed.findings[:20],
                ledger=ledger_of(facts),
                generation=facts.generation,
            )

    async def _tell(self, request: RunRequest, error: InvalidRelease | InvalidDocument) -> None:
        """On the object, where there is one. That it could not be told must not hide why the release was refused."""
        if self._management is not None:
            with suppress(PortError, Refusal):
                await tell_refused_release(self._management, request.cluster, error, datetime.now(UTC))

    @activity.defn
    @translated
    async def plan_hop(self, request: HopRequest) -> PlannedHop:
        """What this hop has to do now. Raises Refused when catalogue or release no longer say what was pinned."""
        try:
            return await self._plan_hop(request)
        except Transient as fault:
            if waiting := news_of(fault, request.waiting):
                return PlannedHop(waiting=waiting)
            raise

    @minding_target
    async def _plan_hop(self, request: HopRequest) -> PlannedHop:
        await self._fence.check(request)
        async with heartbeating():
            try:
                facts, hop = await self._planner.plan_hop(
                    request.cluster,
                    request.outline,
                    request.hop_index,
                    mode=SchedulingMode(request.mode),
                    slots=request.slots,
                )
            except (InvalidRelease, InvalidDocument) as error:
                await self._tell(request, error)
                raise
            return PlannedHop(hop=hop, ledger=ledger_of(facts))


def ledger_of(facts: ClusterFacts) -> Ledger:
    """The values before this run: of the object, or of the mark that an earlier run has left there."""
    targets = {
        "openFuyaoVersion": facts.spec.open_fuyao,
        "kubernetesVersion": facts.spec.kubernetes,
        "etcdVersion": facts.spec.etcd,
        "containerdVersion": facts.spec.containerd,
    }
    if ANNOTATION_TAKEN_BY not in facts.annotations:
        # A hop that its controller has given up is not given back to it: nobody would go on there.
        left = {} if is_abandoned_hop(facts.document) else facts.annotations
        found = {key: left.get(key) for key in HOP_ANNOTATIONS}
        left_failed = is_to_be_taken_over(facts)
        return Ledger(annotations=found, targets=targets, left_failed=left_failed, generation=facts.generation)
    marked = taken_before(facts.annotations)
    declared = {field: str(marked.get(f"{SPEC}{field}") or value) for field, value in targets.items()}
    found = {key: marked.get(key) for key in HOP_ANNOTATIONS}
    return Ledger(annotations=found, targets=declared, adopted=True, generation=facts.generation)
