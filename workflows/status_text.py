"""The status document as a sentence and as Markdown for Temporal's web UI: pure, under 2 KB (screens.md §3, §6)."""

from __future__ import annotations

from hopline.domain.status import ComponentStatus, RunState, StepState, UpgradeStatus

MAX_ROWS = 40
"""The page fetches the text in one go; 40 rows stay under 2 KB."""


def one_line(status: UpgradeStatus) -> str:
    """What, where, state; for the memo and for logs."""
    hop = f" hop {status.hop.number} of {status.hop.total}" if status.hop else ""
    way = f"{status.from_version} -> {status.to_version}" if status.from_version else status.to_version
    return f"{status.cluster} {way}{hop} {status.state.value}: {status.message}"[:400]


def details_markdown(status: UpgradeStatus) -> str:
    """First line what, where, state; then what to do; then the components."""
    paragraphs = [f"**{one_line(status)}**"]
    if status.failure is not None:
        where = f" on {status.failure.node}" if status.failure.node else ""
        failure = f"{status.failure.component}{where}, attempt {status.failure.attempt}: {status.failure.error}"
        paragraphs.append(failure[:600])
    if status.next_commands:
        paragraphs.append("next: " + " or ".join(f"`{command}`" for command in status.next_commands))
    if status.components and status.state not in (RunState.REFUSED, RunState.PLANNING):
        header = ["| component | state | version | nodes |", "| --- | --- | --- | --- |"]
        paragraphs.append("\n".join([*header, *(_row(component) for component in status.components[:MAX_ROWS])]))
    return "\n\n".join(paragraphs)


def _row(component: ComponentStatus) -> str:
    version = component.version
    if component.current and component.current != component.version:
        version = f"{component.current} -> {component.version}"
    nodes = f"{component.nodes.done}/{component.nodes.total}" if component.nodes else ""
    state = component.state.value
    if component.message and component.state in (StepState.RUNNING, StepState.FAILED):
        state = f"{state}: {component.message}"[:80]
    return f"| {component.name} | {state} | {version} | {nodes} |"
