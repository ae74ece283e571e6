"""Reading a Command's status: a map from `<node name>/<ip>` to what its agent tells (openfuyao-nodes.md §1.3, §1.6).

Rules of a node's entry:
- no entry, or one without `lastStartTime`: the agent has not begun;
- phase Completed with `failed` 0: succeeded; with `failed` above 0 and every failed condition Skip: skipped;
- phase Failed, or any other end without success: failed. "Ended" is told by counts: they are -1 while it runs;
- when every sub-command has a condition of the present run, nothing of the Command runs any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from hopline.domain.cluster import NodeFacts
from hopline.domain.errors import bounded
from hopline.domain.resources import Document
from hopline.domain.wire import WireModel

MAX_AGENT_TEXT = 400
"""Characters of an agent's error text that travel."""

_RUNNING = -1

_PHASES = frozenset({"", "Pending", "Running", "Completed", "Suspend", "Skip", "Failed", "unKnown"})
"""What agents tell (openfuyao-nodes.md §1.3)."""


class CommandPhase(StrEnum):
    """Where one node is with a Command."""

    ABSENT = "absent"
    """No agent has begun it."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    SKIPPED = "skipped"
    """It failed, and was told to go on (`backoffIgnore`)."""
    FAILED = "failed"


class CommandState(WireModel):
    """What the agent of one node says about a Command.

    Attributes:
        message: from `stdErr`, bounded.
        suspended: `spec.suspend`, or the agent has stopped.
        acknowledged: the agent has an entry, so it has seen the Command.
        over: nothing of it runs on the node any more, as far as the agent has told.
        strange: the phase that the agent tells, when it is none that is documented.
    """

    phase: CommandPhase
    message: str = ""
    suspended: bool = False
    acknowledged: bool = False
    over: bool = False
    strange: str = ""


def command_state(document: Document, node: NodeFacts) -> CommandState:
    """The state of a Command on one node."""
    spec = _mapping(document.get("spec"))
    entry = _entry_of(document, node)
    suspended = bool(spec.get("suspend")) or (entry or {}).get("phase") == "Suspend"
    if entry is None:
        return CommandState(phase=CommandPhase.ABSENT, suspended=suspended)
    conditions = [_mapping(one) for one in entry.get("conditions") or ()]
    wanted = len(spec.get("commands") or ())
    phase = _phase(entry, conditions, wanted)
    finished = phase in (CommandPhase.SUCCEEDED, CommandPhase.SKIPPED, CommandPhase.FAILED)
    return CommandState(
        phase=phase,
        message=_told(conditions) or _out_of_time(entry, phase),
        suspended=suspended and not finished,
        acknowledged=True,
        strange=_strange(entry),
        over=finished or (bool(wanted) and sum(_has_ended(one, entry) for one in conditions) >= wanted),
    )


def conditions_of(document: Document, node: NodeFacts) -> dict[str, Mapping[str, Any]]:
    """What the agent of a node tells of each entry of a Command, by its id, in their order."""
    told = (_entry_of(document, node) or {}).get("conditions") or ()
    return {str(one.get("id")): one for one in map(_mapping, told)}


def is_unfinished(document: Document, node: NodeFacts) -> bool:
    """The Command holds its node: something may run there now, or may begin without anybody doing anything.

    A suspended Command that no agent has begun holds nothing. One that is being deleted holds its node until its agent
    lets go of it, because deleting does not stop what runs (openfuyao-nodes.md §1.8).
    """
    state = command_state(document, node)
    if state.over:
        return False
    if "deletionTimestamp" in _mapping(document.get("metadata")):
        return True
    return not (state.suspended and state.phase is CommandPhase.ABSENT)


def _phase(entry: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]], wanted: int) -> CommandPhase:
    failed = int(entry.get("failed") or 0)
    match str(entry.get("phase", "")):
        case "Completed" if failed <= 0 and entry.get("status") == "True":
            return CommandPhase.SUCCEEDED
        case "Completed":
            skipped = [one for one in conditions if one.get("status") == "False"]
            is_skip = bool(skipped) and all(one.get("phase") == "Skip" for one in skipped)
            return CommandPhase.SKIPPED if is_skip else CommandPhase.FAILED
        case "Failed":
            return CommandPhase.FAILED
    if _RUNNING not in (failed, int(entry.get("succeeded") or 0)) and entry.get("completionTime"):
        return CommandPhase.FAILED
    return CommandPhase.RUNNING if entry.get("lastStartTime") else CommandPhase.ABSENT


def _strange(entry: Mapping[str, Any]) -> str:
    told = str(entry.get("phase") or "")
    return "" if told in _PHASES else bounded(told, MAX_AGENT_TEXT)


def _has_ended(condition: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """The sub-command has ended in the present run of its agent; a condition of an earlier run says nothing about now,
    except Completed, which is never run again."""
    if condition.get("phase") in ("Failed", "Skip"):
        return str(condition.get("lastStartTime") or "") >= str(entry.get("lastStartTime") or "~")
    return condition.get("phase") == "Completed"


def _entry_of(document: Document, node: NodeFacts) -> Mapping[str, Any] | None:
    """The node's entry: the agent's own names for itself may differ from ours, its address seldom does."""
    status = _mapping(document.get("status"))
    hostname = node.hostname or node.ip
    for key in (f"{hostname}/{node.ip}", hostname):
        if key in status:
            return _mapping(status[key])
    for key, value in status.items():
        name, _, address = str(key).rpartition("/")
        if address == node.ip or name == hostname:
            return _mapping(value)
    labels = _mapping(_mapping(_mapping(document.get("spec")).get("nodeSelector")).get("matchLabels"))
    if len(status) == 1 and set(labels) == {node.ip}:
        return _mapping(next(iter(status.values())))
    return None


def _told(conditions: Sequence[Mapping[str, Any]]) -> str:
    for condition in reversed(conditions):
        if condition.get("status") == "False":
            lines = [str(line).strip() for line in condition.get("stdErr") or () if str(line).strip()]
            return bounded(lines[-1] if lines else "the agent gave no reason (stdErr is empty)", MAX_AGENT_TEXT)
    return ""


def _out_of_time(entry: Mapping[str, Any], phase: CommandPhase) -> str:
    if phase is not CommandPhase.FAILED:
        return ""
    return f"the agent ended without a result, phase {entry.get('phase', '?')}, status {entry.get('status', '?')}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
