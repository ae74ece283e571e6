"""The screen of `hopline check manifests`."""

from __future__ import annotations

from rich.text import Text

from hopline.domain.manifest_findings import ManifestFinding, ManifestReport
from hopline.domain.plan import Severity
from starter.layout import DONE, FAILED, sentence

_MARKS = {Severity.BLOCKS: FAILED, Severity.WARNS: "!", Severity.INFO: "·"}
_STYLES = {Severity.BLOCKS: "bold red", Severity.WARNS: "yellow", Severity.INFO: "dim"}
_WORDS = {
    Severity.BLOCKS: ("problem", "problems"),
    Severity.WARNS: ("warning", "warnings"),
    Severity.INFO: ("note", "notes"),
}


def report_lines(report: ManifestReport) -> list[Text]:
    """The findings in file order, then what was looked at and how it ended."""
    lines: list[Text] = []
    for finding in report.findings:
        lines += _finding(finding)
    looked = f"{_counted(report.files, ('file', 'files'))} with {_counted(report.objects, ('object', 'objects'))}"
    numbers = {severity: sum(finding.severity is severity for finding in report.findings) for severity in _WORDS}
    found = ", ".join(_counted(number, _WORDS[severity]) for severity, number in numbers.items() if number)
    mark, style = (FAILED, "bold red") if report.blocks else (DONE, "green")
    return [*lines, Text(f"{mark} {looked}: {found or 'nothing to say'}", style=style)]


def _finding(finding: ManifestFinding) -> list[Text]:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    head = "  ".join(part for part in (place, finding.object, finding.field) if part)
    lines = [Text(f"{_MARKS[finding.severity]} {head}", style=_STYLES[finding.severity])]
    lines += sentence(finding.message, 4)
    return lines + (sentence(f"remedy: {finding.remedy}", 4) if finding.remedy else [])


def _counted(number: int, words: tuple[str, str]) -> str:
    return f"{number} {words[number != 1]}"
