"""Activities that take a given time and do nothing: what remains is the cost of orchestration alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow

with workflow.unsafe.imports_passed_through():
    from activities.checks import ChecksReport, ChecksRequest
    from activities.components import AppliedComponent, ComponentRequest
    from activities.hop import ClosedHop, CloseHop, OpenedHop, OpenHop
    from activities.planning import PlannedRun, PlanRequest
    from activities.policy import RecordedPolicy
    from activities.requests import RunRequest
    from activities.status import PublishRequest
    from hopline.domain.plan import HopPlan, UpgradePlan, outline_of
    from hopline.domain.wire import ClusterKey
    from hopline.operations.publication import Echo
    from workflows.identifiers import NODE_ROLLOUT
    from workflows.messages import RolloutInput, RolloutResult

CLUSTER = ClusterKey(kube_namespace="bench", name="bench")


@workflow.defn(name=NODE_ROLLOUT)
class TimedRollout:
    """Stands in for the nodes of a pool: one activity that takes the component's time."""

    @workflow.run
    async def run(self, rollout: RolloutInput) -> RolloutResult:
        """Wait, then report one node."""
        await workflow.execute_activity(
            "take_time", rollout.component.name, start_to_close_timeout=timedelta(minutes=5), result_type=str
        )
        return RolloutResult(upgraded=(rollout.pool.value,), done=1)


def stand_ins(hop: HopPlan, seconds: Mapping[str, float], *, mode: str) -> Sequence[Callable[..., Any]]:
    """Every activity of a run whose only hop is `hop`; a component takes `seconds[name]`, 0 when it is not there."""

    @activity.defn(name="record_policy")
    async def record_policy(_: RunRequest) -> RecordedPolicy:
        return RecordedPolicy(mode=mode, search_attributes=True, management_uid="bench")

    @activity.defn(name="plan_upgrade")
    async def plan_upgrade(request: PlanRequest) -> PlannedRun:
        plan = UpgradePlan(cluster=request.cluster, digest="0" * 64, hops=(hop,))
        return PlannedRun(from_version=hop.from_version, outline=outline_of(plan), hop=hop)

    @activity.defn(name="run_checks")
    async def run_checks(request: ChecksRequest) -> ChecksReport:
        return ChecksReport(checks=request.checks)

    @activity.defn(name="open_hop")
    async def open_hop(_: OpenHop) -> OpenedHop:
        return OpenedHop()

    @activity.defn(name="close_hop")
    async def close_hop(_: CloseHop) -> ClosedHop:
        return ClosedHop()

    @activity.defn(name="publish_status")
    async def publish_status(_: PublishRequest) -> Echo:
        return Echo(generation=1)

    @activity.defn(name="apply_component")
    async def apply_component(request: ComponentRequest) -> AppliedComponent:
        await asyncio.sleep(seconds.get(request.component.name, 0.0))
        return AppliedComponent(settled=True)

    @activity.defn(name="take_time")
    async def take_time(name: str) -> str:
        await asyncio.sleep(seconds.get(name, 0.0))
        return name

    return (
        record_policy,
        plan_upgrade,
        run_checks,
        open_hop,
        close_hop,
        publish_status,
        apply_component,
        take_time,
    )
