"""Answers about paths as a person reads them."""

from __future__ import annotations

from rich.text import Text

from hopline.domain.errors import PathReason
from hopline.domain.routes import Reachable, UpgradeRoute
from starter.layout import columns
from workflows.messages import VersionsAnswer


def route_lines(route: UpgradeRoute) -> list[Text]:
    """Headline and one line per hop."""
    if route.reason is PathReason.ALREADY_THERE:
        return [Text(route.message)]
    count = len(route.hops)
    title = f"{route.from_version} -> {route.to_version}   {count} hop{'s' if count != 1 else ''}"
    rows = [
        (str(number), f"{hop.from_version} -> {hop.to_version}", _advice(hop.deprecated, hop.notes))
        for number, hop in enumerate(route.hops, start=1)
    ]
    return [Text(title, style="bold"), *(Text(line) for line in columns(rows))]


def versions_lines(answer: Reachable | VersionsAnswer) -> list[Text]:
    """Headline and one line per version, oldest first."""
    count = len(answer.versions)
    if not count:
        return [Text(answer.message)]
    title = f"from {answer.from_version}   {count} version{'s' if count != 1 else ''} can be reached"
    rows = [
        (entry.version, f"{entry.hops} hop{'s' if entry.hops != 1 else ''}", _advice(entry.deprecated, ""))
        for entry in answer.versions
    ]
    doubt = [Text(answer.message)] if answer.message else []
    return [Text(title, style="bold"), *(Text(line) for line in columns(rows)), *doubt]


def _advice(deprecated: bool, notes: str) -> str:
    return ", ".join(part for part in ("deprecated" if deprecated else "", notes) if part)
