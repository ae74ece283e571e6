"""The screen of `hopline offline verify`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from hopline.domain.bundle_closure import ClosureReport
from hopline.domain.plan import Finding, Severity
from starter.layout import DONE, FAILED, sentence

MAX_SHOWN = 50
_MARKS = {Severity.BLOCKS: (FAILED, "bold red"), Severity.WARNS: ("!", "yellow")}


def closure_lines(report: ClosureReport) -> list[Text]:
    """What is wrong first, the verdict last."""
    lines = [
        *_block("missing", [(one.image, f"wanted by {one.wanted_by}", one.reason) for one in report.missing]),
        *_block("corrupt", [(one.path, one.reason, "") for one in report.corrupt]),
    ]
    for finding in sorted(report.findings, key=lambda one: one.severity is not Severity.BLOCKS):
        lines += _finding(finding)
    for signature in report.signatures:
        if signature.keys:
            lines.append(Text(f"  {signature.image}: signed with {', '.join(signature.keys)}", style="dim"))
    if report.excepted:
        lines += sentence(f"not inside, and declared to be at hand: {', '.join(report.excepted)}", 2)
    return [*lines, *_verdict(report)]


def _verdict(report: ClosureReport) -> list[Text]:
    mark, style = (DONE, "green") if report.closed else (FAILED, "bold red")
    held = f"{report.images} images that {len(report.releases)} releases run, for {', '.join(report.architectures)}"
    if report.closed:
        return [Text(f"{mark} {report.source} is closed: {', '.join(report.versions)}, {held}", style=style)]
    faults = [
        (len(report.missing), "missing"),
        (len(report.corrupt), "corrupt"),
        (sum(one.severity is Severity.BLOCKS for one in report.findings), "other faults"),
    ]
    counted = ", ".join(f"{number} {word}" for number, word in faults if number)
    return [Text(f"{mark} {report.source} is not closed: {counted}", style=style)]


def _block(head: str, entries: list[tuple[str, str, str]]) -> Iterator[Text]:
    for name, text, reason in entries[:MAX_SHOWN]:
        yield Text(f"{FAILED} {head}  {name}", style="bold red")
        for part in filter(None, (text, reason)):
            yield from sentence(part, 4)
    if len(entries) > MAX_SHOWN:
        yield Text(f"  and {len(entries) - MAX_SHOWN} more {head} (-o json shows all)")


def _finding(finding: Finding) -> list[Text]:
    mark, style = _MARKS.get(finding.severity, ("·", "dim"))
    head = "  ".join(part for part in (finding.object, finding.field) if part)
    lines = [Text(f"{mark} {head}", style=style), *sentence(finding.message, 4)]
    return lines + (sentence(f"remedy: {finding.remedy}", 4) if finding.remedy else [])
