"""The whole current picture of one run, and the only functions that change it.

One document serves `hopline status -o json`, the workflow's `status` query, the web UI and the custom resources: the
latter are projections of it (`hopline.domain.projection`). Every function returns a new status and takes the time as an
argument; the workflow passes `workflow.now()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from pydantic import Field

from hopline.domain.etcd_snapshots import EtcdSnapshot
from hopline.domain.node_status import MAX_NODES_SHOWN, NodeProgress, NodeStatus
from hopline.domain.plan import Action, ComponentType, Finding, HopPlan, PlannedCheck, PlannedComponent, PlanOutline
from hopline.domain.wire import ClusterKey, WireEnum, WireModel

MAX_HISTORY = 50
"""Entries of ClusterVersion `status.upgradeHistory`; the existing controller never trims it (B22)."""


class RunState(WireEnum):
    """Where a run is. For people and for the projection; decisions come from history."""

    PLANNING = "Planning"
    CHECKING = "Checking"
    RUNNING = "Running"
    HELD = "Held"
    DONE = "Done"
    REFUSED = "Refused"
    FAILED = "Failed"
    ABORTED = "Aborted"
    UNKNOWN = "Unknown"

    @property
    def is_final(self) -> bool:
        """Nothing will happen any more in this run."""
        return self in (RunState.DONE, RunState.REFUSED, RunState.FAILED, RunState.ABORTED)


class StepState(WireEnum):
    """Where a component is in the current hop."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNKNOWN = "unknown"


class ComponentStatus(WireModel):
    """One component of the current hop.

    Attributes:
        handler: the inline handler that runs it; empty for manifests.
        message: what it waits for now, or the error; a sentence.
        attempt: calls after a failure, plus one; 0 before the first.
    """

    name: str
    version: str
    current: str = ""
    type: ComponentType = ComponentType.UNKNOWN
    handler: str = ""
    batch: int = 0
    state: StepState = StepState.PENDING
    reason: str = ""
    message: str = ""
    attempt: int = 0
    record_version: str = ""
    dependencies: tuple[str, ...] = ()
    expected_seconds: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    nodes: NodeProgress | None = None


class Failure(WireModel):
    """What holds or ended the run (`declarativeUpgrade.lastFailure`)."""

    component: str
    version: str = ""
    node: str = ""
    attempt: int = 1
    error: str = ""
    remedy: str = ""
    failed_at: datetime | None = None


class HopProgress(WireModel):
    """The hop of this execution; `number` counts from 1."""

    number: int
    total: int
    from_version: str = Field(alias="from")
    to_version: str = Field(alias="to")
    started_at: datetime | None = None
    release_name: str = ""
    targets: dict[str, str] = Field(default_factory=dict)


class FinishedHop(WireModel):
    """A hop of this run that has ended well."""

    from_version: str = Field(alias="from")
    to_version: str = Field(alias="to")
    started_at: datetime | None = None
    completed_at: datetime | None = None


class UpgradeStatus(WireModel):
    """The status document.

    Attributes:
        from_version: where the run began; `to_version`: where it shall end.
        message: one sentence: what happens now, what it waits for, or why it ended.
        reason: the CamelCase word of a refusal or end, for conditions.
        subject: the object that a refusal names, as `Kind namespace/name`.
        health_check_started: when the newest look at the whole cluster at the end of the current hop began.
        newer_wish: another version that the ClusterVersion asks for meanwhile; it waits for the end of this run.
        next_commands: what a person can type now.
    """

    cluster: ClusterKey
    workflow_id: str = ""
    from_version: str = Field("", alias="from")
    to_version: str = Field("", alias="to")
    state: RunState = RunState.PLANNING
    since: datetime | None = None
    started_at: datetime | None = None
    message: str = ""
    reason: str = ""
    subject: str = ""
    newer_wish: str = ""
    health_check_started: datetime | None = None
    plan_digest: str = ""
    path: tuple[str, ...] = ()
    mode: str = ""
    hop: HopProgress | None = None
    components: tuple[ComponentStatus, ...] = ()
    checks: tuple[PlannedCheck, ...] = ()
    failure: Failure | None = None
    finished_hops: tuple[FinishedHop, ...] = ()
    findings: tuple[Finding, ...] = ()
    next_commands: tuple[str, ...] = ()
    nodes: tuple[NodeStatus, ...] = ()
    """Nodes that are in hand or have failed, at most 100; `NodeRollout` tells of the others."""
    etcd_snapshot: EtcdSnapshot | None = None
    """The newest one that this run has had taken, verified."""
    wrote: bool = False
    """True from the first write of the run on: a refusal after that is a hold."""
    opened: bool = False
    """True from the moment on that the current hop's versions are declared: only then the BKECluster shows the hop,
    because the existing webhook lets versions be declared only while it is Healthy (design §2.10)."""

    def component(self, name: str) -> ComponentStatus:
        """The status of one component of the current hop. Raises KeyError."""
        for component in self.components:
            if component.name == name:
                return component
        raise KeyError(name)


