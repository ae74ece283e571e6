"""What the starter asks of the workflows: a wish, a retry, an abort, a look. One place for command line and watcher.

An update that meets the boundary between two hops is answered "aborted by closing workflow" or "already completed"
though nobody refused it; it is sent again with the same id until it is accepted or refused (design §2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecutionDescription,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from hopline.domain.errors import InvalidInput, NotFound, Transient
from hopline.domain.node_revival import RevivedNodes
from hopline.domain.plan import UpgradePlan
from hopline.domain.plan_pieces import PlanPage, joined
from hopline.domain.status import UpgradeStatus
from hopline.domain.wire import ClusterKey
from starter.failures import error_of
from workflows.identifiers import CLUSTER_INSPECTION, CLUSTER_UPGRADE, RETRY_ANSWER, upgrade_workflow_id
from workflows.messages import (
    ASK_AGAIN,
    AbortRequest,
    Acceptance,
    Acknowledgement,
    DesiredVersion,
    InspectionInput,
    InspectionResult,
    OnFailure,
    PlanView,
    Question,
    RetryAnswerInput,
    RetryRequest,
    UpgradeInput,
)

T = TypeVar("T")

SET_DESIRED_VERSION, RETRY, ABORT = "set_desired_version", "retry", "abort"
STATUS, PLAN = "status", "plan"
WISH_SEEN = "wish_seen"

PLAN_TRIES = 3
"""A plan in pages is read again from the start when its nodes have changed meanwhile."""

ANSWER_PATIENCE = timedelta(seconds=60)
"""A plan reads every release of the way; the measured time is below 2 s."""

QUERY_TIMEOUT = timedelta(seconds=10)
WORKER_PATIENCE = 3.0
"""Seconds in which a worker that was just started shows up."""

RESEND_PAUSE = 0.3
CLOSE_PAUSE = 5.0
"""Seconds between two attempts to wait for the end of a run while the service is away."""

_NOBODY_ANSWERS = (RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
_UNDECIDED = (
    "aborted by closing workflow",
    "already completed",
    "AcceptedUpdateCompletedWorkflow",
    ASK_AGAIN,
    "unexpected workflow task failure",
)
"""Parts of answers in which nobody has refused the update; the last one is how two updates in one moment may end."""


@dataclass(frozen=True)
class Requests:
    """Requests to the workflows of one task queue.

    Every method raises Transient when no worker or no service answers, and the domain error that the workflow answered.
    """

    client: Client
    task_queue: str

    async def set_desired_version(
        self,
        wish: UpgradeInput,
        *,
        update_id: str = "",
        patience: timedelta = ANSWER_PATIENCE,
    ) -> Acceptance:
        """Start the one run of the cluster, or join it. Raises a Refusal when checks, path or run say no."""
        update_id = update_id or str(uuid4())

        async def send() -> Acceptance:
            # An operation can be used once, so each attempt has its own.
            start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
                CLUSTER_UPGRADE,
                wish,
                id=upgrade_workflow_id(wish.cluster),
                task_queue=self.task_queue,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                static_summary=f"{wish.cluster} to {wish.desired_version}",
            )
            answer: Acceptance = await self.client.execute_update_with_start_workflow(
                SET_DESIRED_VERSION,
                DesiredVersion(version=wish.desired_version),
                start_workflow_operation=start,
                id=update_id,
                result_type=Acceptance,
            )
            return answer

        return await self._until_answered(send, patience)

    async def retry(self, cluster: ClusterKey, request: RetryRequest) -> Acknowledgement:
        """Go on with a held hop. NotFound when no run is open."""
        return await self._update(cluster, RETRY, request)

    async def abort(self, cluster: ClusterKey, request: AbortRequest) -> Acknowledgement:
        """End a run and give back what it took. NotFound when no run is open."""
        return await self._update(cluster, ABORT, request)

    async def _update(self, cluster: ClusterKey, name: str, request: RetryRequest | AbortRequest) -> Acknowledgement:
        handle = self.client.get_workflow_handle(upgrade_workflow_id(cluster))
        update_id = str(uuid4())

        async def send() -> Acknowledgement:
            description = await self.describe(cluster)
            if description is None or description.close_time is not None:
                where = f"{cluster.name} -n {cluster.kube_namespace}"
                again = f"; to plan it again: hopline upgrade {where} --to VERSION" if name == RETRY else ""
                raise NotFound(
                    f"no upgrade of {cluster} is running, so there is nothing to {name}",
                    subject=f"workflow {upgrade_workflow_id(cluster)}",
                    remedy=f"hopline status {where}{again}",
                )
            answer: Acknowledgement = await handle.execute_update(
                name, request, id=update_id, result_type=Acknowledgement
            )
            return answer

        return await self._until_answered(send, ANSWER_PATIENCE)

    async def describe(self, cluster: ClusterKey) -> WorkflowExecutionDescription | None:
        """What the service knows about the newest run, without a worker. None when there was none."""
        try:
            return await self.client.get_workflow_handle(upgrade_workflow_id(cluster)).describe(
                rpc_timeout=QUERY_TIMEOUT
            )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise error_of(error) from error

    async def is_open(self, cluster: ClusterKey) -> bool:
        """Whether a run of the cluster is open now."""
        newest = await self.describe(cluster)
        return newest is not None and newest.close_time is None

    async def until_closed(self, cluster: ClusterKey) -> None:
        """Return when no run of the cluster is open any more, however it has ended."""
        handle = self.client.get_workflow_handle(upgrade_workflow_id(cluster))
        while True:
            try:
                await handle.result()
            except WorkflowFailureError:
                return
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return
                await asyncio.sleep(CLOSE_PAUSE)
            else:
                return

    async def wish_seen(self, cluster: ClusterKey, version: str) -> None:
        """Tell the open run what its ClusterVersion asks for meanwhile. NotFound when none is open."""
        handle = self.client.get_workflow_handle(upgrade_workflow_id(cluster))
        try:
            await handle.signal(WISH_SEEN, DesiredVersion(version=version), rpc_timeout=QUERY_TIMEOUT)
        except RPCError as error:
            raise error_of(error) from error

    async def status(self, cluster: ClusterKey) -> UpgradeStatus | None:
        """The status document of the open run, else of the last closed one; None when there was none."""
        return await self._query(cluster, STATUS, UpgradeStatus)

    async def plan_view(self, cluster: ClusterKey) -> PlanView | None:
        """The pinned plan of the newest run; None when there was none."""
        return await self._query(cluster, PLAN, PlanView)

    async def _query(self, cluster: ClusterKey, name: str, result_type: type[T]) -> T | None:
        handle = self.client.get_workflow_handle(upgrade_workflow_id(cluster))
        try:
            answer: T = await handle.query(name, result_type=result_type, rpc_timeout=QUERY_TIMEOUT)
            return answer
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            if error.status in _NOBODY_ANSWERS:
                raise self._no_worker("no worker answers questions about this run") from error
            raise error_of(error) from error
        except WorkflowQueryFailedError as error:
            raise error_of(error) from error

    async def inspect(self, cluster: ClusterKey, question: Question, desired_version: str = "") -> InspectionResult:
        """Let a worker look at the live objects; changes nothing.

        Of a plan that is too large for one payload, only what its first page holds: all that blocks comes first.
        """
        asked = InspectionInput(cluster=cluster, question=question, desired_version=desired_version)
        result = await self._inspect(asked)
        return result if result.page is None else result.model_copy(update={"plan": joined(result.page.pieces)})

    async def whole_plan(self, cluster: ClusterKey, version: str, *, nodes: bool) -> UpgradePlan | None:
        """The plan with all of its pages; without `nodes`, those that tell of node after node are left out of a plan
        that does not fit into one payload. None when the worker makes no plan."""
        asked = InspectionInput(cluster=cluster, question=Question.PLAN, desired_version=version)
        for _ in range(PLAN_TRIES):
            result = await self._inspect(asked)
            page = first = result.page
            if page is None or first is None:
                return result.plan
            pieces = list(page.pieces)
            while page.next and page.of == first.of and (nodes or not page.has_nodes):
                page = (await self._inspect(asked.model_copy(update={"after": page.next}))).page or PlanPage()
                pieces.extend(page.pieces)
            if page.of == first.of:
                return joined(pieces if nodes else [piece for piece in pieces if piece.node is None])
        raise Transient(
            "the nodes of the cluster change faster than their plan can be read",
            subject=f"BKECluster {cluster}",
            remedy="ask again when no nodes are being added or taken away",
        )

    async def _inspect(self, asked: InspectionInput) -> InspectionResult:
        cluster, question = asked.cluster, asked.question
        try:
            result: InspectionResult = await self.client.execute_workflow(
                CLUSTER_INSPECTION,
                asked,
                id=f"cluster-inspection/{cluster.kube_namespace}/{cluster.name}/{question}/{uuid4().hex[:8]}",
                task_queue=self.task_queue,
                execution_timeout=ANSWER_PATIENCE,
                result_type=InspectionResult,
                static_summary=f"{cluster}: {question}",
            )
            return result
        except (WorkflowFailureError, RPCError) as error:
            raise error_of(error) from error

    async def answer_retry(self, retry: RetryAnswerInput) -> RevivedNodes:
        """Let a worker answer a retry that meets no open run. Raises InvalidInput when a node is unknown."""
        try:
            revived: RevivedNodes = await self.client.execute_workflow(
                RETRY_ANSWER,
                retry,
                id=f"retry-answer/{retry.cluster.kube_namespace}/{retry.cluster.name}/{uuid4().hex[:8]}",
                task_queue=self.task_queue,
                execution_timeout=ANSWER_PATIENCE,
                result_type=RevivedNodes,
                static_summary=f"{retry.cluster}: answer a retry",
            )
            return revived
        except (WorkflowFailureError, RPCError) as error:
            raise error_of(error) from error

    async def require_worker(self, patience: float = WORKER_PATIENCE) -> None:
        """Transient when nobody polls the task queue: a request would wait for ever."""
        request = DescribeTaskQueueRequest(
            namespace=self.client.namespace,
            task_queue=TaskQueue(name=self.task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        deadline = asyncio.get_running_loop().time() + patience
        while True:
            try:
                answer = await self.client.workflow_service.describe_task_queue(request, timeout=QUERY_TIMEOUT)
            except RPCError as error:
                raise error_of(error) from error
            if answer.pollers:
                return
            if asyncio.get_running_loop().time() > deadline:
                raise self._no_worker("no worker polls the task queue")
            await asyncio.sleep(0.2)

    def _no_worker(self, message: str) -> Transient:
        return Transient(
            message,
            subject="Temporal",
            field="task queue",
            value=self.task_queue,
            remedy="start one with hopline-worker; if it polls another queue, set HOPLINE_TASK_QUEUE",
        )

    async def _until_answered(self, send: Callable[[], Awaitable[T]], patience: timedelta) -> T:
        """Send until the workflow itself answers, or nobody has within `patience`."""
        try:
            async with asyncio.timeout(patience.total_seconds()):
                while True:
                    try:
                        return await send()
                    except (WorkflowUpdateFailedError, RPCError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
                        _pass_cancellation_on(error)
                        if not is_undecided(error):
                            raise error_of(error) from error
                    await asyncio.sleep(RESEND_PAUSE)
        except TimeoutError:
            raise self._no_worker(f"no worker has answered within {patience.total_seconds():.0f} s") from None


def is_undecided(error: BaseException) -> bool:
    """Nobody refused the update: the execution that it reached ended, had just ended, or could not look at it."""
    if isinstance(error, WorkflowUpdateRPCTimeoutOrCancelledError):
        return True
    if isinstance(error, WorkflowUpdateFailedError):
        cause = error.cause
        return isinstance(cause, ApplicationError) and cause.type in _UNDECIDED
    return isinstance(error, RPCError) and any(text in error.message for text in _UNDECIDED)


def _pass_cancellation_on(error: BaseException) -> None:
    """The SDK turns a cancellation of the caller into an error of its own; swallowed, it would never come again."""
    task = asyncio.current_task()
    if isinstance(error, WorkflowUpdateRPCTimeoutOrCancelledError) and task is not None and task.cancelling():
        raise asyncio.CancelledError from error


def wish_for(
    cluster: ClusterKey, version: str, *, on_failure: OnFailure = OnFailure.HOLD, mode: str = ""
) -> UpgradeInput:
    """The start input. InvalidInput when the version is empty."""
    if not version.strip():
        raise InvalidInput("no version was asked for", field="--to", remedy="name the version, for example --to v26.06")
    return UpgradeInput(cluster=cluster, desired_version=version.strip(), on_failure=on_failure, mode=mode)
