"""The block that a person reads when something was refused or went wrong (screens.md §4)."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from hopline.domain.errors import HoplineError, InvalidInput, NoUpgradePath, Refusal
from starter.layout import sentence


def refusal_lines(error: HoplineError) -> list[Text]:
    """What, where with its value, and what to do."""
    word = "refused" if isinstance(error, Refusal) else "usage" if isinstance(error, InvalidInput) else "failed"
    lines = sentence(f"{word}: {error.message}", 0, style="bold red")
    where = ", ".join(part for part in (error.subject, error.field) if part)
    value = f" is {error.value}" if error.value and error.field else f" ({error.value})" if error.value else ""
    if where:
        lines += sentence(where + value, 2)
    if error.remedy:
        lines += sentence(f"remedy: {error.remedy}", 2)
    return lines


def refusal_document(error: HoplineError) -> dict[str, Any]:
    """The one JSON document of a command that was refused or failed."""
    parts = {name: getattr(error, name) for name in ("message", "subject", "field", "value", "remedy")}
    reason = error.reason.value if isinstance(error, NoUpgradePath) else type(error).__name__
    return {"error": {"kind": type(error).__name__, "reason": reason, **parts}}