def _enter(status: UpgradeStatus, state: RunState, now: datetime, message: str, **changes: object) -> UpgradeStatus:
    since = status.since if status.state is state else now
    return status.model_copy(update={"state": state, "since": since, "message": message, **changes})


def asked(cluster: ClusterKey, workflow_id: str, version: str, now: datetime) -> UpgradeStatus:
    """The first status of a run: a version is asked for, nothing is known yet."""
    return UpgradeStatus(
        cluster=cluster, workflow_id=workflow_id, to_version=version, started_at=now, since=now, message="planning"
    )


def planned(
    status: UpgradeStatus, outline: PlanOutline, *, mode: str, findings: Iterable[Finding], now: datetime
) -> UpgradeStatus:
    """The whole way is known and checked; nothing has changed yet."""
    path = (outline.hops[0].from_version, *(hop.to_version for hop in outline.hops)) if outline.hops else ()
    return _enter(
        status,
        RunState.CHECKING,
        now,
        f"planned {len(outline.hops)} hops",
        plan_digest=outline.digest,
        from_version=status.from_version or (path[0] if path else ""),
        path=path,
        mode=mode,
        findings=tuple(findings),
    )


def hop_entered(status: UpgradeStatus, plan: HopPlan, *, number: int, total: int, now: datetime) -> UpgradeStatus:
    """The hop's plan is decided; its components are pending or skipped."""
    hop = HopProgress(
        number=number,
        total=total,
        from_version=plan.from_version,
        to_version=plan.to_version,
        started_at=now,
        release_name=plan.release_name,
        targets=plan.targets,
    )
    components = tuple(_component_status(plan, component, now) for component in plan.components)
    message = f"hop {number} of {total}: {plan.from_version} to {plan.to_version}"
    return _enter(
        status,
        RunState.CHECKING,
        now,
        message,
        hop=hop,
        components=components,
        checks=plan.checks,
        opened=False,
        nodes=(),
        health_check_started=None,
    )


def _component_status(plan: HopPlan, component: PlannedComponent, now: datetime) -> ComponentStatus:
    skipped = component.action is Action.SKIP
    return ComponentStatus(
        name=component.name,
        version=component.version,
        current=component.current,
        type=component.type,
        handler=component.handler,
        batch=plan.batch_of(component.name),
        state=StepState.SKIPPED if skipped else StepState.PENDING,
        reason=component.reason,
        record_version=component.record_version,
        dependencies=component.dependencies,
        expected_seconds=component.expected_seconds,
        finished_at=now if skipped else None,
    )


def checked(status: UpgradeStatus, checks: Iterable[PlannedCheck]) -> UpgradeStatus:
    """Checks have looked; results replace those of the same name and stage."""
    seen = {(check.stage, check.name): check for check in checks}
    kept = [seen.pop((check.stage, check.name), check) for check in status.checks]
    return status.model_copy(update={"checks": (*kept, *seen.values())})


def running(status: UpgradeStatus, now: datetime, message: str) -> UpgradeStatus:
    """The hop is at work; from here on the run has written."""
    return _enter(status, RunState.RUNNING, now, message, wrote=True, failure=None, next_commands=(), reason="")


def hop_opened(status: UpgradeStatus) -> UpgradeStatus:
    """The hop's versions are declared; the BKECluster may show it."""
    return status.model_copy(update={"opened": True})


def checking_health(status: UpgradeStatus, now: datetime, message: str) -> UpgradeStatus:
    """Every component is done, and the real cluster is looked at."""
    looking = _enter(status, RunState.CHECKING, now, message, failure=None, next_commands=(), reason="")
    return looking.model_copy(update={"health_check_started": looking.since})


def _with_component(
    status: UpgradeStatus, name: str, change: Callable[[ComponentStatus], ComponentStatus]
) -> UpgradeStatus:
    components = tuple(change(c) if c.name == name else c for c in status.components)
    return status.model_copy(update={"components": components})


