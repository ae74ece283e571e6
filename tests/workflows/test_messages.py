"""Design §2.7: one run for all who ask, wishes that join or are refused, and commands that fit the state."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WithStartWorkflowOperation, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy

from hooked_clusters import Gate, HookedClusters, applying, in_turn
from hopline.domain.errors import Aborted, ContradictingWish, NotFound, Refusal
from hopline.domain.resources import ANNOTATION_HANDLED, BKE_CLUSTER, CLUSTER_VERSION
from hopline.domain.status import RunState
from hopline.sim.script import Failure, Verb
from small_lab import FINAL, GRAPH, RC3, SmallLab
from starter.failures import error_of
from workflows.cluster_upgrade import ClusterUpgrade
from workflows.identifiers import CLUSTER_UPGRADE, upgrade_workflow_id
from workflows.messages import AbortRequest, Acceptance, DesiredVersion, RetryRequest, UpgradeInput

pytestmark = pytest.mark.slow


def wish(lab: SmallLab, version: str = FINAL) -> UpgradeInput:
    return UpgradeInput(cluster=lab.cluster, desired_version=version)


async def test_five_wishes_at_once_are_one_run_with_equal_answers(small: SmallLab) -> None:
    async with small.worker():
        answers = await asyncio.gather(*(small.requests.set_desired_version(wish(small)) for _ in range(5)))
        view = await small.handle.query(ClusterUpgrade.plan)
        await small.handle.result()
    assert view.outline is not None
    assert {(one.version, one.plan_digest, one.hops) for one in answers} == {(FINAL, view.outline.digest, 2)}
    assert [len(small.applied(name)) for name in GRAPH] == [2, 2, 2, 2]
    assert len(small.writes("ReleaseImage", verb="create")) == 2


async def test_the_same_wish_joins_and_another_one_is_refused_with_a_reason(small: SmallLab) -> None:
    gate = Gate(applying("left"))
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        handle = await small.start(FINAL)
        await gate.reached()
        joined = await small.requests.set_desired_version(wish(small))
        assert (joined.version, joined.state) == (FINAL, "Running")
        with pytest.raises(ContradictingWish) as caught:
            await small.requests.set_desired_version(wish(small, RC3))
        assert f"an upgrade of {small.cluster} to {FINAL} is running" in str(caught.value)
        assert caught.value.value == RC3
        assert f"hopline abort {small.cluster.name} -n east" in caught.value.remedy
        gate.open()
        await handle.result()
    history = await small.histories(handle.first_execution_run_id or "")
    accepted = [
        event
        for one in history
        for event in one.events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED
    ]
    assert len(accepted) == 1


async def test_a_contradicting_wish_that_comes_with_the_start_is_refused(small: SmallLab) -> None:
    """The update is there before `run` has been called: only what `init` has set can judge it."""

    def start(version: str) -> WithStartWorkflowOperation[Any, Any]:
        return WithStartWorkflowOperation(
            CLUSTER_UPGRADE,
            wish(small, version),
            id=upgrade_workflow_id(small.cluster),
            task_queue=small.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )

    async with small.worker():
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await small.client.execute_update_with_start_workflow(
                "set_desired_version",
                DesiredVersion(version=RC3),
                start_workflow_operation=start(FINAL),
                result_type=Acceptance,
            )
        error = error_of(caught.value)
        assert isinstance(error, ContradictingWish)
        assert (await small.handle.result())["to"] == FINAL
    assert (await small.version())["spec"]["desiredVersion"] == FINAL


async def test_an_update_sent_twice_with_one_id_acts_once(small: SmallLab) -> None:
    script = small.clusters.script
    script.fail_request(Failure.REJECTED, verb=Verb.APPLY, cluster=small.cluster, name="left", times=2)
    async with small.worker():
        handle = await small.start(FINAL)
        seen = await small.held()
        update_id = str(uuid4())
        first = await handle.execute_update(ClusterUpgrade.retry, RetryRequest(), id=update_id)
        await small.held_again(seen)
        again = await handle.execute_update(ClusterUpgrade.retry, RetryRequest(), id=update_id)
        assert again == first
        status = await small.status()
        assert (status.state, status.component("left").attempt) == (RunState.HELD, 2)
        await handle.execute_update(ClusterUpgrade.retry, RetryRequest())
        await handle.result()


async def test_commands_fit_the_state_of_the_run(small: SmallLab) -> None:
    gate = Gate(applying("left"))
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        for command in (
            small.requests.retry(small.cluster, RetryRequest()),
            small.requests.abort(small.cluster, AbortRequest()),
        ):
            with pytest.raises(NotFound):
                await command
        await small.start(RC3)
        await gate.reached()
        with pytest.raises(Refusal, match=r"nothing to retry: the upgrade of .* is Running"):
            await small.requests.retry(small.cluster, RetryRequest())
        acknowledged = await small.requests.abort(small.cluster, AbortRequest(reason="first"))
        assert (acknowledged.state, acknowledged.message) == ("Aborted", "aborted: first")
        gate.open()
        end = await small.end()
    assert end == ("Aborted", "aborted: first")


async def test_a_wish_during_the_clean_up_hears_how_the_run_ends(small: SmallLab) -> None:
    held = Gate(applying("left"))
    clean_up = Gate(lambda call: call.writes("metadata", "annotations") and held.is_open)
    async with small.worker(clusters=HookedClusters(small.clusters, before=in_turn(held, clean_up))):
        await small.start(RC3)
        await held.reached()
        await small.requests.abort(small.cluster, AbortRequest(reason="enough"))
        held.open()
        await clean_up.reached()
        asking = asyncio.create_task(small.requests.set_desired_version(wish(small, RC3)))
        with pytest.raises(Aborted, match="aborted: enough"):
            await asking
        clean_up.open()
        assert (await small.end()).type == "Aborted"


async def test_wishes_all_through_a_run_are_answered_or_sent_again(small: SmallLab) -> None:
    """One wish after the other, so that some of them meet the boundary between the hops."""
    answers: list[Acceptance] = []
    is_over = False

    async def ask() -> None:
        while not is_over:
            answers.append(await small.requests.set_desired_version(wish(small)))

    async with small.worker():
        handle = await small.start(FINAL)
        asking = [asyncio.create_task(ask()) for _ in range(3)]
        await handle.result()
        is_over = True
        await asyncio.gather(*asking)
        await small.handle.result()
    assert len(answers) > 20
    # The last ones may have come after the end: they were told that there is nothing to do.
    assert {answer.hops for answer in answers} <= {0, 2}
    assert len({answer.plan_digest for answer in answers if answer.hops == 2}) == 1
    assert [len(small.applied(name)) for name in GRAPH] == [2, 2, 2, 2]


async def test_a_newer_wish_on_the_object_is_not_overwritten_by_a_later_hop(small: SmallLab) -> None:
    gate = Gate(applying("left"))
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        await small.start(FINAL)
        await gate.reached()
        assert (await small.version())["spec"]["desiredVersion"] == FINAL
        newer = await small.patch(CLUSTER_VERSION, {"spec": {"desiredVersion": "v26.09"}})
        gate.open()
        assert (await small.end()).type == "Done"
    version = await small.version()
    assert version["spec"]["desiredVersion"] == "v26.09"
    assert version["metadata"]["generation"] == newer["metadata"]["generation"]
    assert small.end_state(version) == (FINAL, "Ready")
    assert ANNOTATION_HANDLED not in version["metadata"].get("annotations", {})


async def test_a_wish_that_comes_after_a_refusal_is_judged_anew(small: SmallLab) -> None:
    """The cause of the refusal is repaired while the refused run says its last word."""
    gate = Gate(lambda call: call.writes("metadata", "annotations", ANNOTATION_HANDLED))
    await small.patch(BKE_CLUSTER, {"spec": {"pause": True}})
    await small.patch(CLUSTER_VERSION, {"spec": {"desiredVersion": RC3}})
    async with small.worker(clusters=HookedClusters(small.clusters, after=gate)):
        await small.start(RC3)
        await gate.reached()
        await small.patch(BKE_CLUSTER, {"spec": {"pause": False}})
        asking = asyncio.create_task(small.requests.set_desired_version(wish(small, RC3)))
        done, _ = await asyncio.wait({asking}, timeout=0.5)
        assert not done
        gate.open()
        assert (await asking).hops == 1
        assert (await small.end()).type == "Done"
