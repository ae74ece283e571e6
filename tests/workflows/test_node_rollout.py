"""`NodeRollout` against scripted activities on the real dev server: order, waits, failures, deadlines, cancellation."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import CancelledError
from temporalio.worker import Worker

from activities.nodes import (
    BegunNode,
    NodeOutcome,
    WatchNode,
)
from hopline.domain.plan import Pool
from hopline.domain.release import InlineHandler
from hopline.operations.node_watch import NodeObservation, NodePhase
from scripted_nodes import DONE, ScriptedNodes, failure_of, rollout, running, sighting
from workflows import node_rollout
from workflows.messages import PoolProgress
from workflows.node_rollout import NodeRollout

pytestmark = pytest.mark.slow


@workflow.defn
class Listener:
    """A parent that only listens."""

    def __init__(self) -> None:
        self._heard: list[PoolProgress] = []

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def pool_progressed(self, progress: PoolProgress) -> None:
        self._heard.append(progress)

    @workflow.query
    def heard(self) -> list[PoolProgress]:
        return self._heard


async def test_nodes_go_one_after_another_in_order(temporal_client: Client, task_queue: str) -> None:
    nodes = ScriptedNodes([sighting(1), sighting(2, at_target=True, settled=True), sighting(3), sighting(4)])
    async with running(temporal_client, task_queue, nodes, rollout()) as handle:
        result = await handle.result()
        progress = await handle.query(NodeRollout.progress)
    assert nodes.calls == [
        call for host in ("m1", "m3", "m4") for call in (f"begin upgrade {host}", f"watch {host}", f"success {host}")
    ]
    assert (result.upgraded, result.already, result.waves) == (("m1", "m3", "m4"), ("m2",), 3)
    assert (progress.nodes.done, progress.nodes.total, progress.nodes.in_hand) == (4, 4, ())


async def test_a_node_at_the_target_that_is_not_well_is_only_waited_for(
    temporal_client: Client, task_queue: str
) -> None:
    nodes = ScriptedNodes([sighting(1, at_target=True)])
    nodes.beginning = lambda _: BegunNode(at_target=True)
    async with running(temporal_client, task_queue, nodes, rollout()) as handle:
        result = await handle.result()
    assert nodes.calls == ["begin upgrade m1", "watch m1", "success m1"]
    assert nodes.watched[0].command == ""
    assert result.already == ("m1",)


async def test_containerd_is_reset_and_redeployed_node_by_node(temporal_client: Client, task_queue: str) -> None:
    nodes = ScriptedNodes([sighting(1), sighting(2)])
    nodes.beginning = lambda request: BegunNode(command=f"{request.step.value}-{request.stamp}")
    async with running(temporal_client, task_queue, nodes, rollout(InlineHandler.CONTAINERD)) as handle:
        await handle.result()
    assert [call for call in nodes.calls if not call.startswith("watch")] == [
        "begin reset m1",
        "begin redeploy m1",
        "success m1",
        "begin reset m2",
        "begin redeploy m2",
        "success m2",
    ]
    assert nodes.ended[0].command == f"redeploy-{nodes.begun[1].stamp}"


async def test_a_failed_node_ends_the_rollout_and_is_named(temporal_client: Client, task_queue: str) -> None:
    nodes = ScriptedNodes([sighting(1), sighting(2), sighting(3)])
    failed = NodeObservation(phase=NodePhase.FAILED, message="Command east/upgrade-node-192.0.2.2-1 failed: disk full")
    nodes.watching = lambda request, _: failed if request.node.hostname == "m2" else DONE
    async with running(temporal_client, task_queue, nodes, rollout()) as handle:
        details = await failure_of(handle)
    assert details.subject == "BKENode east/east-m2"
    assert "m2" in details.message
    assert "disk full" in details.message
    assert details.remedy
    assert [call for call in nodes.calls if "m3" in call] == []
    last = nodes.ended[-1]
    assert (last.outcome, last.node.hostname) == (NodeOutcome.FAILURE, "m2")
    assert "disk full" in last.message


async def test_a_node_that_is_held_is_asked_for_again(temporal_client: Client, task_queue: str) -> None:
    nodes = ScriptedNodes([sighting(1)])
    answers = [BegunNode(blocked="Command east/other-1 holds node m1"), BegunNode(command="mine-1")]
    nodes.beginning = lambda _: answers.pop(0)
    async with running(temporal_client, task_queue, nodes, rollout()) as handle:
        result = await handle.result()
    assert result.upgraded == ("m1",)
    assert nodes.begun[0].stamp == nodes.begun[1].stamp


async def test_at_the_deadline_the_truth_is_read_once_more(temporal_client: Client, task_queue: str) -> None:
    nodes = ScriptedNodes([sighting(1)])
    waiting = NodeObservation(message="the agent runs Command east/c")

    def watching(request: WatchNode, _: int) -> NodeObservation:
        return DONE if datetime.now(UTC) >= request_deadline else waiting

    request = rollout(seconds=2)
    request_deadline = request.deadline
    nodes.watching = watching
    async with running(temporal_client, task_queue, nodes, request) as handle:
        result = await handle.result()
    assert result.upgraded == ("m1",)


async def test_a_deadline_that_passes_fails_with_what_it_waited_for(temporal_client: Client, task_queue: str) -> None:
    nodes = ScriptedNodes([sighting(1)])

    def watching(request: WatchNode, count: int) -> NodeObservation:
        return NodeObservation(message=f"the agent runs Command east/c, look {count}")

    nodes.watching = watching
    async with running(temporal_client, task_queue, nodes, rollout(seconds=2)) as handle:
        details = await failure_of(handle)
    assert "not done within 2 s" in details.message
    assert f"look {len(nodes.watched)}" in details.message
    assert nodes.ended[-1].outcome is NodeOutcome.FAILURE


async def test_a_cancelled_rollout_gives_its_node_back_first(temporal_client: Client, task_queue: str) -> None:
    nodes = ScriptedNodes([sighting(1), sighting(2)])
    nodes.holding = asyncio.Event()
    async with running(temporal_client, task_queue, nodes, rollout()) as handle:
        await nodes.holding.wait()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    assert isinstance(caught.value.cause, CancelledError)
    last = nodes.ended[-1]
    assert (last.outcome, last.command, last.begun) == (NodeOutcome.RELEASED, nodes.watched[0].command, True)
    assert len(nodes.begun) == 1


async def test_a_node_that_was_done_when_the_abort_came_is_said_to_be_done(
    temporal_client: Client, task_queue: str
) -> None:
    nodes = ScriptedNodes([sighting(1), sighting(2)])
    nodes.ending = asyncio.Event()
    async with running(temporal_client, task_queue, nodes, rollout()) as handle:
        await nodes.ending.wait()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    assert isinstance(caught.value.cause, CancelledError)
    assert [one.outcome for one in nodes.ended] == [NodeOutcome.SUCCESS, NodeOutcome.SUCCESS]
    assert len(nodes.begun) == 1


async def test_progress_reaches_the_parent(temporal_client: Client, task_queue: str) -> None:
    nodes = ScriptedNodes([sighting(1), sighting(2)])
    nodes.watching = lambda request, _: DONE
    parent_id = f"parent-{uuid4()}"
    async with Worker(temporal_client, task_queue=f"{task_queue}-parent", workflows=[Listener]):
        parent = await temporal_client.start_workflow(Listener.run, id=parent_id, task_queue=f"{task_queue}-parent")
        async with running(temporal_client, task_queue, nodes, rollout(parent_id=parent_id)) as handle:
            await handle.result()
        heard = await parent.query(Listener.heard)
        await parent.terminate()
    assert heard
    assert (heard[-1].nodes.done, heard[-1].nodes.total) == (2, 2)
    assert (heard[-1].component, heard[-1].pool) == (InlineHandler.MASTER.value, Pool.CONTROL_PLANE)


async def test_a_parent_that_is_gone_does_not_matter(temporal_client: Client, task_queue: str) -> None:
    nodes = ScriptedNodes([sighting(1)])
    async with running(temporal_client, task_queue, nodes, rollout(parent_id=f"nobody-{uuid4()}")) as handle:
        assert (await handle.result()).upgraded == ("m1",)


async def test_a_long_rollout_continues_as_new_and_loses_nothing(
    temporal_client: Client, task_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_rollout, "MAX_EVENTS", 20)
    nodes = ScriptedNodes([sighting(number) for number in (1, 2, 3)])
    original = nodes.sightings

    def watching(request: WatchNode, _: int) -> NodeObservation:
        nodes.sightings = [
            one.model_copy(update={"settled": True, "at_target": True}) if one.node == request.node else one
            for one in nodes.sightings
        ]
        return DONE

    nodes.watching = watching
    async with running(temporal_client, task_queue, nodes, rollout(), unsandboxed=True) as handle:
        result = await handle.result()
        first = temporal_client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id)
        types = [event.event_type async for event in first.fetch_history_events()]
    assert result.upgraded == ("m1", "m2", "m3")
    assert result.already == ()
    assert len(nodes.begun) == len(original)
    assert types[-1] == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
