"""Recorded histories replay: what is in flight when a worker is replaced goes on (design §2, self-upgrade).

`tests/record_histories.py` says how to record them, and when they must not be recorded anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from temporalio.workflow import NondeterminismError

from hopline.domain.node_versions import NodeSighting
from sandbox_rules import RESTRICTIONS
from worker.composition import WORKFLOWS
from workflows import hop_run
from workflows.etcd_preparation import EtcdPreparation
from workflows.node_turn import NodeTurn

FILES = sorted((Path(__file__).parent / "histories").glob("*.json"))


def replayer() -> Replayer:
    return Replayer(
        workflows=list(WORKFLOWS),
        data_converter=pydantic_data_converter,
        workflow_runner=SandboxedWorkflowRunner(restrictions=RESTRICTIONS),
    )


def recorded(name: str) -> WorkflowHistory:
    file = Path(__file__).parent / "histories" / name
    document: dict[str, Any] = json.loads(file.read_text())
    return WorkflowHistory.from_json(document["workflowId"], {"events": document["events"]})


def test_the_corpus_is_complete() -> None:
    """Two hops; held and retried; aborted; a hop with nodes, a rollout that failed, and two that went well; and one of
    etcd with its snapshot."""
    assert [file.name for file in FILES] == [
        "aborted-1.json",
        "etcd-1.json",
        "held-and-retried-1.json",
        "nodes-1.json",
        "nodes-2.json",
        "nodes-3.json",
        "nodes-4.json",
        "two-hops-1.json",
        "two-hops-2.json",
    ]


@pytest.mark.parametrize("name", [file.name for file in FILES])
async def test_a_recorded_history_replays(name: str) -> None:
    await replayer().replay_workflow(recorded(name))


async def test_the_replay_bites_when_components_start_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    original = hop_run.next_steps
    monkeypatch.setattr(hop_run, "next_steps", lambda *given: tuple(reversed(original(*given))))
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(recorded("two-hops-1.json"))


async def test_the_replay_bites_when_the_end_of_a_node_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: NodeTurn) -> None:
        del self

    monkeypatch.setattr(NodeTurn, "succeed", nothing)
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(recorded("nodes-4.json"))


async def test_the_replay_bites_when_a_member_is_changed_without_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: EtcdPreparation, todo: tuple[NodeSighting, ...]) -> tuple[NodeSighting, ...]:
        del self
        return todo

    monkeypatch.setattr(EtcdPreparation, "prepare", nothing)
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(recorded("etcd-1.json"))
