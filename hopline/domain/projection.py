"""The status document as the custom resources show it: pure functions from status and object to a merge patch.

One writer per object writes what stands here, nothing else writes it. A patch holds only what differs from the object
as read, so an empty patch means "no request" (observed.md §3 lists the no-op writes of the existing controller). Lists
that the CRDs keep whole (`conditions`, `completed`, `upgradeHistory`) are merged by key. For people: `docs/status.md`.

| run state         | ClusterVersion phase | clusterStatus   | clusterHealthState | Ready | Progressing | Failing |
|-------------------|----------------------|-----------------|--------------------|-------|-------------|---------|
| Planning/Checking | PreChecking          | as found        | as found           | False | True        | False   |
| … after a write   | Upgrading            | as found        | as found           | False | True        | False   |
| … after the work  | Upgrading            | Checking        | Upgrading          | False | True        | False   |
| Running           | Upgrading            | Upgrading       | Upgrading          | False | True        | False   |
| Held              | Failed               | UpgradeFailed   | UpgradeFailed      | False | False       | True    |
| Done              | Ready                | Ready           | Healthy            | True  | False       | False   |
| Refused           | PreCheckFailed       | as found        | as found           | False | False       | False   |
| Failed/Aborted    | Failed               | UpgradeFailed   | UpgradeFailed      | False | False       | True    |

The condition DesiredVersionAccepted is there once a newer wish has arrived in mid-run: False while that wish waits for
the end of the run, or when it was refused; True again in a run that carries it out.

`phase`, `phaseStatus` and `agentStatus` of BKECluster: `hopline.domain.phase_reports`.

Before the versions of a hop are declared (`opened`) its BKECluster stays as found in every state: nothing of it is
being upgraded, and the existing webhook takes versions only while it is Healthy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from hopline.domain.cluster import NodeFacts
from hopline.domain.left_failed import settled_conditions
from hopline.domain.phase_reports import agent_status, current_phase, hop_is_finished, phase_status
from hopline.domain.plan import ComponentType
from hopline.domain.resources import Document
from hopline.domain.status import MAX_HISTORY, ComponentStatus, RunState, StepState, UpgradeStatus
from hopline.domain.timestamps import timestamp


class ClusterVersionPhase(StrEnum):
    """The phases that we write (openfuyao-api.md §1.2 lists all)."""

    READY = "Ready"
    PRE_CHECKING = "PreChecking"
    UPGRADING = "Upgrading"
    PRE_CHECK_FAILED = "PreCheckFailed"
    FAILED = "Failed"


class HopOutcome(StrEnum):
    """`status.upgradeHistory[].status`."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


DESIRED_VERSION_ACCEPTED = "DesiredVersionAccepted"
_FINISHED = {RunState.FAILED, RunState.ABORTED}


def phase_of(status: UpgradeStatus) -> ClusterVersionPhase:
    """The ClusterVersion phase of a run."""
    match status.state:
        case RunState.DONE:
            return ClusterVersionPhase.READY
        case RunState.REFUSED:
            return ClusterVersionPhase.PRE_CHECK_FAILED
        case RunState.HELD | RunState.FAILED | RunState.ABORTED:
            return ClusterVersionPhase.FAILED
        case _:
            return ClusterVersionPhase.UPGRADING if status.wrote else ClusterVersionPhase.PRE_CHECKING


def cluster_version_status(status: UpgradeStatus, found: Document, now: datetime) -> dict[str, Any]:
    """The merge patch for ClusterVersion `status`; empty when the object already says it.

    A wish that came by the terminal and was never accepted is not the ClusterVersion's own: it leaves no trace there.
    """
    own_wish = str((found.get("spec") or {}).get("desiredVersion") or "").strip() == status.to_version
    if not status.wrote and not own_wish and status.state is not RunState.DONE:
        return {}
    before: Mapping[str, Any] = found.get("status") or {}
    conditions = before.get("conditions") or []
    answers = [*_conditions(status), *_acceptance(status, conditions)]
    wanted: dict[str, Any] = {
        "phase": phase_of(status).value,
        "conditions": merged_conditions(conditions, answers, now),
    }
    if status.finished_hops:
        wanted["currentVersion"] = status.finished_hops[-1].to_version
    elif status.state is RunState.DONE and status.to_version:
        wanted["currentVersion"] = status.to_version
    history = _merged_history(before.get("upgradeHistory") or [], _history(status, now))
    if history:
        wanted["upgradeHistory"] = history
    return {key: value for key, value in wanted.items() if before.get(key) != value}


def _conditions(status: UpgradeStatus) -> Iterable[tuple[str, bool, str, str]]:
    """(type, status, reason, message) of the three conditions."""
    reason = status.reason or _default_reason(status)
    message = _sentence(status)
    failing = status.state is RunState.HELD or status.state in _FINISHED
    progressing = status.state in (RunState.PLANNING, RunState.CHECKING, RunState.RUNNING)
    yield "Ready", status.state is RunState.DONE, reason, message
    yield "Progressing", progressing, reason, message
    yield "Failing", failing, reason if failing else "AsExpected", message if failing else ""


