"""The single steps of the story: each asks one activity and says in the web UI what it asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.checks import CheckActivities, ChecksReport, ChecksRequest
    from activities.hop import ClosedHop, CloseHop, HopActivities, OpenHop, Presence
    from activities.planning import HopRequest, Ledger, PlannedHop, PlannedRun, PlanningActivities, PlanRequest
    from activities.policy import PolicyActivities, RecordedPolicy
    from activities.requests import RunRequest
    from activities.retry import RetryActivities, ReviveRequest, Takeover
    from hopline.domain.node_revival import RevivedNodes
    from hopline.domain.plan import CheckStage, HopPlan, PlanOutline
    from workflows import activity_options
    from workflows.messages import RunPolicy
    from workflows.status_publisher import RunContext

AnswerT = TypeVar("AnswerT", PlannedRun, PlannedHop)


class UpgradeSteps:
    """The activities around the components of a hop, for one run."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def _request(self) -> RunRequest:
        return RunRequest(
            cluster=self._context.cluster,
            workflow_id=self._context.workflow_id,
            run_id=self._context.run_id,
            management_uid=self._context.management_uid,
        )

    async def record_policy(self, mode: str) -> RunPolicy:
        """The settings of the worker, with the mode that the start input asked for."""
        recorded: RecordedPolicy = await workflow.execute_activity_method(
            PolicyActivities.record_policy,
            self._request(),
            summary="record the settings of this run",
            **activity_options.READ,
        )
        self._context.management_uid = recorded.management_uid
        self._context.search_attributes = recorded.search_attributes
        return RunPolicy(**{**recorded.model_dump(), **({"mode": mode} if mode else {})})

    async def plan_way(self, desired_version: str, policy: RunPolicy, say: Callable[[str], None]) -> PlannedRun:
        """Every hop, checked; raises Refused. `say` hears which fault is waited for, as long as that takes."""
        request = PlanRequest(
            **self._request().model_dump(), desired_version=desired_version, mode=policy.mode, slots=policy.slots
        )

        async def ask(waiting: str) -> PlannedRun:
            return await workflow.execute_activity_method(
                PlanningActivities.plan_upgrade,
                request.model_copy(update={"waiting": waiting}),
                summary=f"plan the way to {desired_version}",
                **activity_options.PLAN,
            )

        return await _until_planned(ask, say)

    async def plan_hop(
        self, outline: PlanOutline, hop_index: int, policy: RunPolicy, say: Callable[[str], None]
    ) -> PlannedHop:
        """What a later hop has to do now; raises Refused when it is no longer what was pinned. `say` as above."""
        request = HopRequest(
            **self._request().model_dump(), outline=outline, hop_index=hop_index, mode=policy.mode, slots=policy.slots
        )

        async def ask(waiting: str) -> PlannedHop:
            return await workflow.execute_activity_method(
                PlanningActivities.plan_hop,
                request.model_copy(update={"waiting": waiting}),
                summary=f"look at what {outline.hops[hop_index].to_version} has to do",
                **activity_options.PLAN,
            )

        return await _until_planned(ask, say)

    async def run_checks(self, plan: HopPlan, stage: CheckStage, *, first: bool) -> ChecksReport:
        """The house rules and the catalogue's named checks of one stage."""
        return await workflow.execute_activity_method(
            CheckActivities.run_checks,
            ChecksRequest(
                **self._request().model_dump(),
                stage=stage,
                checks=tuple(check for check in plan.checks if check.stage is stage),
                first=first,
                to_version=plan.to_version,
                targets=plan.targets,
            ),
            summary=f"checks {stage.value} {plan.to_version}",
            **activity_options.READ,
        )

    async def open_hop(
        self,
        desired_version: str,
        outline: PlanOutline,
        hop_index: int,
        plan: HopPlan,
        ledger: Ledger,
        *,
        keep_wish: bool,
    ) -> None:
        """The first writes of a hop."""
        await workflow.execute_activity_method(
            HopActivities.open_hop,
            OpenHop(
                **self._request().model_dump(),
                desired_version=desired_version,
                keep_wish=keep_wish,
                outline=outline,
                hop_index=hop_index,
                targets=plan.targets,
                ledger=ledger,
                now=workflow.now(),
            ),
            summary=f"open the hop to {plan.to_version}",
            **activity_options.EFFECT,
        )

    async def give_back(self, ledger: Ledger | None, restore: dict[str, str]) -> ClosedHop:
        """Give back what this hop has taken; without `ledger` what an earlier run has left."""
        return await workflow.execute_activity_method(
            HopActivities.close_hop,
            CloseHop(**self._request().model_dump(), ledger=ledger, restore=restore),
            summary="give back what the hop has taken",
            **activity_options.EFFECT,
        )

    async def look_for_deletion(self) -> Presence:
        """Whether the cluster is still there."""
        return await workflow.execute_activity_method(
            HopActivities.look_for_deletion,
            self._request(),
            summary="look whether the cluster is still there",
            **activity_options.READ,
        )

    async def revive_nodes(self, nodes: tuple[str, ...], patience: timedelta) -> RevivedNodes:
        """Another chance for nodes that were given up, all when none is named."""
        return await workflow.execute_activity_method(
            RetryActivities.revive_nodes,
            ReviveRequest(**self._request().model_dump(), nodes=nodes),
            summary="another chance for nodes that were given up",
            **activity_options.within(activity_options.EFFECT, patience),
        )

    async def describe_takeover(self) -> str:
        """What another controller has left, as a sentence."""
        found: Takeover = await workflow.execute_activity_method(
            RetryActivities.describe_takeover,
            self._request(),
            summary="look at what another controller has left",
            **activity_options.READ,
        )
        return found.sentence


async def _until_planned(ask: Callable[[str], Awaitable[AnswerT]], say: Callable[[str], None]) -> AnswerT:
    """Ask again, with what was waited for last, for as long as the answer is only that."""
    waiting = ""
    while True:
        planned = await ask(waiting)
        if not planned.waiting:
            return planned
        waiting = planned.waiting
        say(waiting)
