"""What a person sees while a run is at work: a live picture on a terminal, one line per event elsewhere.

Pure: two statuses in, lines out (screens.md §2, §7).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from rich.text import Text

from hopline.domain.node_status import NodeProgress
from hopline.domain.status import ComponentStatus, RunState, StepState, UpgradeStatus
from starter.durations import about, shown
from starter.layout import DONE, FAILED, RUNNING, aligned, bar, listed, sentence
from starter.render_status import STYLES, nodes
from starter.terminal import MAX_WIDTH

_STYLE = {StepState.DONE: "green", StepState.FAILED: "red", StepState.RUNNING: "cyan"}


def progress_lines(status: UpgradeStatus, now: datetime, url: str = "", width: int = MAX_WIDTH) -> list[Text]:
    """Headline and one line per component of the current hop."""
    hop = status.hop
    place = f"   hop {hop.number} of {hop.total}" if hop else ""
    began = status.started_at or status.since
    running = f" {shown(now - began)}" if began else ""
    left = seconds_left(status, now)
    rest = f", about {about(left)} left in this hop" if left and status.state is RunState.RUNNING else ""
    link = f"   {url}" if url else ""
    head = f"{status.cluster}  {status.from_version} -> {status.to_version}{place}   {status.state.value.lower()}"
    style = STYLES.get(status.state, "bold")
    lines = [*sentence(head + running + rest + link, 0, style=style, width=width), Text("")]
    rows = aligned(list(_rows(status, now)), width=width)
    for component, row in zip(status.components, rows, strict=True):
        lines += [Text(line, style=_STYLE.get(component.state, "")) for line in row]
    if status.message and not rows:
        lines.append(Text(f"  {status.message}"))
    return lines


def _rows(status: UpgradeStatus, now: datetime) -> Iterable[tuple[str, ...]]:
    before = 0
    for component in status.components:
        batch = str(component.batch) if component.batch and component.batch != before else ""
        before = component.batch
        yield (batch, component.name, _state(component, status.components, now))


def _state(component: ComponentStatus, every: Iterable[ComponentStatus], now: datetime) -> str:
    match component.state:
        case StepState.DONE:
            counted = f"   {nodes(component.nodes)} nodes" if component.nodes else ""
            return f"{DONE}  {_took(component, now)}{counted}"
        case StepState.SKIPPED:
            return component.reason or f"up to date ({component.version})"
        case StepState.FAILED:
            return f"{FAILED}  attempt {component.attempt}: {component.message}"
        case StepState.RUNNING:
            parts = [_gauge(component), _took(component, now), component.message]
            return "  ".join(part for part in parts if part)
        case _:
            return _waits(component, every)


def _gauge(component: ComponentStatus) -> str:
    progress = component.nodes
    if progress is None:
        return RUNNING
    in_hand = f"  {listed(progress.in_hand, 3)}" if progress.in_hand and not component.message else ""
    return f"{bar(progress.done, progress.total)}  {progress.done}/{progress.total}{in_hand}"


def _took(component: ComponentStatus, now: datetime) -> str:
    if component.started_at is None:
        return ""
    return shown((component.finished_at or now) - component.started_at)


def _waits(component: ComponentStatus, every: Iterable[ComponentStatus]) -> str:
    open_states = (StepState.PENDING, StepState.RUNNING, StepState.FAILED)
    unfinished = [other.name for other in every if other.name in component.dependencies and other.state in open_states]
    return f"waits for {listed(unfinished, 3)}" if unfinished else "waits for its batch"


def seconds_left(status: UpgradeStatus, now: datetime) -> float:
    """A guess for the current hop: per batch, the longest that its components still need."""
    by_batch: dict[int, float] = {}
    for component in status.components:
        if component.state in (StepState.PENDING, StepState.RUNNING, StepState.FAILED):
            used = (now - component.started_at).total_seconds() if component.started_at else 0.0
            rest = max(component.expected_seconds - used, 0.0)
            by_batch[component.batch] = max(by_batch.get(component.batch, 0.0), rest)
    return sum(by_batch.values())


def event_lines(before: UpgradeStatus | None, after: UpgradeStatus, now: datetime) -> list[str]:
    """One line per thing that happened between two looks; each can be understood alone."""
    events: list[tuple[datetime, str]] = []
    if before is None or len(after.finished_hops) > len(before.finished_hops):
        events += _finished_hops(before, after, now)
    if after.hop is not None and _hop_number(before) != after.hop.number:
        way = f"{after.hop.from_version} -> {after.hop.to_version}"
        started = after.hop.started_at or now
        events.append((started, f"hop {after.hop.number} of {after.hop.total} started: {way}"))
    same_hop = before is not None and _hop_number(before) == _hop_number(after)
    known = {component.name: component for component in before.components} if before and same_hop else {}
    for component in after.components:
        events += _component_events(known.get(component.name), component, now)
    if before is not None and before.state is not after.state and after.state is RunState.HELD:
        events.append((after.since or now, f"held: {after.message}"))
    if before is not None and before.state is RunState.HELD and after.state is RunState.RUNNING:
        events.append((after.since or now, "goes on"))
    ordered = sorted(events, key=lambda event: event[0])
    return [event_line(at, text) for at, text in ordered]


def event_line(at: datetime, text: str) -> str:
    """`02:12:03 text`, in UTC."""
    return f"{at.astimezone(UTC):%H:%M:%S} {text}"


def accepted_line(status: UpgradeStatus, hops: int, digest: str, now: datetime) -> str:
    """The first line of a CI log."""
    count = f"{hops} hop{'s' if hops != 1 else ''}"
    return event_line(now, f"{status.cluster} accepted {status.to_version} ({count}, plan {digest})")


def done_line(status: UpgradeStatus, now: datetime) -> str:
    """The last line of a CI log."""
    ended = status.since or now
    took = f" after {_precise(ended - status.started_at)}" if status.started_at else ""
    return event_line(ended, f"done: {status.to_version}{took}")


def _precise(duration: timedelta) -> str:
    seconds = max(round(duration.total_seconds()), 0)
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    return f"{hours}h{minutes:02d}m{seconds % 60:02d}s" if hours else shown(duration)


def _hop_number(status: UpgradeStatus | None) -> int:
    return status.hop.number if status is not None and status.hop is not None else 0


def _finished_hops(before: UpgradeStatus | None, after: UpgradeStatus, now: datetime) -> list[tuple[datetime, str]]:
    known = len(before.finished_hops) if before is not None else 0
    total = len(after.path) - 1 if after.path else 0
    events = []
    for number, hop in enumerate(after.finished_hops[known:], start=known + 1):
        ended = hop.completed_at or now
        took = f" in {shown(ended - hop.started_at)}" if hop.started_at else ""
        counted = f"hop {number} of {total}" if total else f"hop {number}"
        events.append((ended, f"{counted} done: {hop.to_version}{took}"))
    return events


def _component_events(
    before: ComponentStatus | None, after: ComponentStatus, now: datetime
) -> list[tuple[datetime, str]]:
    state = before.state if before is not None else StepState.PENDING
    same = before is not None and state is after.state and before.attempt == after.attempt
    named = f"{after.name} {after.version}"
    if same and after.state is StepState.RUNNING and before is not None and after.nodes != before.nodes:
        progress = _node_progress(after.nodes) if after.nodes else ""
        return [(now, f"{after.name} {progress}")] if _done_nodes(before) != _done_nodes(after) else []
    if same or after.state in (StepState.PENDING, StepState.SKIPPED, StepState.UNKNOWN):
        return []
    if after.state is StepState.DONE:
        return [(after.finished_at or now, f"{named} done in {_took(after, now)}")]
    if after.state is StepState.FAILED:
        return [(after.finished_at or now, f"{named} failed, attempt {after.attempt}: {after.message}")]
    again = f", attempt {after.attempt}" if after.attempt > 1 else ""
    return [((after.started_at or now) if after.attempt <= 1 else now, f"{named} started{again}")]


def _node_progress(progress: NodeProgress) -> str:
    in_hand = f", in hand: {listed(progress.in_hand, 3)}" if progress.in_hand else ""
    return f"{progress.done}/{progress.total} nodes{in_hand}"


def _done_nodes(component: ComponentStatus) -> int:
    return component.nodes.done if component.nodes else 0
