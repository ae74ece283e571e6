"""Requests of the starter against a stand-in for the workflows, on the real Temporal server."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from hopline.domain.errors import (
    Aborted,
    ClusterNotReady,
    ContradictingWish,
    HopFailed,
    NotFound,
    Refusal,
    Transient,
)
from hopline.domain.status import RunState
from hopline.domain.wire import ClusterKey
from starter.exit_codes import ExitCode
from starter.follow import follow
from starter.requests import Requests, is_undecided, wish_for
from starter_stub import BOUNDARY, DONE, ENDLESS, FAILED, HELD, REFUSED_VERSION, STUBS
from workflows.messages import AbortRequest, Question, RetryRequest


@pytest_asyncio.fixture
async def requests(temporal_client: Client, task_queue: str) -> AsyncIterator[Requests]:
    async with Worker(temporal_client, task_queue=task_queue, workflows=STUBS):
        yield Requests(temporal_client, task_queue)


@pytest.fixture
def cluster() -> ClusterKey:
    return ClusterKey(kube_namespace="test", name=f"c{uuid4().hex[:10]}")


class Silent:
    def __init__(self) -> None:
        self.states: list[RunState] = []

    def show(self, status: object) -> None:
        self.states.append(status.state)  # type: ignore[attr-defined]

    def silence(self, error: object) -> None:
        raise AssertionError(error)


async def test_the_same_wish_joins_and_another_one_is_refused(requests: Requests, cluster: ClusterKey) -> None:
    first = await requests.set_desired_version(wish_for(cluster, ENDLESS))
    second = await requests.set_desired_version(wish_for(cluster, ENDLESS))
    assert first.plan_digest == second.plan_digest
    with pytest.raises(ContradictingWish) as caught:
        await requests.set_desired_version(wish_for(cluster, DONE))
    assert caught.value.value == DONE
    assert caught.value.remedy == "wait for it"
    await requests.abort(cluster, AbortRequest(reason="test"))


async def test_a_refusal_arrives_with_all_its_parts(requests: Requests, cluster: ClusterKey) -> None:
    with pytest.raises(ClusterNotReady) as caught:
        await requests.set_desired_version(wish_for(cluster, REFUSED_VERSION))
    assert (caught.value.subject, caught.value.field, caught.value.value, caught.value.remedy) == (
        "BKECluster east/east",
        "spec.pause",
        "true",
        "unpause it",
    )


async def test_an_update_that_meets_the_boundary_is_sent_again(requests: Requests, cluster: ClusterKey) -> None:
    answer = await requests.set_desired_version(wish_for(cluster, BOUNDARY))
    assert answer.version == BOUNDARY


@pytest.mark.parametrize(
    ("status", "message", "undecided"),
    [
        (RPCStatusCode.NOT_FOUND, "workflow execution already completed", True),
        (RPCStatusCode.ABORTED, "workflow update was aborted by closing workflow", True),
        (
            RPCStatusCode.FAILED_PRECONDITION,
            "Unable to perform workflow execution update due to unexpected workflow task failure.",
            True,
        ),
        (RPCStatusCode.UNAVAILABLE, "connection refused", False),
        (RPCStatusCode.PERMISSION_DENIED, "request unauthorized", False),
    ],
)
def test_only_an_answer_that_decides_nothing_is_sent_again(
    status: RPCStatusCode, message: str, undecided: bool
) -> None:
    assert is_undecided(RPCError(message, status, b"")) is undecided


async def test_retry_and_abort_without_a_run_say_so(requests: Requests, cluster: ClusterKey) -> None:
    with pytest.raises(NotFound, match="nothing to retry"):
        await requests.retry(cluster, RetryRequest())
    await requests.set_desired_version(wish_for(cluster, DONE))
    assert (await follow(requests, cluster, Silent())).code is ExitCode.DONE
    with pytest.raises(NotFound, match="nothing to abort"):
        await requests.abort(cluster, AbortRequest())


async def test_retry_of_a_run_that_is_not_held_is_refused(requests: Requests, cluster: ClusterKey) -> None:
    await requests.set_desired_version(wish_for(cluster, ENDLESS))
    with pytest.raises(Refusal, match="nothing to retry"):
        await requests.retry(cluster, RetryRequest())
    await requests.abort(cluster, AbortRequest(reason="test"))


async def test_status_is_of_the_newest_run_and_none_without_one(requests: Requests, cluster: ClusterKey) -> None:
    assert await requests.status(cluster) is None
    assert await requests.describe(cluster) is None
    await requests.set_desired_version(wish_for(cluster, DONE))
    await follow(requests, cluster, Silent())
    status = await requests.status(cluster)
    assert status is not None
    assert status.state is RunState.DONE


async def test_an_inspection_answers_or_refuses(requests: Requests, cluster: ClusterKey) -> None:
    assert (await requests.inspect(cluster, Question.PLAN, DONE)).plan is not None
    assert (await requests.inspect(cluster, Question.STATUS)).status is not None
    with pytest.raises(ClusterNotReady, match="the cluster is paused"):
        await requests.inspect(cluster, Question.PLAN, REFUSED_VERSION)


async def test_without_a_worker_a_request_ends_and_names_the_queue(
    temporal_client: Client, task_queue: str, cluster: ClusterKey
) -> None:
    nobody = Requests(temporal_client, task_queue)
    with pytest.raises(Transient) as caught:
        await nobody.require_worker(patience=0.1)
    assert caught.value.value == task_queue
    assert "hopline-worker" in caught.value.remedy
    with pytest.raises(Transient, match="no worker has answered within 1 s"):
        await nobody.set_desired_version(wish_for(cluster, DONE), patience=timedelta(seconds=1))


async def test_following_ends_as_the_run_ends(requests: Requests, cluster: ClusterKey) -> None:
    await requests.set_desired_version(wish_for(cluster, FAILED))
    ending = await follow(requests, cluster, Silent())
    assert ending.code is ExitCode.FAILED
    assert isinstance(ending.error, HopFailed)
    assert ending.status is not None
    assert ending.status.state is RunState.FAILED


async def test_following_stops_at_a_hold_and_goes_on_after_a_retry(requests: Requests, cluster: ClusterKey) -> None:
    await requests.set_desired_version(wish_for(cluster, HELD))
    assert (await follow(requests, cluster, Silent())).code is ExitCode.HELD
    await requests.retry(cluster, RetryRequest(reason="repaired"))
    assert (await follow(requests, cluster, Silent())).code is ExitCode.DONE


async def test_a_timeout_ends_the_waiting_and_not_the_run(requests: Requests, cluster: ClusterKey) -> None:
    await requests.set_desired_version(wish_for(cluster, ENDLESS))
    ending = await follow(requests, cluster, Silent(), timeout=timedelta(seconds=0.2))
    assert ending.code is ExitCode.TIMED_OUT
    description = await requests.describe(cluster)
    assert description is not None
    assert description.close_time is None
    await requests.abort(cluster, AbortRequest(reason="test"))
    ending = await follow(requests, cluster, Silent())
    assert ending.code is ExitCode.FAILED
    assert isinstance(ending.error, Aborted)


async def test_a_terminated_run_is_told_as_ended(requests: Requests, cluster: ClusterKey) -> None:
    await requests.set_desired_version(wish_for(cluster, ENDLESS))
    await requests.client.get_workflow_handle(f"cluster-upgrade/{cluster}").terminate()
    ending = await follow(requests, cluster, Silent())
    assert ending.code is ExitCode.FAILED
    assert isinstance(ending.error, Aborted)
    assert "terminated by hand" in ending.error.message
