"""What can be said about a cluster while no worker runs: what Temporal remembers, and what its objects say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from temporalio.client import WorkflowExecutionDescription

from hopline.domain.cluster import ClusterFacts
from hopline.domain.status import RunState, UpgradeStatus
from hopline.domain.wire import ClusterKey
from hopline.operations.resting_status import resting_status
from starter.requests import Requests
from workflows.identifiers import BLOCKED_ON, HOP, PHASE, TARGET_VERSION

Look = Callable[[ClusterKey], Awaitable[ClusterFacts | None]]
"""Reads the cluster's objects; None where this machine does not reach them."""


@dataclass(frozen=True)
class Known:
    """What is known, and lines that say where from."""

    status: UpgradeStatus
    sources: tuple[str, ...]


async def known_without_worker(requests: Requests, cluster: ClusterKey, look: Look) -> Known | None:
    """The newest picture that needs no worker; None when there is neither a run nor a reachable object."""
    newest = await requests.describe(cluster)
    facts = await look(cluster)
    seen = [_objects_line(facts)] if facts is not None else []
    if newest is not None and newest.status is not None:
        said = str(await newest.memo_value("status", ""))
        return Known(_remembered(newest, said, cluster), (_run_line(newest), *seen))
    return Known(resting_status(facts), tuple(seen)) if facts is not None else None


def _run_line(newest: WorkflowExecutionDescription) -> str:
    found = newest.typed_search_attributes
    named = ((PHASE, "phase"), (HOP, "hop"), (BLOCKED_ON, "blocked on"))
    facts = [f"{word} {found[key]}" for key, word in named if found.get(key)]
    state = newest.status.name.lower() if newest.status else "unknown"
    return f"Temporal remembers {newest.id}: " + ", ".join([state, *facts])


def _objects_line(facts: ClusterFacts) -> str:
    health = facts.health_state or "health unknown"
    return f"the cluster's objects say: version {facts.current_version or 'unknown'}, {health}"


def _remembered(newest: WorkflowExecutionDescription, said: str, cluster: ClusterKey) -> UpgradeStatus:
    """A run that was ended from outside has not said so: then nobody knows its state."""
    found = newest.typed_search_attributes
    state = RunState(found.get(PHASE) or RunState.UNKNOWN.value)
    if newest.close_time is not None and not state.is_final:
        state = RunState.UNKNOWN
    return UpgradeStatus(
        cluster=cluster,
        workflow_id=newest.id,
        to_version=found.get(TARGET_VERSION) or "",
        state=state,
        started_at=newest.start_time,
        message=f"last said: {said}" if said else "it has said nothing yet",
    )