def _acceptance(status: UpgradeStatus, before: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, bool, str, str]]:
    """The answer to a wish that came while another one was carried out."""
    if status.newer_wish:
        where = f"{status.cluster.name} -n {status.cluster.kube_namespace}"
        message = (
            f"{status.newer_wish} is asked for while the upgrade to {status.to_version} is under way; it is looked at "
            f"when that one has ended; to end it now: hopline abort {where}"
        )
        yield DESIRED_VERSION_ACCEPTED, False, "AnotherUpgradeRuns", message
    elif any(condition.get("type") == DESIRED_VERSION_ACCEPTED for condition in before):
        refused = status.state is RunState.REFUSED
        reason, message = ("Refused", _sentence(status)) if refused else ("Accepted", "")
        yield DESIRED_VERSION_ACCEPTED, not refused, reason, message


def _default_reason(status: UpgradeStatus) -> str:
    match status.state:
        case RunState.DONE:
            return "UpgradeComplete"
        case RunState.HELD:
            return "HopHeld"
        case RunState.FAILED:
            return "HopFailed"
        case RunState.ABORTED:
            return "Aborted"
        case RunState.REFUSED:
            return "Refused"
        case _:
            return "Upgrading" if status.wrote else "PreChecking"


def _sentence(status: UpgradeStatus) -> str:
    """Two sentences of the status screen: what is, and what to do."""
    parts = [status.message]
    if status.failure is not None and status.failure.error and status.failure.error not in status.message:
        parts.append(status.failure.error)
    if status.next_commands:
        parts.append("next: " + " or ".join(status.next_commands))
    return "; ".join(part for part in parts if part)


def merged_conditions(
    before: Iterable[Mapping[str, Any]], wanted: Iterable[tuple[str, bool, str, str]], now: datetime
) -> list[dict[str, Any]]:
    """A list of conditions after (type, status, reason, message) of some; times move with the status only."""
    merged = {str(condition.get("type", "")): dict(condition) for condition in before}
    for kind, value, reason, message in wanted:
        old = merged.get(kind, {})
        text = "True" if value else "False"
        moved = old.get("status") != text or not old.get("lastTransitionTime")
        merged[kind] = {
            **old,
            "type": kind,
            "status": text,
            "reason": reason,
            "message": message,
            "lastTransitionTime": timestamp(now) if moved else old["lastTransitionTime"],
        }
    return list(merged.values())


def _history(status: UpgradeStatus, now: datetime) -> Iterable[dict[str, Any]]:
    for hop in status.finished_hops:
        yield _entry(hop.from_version, hop.to_version, hop.started_at, hop.completed_at, HopOutcome.SUCCEEDED)
    open_hop = status.hop
    has_begun = open_hop and open_hop.started_at and not hop_is_finished(status)
    if status.state in _FINISHED and status.wrote and open_hop and has_begun:
        ended_at = status.since or now
        yield _entry(open_hop.from_version, open_hop.to_version, open_hop.started_at, ended_at, HopOutcome.FAILED)


def _entry(
    source: str, target: str, started: datetime | None, completed: datetime | None, outcome: HopOutcome
) -> dict[str, Any]:
    entry = {"from": source, "to": target, "status": outcome.value}
    if started:
        entry["startedAt"] = timestamp(started)
    if completed:
        entry["completedAt"] = timestamp(completed)
    return entry


