"""What goes in and out of the workflows: one model per start, update and query."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from hopline.domain.etcd_snapshots import EtcdSnapshot
from hopline.domain.name_lists import NameList
from hopline.domain.node_status import NodeProgress, NodeStatus
from hopline.domain.node_strategy import DrainRules, WaveStrategy
from hopline.domain.plan import HopPlan, PlannedComponent, PlanOutline, Pool, UpgradePlan
from hopline.domain.plan_pieces import PlanPage
from hopline.domain.status import UpgradeStatus
from hopline.domain.wire import ClusterKey, WireModel

ASK_AGAIN = "AskAgain"
"""Type of an answer to `set_desired_version` that is none: the run is about to close, the next one judges the wish."""


class OnFailure(StrEnum):
    """What a failed component does to the run."""

    HOLD = "hold"
    """Wait for retry or abort (default)."""
    FAIL = "fail"
    """Give back what was taken and end as HopFailed: for CI."""


class RunPolicy(WireModel):
    """Settings as they were when the run began; a setting changed later changes no replay (design §2.11).

    Attributes:
        management_uid: uid of the management cluster's `kube-system`; a worker of another one refuses.
        slots: components in flight at once.
    """

    mode: str = "batches"
    slots: int = 8
    search_attributes: bool = False
    management_uid: str = ""
    drain: DrainRules = DrainRules()


class CarriedRun(WireModel):
    """What one execution hands to the next: everything about the run that is not its own hop (design §2.1)."""

    policy: RunPolicy
    outline: PlanOutline
    hop_index: int
    status: UpgradeStatus
    event_count: int = 0


class UpgradeInput(WireModel):
    """Start input of `ClusterUpgrade`.

    A person writes `{"cluster": {"namespace": "…", "name": "…"}, "desiredVersion": "v26.06"}`, in either spelling.
    `carried` is only written by the workflow itself when it continues as new.
    """

    cluster: ClusterKey
    desired_version: str
    on_failure: OnFailure = OnFailure.HOLD
    mode: str = ""
    carried: CarriedRun | None = None


class UpgradeResult(WireModel):
    """What a successful run returns."""

    cluster: ClusterKey
    from_version: str = Field("", alias="from")
    to_version: str = Field("", alias="to")
    hops: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @classmethod
    def of(cls, status: UpgradeStatus, now: datetime) -> UpgradeResult:
        """What a run that ends well has done."""
        return cls(
            cluster=status.cluster,
            from_version=status.from_version,
            to_version=status.to_version,
            hops=len(status.finished_hops),
            started_at=status.started_at,
            finished_at=now,
        )


class DesiredVersion(WireModel):
    """Argument of the update `set_desired_version`."""

    version: str


class Acceptance(WireModel):
    """Result of the update `set_desired_version`: the plan that carries the wish out."""

    version: str
    plan_digest: str
    hops: int
    state: str = ""


class RetryRequest(WireModel):
    """Argument of the update `retry`.

    Attributes:
        annotation: the wish came by `bke.bocloud.com/retry`, which is then removed.
        nodes: addresses of the nodes whose marks of a failure are taken away first; none: all of the cluster.
    """

    annotation: bool = False
    reason: str = ""
    nodes: tuple[str, ...] = ()


class RetryAnswerInput(WireModel):
    """Start input of `RetryAnswer`: a retry that meets no open run.

    Attributes:
        nodes: as in `RetryRequest`.
        annotation: value of `bke.bocloud.com/retry` that is answered; None: the retry came by the terminal.
        keep: a run is asked for next, and removes the annotation when its hop is open.
        told: why nothing goes on, as a sentence; empty: something does.
    """

    cluster: ClusterKey
    nodes: tuple[str, ...] = ()
    annotation: str | None = None
    keep: bool = False
    told: str = ""


class AbortRequest(WireModel):
    """Argument of the update `abort`."""

    reason: str = ""


class Acknowledgement(WireModel):
    """Result of `retry` and `abort`: where the run is after it."""

    state: str
    message: str = ""


class PlanView(WireModel):
    """Answer of the query `plan`: the pinned way, and the plan of the hop that runs."""

    outline: PlanOutline | None = None
    hop: HopPlan | None = None


class Question(StrEnum):
    """What `ClusterInspection` is asked."""

    PLAN = "plan"
    STATUS = "status"
    VERSIONS = "versions"


class InspectionInput(WireModel):
    """Start input of `ClusterInspection`: looks, changes nothing.

    `after`: of the plan, the page that begins with this piece; 0: all of it, or its first page.
    """

    cluster: ClusterKey
    question: Question
    desired_version: str = ""
    after: int = 0


class ReachableEntry(WireModel):
    """One line of `hopline versions`."""

    version: str
    hops: int
    deprecated: bool = False


class VersionsAnswer(WireModel):
    """The stable JSON of `hopline versions`."""

    from_version: str = Field("", alias="from")
    versions: tuple[ReachableEntry, ...] = ()
    reason: str = ""
    message: str = ""


class InspectionResult(WireModel):
    """One of the three is set, as asked; `page` instead of a plan that is too large for one payload."""

    plan: UpgradePlan | None = None
    page: PlanPage | None = None
    status: UpgradeStatus | None = None
    versions: VersionsAnswer | None = None


MAX_NAMED = 100
"""Names of nodes that a result keeps of each kind, the newest: all are counted, and BKENodes tell of each."""

MAX_FAILED = 12
MAX_NOTES = 20
MAX_FAILURE_TEXT = 400
"""Characters of the message of a failed node, and of its remedy."""

MAX_PAGE_BYTES = 40_000


class FailedNode(WireModel):
    """A node that was put aside while the others went on."""

    node: str
    host: str
    message: str
    remedy: str = ""


class RolloutResult(WireModel):
    """Nodes by display name: raised by this rollout, found at the target, and left out (with the reason).

    In a pool of thousands the newest are named, and all are counted.

    Attributes:
        failed: put aside, inside the failure budget.
        waves: how many have been begun.
        done: nodes at the target.
        failures: nodes that were put aside.
        notes: what persons have done to our cordons meanwhile, at most 20 sentences.
        after: BKENode name; this one and those before it are behind us.
        noted: those up to here that were at the target are counted.
        snapshot: of etcd, before its first member was changed.
    """

    upgraded: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    failed: tuple[FailedNode, ...] = ()
    waves: int = 0
    done: int = 0
    failures: int = 0
    notes: tuple[str, ...] = ()
    after: str = ""
    noted: str = ""
    snapshot: EtcdSnapshot | None = None

    def with_upgraded(self, host: str) -> RolloutResult:
        """One more node was raised."""
        names = (*self.upgraded, host)[-MAX_NAMED:]
        return self.model_copy(update={"upgraded": names, "done": self.done + 1})

    def with_already(self, found: NameList) -> RolloutResult:
        """Nodes that were found at the target."""
        names = (*self.already, *found.kept())[-MAX_NAMED:]
        return self.model_copy(update={"already": names, "done": self.done + found.count})

    def with_note(self, note: str) -> RolloutResult:
        """Something that has to be told in the end; empty: nothing."""
        return self.model_copy(update={"notes": (*self.notes, note)[-MAX_NOTES:]}) if note else self

    def with_failed(self, failed: FailedNode) -> RolloutResult:
        """One more node was put aside."""
        newest = (*self.failed, failed)[-MAX_FAILED:]
        return self.model_copy(update={"failed": newest, "failures": self.failures + 1})


class RolloutInput(WireModel):
    """Start input of `NodeRollout`: one node-level component on one pool.

    Attributes:
        deadline: absolute; the whole component's deadline.
        attempt: 1, or more after a retry.
        parent_id: the `ClusterUpgrade` that wants to hear the progress.
        so_far, done: only written by the workflow itself when it continues as new; `done` names nodes at the target.
        drain, strategy: how nodes make room, and how many of them at once.
    """

    cluster: ClusterKey
    component: PlannedComponent
    pool: Pool
    hop_version: str
    release_digest: str = ""
    deadline: datetime
    attempt: int = 1
    parent_id: str = ""
    run_id: str = ""
    management_uid: str = ""
    so_far: RolloutResult = RolloutResult()
    done: NameList = NameList()
    drain: DrainRules = DrainRules()
    strategy: WaveStrategy = WaveStrategy()


class PoolProgress(WireModel):
    """Signal `pool_progressed` from `NodeRollout` to `ClusterUpgrade`, and the answer of the query `progress`."""

    component: str
    pool: Pool
    nodes: NodeProgress
    message: str = ""
    shown: tuple[NodeStatus, ...] = ()
    """Nodes that are in hand or have failed, at most 100."""
    away: str = ""
    """Why the pool waits for the cluster to answer; empty: it does not."""
    snapshot: EtcdSnapshot | None = None
    """Of etcd, before its first member was changed."""


class NodePageRequest(WireModel):
    """Argument of the query `nodes`: the nodes behind the name `after`, at most `limit`, and as many as fit."""

    after: str = ""
    limit: int = Field(100, ge=1, le=500)


class NodePage(WireModel):
    """Answer of the query `nodes`; `total` counts the nodes of the pool."""

    nodes: tuple[NodeStatus, ...] = ()
    more: bool = False
    total: int = 0
