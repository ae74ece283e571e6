"""The screen of `hopline release show`."""

from __future__ import annotations

from rich.text import Text

from hopline.domain.plan import Finding, Severity
from starter.layout import DONE, FAILED, sentence
from starter.release_images import ReleaseView

_MARKS = {Severity.BLOCKS: (FAILED, "bold red"), Severity.WARNS: ("!", "yellow")}


def release_lines(view: ReleaseView) -> list[Text]:
    """What it is, what it holds, what speaks against it."""
    mark, style = (DONE, "green") if view.is_valid else (FAILED, "bold red")
    lines = [Text(f"{mark} {view.reference}: {view.phase}", style=style)]
    for name, value in (("version", view.version), ("digest", view.digest), ("signature", _signature(view))):
        if value:
            lines.append(Text(f"  {name:<10} {value}"))
    width = max((len(component.name) for component in view.components), default=0)
    for component in view.components:
        after = f"  after {', '.join(component.dependencies)}" if component.dependencies else ""
        lines.append(Text(f"  {component.name:<{width}}  {component.version}  {component.type}{after}"))
    for finding in view.findings:
        lines += _finding(finding)
    return lines


def _signature(view: ReleaseView) -> str:
    if view.signature.verified:
        return f"verified with {', '.join(view.signature.keys)}"
    return "required, not verified" if view.signature.required else "not required"


def _finding(finding: Finding) -> list[Text]:
    mark, style = _MARKS.get(finding.severity, ("·", "dim"))
    head = "  ".join(part for part in (finding.object, finding.field) if part)
    lines = [Text(f"{mark} {head}", style=style), *sentence(finding.message, 4)]
    return lines + (sentence(f"remedy: {finding.remedy}", 4) if finding.remedy else [])
