"""Where a text comes from, for messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _same(line: int) -> int:
    return line


@dataclass(frozen=True)
class Origin:
    """A file, as a person would type it.

    Attributes:
        source_line: line of the text that is read → line of the file; they differ in a rendered template.
    """

    file: str
    source_line: Callable[[int], int] = _same

    def place(self, line: int) -> str:
        """`file:line` of a line of the text."""
        return f"{self.file}:{self.source_line(line)}"
