"""Reading what an agent tells (openfuyao-nodes.md §1.3, §1.6)."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.cluster import NodeFacts
from hopline.domain.command_state import CommandPhase, command_state, is_unfinished
from hopline.domain.resources import Document

NODE = NodeFacts(name="demo-10-0-0-1", ip="10.0.0.1", hostname="m1", roles=("master",))
RUNNING = {
    "phase": "Running",
    "status": "Unknown",
    "succeeded": -1,
    "failed": -1,
    "lastStartTime": "2026-11-30T12:00:05Z",
}


def condition(phase: str, *errors: str, at: str = "2026-11-30T12:00:06Z") -> dict[str, Any]:
    status = "True" if phase == "Completed" else "False"
    return {"id": "upgrade", "phase": phase, "status": status, "stdErr": list(errors), "lastStartTime": at, "count": 4}


def command(entry: dict[str, Any] | None, *, suspend: bool = False, key: str = "m1/10.0.0.1") -> Document:
    return {
        "metadata": {"name": "upgrade-node-10.0.0.1-1"},
        "spec": {
            "suspend": suspend,
            "commands": [{"id": "upgrade", "command": ["Kubeadm"], "type": "BuiltIn"}],
            "nodeSelector": {"matchLabels": {"10.0.0.1": "10.0.0.1"}},
        },
        "status": {} if entry is None else {key: entry},
    }


COMPLETED = {
    **RUNNING,
    "phase": "Completed",
    "status": "True",
    "succeeded": 1,
    "completionTime": "2026-11-30T12:00:09Z",
}
del COMPLETED["failed"]
COMPLETED["conditions"] = [condition("Completed")]
FAILED = {
    **RUNNING,
    "phase": "Failed",
    "status": "False",
    "failed": 1,
    "succeeded": 0,
    "completionTime": "2026-11-30T12:00:09Z",
    "conditions": [condition("Failed", "first try", "disk full on /var/lib/containerd")],
}
SKIPPED = {**COMPLETED, "failed": 1, "succeeded": 0, "conditions": [condition("Skip", "Unit containerd not loaded")]}
OUT_OF_TIME = {**RUNNING, "succeeded": 0, "failed": 0, "completionTime": "2026-11-30T12:20:00Z"}


@pytest.mark.parametrize(
    ("entry", "phase"),
    [
        (None, CommandPhase.ABSENT),
        ({"phase": "Running", "status": "Unknown", "succeeded": -1, "failed": -1}, CommandPhase.ABSENT),
        (RUNNING, CommandPhase.RUNNING),
        ({**RUNNING, "conditions": [condition("Completed")]}, CommandPhase.RUNNING),
        (COMPLETED, CommandPhase.SUCCEEDED),
        (FAILED, CommandPhase.FAILED),
        (SKIPPED, CommandPhase.SKIPPED),
        ({**COMPLETED, "status": "Unknown"}, CommandPhase.FAILED),
        (OUT_OF_TIME, CommandPhase.FAILED),
        ({**RUNNING, "phase": "Suspend"}, CommandPhase.RUNNING),
        ({"phase": "Suspend"}, CommandPhase.ABSENT),
    ],
)
def test_phase(entry: dict[str, Any] | None, phase: CommandPhase) -> None:
    assert command_state(command(entry), NODE).phase is phase


def test_a_phase_that_nobody_knows_is_named_and_is_no_end() -> None:
    state = command_state(command({**RUNNING, "phase": "Dancing"}), NODE)
    assert (state.phase, state.strange, state.over) == (CommandPhase.RUNNING, "Dancing", False)
    assert command_state(command(RUNNING), NODE).strange == ""


def test_the_newest_error_of_the_agent_is_told_and_bounded() -> None:
    assert command_state(command(FAILED), NODE).message == "disk full on /var/lib/containerd"
    long = {**FAILED, "conditions": [condition("Failed", "x" * 5000)]}
    assert len(command_state(command(long), NODE).message) <= 400
    silent = {**FAILED, "conditions": [condition("Failed")]}
    assert "stdErr" in command_state(command(silent), NODE).message


def test_a_command_that_ran_out_of_time_says_so() -> None:
    assert "ended without a result" in command_state(command(OUT_OF_TIME), NODE).message


@pytest.mark.parametrize("key", ["m1/10.0.0.1", "m1", "other-name/10.0.0.1", "m1/172.16.0.9", "unknown"])
def test_the_only_entry_of_a_command_for_one_node_is_found_under_any_name(key: str) -> None:
    assert command_state(command(COMPLETED, key=key), NODE).phase is CommandPhase.SUCCEEDED


def test_entries_of_other_nodes_are_not_ours() -> None:
    shared = command(FAILED, key="m2/10.0.0.2")
    shared["spec"]["nodeSelector"]["matchLabels"]["10.0.0.2"] = "10.0.0.2"
    shared["status"]["m3/10.0.0.3"] = COMPLETED
    assert command_state(shared, NODE).phase is CommandPhase.ABSENT


@pytest.mark.parametrize(
    ("entry", "suspend", "deleting", "unfinished"),
    [
        (None, False, False, True),
        (RUNNING, False, False, True),
        (COMPLETED, False, False, False),
        (FAILED, False, False, False),
        (SKIPPED, False, True, False),
        # Suspended before an agent began: it holds nothing.
        (None, True, False, False),
        ({"phase": "Suspend"}, True, False, False),
        # Suspended while it ran: the plugin is never interrupted.
        ({**RUNNING, "phase": "Suspend"}, True, False, True),
        ({**RUNNING, "phase": "Suspend", "conditions": [condition("Completed")]}, True, False, False),
        ({**RUNNING, "phase": "Suspend", "conditions": [condition("Failed")]}, True, False, False),
        # The failure of an earlier run says nothing about the one that was suspended.
        (
            {**RUNNING, "phase": "Suspend", "conditions": [condition("Failed", at="2026-11-30T11:00:00Z")]},
            True,
            False,
            True,
        ),
        # Deleting does not stop the agent.
        (RUNNING, False, True, True),
        (None, True, True, True),
    ],
)
def test_an_unfinished_command_holds_its_node(
    entry: dict[str, Any] | None, suspend: bool, deleting: bool, unfinished: bool
) -> None:
    document = command(entry, suspend=suspend)
    if deleting:
        document["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    assert is_unfinished(document, NODE) is unfinished
