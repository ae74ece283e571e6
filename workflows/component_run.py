"""One component of a hop: apply and wait, or one rollout per node pool, inside its deadline."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from functools import partial

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    ApplicationError,
    ChildWorkflowError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)

with workflow.unsafe.imports_passed_through():
    from activities.components import (
        AppliedComponent,
        ComponentActivities,
        ComponentRequest,
        WaitReport,
        WaitRequest,
    )
    from activities.failures import COMPONENT_FAILED, ErrorDetails
    from hopline.domain import status as transitions
    from hopline.domain.node_revival import MAX_NAMED
    from hopline.domain.node_status import NodeProgress, NodeStatus
    from hopline.domain.node_strategy import DrainRules
    from hopline.domain.plan import ComponentType, HopPlan, PlannedComponent, Pool
    from hopline.operations.events import Regarding
    from workflows import activity_options, identifiers
    from workflows.cancellation import raise_if_cancelled
    from workflows.messages import PoolProgress, RolloutInput, RolloutResult
    from workflows.outages import Outages
    from workflows.status_publisher import StatusPublisher
    from workflows.target_patience import TargetPatience

CHILD_RETRY_INTERVAL = timedelta(seconds=2)
CHILD_RETRY_LIMIT = timedelta(minutes=10)
"""A child whose id is still cleaning up answers "already started" (design, "Temporal settings that bind")."""


class NotInstalled(Exception):
    """The component is not in this cluster; it is left alone and not recorded."""


class ComponentRun:
    """Runs one component, again after every retry, and says what it waits for."""

    def __init__(
        self,
        plan: HopPlan,
        component: PlannedComponent,
        publisher: StatusPublisher,
        outages: Outages,
        drain: DrainRules,
    ) -> None:
        self._plan = plan
        self._drain = drain
        self._outages = outages
        self._patience = TargetPatience(publisher.asker, lambda reason: outages.noted(component.name, reason))
        self._component = component
        self._publisher = publisher
        self._calls = 0
        self._pools: dict[Pool, PoolProgress] = {}

    async def run(self, place: str) -> None:
        """Return when the component is done; raise ActivityError, ChildWorkflowError or NotInstalled."""
        deadline = workflow.now() + timedelta(seconds=self._component.timeout_seconds)
        match self._component.type:
            case ComponentType.MANIFEST:
                await self._apply_and_wait(place, deadline)
            case ComponentType.RESOURCES:
                await self._create_resources(place, deadline)
            case _:
                await self._roll_out(deadline)

    async def _apply_and_wait(self, place: str, deadline: datetime) -> None:
        applied = await self._patience.reaching(lambda: self._apply(place, deadline))
        if applied.not_installed:
            raise NotInstalled(f"{self._component.name} is not installed in this cluster")
        waiting_for = applied.waiting_for
        ready = applied.settled
        while not ready:
            raise_if_cancelled()
            self._say(waiting_for)
            report, left = await self._patience.reaching(partial(self._wait, place, waiting_for, deadline))
            ready, waiting_for = report.ready, report.waiting_for
            self._check(report, is_last_look=not left)

    async def _apply(self, place: str, deadline: datetime) -> AppliedComponent:
        """Called again as often as the API server refuses it for another reason, which the status tells."""
        told = ""
        while True:
            applied: AppliedComponent = await workflow.execute_activity_method(
                ComponentActivities.apply_component,
                self._request().model_copy(update={"told": told}),
                activity_id=self._activity_id("apply"),
                summary=f"{place}: apply {self._component.version}",
                **activity_options.within(activity_options.EFFECT, deadline - self._patience.now()),
            )
            if not applied.refused:
                return applied
            raise_if_cancelled()
            told = applied.waiting_for
            self._say(told)

    async def _wait(self, place: str, waiting_for: str, deadline: datetime) -> tuple[WaitReport, timedelta]:
        """What was seen, and what was left of the deadline before the look."""
        left = max(deadline - self._patience.now(), timedelta(0))
        window = min(left, activity_options.WAIT_WINDOW)
        report: WaitReport = await workflow.execute_activity_method(
            ComponentActivities.wait_for_component,
            WaitRequest(**self._request().model_dump(), last=waiting_for, window_seconds=window.total_seconds()),
            activity_id=self._activity_id("wait"),
            summary=f"{place}: wait for {self._component.version}",
            **activity_options.within(activity_options.WAIT, left + activity_options.LAST_LOOK),
        )
        return report, left

    def _check(self, report: WaitReport, *, is_last_look: bool) -> None:
        """The last look has just read the truth: only now may the deadline speak (design §8)."""
        if report.failed:
            raise self._failed(report.failed)
        if not report.ready and is_last_look:
            limit = self._component.timeout_seconds
            raise self._failed(f"not rolled out within {limit} s, still waiting for {report.waiting_for}")

    def _failed(self, message: str) -> ApplicationError:
        name = f"component {self._component.name} {self._component.version}"
        details = ErrorDetails(kind=COMPONENT_FAILED, message=message, subject=name)
        return ApplicationError(message, details, type=COMPONENT_FAILED, non_retryable=True)

    async def _create_resources(self, place: str, deadline: datetime) -> None:
        await workflow.execute_activity_method(
            ComponentActivities.create_resources,
            self._request(),
            activity_id=self._activity_id("create"),
            summary=f"{place}: create resources",
            **activity_options.within(activity_options.EFFECT, deadline - workflow.now()),
        )

    async def _roll_out(self, deadline: datetime) -> None:
        rollouts = [asyncio.create_task(self._pool(pool, deadline)) for pool in self._component.pools]
        try:
            await asyncio.gather(*rollouts)
        finally:
            for rollout in rollouts:
                rollout.cancel()
            await asyncio.gather(*rollouts, return_exceptions=True)

    async def _pool(self, pool: Pool, deadline: datetime) -> None:
        context, name = self._publisher.context, self._component.name
        child_id = identifiers.rollout_workflow_id(context.cluster, self._plan.to_version, name, pool.value)
        request = RolloutInput(
            cluster=context.cluster,
            component=self._component,
            pool=pool,
            hop_version=self._plan.to_version,
            release_digest=self._plan.release_digest,
            deadline=deadline,
            attempt=self._publisher.status.component(name).attempt,
            parent_id=context.workflow_id,
            run_id=context.run_id,
            management_uid=context.management_uid,
            drain=self._component.drain_rules.over(self._drain),
            strategy=self._component.strategy,
        )
        give_up = workflow.now() + CHILD_RETRY_LIMIT
        while True:
            try:
                result: RolloutResult = await workflow.execute_child_workflow(
                    identifiers.NODE_ROLLOUT,
                    request,
                    id=child_id,
                    result_type=RolloutResult,
                    static_summary=f"{name} {self._component.version} on {pool.value}",
                    parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                    cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
                    id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                )
            except ChildWorkflowError as failure:
                if not is_cancelled_exception(failure):
                    self._outages.noted(child_id, "")
                raise
            except WorkflowAlreadyStartedError:
                if workflow.now() >= give_up:
                    raise self._failed(f"workflow {child_id} of an earlier run is still open") from None
                self._say(f"workflow {child_id} of an earlier run to clean up")
                await workflow.sleep(CHILD_RETRY_INTERVAL, summary=f"{name}: {pool.value} is still cleaning up")
            else:
                self._pool_done(pool, result)
                return

    def _pool_done(self, pool: Pool, result: RolloutResult) -> None:
        if result.left_out:
            names = ", ".join(result.left_out[:MAX_NAMED])
            self._publisher.tell(
                Regarding.BKE_CLUSTER, "NodesLeftOut", f"{self._component.name}: {names}", warning=True
            )
        if result.notes:
            told = "; ".join(result.notes)
            self._publisher.tell(Regarding.BKE_CLUSTER, "NodesTouched", f"{self._component.name}: {told}", warning=True)
        done = NodeProgress(done=result.done, total=result.done)
        self.progressed(PoolProgress(component=self._component.name, pool=pool, nodes=done))

    def progressed(self, progress: PoolProgress) -> None:
        """A rollout reports; the counts of all pools go into one line."""
        self._pools[progress.pool] = progress
        name = identifiers.rollout_workflow_id(
            self._publisher.context.cluster, self._plan.to_version, progress.component, progress.pool.value
        )
        self._outages.noted(name, progress.away)
        pools = list(self._pools.values())
        nodes = NodeProgress(
            done=sum(pool.nodes.done for pool in pools),
            total=sum(pool.nodes.total for pool in pools),
            in_hand=tuple(node for pool in pools for node in pool.nodes.in_hand),
            failed=tuple(node for pool in pools for node in pool.nodes.failed),
        )
        self._note_snapshot(progress)
        message = "; ".join(pool.message for pool in pools if pool.message)
        self._say(message, nodes)

    def _note_snapshot(self, progress: PoolProgress) -> None:
        """A new snapshot of etcd is told once, and stays in the status."""
        publisher, snapshot = self._publisher, progress.snapshot
        if snapshot is None or snapshot == publisher.status.etcd_snapshot:
            return
        publisher.status = publisher.status.model_copy(update={"etcd_snapshot": snapshot})
        publisher.tell(Regarding.BKE_CLUSTER, "EtcdSnapshotTaken", str(snapshot))

    def failed_node(self, details: ErrorDetails) -> str:
        """The node that a failure names, if it is one of a node."""
        kind, _, name = details.subject.partition(" ")
        return name.rpartition("/")[2] if kind == "BKENode" else ""

    def _say(self, message: str, nodes: NodeProgress | None = None) -> None:
        publisher = self._publisher
        publisher.show(
            transitions.component_waits(publisher.status, self._component.name, message, nodes, self._shown())
        )

    def _shown(self) -> tuple[NodeStatus, ...]:
        return tuple(node for pool in self._pools.values() for node in pool.shown)

    def _request(self) -> ComponentRequest:
        context = self._publisher.context
        return ComponentRequest(
            cluster=context.cluster,
            workflow_id=context.workflow_id,
            run_id=context.run_id,
            management_uid=context.management_uid,
            component=self._component,
            attempt=self._publisher.status.component(self._component.name).attempt,
            from_version=self._plan.from_version,
            hop_version=self._plan.to_version,
            release_digest=self._plan.release_digest,
        )

    def _activity_id(self, step: str) -> str:
        self._calls += 1
        return identifiers.component_activity_id(self._plan.to_version, self._component.name, step, self._calls)
