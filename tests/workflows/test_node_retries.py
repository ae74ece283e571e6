"""A node whose Command failed is tried again by policy, and every wave has the whole limit (docs/operations.md)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client

from activities.nodes import (
    NodeOutcome,
    WatchNode,
)
from hopline.operations.node_watch import NodeObservation, NodePhase
from scripted_nodes import DONE, ScriptedNodes, Watching, failure_of, running, workers
from workflows import node_turn

pytestmark = pytest.mark.slow


def failing(host: str, times: int, *, may_retry: bool = True) -> Watching:
    """The first `times` Commands of one node fail."""
    failed: list[str] = []

    def watching(request: WatchNode, _: int) -> NodeObservation:
        if request.node.hostname != host or (len(failed) >= times and request.command not in failed):
            return DONE
        failed.append(request.command)
        message = f"Command east/{request.command} failed: disk full"
        return NodeObservation(phase=NodePhase.FAILED, message=message, may_retry=may_retry)

    return watching


async def test_a_worker_node_whose_command_failed_is_tried_again_with_another_one(
    temporal_client: Client, task_queue: str
) -> None:
    request, sightings = workers(2)
    nodes = ScriptedNodes(sightings)
    nodes.watching = failing("w1", 1)
    async with running(temporal_client, task_queue, nodes, request) as handle:
        result = await handle.result()
    assert (result.upgraded, result.failures) == (("w1", "w2"), 0)
    first, second, _ = nodes.begun
    assert [one.node.hostname for one in nodes.begun] == ["w1", "w1", "w2"]
    assert second.stamp > first.stamp
    assert [one.outcome for one in nodes.ended] == [NodeOutcome.SUCCESS, NodeOutcome.SUCCESS]
    assert nodes.ended[0].state_before == "Ready"


async def test_a_node_is_tried_as_often_as_the_release_says_and_then_put_aside(
    temporal_client: Client, task_queue: str
) -> None:
    request, sightings = workers(2, retries=2, budget="1")
    nodes = ScriptedNodes(sightings)
    nodes.watching = failing("w1", 9)
    async with running(temporal_client, task_queue, nodes, request) as handle:
        details = await failure_of(handle)
    assert [one.node.hostname for one in nodes.begun] == ["w1", "w1", "w1", "w2"]
    assert "failed on w1" in details.message
    assert [one.outcome for one in nodes.ended] == [NodeOutcome.FAILURE, NodeOutcome.SUCCESS]


@pytest.mark.parametrize(("retries", "may_retry"), [(0, True), (1, False)])
async def test_a_node_is_not_tried_again_where_nobody_asks_for_it_or_something_may_still_run(
    temporal_client: Client, task_queue: str, retries: int, may_retry: bool
) -> None:
    request, sightings = workers(1, retries=retries)
    nodes = ScriptedNodes(sightings)
    nodes.watching = failing("w1", 1, may_retry=may_retry)
    async with running(temporal_client, task_queue, nodes, request) as handle:
        await failure_of(handle)
    assert len(nodes.begun) == 1


async def test_every_wave_has_the_whole_limit_of_the_component(temporal_client: Client, task_queue: str) -> None:
    request, sightings = workers(4, seconds=3)
    nodes = ScriptedNodes(sightings)
    finished_at: dict[str, datetime] = {}

    def watching(asked: WatchNode, _: int) -> NodeObservation:
        done = finished_at.setdefault(asked.node.hostname, datetime.now(UTC) + timedelta(seconds=1.5))
        waiting = NodeObservation(message=f"the agent runs Command east/{asked.command}")
        return DONE if datetime.now(UTC) >= done else waiting

    nodes.watching = watching
    async with running(temporal_client, task_queue, nodes, request) as handle:
        result = await handle.result()
    assert result.upgraded == ("w1", "w2", "w3", "w4")
    assert max(finished_at.values()) > request.deadline


async def test_a_node_that_shows_the_old_version_after_its_agents_success_fails(
    temporal_client: Client, task_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_turn, "GATE_LIMIT", timedelta(seconds=1))
    request, sightings = workers(1)
    nodes = ScriptedNodes(sightings)
    nodes.watching = lambda *_: NodeObservation(message="kubelet runs v1, v2 is expected", command_over=True)
    async with running(temporal_client, task_queue, nodes, request, unsandboxed=True) as handle:
        details = await failure_of(handle)
    assert "failed on w1: not done within 1 s after its Command" in details.message
    assert "still waiting for: kubelet runs v1, v2 is expected" in details.message
    assert "journalctl -u bkeagent" in details.remedy
    assert len(nodes.begun) == 1
