"""What BKECluster `status` says about steps and agents: `phase`, `phaseStatus`, `agentStatus` (openfuyao-api.md §1.6).

A step is an inline handler, or the health check that ends a hop (`EnsureCluster`). Each has one entry in `phaseStatus`,
the newest one: entries are merged by name, those of others are kept, oldest first. Manifest components are no steps:
`clusterComponentStatuses` has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from hopline.domain.cluster import NodeFacts
from hopline.domain.status import ComponentStatus, RunState, StepState, UpgradeStatus
from hopline.domain.timestamps import timestamp

HEALTH_CHECK = "EnsureCluster"
MAX_ENTRIES = 20


class PhaseState(StrEnum):
    """`phaseStatus[].status`, those that we write."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SKIPPED = "Skipped"


_STATES = {
    StepState.RUNNING: PhaseState.RUNNING,
    StepState.DONE: PhaseState.SUCCEEDED,
    StepState.FAILED: PhaseState.FAILED,
    StepState.SKIPPED: PhaseState.SKIPPED,
}
_SHOWN_FIRST = (StepState.FAILED, StepState.RUNNING)


def hop_is_finished(status: UpgradeStatus) -> bool:
    """Whether the hop of this execution has ended well."""
    hop = status.hop
    return bool(hop and status.finished_hops and status.finished_hops[-1].to_version == hop.to_version)


def current_phase(status: UpgradeStatus) -> str:
    """The step that runs, has failed, or ran last; empty: as found, because a step without a handler is at work."""
    if hop_is_finished(status) or status.state is RunState.CHECKING or _health_check_failed(status):
        return HEALTH_CHECK
    for state in _SHOWN_FIRST:
        for component in _steps(status):
            if component.state is state:
                return component.handler
    return ""


def phase_status(status: UpgradeStatus, before: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The whole list as it should stand: what was there, with this hop's steps in place of their older entries."""
    found = [dict(entry) for entry in before]
    reported = {str(entry["name"]): entry for entry in _reports(status)}
    kept = [entry for entry in found if str(entry.get("name", "")) not in reported]
    return [*kept, *sorted(reported.values(), key=_begun)][-MAX_ENTRIES:]


def agent_status(nodes: Iterable[NodeFacts]) -> dict[str, Any]:
    """How many node agents answer, of all."""
    ready = [node.agent_ready for node in nodes]
    total, answering = len(ready), sum(ready)
    return {"replies": total, "unavailableReplies": total - answering, "status": f"{answering}/{total}"}


def _steps(status: UpgradeStatus) -> list[ComponentStatus]:
    steps = [component for component in status.components if component.handler]
    return sorted(steps, key=lambda component: (component.batch, component.name))


def _reports(status: UpgradeStatus) -> Iterator[dict[str, Any]]:
    for component in _steps(status):
        state = _STATES.get(component.state)
        if state is None:
            continue
        if state is PhaseState.SKIPPED:
            yield _entry(component.handler, state, None, None, component.reason)
        else:
            message = component.message if state is PhaseState.FAILED else ""
            yield _entry(component.handler, state, component.started_at, component.finished_at, message)
    if (health := _health_check(status)) is not None:
        yield health


def _health_check(status: UpgradeStatus) -> dict[str, Any] | None:
    """Its start comes from the status document: publications run beside the work, and may miss the moment between."""
    started = status.health_check_started
    if hop_is_finished(status):
        return _entry(HEALTH_CHECK, PhaseState.SUCCEEDED, started, status.finished_hops[-1].completed_at, "")
    if _health_check_failed(status):
        return _entry(HEALTH_CHECK, PhaseState.FAILED, started, status.since, status.message)
    if status.state is RunState.CHECKING:
        return _entry(HEALTH_CHECK, PhaseState.RUNNING, started or status.since, None, "")
    return None


def _health_check_failed(status: UpgradeStatus) -> bool:
    ended = status.state in (RunState.HELD, RunState.FAILED)
    return ended and all(one.state in (StepState.DONE, StepState.SKIPPED) for one in status.components)


def _entry(
    name: str, state: PhaseState, started: datetime | None, ended: datetime | None, message: str
) -> dict[str, Any]:
    entry = {"name": name, "status": state.value}
    if started:
        entry["startTime"] = timestamp(started)
    if ended:
        entry["endTime"] = timestamp(ended)
    if message:
        entry["message"] = message
    return entry


def _begun(entry: Mapping[str, Any]) -> tuple[bool, str]:
    """Skipped steps have no time, and stand first; the health check ends a hop."""
    return entry["name"] == HEALTH_CHECK, str(entry.get("startTime") or entry.get("endTime") or "")
