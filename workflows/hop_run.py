"""The components of one hop, from the first to the last: start what may start, hold when one has failed.

Which component starts is one pure decision (`hopline.domain.schedule`); this file carries it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.failures import ErrorDetails, failure_details
    from hopline.domain import status as transitions
    from hopline.domain.components import gates_of
    from hopline.domain.decisions import NOT_INSTALLED
    from hopline.domain.plan import Action, HopPlan, PlannedComponent, SchedulingMode
    from hopline.domain.schedule import Progress, next_steps, schedule_of
    from hopline.domain.schedule import skipped as skipped_by_plan
    from hopline.domain.status import Failure, StepState
    from hopline.operations.events import Regarding
    from workflows import metrics
    from workflows.component_run import ComponentRun, NotInstalled
    from workflows.messages import RunPolicy
    from workflows.outages import Outages
    from workflows.status_publisher import StatusPublisher

Hold = Callable[[str, str, Failure], Awaitable[None]]
"""Hold the hop: reason, message, failure. Returns when a person wants a retry; raises when the run shall end."""


class HopRun:
    """Runs the components of one hop under its schedule."""

    def __init__(
        self, plan: HopPlan, policy: RunPolicy, publisher: StatusPublisher, outages: Outages, hold: Hold
    ) -> None:
        self._plan = plan
        self._publisher = publisher
        self._hold = hold
        mode = SchedulingMode(policy.mode)
        self._schedule = schedule_of(plan, mode, policy.slots, gates_of({c.name: c.handler for c in plan.components}))
        self._done: set[str] = set(skipped_by_plan(plan))
        self._failed: dict[str, Failure] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.runs = {
            component.name: ComponentRun(plan, component, publisher, outages, policy.drain)
            for component in plan.components
        }
        self.started: set[str] = set()

    async def run(self) -> None:
        """Return when every component is done or skipped; raise what `hold` raises."""
        for component in self._plan.components:
            if component.action is Action.SKIP and component.reason.startswith(NOT_INSTALLED):
                self._publisher.tell(Regarding.BKE_CLUSTER, "ComponentSkipped", f"{component.name}: {component.reason}")
        try:
            while True:
                self._start_what_may()
                if self._tasks:
                    await workflow.wait(list(self._tasks.values()), return_when=asyncio.FIRST_COMPLETED)
                    self._collect()
                elif self._failed:
                    await self._hold_for_retry()
                else:
                    return
        finally:
            await self._stop()

    def _start_what_may(self) -> None:
        progress = Progress(done=frozenset(self._done), running=frozenset(self._tasks), failed=frozenset(self._failed))
        for name in next_steps(self._schedule, progress):
            self._start(self._plan.component(name))

    def _start(self, component: PlannedComponent) -> None:
        self.started.add(component.name)
        publisher = self._publisher
        publisher.show(transitions.component_started(publisher.status, component.name, workflow.now()))
        versions = f"{component.current or 'unknown'} -> {component.version}"
        publisher.tell(Regarding.BKE_CLUSTER, "ComponentUpgrading", f"{self.place(component)}: {versions}")
        self._tasks[component.name] = asyncio.create_task(self.runs[component.name].run(self.place(component)))

    def place(self, component: PlannedComponent) -> str:
        """`5/6 kubernetes-master`: batch, batches, name (screens.md §6)."""
        return f"{self._plan.batch_of(component.name)}/{len(self._plan.batches)} {component.name}"

    def _collect(self) -> None:
        for name in sorted(name for name, task in self._tasks.items() if task.done()):
            task = self._tasks.pop(name)
            try:
                task.result()
            except NotInstalled as reason:
                self._leave_alone(name, str(reason))
            except FailureError as failure:
                if is_cancelled_exception(failure):
                    raise
                self._fail(name, failure_details(failure))
            else:
                self._finish(name)

    def _leave_alone(self, name: str, reason: str) -> None:
        self._done.add(name)
        publisher = self._publisher
        publisher.show(transitions.component_left_alone(publisher.status, name, workflow.now(), reason))
        publisher.tell(Regarding.BKE_CLUSTER, "ComponentSkipped", f"{name}: {reason}")
        self._count(name, StepState.SKIPPED)

    def _finish(self, name: str) -> None:
        self._done.add(name)
        publisher, component = self._publisher, self._plan.component(name)
        publisher.show(transitions.component_finished(publisher.status, name, workflow.now()))
        took = f" in {int(_duration(publisher, name).total_seconds())}s"
        publisher.tell(
            Regarding.BKE_CLUSTER, "ComponentUpgraded", f"{self.place(component)}: {component.version}{took}"
        )
        self._count(name, StepState.DONE)

    def _count(self, name: str, outcome: StepState) -> None:
        kind = self._plan.component(name).type.value
        metrics.component_ended(name, kind, outcome.value, _duration(self._publisher, name))

    def _fail(self, name: str, details: ErrorDetails) -> None:
        component, publisher = self._plan.component(name), self._publisher
        failure = Failure(
            component=name,
            version=component.record_version or component.version,
            node=self.runs[name].failed_node(details),
            attempt=publisher.status.component(name).attempt,
            error=details.sentence(),
            remedy=details.remedy,
            failed_at=workflow.now(),
        )
        self._failed[name] = failure
        publisher.show(transitions.component_failed(publisher.status, failure))
        publisher.tell(
            Regarding.BKE_CLUSTER, "ComponentUpgradeFailed", f"{self.place(component)}: {failure.error}", warning=True
        )
        self._count(name, StepState.FAILED)

    async def _hold_for_retry(self) -> None:
        newest = list(self._failed.values())[-1]
        names = ", ".join(sorted(self._failed))
        await self._hold("ComponentFailed", f"held: {names} failed in {self._plan.to_version}", newest)
        self._failed.clear()

    async def _stop(self) -> None:
        """Nothing of this hop runs on after it: every task has ended when this returns."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def untouched(self) -> frozenset[str]:
        """Components of this hop that were never started: an abort gives their declared versions back."""
        return frozenset(component.name for component in self._plan.components) - self.started


def _duration(publisher: StatusPublisher, name: str) -> timedelta:
    component = publisher.status.component(name)
    if component.started_at is None or component.finished_at is None:
        return timedelta()
    return component.finished_at - component.started_at