def _merged_history(before: Iterable[Mapping[str, Any]], new: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    merged = {(e.get("from"), e.get("to"), e.get("startedAt"), e.get("completedAt")): dict(e) for e in before}
    for entry in new:
        merged[(entry["from"], entry["to"], entry.get("startedAt"), entry.get("completedAt"))] = entry
    return list(merged.values())[-MAX_HISTORY:]


def bke_cluster_status(
    status: UpgradeStatus, found: Document, now: datetime, nodes: Iterable[NodeFacts] | None = None
) -> dict[str, Any]:
    """The merge patch for BKECluster `status`; empty when the object already says it, or before the hop is opened.

    Without `nodes` its `agentStatus` stays as found.
    """
    if not status.opened or status.hop is None:
        return {}
    before: Mapping[str, Any] = found.get("status") or {}
    wanted: dict[str, Any] = {**_cluster_states(status)}
    patch: dict[str, Any] = {}
    finished = hop_is_finished(status)
    if finished:
        wanted.update(status.hop.targets)
    if phase := current_phase(status):
        wanted["phase"] = phase
    if steps := phase_status(status, before.get("phaseStatus") or ()):
        wanted["phaseStatus"] = steps
    conditions = before.get("conditions") or ()
    if finished and (answers := settled_conditions(conditions)):
        wanted["conditions"] = merged_conditions(conditions, answers, now)
    if nodes is not None:
        wanted["agentStatus"] = agent_status(nodes)
    patch["declarativeUpgrade"] = _progress(status, before.get("declarativeUpgrade") or {}, finished=finished)
    patch["clusterComponentStatuses"] = _lifecycle(status, before.get("clusterComponentStatuses") or {}, now)
    patch.update({key: value for key, value in wanted.items() if before.get(key) != value})
    return {key: value for key, value in patch.items() if value != {}}


def _cluster_states(status: UpgradeStatus) -> dict[str, str]:
    if status.state is RunState.DONE or hop_is_finished(status):
        return {"clusterStatus": "Ready", "clusterHealthState": "Healthy"}
    if status.state is RunState.HELD or status.state in _FINISHED:
        return {"clusterStatus": "UpgradeFailed", "clusterHealthState": "UpgradeFailed"}
    if status.state is RunState.CHECKING:
        return {"clusterStatus": "Checking", "clusterHealthState": "Upgrading"}
    return {"clusterStatus": "Upgrading", "clusterHealthState": "Upgrading"}


def _progress(status: UpgradeStatus, before: Mapping[str, Any], *, finished: bool) -> dict[str, Any]:
    """`declarativeUpgrade` (openfuyao-api.md §1.6.1): another target starts afresh, the same one keeps its start."""
    hop = status.hop
    assert hop is not None
    same = before.get("targetVersion") == hop.to_version and not (before.get("finishedAt") and not finished)
    kept = list(before.get("completed") or []) if same else []
    completed = {(c.get("name"), c.get("version")): c for c in kept}
    for component in status.components:
        if component.state not in (StepState.DONE, StepState.SKIPPED):
            # An entry of an earlier run, or of somebody else: this run found work, so it is not complete.
            completed.pop((component.name, component.record_version), None)
        if component.state is StepState.DONE and component.finished_at is not None:
            key = (component.name, component.record_version)
            completed.setdefault(key, _completion(component))
    wanted: dict[str, Any] = {"targetVersion": hop.to_version, "completed": list(completed.values())}
    started = before.get("startedAt") if same else None
    wanted["startedAt"] = started or (timestamp(hop.started_at) if hop.started_at else None)
    wanted["finishedAt"] = timestamp(status.finished_hops[-1].completed_at or hop_end(status)) if finished else None
    failure = status.failure
    wanted["lastError"] = f"{failure.component}: {failure.error}" if failure else ""
    wanted["lastFailure"] = _last_failure(status)
    return {key: value for key, value in wanted.items() if _differs(before, key, value)}


def hop_end(status: UpgradeStatus) -> datetime:
    """The best known end of the current hop."""
    return status.since or datetime.fromtimestamp(0, UTC)


def _differs(before: Mapping[str, Any], key: str, value: object) -> bool:
    if value is None or value == "":
        return bool(before.get(key))
    return before.get(key) != value


def _completion(component: ComponentStatus) -> dict[str, str]:
    assert component.finished_at is not None
    return {
        "name": component.name,
        "version": component.record_version,
        "completedAt": timestamp(component.finished_at),
    }


def _last_failure(status: UpgradeStatus) -> dict[str, Any] | None:
    failure = status.failure
    if failure is None or failure.failed_at is None:
        return None
    return {
        "name": failure.component,
        "version": failure.version,
        "failedAt": timestamp(failure.failed_at),
        "error": f"{failure.node}: {failure.error}" if failure.node else failure.error,
        "attempt": failure.attempt,
    }


_LIFECYCLE = {
    StepState.PENDING: "Pending",
    StepState.RUNNING: "Upgrading",
    StepState.DONE: "Installed",
    StepState.FAILED: "Failed",
}


def _lifecycle(status: UpgradeStatus, before: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """`clusterComponentStatuses` (openfuyao-api.md §1.6.2), only the entries that change."""
    changed: dict[str, Any] = {}
    for component in status.components:
        old: Mapping[str, Any] = before.get(component.name) or {}
        phase = _LIFECYCLE.get(component.state)
        if phase is None:
            continue
        wanted: dict[str, Any] = {
            "name": component.name,
            "componentType": "node" if component.type in (ComponentType.NODE, ComponentType.AGENT) else "cluster",
            "phase": phase,
            "targetVersion": component.version,
            "message": component.message if phase in ("Failed", "Upgrading") else "",
        }
        current = component.version if component.state is StepState.DONE else component.current
        if current:
            wanted["currentVersion"] = current
        if old.get("phase") != phase:
            wanted["lastTransitionTime"] = timestamp(now)
        if any(_differs(old, key, value) for key, value in wanted.items()):
            changed[component.name] = wanted
    return changed
