"""The status of a run as a person reads it (screens.md §3): what is, what it means, what to do, details last."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from rich.text import Text

from hopline.domain.node_status import NodeProgress
from hopline.domain.status import ComponentStatus, FinishedHop, RunState, StepState, UpgradeStatus
from starter.durations import shown
from starter.layout import columns, listed, sentence
from starter.render_plan import short_digest

STYLES = {
    RunState.DONE: "bold green",
    RunState.HELD: "bold yellow",
    RunState.REFUSED: "bold red",
    RunState.FAILED: "bold red",
    RunState.ABORTED: "bold red",
}
MEANINGS = {
    "hopline retry": "go on after the cause is removed",
    "hopline abort": "end here, give back what the upgrade took",
}


def status_lines(status: UpgradeStatus, now: datetime) -> list[Text]:
    """Headline, message or failure, what to type next, component table, history."""
    lines = [*headline(status, now), *_body(status)]
    if status.components and not status.state.is_final:
        rows = [("component", "state", "version", "nodes"), *(_row(component) for component in status.components)]
        lines += [Text(""), *(Text(line) for line in columns(rows))]
    if status.finished_hops:
        history = [_history(hop) for hop in reversed(status.finished_hops)]
        lines += [Text(""), *(Text(line) for line in columns([("History", line) for line in history[:1]], indent=0))]
        lines += [Text(f"         {line}") for line in history[1:]]
    return lines


def headline(status: UpgradeStatus, now: datetime) -> list[Text]:
    """Cluster, way, state, where and since when, plan."""
    hop = status.hop
    inside = f" in hop {hop.number} of {hop.total}" if hop and not status.state.is_final else ""
    since = f" since {_clock(status.since)} ({shown(now - status.since)})" if status.since else ""
    plan = f"   plan {short_digest(status.plan_digest)}" if status.plan_digest else ""
    way = " -> ".join(part for part in (status.from_version, status.to_version) if part)
    text = f"{status.cluster}  {way}   {status.state.value.upper()}{inside}{since}{plan}"
    return sentence(text, 0, style=STYLES.get(status.state, "bold"))


def _body(status: UpgradeStatus) -> list[Text]:
    lines: list[Text] = []
    failure = status.failure
    if failure is not None:
        where = f" on {failure.node}" if failure.node else ""
        lines += sentence(f"{failure.component} failed{where}, attempt {failure.attempt}: {failure.error}", 2)
        if failure.remedy:
            lines += sentence(failure.remedy, 11, first="  remedy")
    if status.message and (failure is None or failure.error not in status.message):
        lines += sentence(status.message, 2)
    if status.newer_wish and not status.state.is_final:
        lines += sentence(f"{status.newer_wish} is asked for meanwhile; it is looked at when this run has ended", 2)
    if failure is not None and status.components:
        lines += sentence(_impact(status.components), 11, first="  impact")
    for index, command in enumerate(status.next_commands):
        meaning = next((text for start, text in MEANINGS.items() if command.startswith(start)), "")
        lines += sentence(f"{command}   {meaning}", 11, first="  next" if index == 0 else "  or")
    return lines


def _impact(components: Iterable[ComponentStatus]) -> str:
    """What is done, in hand and untouched, in one sentence."""
    by_state: dict[StepState, list[str]] = {}
    for component in components:
        by_state.setdefault(component.state, []).append(component.name)
    words = {
        StepState.DONE: "done: {}",
        StepState.RUNNING: "in hand: {}",
        StepState.FAILED: "failed: {}",
        StepState.PENDING: "not touched: {}",
    }
    parts = [words[state].format(listed(by_state[state])) for state in words if state in by_state]
    return "; ".join(parts)


def _row(component: ComponentStatus) -> tuple[str, ...]:
    finished = component.state in (StepState.DONE, StepState.SKIPPED)
    change = component.version
    if not finished and component.current and component.current != component.version:
        change = f"{component.current} -> {component.version}"
    return (component.name, component.state.value, change, _last_cell(component))


def _last_cell(component: ComponentStatus) -> str:
    """Nodes, then what it waits for or why it was skipped."""
    explanation = component.reason if component.state is StepState.SKIPPED else component.message
    parts = [nodes(component.nodes) if component.nodes else "", explanation]
    return "  ".join(part for part in parts if part)


def nodes(progress: NodeProgress) -> str:
    """`7/8, failed: w3`, or `5/8, in hand: w3`."""
    parts = [f"{progress.done}/{progress.total}"]
    if progress.failed:
        parts.append(f"failed: {listed(progress.failed, 3)}")
    if progress.in_hand:
        parts.append(f"in hand: {listed(progress.in_hand, 3)}")
    return ", ".join(parts)


def _history(hop: FinishedHop) -> str:
    if hop.completed_at is None:
        return hop.to_version
    took = f" (took {shown(hop.completed_at - hop.started_at)})" if hop.started_at else ""
    return f"{hop.to_version} since {hop.completed_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC{took}"


def _clock(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%H:%M} UTC"