def component_started(status: UpgradeStatus, name: str, now: datetime) -> UpgradeStatus:
    """A component starts, or starts again after a failure."""

    def change(component: ComponentStatus) -> ComponentStatus:
        return component.model_copy(
            update={
                "state": StepState.RUNNING,
                "attempt": component.attempt + 1,
                "started_at": component.started_at or now,
                "finished_at": None,
                "message": "",
            }
        )

    return _with_component(status, name, change)


def component_waits(
    status: UpgradeStatus,
    name: str,
    message: str,
    nodes: NodeProgress | None = None,
    shown: tuple[NodeStatus, ...] = (),
) -> UpgradeStatus:
    """What a running component waits for; `shown`: its nodes that are in hand or have failed."""

    def change(component: ComponentStatus) -> ComponentStatus:
        return component.model_copy(update={"message": message, "nodes": nodes or component.nodes})

    return _with_nodes(_with_component(status, name, change), name, shown)


def _with_nodes(status: UpgradeStatus, component: str, shown: tuple[NodeStatus, ...]) -> UpgradeStatus:
    others = tuple(node for node in status.nodes if node.component != component)
    return status.model_copy(update={"nodes": (*others, *shown)[:MAX_NODES_SHOWN]})


def component_finished(status: UpgradeStatus, name: str, now: datetime, *, message: str = "") -> UpgradeStatus:
    """A component is done."""

    def change(component: ComponentStatus) -> ComponentStatus:
        return component.model_copy(update={"state": StepState.DONE, "finished_at": now, "message": message})

    return _with_nodes(_with_component(status, name, change), name, ())


def component_left_alone(status: UpgradeStatus, name: str, now: datetime, reason: str) -> UpgradeStatus:
    """A component that is not installed in this cluster: skipped, and never recorded as completed (§6.5)."""

    def change(component: ComponentStatus) -> ComponentStatus:
        return component.model_copy(
            update={"state": StepState.SKIPPED, "finished_at": now, "reason": reason, "message": ""}
        )

    return _with_component(status, name, change)


def component_failed(status: UpgradeStatus, failure: Failure) -> UpgradeStatus:
    """A component failed for good; the newest failure is the one that is shown."""

    def change(component: ComponentStatus) -> ComponentStatus:
        return component.model_copy(
            update={"state": StepState.FAILED, "finished_at": failure.failed_at, "message": failure.error}
        )

    return _with_component(status, failure.component, change).model_copy(update={"failure": failure})


def held(status: UpgradeStatus, now: datetime, *, reason: str, message: str, failure: Failure | None) -> UpgradeStatus:
    """The hop waits for a person."""
    where = f"{status.cluster.name} -n {status.cluster.kube_namespace}"
    commands = (f"hopline retry {where}", f"hopline abort {where}")
    shown = failure or status.failure
    return _enter(status, RunState.HELD, now, message, reason=reason, failure=shown, next_commands=commands)


def hop_finished(status: UpgradeStatus, now: datetime) -> UpgradeStatus:
    """Every component is done and the cluster was checked."""
    hop = status.hop
    if hop is None:
        return status
    entry = FinishedHop(
        from_version=hop.from_version, to_version=hop.to_version, started_at=hop.started_at, completed_at=now
    )
    message = f"hop {hop.number} of {hop.total} is done: {hop.to_version}"
    return status.model_copy(
        update={"finished_hops": (*status.finished_hops, entry)[-MAX_HISTORY:], "message": message, "failure": None}
    )


def hop_ahead(status: UpgradeStatus, outline: PlanOutline, index: int) -> UpgradeStatus:
    """Between two hops: the next one is looked at, and nothing of it has begun."""
    following = outline.hops[index]
    hop = HopProgress(
        number=index + 1, total=len(outline.hops), from_version=following.from_version, to_version=following.to_version
    )
    return status.model_copy(update={"hop": hop, "components": (), "checks": (), "opened": False})


def done(status: UpgradeStatus, now: datetime) -> UpgradeStatus:
    """The cluster has the desired version."""
    return _enter(status, RunState.DONE, now, f"{status.cluster} is at {status.to_version}", reason="", failure=None)


def ended(
    status: UpgradeStatus, state: RunState, now: datetime, *, reason: str, message: str, subject: str = ""
) -> UpgradeStatus:
    """Refused, failed or aborted."""
    return _enter(status, state, now, message, reason=reason, subject=subject, next_commands=())


def wish_seen(status: UpgradeStatus, version: str) -> UpgradeStatus:
    """What the ClusterVersion asks for while this run is open; the run's own version takes a newer wish back."""
    return status.model_copy(update={"newer_wish": "" if version == status.to_version else version})
