"""Pieces of screens: marks, columns, indented sentences. Pure: values in, lines of text out."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from rich.text import Text

from starter.terminal import MAX_WIDTH

DONE, FAILED, RUNNING, NOTHING = "✓", "✗", "▸", " "
BAR_WIDTH = 18


def sentence(text: str, indent: int, *, style: str = "", first: str = "", width: int = MAX_WIDTH) -> list[Text]:
    """`text`, wrapped at `width`; `first` stands before the first line, within the indentation.

    A word is never broken: a path or a name must survive being copied, even beyond the width.
    """
    lead = " " * indent
    wrapped = textwrap.wrap(
        text, width, initial_indent=lead, subsequent_indent=lead, break_long_words=False, break_on_hyphens=False
    )
    if first and wrapped:
        wrapped[0] = first.ljust(indent) + wrapped[0][indent:]
    return [Text(line, style=style) for line in wrapped]


def columns(rows: Sequence[Sequence[str]], *, indent: int = 2, gap: int = 2) -> list[str]:
    """Rows as aligned columns. The last cell of a row may be a sentence: it is wrapped below its own beginning."""
    return [line for lines in aligned(rows, indent=indent, gap=gap) for line in lines]


def aligned(rows: Sequence[Sequence[str]], *, indent: int = 2, gap: int = 2, width: int = MAX_WIDTH) -> list[list[str]]:
    """As `columns`, with the lines of each row apart."""
    widths: dict[int, int] = {}
    for row in rows:
        for index, cell in enumerate(row[:-1]):
            widths[index] = max(widths.get(index, 0), len(cell))
    spaces = " " * gap
    result: list[list[str]] = []
    for row in rows:
        head = " " * indent + "".join(cell.ljust(widths[index]) + spaces for index, cell in enumerate(row[:-1]))
        room = max(width - len(head), 20)
        first, *rest = (
            textwrap.wrap(row[-1], room, break_long_words=False, break_on_hyphens=False) if row and row[-1] else [""]
        )
        result.append([(head + first).rstrip(), *(" " * len(head) + more for more in rest)])
    return result


def side_by_side(stacks: Sequence[Sequence[str]], *, indent: int = 2, gap: int = 3) -> list[str]:
    """Stacks of words as columns, as many beside each other as fit into MAX_WIDTH; the rest below."""
    lines: list[str] = []
    row: list[Sequence[str]] = []
    used = indent
    for stack in stacks:
        width = max(len(word) for word in stack) + gap
        if row and used + width - gap > MAX_WIDTH:
            lines += _beside(row, indent, gap)
            row, used = [], indent
        row.append(stack)
        used += width
    return lines + _beside(row, indent, gap)


def _beside(stacks: Sequence[Sequence[str]], indent: int, gap: int) -> list[str]:
    height = max((len(stack) for stack in stacks), default=0)
    rows = [[stack[index] if index < len(stack) else "" for stack in stacks] for index in range(height)]
    return columns(rows, indent=indent, gap=gap)


def bar(done: int, total: int) -> str:
    """How much of `total` is done."""
    filled = BAR_WIDTH * done // total if total else 0
    return "━" * filled + ("╸" if filled < BAR_WIDTH else "") + "─" * (BAR_WIDTH - filled - 1)


def listed(names: Iterable[str], limit: int = 8) -> str:
    """`a, b, c and 4 more`."""
    every = list(names)
    rest = len(every) - limit
    return ", ".join(every[:limit]) + (f" and {rest} more" if rest > 0 else "")
