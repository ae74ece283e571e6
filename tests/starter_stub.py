"""Stands in for the workflows of Hopline: same names and messages, and a story that the wished version chooses.

The starter is tested against messages alone; the real workflows have their own tests.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.failures import INVALID_INPUT, REFUSED, ErrorDetails, details_of
    from hopline.domain.errors import ContradictingWish, InvalidInput
    from hopline.domain.node_revival import RevivedNodes
    from hopline.domain.plan import Finding, Severity, UpgradePlan
    from hopline.domain.status import ComponentStatus, Failure, HopProgress, RunState, StepState, UpgradeStatus
    from workflows.identifiers import HOP, PHASE
    from workflows.messages import (
        AbortRequest,
        Acceptance,
        Acknowledgement,
        DesiredVersion,
        InspectionInput,
        InspectionResult,
        Question,
        ReachableEntry,
        RetryAnswerInput,
        RetryRequest,
        UpgradeInput,
        UpgradeResult,
        VersionsAnswer,
    )

DONE, REFUSED_VERSION, HELD, FAILED, ENDLESS, BOUNDARY = (
    "v-done",
    "v-refused",
    "v-held",
    "v-failed",
    "v-endless",
    "v-hops",
)
SECOND = "second"
UNKNOWN_NODE = "192.0.2.99"
REFUSAL = ErrorDetails(
    kind="ClusterNotReady",
    message="the cluster is paused",
    subject="BKECluster east/east",
    field="spec.pause",
    value="true",
    remedy="unpause it",
)


@workflow.defn(name="ClusterUpgrade")
class StubUpgrade:
    @workflow.init
    def __init__(self, request: UpgradeInput) -> None:
        self._request = request
        self._retries: list[RetryRequest] = []
        self._aborted = ""
        self._refused = False
        self._status = UpgradeStatus(
            cluster=request.cluster,
            workflow_id=workflow.info().workflow_id,
            from_version="v-old",
            to_version=request.desired_version,
            state=RunState.RUNNING,
            since=workflow.now(),
            started_at=workflow.now(),
            path=("v-old", request.desired_version),
            hop=HopProgress(
                number=1,
                total=1,
                from_version="v-old",
                to_version=request.desired_version,
                started_at=workflow.now(),
            ),
        )

    @workflow.run
    async def run(self, request: UpgradeInput) -> UpgradeResult:
        if request.desired_version == BOUNDARY and request.mode != SECOND:
            await asyncio.sleep(0.3)
            workflow.continue_as_new(request.model_copy(update={"mode": SECOND}))
        try:
            await self._story(request.desired_version)
        finally:
            await workflow.wait_condition(workflow.all_handlers_finished)
        self._enter(RunState.DONE, f"{request.cluster} is at {request.desired_version}")
        return UpgradeResult(cluster=request.cluster)

    async def _story(self, version: str) -> None:
        if version == REFUSED_VERSION:
            self._refused = True
            self._enter(RunState.REFUSED, REFUSAL.message)
            raise _refusal()
        self._component(StepState.RUNNING)
        workflow.upsert_memo({"status": f"{self._request.cluster} is running"})
        workflow.upsert_search_attributes([PHASE.value_set("Running"), HOP.value_set("1/1")])
        if version == HELD:
            await self._hold()
        if version == FAILED:
            self._enter(RunState.FAILED, "provider failed")
            raise ApplicationError("provider failed", type="HopFailed", non_retryable=True)
        if version == ENDLESS:
            await workflow.wait_condition(lambda: bool(self._aborted))
            self._enter(RunState.ABORTED, self._aborted)
            raise ApplicationError(self._aborted, type="Aborted", non_retryable=True)
        await asyncio.sleep(0.7)
        self._component(StepState.DONE)

    async def _hold(self) -> None:
        failure = Failure(component="provider", error="disk full")
        self._status = self._status.model_copy(
            update={"failure": failure, "next_commands": ("hopline retry east -n east",)}
        )
        self._enter(RunState.HELD, "held: provider failed")
        await workflow.wait_condition(lambda: bool(self._retries or self._aborted))
        if self._aborted:
            self._enter(RunState.ABORTED, self._aborted)
            raise ApplicationError(self._aborted, type="Aborted", non_retryable=True)
        self._enter(RunState.RUNNING, "goes on")

    def _component(self, state: StepState) -> None:
        now = workflow.now()
        component = ComponentStatus(
            name="provider", version="v2", batch=1, state=state, attempt=1, started_at=now, finished_at=now
        )
        self._status = self._status.model_copy(update={"components": (component,)})

    def _enter(self, state: RunState, message: str) -> None:
        update = {"state": state, "message": message, "since": workflow.now()}
        self._status = self._status.model_copy(update=update)

    @workflow.update(unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def set_desired_version(self, wish: DesiredVersion) -> Acceptance:
        if self._request.desired_version == BOUNDARY and self._request.mode != SECOND:
            await workflow.wait_condition(lambda: False)
        if self._request.desired_version == REFUSED_VERSION:
            await workflow.wait_condition(lambda: self._refused)
            raise _refusal()
        return Acceptance(
            version=wish.version, plan_digest="sha256:7c1f3a9e5512", hops=1, state=self._status.state.value
        )

    @set_desired_version.validator
    def _same_version(self, wish: DesiredVersion) -> None:
        if wish.version != self._request.desired_version:
            error = ContradictingWish(
                f"an upgrade to {self._request.desired_version} is running",
                subject=f"ClusterVersion {self._request.cluster}",
                field="spec.desiredVersion",
                value=wish.version,
                remedy="wait for it",
            )
            raise ApplicationError(str(error), details_of(error), type=REFUSED, non_retryable=True)

    @workflow.update
    async def retry(self, request: RetryRequest) -> Acknowledgement:
        self._retries.append(request)
        return Acknowledgement(state=RunState.RUNNING.value, message="goes on with provider")

    @retry.validator
    def _is_held(self, request: RetryRequest) -> None:
        if self._status.state is not RunState.HELD:
            raise ApplicationError("nothing to retry: the upgrade is Running", type=REFUSED)

    @workflow.update
    async def abort(self, request: AbortRequest) -> Acknowledgement:
        self._aborted = f"aborted: {request.reason}"
        return Acknowledgement(state=RunState.ABORTED.value, message=self._aborted)

    @workflow.query
    def status(self) -> UpgradeStatus:
        return self._status

    @workflow.query
    def retries(self) -> list[RetryRequest]:
        return self._retries


def _refusal() -> ApplicationError:
    return ApplicationError(REFUSAL.sentence(), REFUSAL, type=REFUSED, non_retryable=True)


@workflow.defn(name="ClusterInspection")
class StubInspection:
    @workflow.run
    async def run(self, request: InspectionInput) -> InspectionResult:
        await asyncio.sleep(0)
        if request.desired_version == REFUSED_VERSION:
            raise _refusal()
        blocks = Finding(
            severity=Severity.BLOCKS, object="PodDisruptionBudget shop/cart", message="allows 0 disruptions"
        )
        findings = (blocks,) if request.desired_version == FAILED else ()
        match request.question:
            case Question.PLAN:
                plan = UpgradePlan(
                    cluster=request.cluster, from_version="v-old", to_version=request.desired_version, findings=findings
                )
                return InspectionResult(plan=plan)
            case Question.STATUS:
                status = UpgradeStatus(cluster=request.cluster, state=RunState.DONE, message="no upgrade runs")
                return InspectionResult(status=status)
            case _:
                entries = (ReachableEntry(version="v-done", hops=1),)
                return InspectionResult(versions=VersionsAnswer(from_version="v-old", versions=entries))


@workflow.defn(name="RetryAnswer")
class StubRetryAnswer:
    """Writes nothing: the nodes that were named take part again, but one."""

    @workflow.run
    async def run(self, retry: RetryAnswerInput) -> RevivedNodes:
        await asyncio.sleep(0)
        if UNKNOWN_NODE in retry.nodes:
            error = InvalidInput(f"no node of {retry.cluster} has the address {UNKNOWN_NODE}")
            raise ApplicationError(str(error), details_of(error), type=INVALID_INPUT, non_retryable=True)
        return RevivedNodes(nodes=retry.nodes)


STUBS = [StubUpgrade, StubInspection, StubRetryAnswer]
