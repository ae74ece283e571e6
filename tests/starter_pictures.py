"""Statuses and plans that the tests of the screens share."""

from datetime import UTC, datetime, timedelta

from hopline.domain.node_status import NodeProgress
from hopline.domain.plan import Action, ComponentType, HopPlan, PlannedCheck, PlannedComponent, UpgradePlan
from hopline.domain.status import ComponentStatus, Failure, FinishedHop, HopProgress, RunState, StepState, UpgradeStatus
from hopline.domain.wire import ClusterKey

EAST = ClusterKey(kube_namespace="east", name="east")
START = datetime(2026, 8, 1, 2, 12, 3, tzinfo=UTC)
NOW = START + timedelta(minutes=12, seconds=4)


def planned(name: str, version: str = "v2", **fields: object) -> PlannedComponent:
    values: dict[str, object] = {"current": "v1", "type": ComponentType.MANIFEST, "expected_seconds": 120}
    return PlannedComponent.model_validate({"name": name, "version": version, **values, **fields})


def plan_of(*batches: tuple[PlannedComponent, ...], **fields: object) -> UpgradePlan:
    hop = HopPlan(
        from_version="v26.06-rc.2",
        to_version="v26.06-rc.3",
        batches=tuple(tuple(component.name for component in batch) for batch in batches),
        components=tuple(component for batch in batches for component in batch),
        checks=(PlannedCheck(name="cluster-health", required=True), PlannedCheck(name="disk-space")),
        critical_path=tuple(batch[0].name for batch in batches),
        expected_seconds={"batches": 1860, "eager": 1200},
    )
    values: dict[str, object] = {
        "cluster": EAST,
        "from_version": hop.from_version,
        "to_version": hop.to_version,
        "digest": "sha256:7c1f3a9e55",
        "hops": (hop,),
    }
    return UpgradePlan.model_validate({**values, **fields})


def skipped(name: str, reason: str) -> PlannedComponent:
    return planned(name, action=Action.SKIP, reason=reason)


def component(
    name: str, state: StepState, *, batch: int = 1, after: float = 0, took: float | None = None, **fields: object
) -> ComponentStatus:
    started = None if state in (StepState.PENDING, StepState.SKIPPED) else START + timedelta(seconds=after)
    finished = started + timedelta(seconds=took) if started is not None and took is not None else None
    values: dict[str, object] = {
        "version": "v2",
        "current": "v1",
        "batch": batch,
        "started_at": started,
        "finished_at": finished,
        "expected_seconds": 120,
        "attempt": 0 if started is None else 1,
    }
    return ComponentStatus.model_validate({"name": name, "state": state, **values, **fields})


def running(*components: ComponentStatus, **fields: object) -> UpgradeStatus:
    values: dict[str, object] = {
        "cluster": EAST,
        "workflow_id": "cluster-upgrade/east/east",
        "from_version": "v26.06-rc.2",
        "to_version": "v26.06",
        "state": RunState.RUNNING,
        "since": START,
        "started_at": START,
        "message": "hop 1 of 2",
        "plan_digest": "7c1f3a9e5512",
        "path": ("v26.06-rc.2", "v26.06-rc.3", "v26.06"),
        "hop": HopProgress(number=1, total=2, from_version="v26.06-rc.2", to_version="v26.06-rc.3", started_at=START),
        "components": components,
    }
    return UpgradeStatus.model_validate({**values, **fields})


def held_on_containerd() -> UpgradeStatus:
    failure = Failure(
        component="containerd",
        version="v2",
        node="w3",
        attempt=2,
        error='agent reported "disk full" on /var/lib/containerd',
        remedy="free space on w3",
        failed_at=NOW - timedelta(minutes=1),
    )
    return running(
        component("provider", StepState.DONE, took=108),
        component(
            "containerd",
            StepState.FAILED,
            batch=3,
            after=120,
            took=300,
            attempt=2,
            message=failure.error,
            nodes=NodeProgress(done=7, total=8, failed=("w3",)),
        ),
        component("calico", StepState.PENDING, batch=6, dependencies=("containerd",)),
        state=RunState.HELD,
        since=NOW - timedelta(minutes=1),
        message="held: containerd failed in v26.06-rc.3",
        failure=failure,
        next_commands=("hopline retry east -n east", "hopline abort east -n east"),
        finished_hops=(
            FinishedHop(
                from_version="v26.06-rc.1",
                to_version="v26.06-rc.2",
                started_at=START - timedelta(minutes=58),
                completed_at=START,
            ),
        ),
    )
