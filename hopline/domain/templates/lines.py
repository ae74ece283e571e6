"""Which line of a template a line of the rendered text comes from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple


class Piece(NamedTuple):
    """A piece of the output, with the template's line of its first character, counted from 1.

    `copied`: it stands in the template as it is, so its lines are lines of the template; else an action printed it.
    """

    text: str
    line: int
    copied: bool


class Rendering:
    """A rendered text that knows its template's lines."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self.text = "".join(piece.text for piece in pieces)

    def line_of(self, line: int) -> int:
        """The line of the template from which the rendered `line` comes, both counted from 1."""
        return self._lines[min(max(line, 1), len(self._lines)) - 1]

    @cached_property
    def _lines(self) -> list[int]:
        lines, begins = [1], True
        for piece in self._pieces:
            if not piece.text:
                continue
            if begins:
                lines[-1] = piece.line
            breaks = piece.text.count("\n")
            lines += [piece.line + (number if piece.copied else 0) for number in range(1, breaks + 1)]
            begins = piece.text.endswith("\n")
        return lines
