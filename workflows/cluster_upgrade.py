"""The story of an upgrade: one execution per hop, continued as new into the next one (design §2).

The first execution plans and checks the whole way, and refuses before anything has changed. Each execution then opens
its hop (wish, release image, annotations, declared versions), runs the components, checks the real cluster, and closes
the hop. A failure after the first write holds the hop until a person says `retry` or `abort`.

What survives: every decision is in this history, so any worker goes on where the last one died. What is given back:
whatever the run took stands in the ledger, and is given back at success, failure, abort and cancellation.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.failures import failure_details
    from activities.planning import Ledger
    from hopline.domain import status as transitions
    from hopline.domain.errors import HoplineError, InvalidInput, TargetAway
    from hopline.domain.plan import CheckStage, HopOutline, HopPlan, PlanOutline
    from hopline.domain.resources import ANNOTATION_TAKEN_BEFORE, ANNOTATION_TAKEN_BY
    from hopline.domain.restoration import restorable_targets
    from hopline.domain.status import Failure, RunState, UpgradeStatus
    from hopline.domain.wire import ClusterKey
    from hopline.operations.events import Regarding
    from workflows import identifiers, metrics
    from workflows.cancellation import raise_if_cancelled, stop
    from workflows.deletion_guard import guard
    from workflows.giving_back import LEFTOVERS, give_back
    from workflows.hop_run import HopRun
    from workflows.messages import (
        AbortRequest,
        Acceptance,
        Acknowledgement,
        CarriedRun,
        DesiredVersion,
        OnFailure,
        PlanView,
        PoolProgress,
        RetryRequest,
        RunPolicy,
        UpgradeInput,
        UpgradeResult,
    )
    from workflows.outages import Outages
    from workflows.refusals import ask_again, contradicting_wish, invalid_input, nothing_to, require_passed
    from workflows.retries import Retries
    from workflows.run_end import RunEnd, end_of
    from workflows.status_publisher import RunContext, StatusPublisher
    from workflows.target_patience import TargetPatience
    from workflows.upgrade_input import read_upgrade_input
    from workflows.upgrade_steps import UpgradeSteps

NOBODY = UpgradeInput(cluster=ClusterKey(kube_namespace="", name=""), desired_version="")


@workflow.defn(name=identifiers.CLUSTER_UPGRADE, failure_exception_types=[HoplineError])
class ClusterUpgrade:
    """Carries one cluster to its desired version. People steer it by the updates at the end of this class."""

    @workflow.init
    def __init__(self, raw: Any = None) -> None:
        info = workflow.info()
        parsed = read_upgrade_input(raw, info.workflow_id)
        self._input_error = parsed if isinstance(parsed, InvalidInput) else None
        self._request = NOBODY if isinstance(parsed, InvalidInput) else parsed
        carried = self._request.carried
        self._policy = carried.policy if carried else RunPolicy()
        self._outline: PlanOutline | None = carried.outline if carried else None
        self._hop_index = carried.hop_index if carried else 0
        self._plan: HopPlan | None = None
        self._ledger = Ledger()
        self._takeover = ""
        self._taken = False
        self._hop_run: HopRun | None = None
        self._accepted = carried is not None
        self._end_wanted: RunEnd | None = None
        self._is_closing = False
        context = RunContext(
            cluster=self._request.cluster,
            workflow_id=info.workflow_id,
            run_id=info.first_execution_run_id,
            management_uid=self._policy.management_uid,
            search_attributes=self._policy.search_attributes,
        )
        asked = transitions.asked(context.cluster, info.workflow_id, self._request.desired_version, workflow.now())
        status = carried.status if carried else asked
        self._publisher = StatusPublisher(context, status, carried.event_count if carried else 0)
        self._steps = UpgradeSteps(context)
        self._retries = Retries(self._steps, self._publisher)
        self._outages = Outages(self._publisher)

    @workflow.run
    async def run(self, raw: Any = None) -> UpgradeResult:
        """One hop; then continue as new into the next one, or end."""
        if self._input_error is not None:
            await workflow.wait_condition(workflow.all_handlers_finished)
            raise invalid_input(self._input_error)
        beside = [asyncio.create_task(self._publisher.run()), asyncio.create_task(guard(self._steps, self._publisher))]
        story = asyncio.create_task(self._story())
        try:
            await workflow.wait_condition(lambda: story.done() or self._must_end() is not None)
            await stop(story)
            await story
        except (FailureError, HoplineError, asyncio.CancelledError) as failure:
            # Faults of this code are retried as tasks, until a repaired worker goes on. A last word is not interrupted.
            await workflow.wait_condition(lambda: story.done() or not self._is_closing)
            await stop(story)
            if not self._has_closed(story):
                end = end_of(failure, self._must_end())
                await asyncio.shield(self._finish_badly(end))
                raise end.failure() from failure
        finally:
            for task in beside:
                task.cancel()
        await workflow.wait_condition(workflow.all_handlers_finished)
        if self._hop_index + 1 < len(self._hops):
            workflow.continue_as_new(self._next_input())
        return UpgradeResult.of(self._publisher.status, workflow.now())

    async def _story(self) -> None:
        if self._outline is None:
            await self._plan_way()
            self._go_on()
        if not self._hops:
            await self._close_run()
            return
        if self._plan is None:
            await self._until_it_works(self._plan_hop)
        self._enter_hop()
        await self._until_it_works(self._check_before)
        await self._until_it_works(self._open_hop)
        await self._run_components()
        await self._until_it_works(self._check_after)
        await self._close_hop()
        self._go_on()

    def _go_on(self) -> None:
        """Between two chapters: not when the run shall end. After the last one nothing can stop it any more."""
        if self._is_closing:
            return
        raise_if_cancelled()
        if self._must_end() is not None:
            raise asyncio.CancelledError

    def _has_closed(self, story: asyncio.Task[None]) -> bool:
        """The last publication of the last hop is written: a cancellation has come too late."""
        return self._is_closing and not story.cancelled() and story.exception() is None

    async def _plan_way(self) -> None:
        self._policy = await self._steps.record_policy(self._request.mode)
        planned = await self._steps.plan_way(self._request.desired_version, self._policy, self._publisher.say)
        self._outline, self._plan, self._ledger = planned.outline, planned.hop, planned.ledger
        if self._ledger.left_failed:
            self._takeover = await self._steps.describe_takeover()
        status = self._publisher.status.model_copy(update={"from_version": planned.from_version})
        mode, findings = self._policy.mode, planned.findings
        self._publisher.look_only(
            transitions.planned(status, planned.outline, mode=mode, findings=findings, now=workflow.now())
        )

    async def _plan_hop(self) -> None:
        assert self._outline is not None
        planned = await self._steps.plan_hop(self._outline, self._hop_index, self._policy, self._publisher.say)
        self._plan, self._ledger = planned.hop, planned.ledger

    def _enter_hop(self) -> None:
        number, total = self._hop_index + 1, len(self._hops)
        self._publisher.show(
            transitions.hop_entered(self._publisher.status, self._hop, number=number, total=total, now=workflow.now())
        )

    async def _check_before(self) -> None:
        await self._run_checks(CheckStage.BEFORE)

    async def _check_after(self) -> None:
        message = f"{self._sentence()}: checking the health of the cluster"
        self._publisher.show(transitions.checking_health(self._publisher.status, workflow.now(), message))
        await self._run_checks(CheckStage.AFTER)

    async def _run_checks(self, stage: CheckStage) -> None:
        report = await self._steps.run_checks(self._hop, stage, first=not self._publisher.status.wrote)
        self._publisher.look_only(transitions.checked(self._publisher.status, report.checks))
        require_passed(report)

    async def _open_hop(self) -> None:
        """The first writes of the hop: from here on a failure holds, and what is taken stands in the ledger."""
        assert self._outline is not None
        publisher = self._publisher
        await publisher.flush()
        self._go_on()
        self._accepted = self._taken = True
        publisher.look_only(transitions.running(publisher.status, workflow.now(), self._sentence()))
        wish, newer = self._request.desired_version, bool(publisher.status.newer_wish)
        await self._steps.open_hop(wish, self._outline, self._hop_index, self._hop, self._ledger, keep_wish=newer)
        publisher.tell(Regarding.CLUSTER_VERSION, "UpgradeReady", f"{publisher.status.cluster}: {self._sentence()}")
        if self._ledger.adopted:
            publisher.tell(Regarding.BKE_CLUSTER, "LeftoversAdopted", f"taken over: {LEFTOVERS}")
        if self._takeover:
            publisher.tell(Regarding.BKE_CLUSTER, "UpgradeTakenOver", self._takeover)
            self._takeover = ""
        publisher.show(transitions.hop_opened(publisher.status))
        # Whoever watches sees `Upgrading` before anything of the hop changes (observed.md §3).
        await publisher.flush()

    async def _run_components(self) -> None:
        self._hop_run = HopRun(self._hop, self._policy, self._publisher, self._outages, self._hold)
        await self._hop_run.run()

    async def _close_hop(self) -> None:
        """Versions and health first, then the annotations, then the ClusterVersion (observed.md §3 item 5)."""
        publisher = self._publisher
        publisher.look_only(transitions.hop_finished(publisher.status, workflow.now()))
        publisher.tell(Regarding.CLUSTER_VERSION, "HopSucceeded", self._sentence())
        await self._until_it_works(self._say_the_last_word)
        metrics.hop_ended(RunState.DONE.value)

    async def _say_the_last_word(self) -> None:
        """A hop has ended when its objects say so: what cannot be written holds it (design §8: all agree)."""
        publisher, last = self._publisher, self._hop_index + 1 == len(self._hops)
        self._is_closing = last
        publisher.show(transitions.done(publisher.status, workflow.now()) if last else publisher.status)
        marks = dict.fromkeys((ANNOTATION_TAKEN_BY, ANNOTATION_TAKEN_BEFORE))
        try:
            await publisher.close({**self._ledger.annotations, **marks}, final=last)
        except FailureError:
            self._is_closing = False
            raise
        self._taken = False

    async def _close_run(self) -> None:
        """The cluster is there already: say so, and mark the wish as handled."""
        self._accepted = self._is_closing = True
        self._publisher.show(transitions.done(self._publisher.status, workflow.now()))
        await self._publisher.close({}, final=True)

    # Holding and ending.

    async def _until_it_works(self, chapter: Callable[[], Awaitable[None]]) -> None:
        """After the first write a chapter that fails is held and tried again, and waits for a target that is away."""
        patience = TargetPatience(self._publisher.asker, partial(self._outages.noted, "run"))
        while True:
            try:
                await chapter()
            except FailureError as failure:
                if is_cancelled_exception(failure) or not self._publisher.status.wrote:
                    raise
                details = failure_details(failure)
                if details.kind == TargetAway.__name__:
                    await patience.until_back(details.sentence())
                else:
                    await self._hold(details.reason or details.kind, details.sentence(), None)
            else:
                self._go_on()
                return

    async def _hold(self, reason: str, message: str, failure: Failure | None) -> None:
        """Return when a person wants a retry. With `onFailure: fail` the run ends instead."""
        publisher, now = self._publisher, workflow.now()
        if self._request.on_failure is OnFailure.FAIL:
            self._end_wanted = RunEnd(RunState.FAILED, reason, message)
            self._go_on()
        # Before the hold is shown: a retry may arrive as soon as it is.
        self._retries.wanted = False
        metrics.hop_ended(RunState.HELD.value)
        publisher.show(transitions.held(publisher.status, now, reason=reason, message=message, failure=failure))
        publisher.tell(Regarding.CLUSTER_VERSION, "UpgradeHeld", message, warning=True)
        await publisher.flush()
        await workflow.wait_condition(lambda: self._retries.wanted)
        publisher.tell(Regarding.CLUSTER_VERSION, "UpgradeResumed", self._sentence())
        publisher.show(transitions.running(publisher.status, workflow.now(), self._sentence()))

    def _must_end(self) -> RunEnd | None:
        if self._is_closing:
            return None
        if self._end_wanted is None and self._publisher.gone:
            self._end_wanted = RunEnd(RunState.ABORTED, "ClusterGone", self._publisher.gone)
        return self._end_wanted

    async def _finish_badly(self, end: RunEnd) -> None:
        """Give back what was taken, tell how it ended, and let every waiting caller hear it."""
        publisher = self._publisher
        end = end.after_writing() if publisher.status.wrote else end
        publisher.show(end.shown_on(publisher.status, workflow.now()))
        self._end_wanted = end
        publisher.tell(Regarding.CLUSTER_VERSION, end.event_reason, end.message, warning=True)
        metrics.hop_ended(end.state.value)
        if self._taken:
            await give_back(self._steps, publisher, self._ledger, self._to_restore())
        else:
            await give_back(self._steps, publisher, None, {})
        with contextlib.suppress(ActivityError):
            await publisher.close({}, final=True)
        await workflow.wait_condition(workflow.all_handlers_finished)

    def _to_restore(self) -> dict[str, str]:
        names = frozenset(component.name for component in self._hop.components)
        untouched = self._hop_run.untouched() if self._hop_run else names
        return restorable_targets(self._hop, untouched, self._ledger.targets)

    @property
    def _hops(self) -> tuple[HopOutline, ...]:
        return self._outline.hops if self._outline else ()

    @property
    def _hop(self) -> HopPlan:
        assert self._plan is not None
        return self._plan

    def _sentence(self) -> str:
        hop = self._hops[self._hop_index]
        return f"hop {self._hop_index + 1} of {len(self._hops)}, {hop.from_version} -> {hop.to_version}"

    def _next_input(self) -> UpgradeInput:
        assert self._outline is not None
        carried = CarriedRun(
            policy=self._policy,
            outline=self._outline,
            hop_index=self._hop_index + 1,
            status=transitions.hop_ahead(self._publisher.status, self._outline, self._hop_index + 1),
            event_count=self._publisher.event_count,
        )
        return self._request.model_copy(update={"carried": carried})

    # Messages.

    @workflow.update(description="Say which version the cluster should have; the same version joins this run")
    async def set_desired_version(self, wish: DesiredVersion) -> Acceptance:
        """Answers when the checks have accepted the wish; raises what refused it."""
        await workflow.wait_condition(lambda: self._accepted or self._end_wanted is not None)
        if self._end_wanted is not None:
            raise self._end_wanted.failure()
        status = self._publisher.status
        return Acceptance(
            version=wish.version, plan_digest=status.plan_digest, hops=len(self._hops), state=status.state.value
        )

    @set_desired_version.validator
    def _same_version(self, wish: DesiredVersion) -> None:
        if self._input_error is not None:
            raise invalid_input(self._input_error)
        if wish.version != self._request.desired_version:
            raise contradicting_wish(self._request.cluster, self._request.desired_version, wish.version)
        if self._end_wanted is not None and self._end_wanted.state is RunState.REFUSED:
            raise ask_again(self._publisher.status)

    @workflow.update(description="Go on with a hop that is held, after the cause has been repaired")
    async def retry(self, request: RetryRequest) -> Acknowledgement:
        """Gives failed nodes another chance and wakes the held hop; an annotation is answered in every state."""
        return await self._retries.answer(request)

    @retry.validator
    def _is_held(self, request: RetryRequest) -> None:
        status = self._publisher.status
        is_over = self._is_closing or self._end_wanted is not None
        if is_over or not (request.annotation or status.state is RunState.HELD):
            raise nothing_to("retry", status)

    @workflow.update(description="End the run here: stop safely, give back what was taken, change nothing else")
    async def abort(self, request: AbortRequest) -> Acknowledgement:
        """Ends the run as Aborted; the clean-up follows."""
        reason = request.reason or "a person asked to end it"
        if self._end_wanted is None:
            self._end_wanted = RunEnd(RunState.ABORTED, "Aborted", f"aborted: {reason}")
        return Acknowledgement(state=self._end_wanted.state.value, message=self._end_wanted.message)

    @abort.validator
    def _can_be_aborted(self, request: AbortRequest) -> None:
        if self._is_closing:
            raise nothing_to("abort", self._publisher.status)

    @workflow.signal(name="pool_progressed", description="Sent by NodeRollout: how far a node pool is")
    def pool_progressed(self, progress: PoolProgress) -> None:
        """Counts of one pool; for the status only."""
        if self._hop_run is not None and progress.component in self._hop_run.runs:
            self._hop_run.runs[progress.component].progressed(progress)

    @workflow.signal(name="wish_seen", description="Sent by the watcher: what the ClusterVersion asks for meanwhile")
    def wish_seen(self, wish: DesiredVersion) -> None:
        """Shows a newer wish on the ClusterVersion; it changes nothing of this run."""
        seen = transitions.wish_seen(self._publisher.status, wish.version)
        if seen != self._publisher.status and not self._is_closing:
            self._publisher.show(seen)

    @workflow.query(description="Where the upgrade is, and what to do")
    def status(self) -> UpgradeStatus:
        """The status document."""
        return self._publisher.status

    @workflow.query(description="The pinned way, and the plan of the hop that runs")
    def plan(self) -> PlanView:
        """Outline and hop plan."""
        return PlanView(outline=self._outline, hop=self._plan)
