"""README and docs as a test reads them: tables, commands and inline code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")


def page_name(page: Path) -> str:
    """The page as a message names it."""
    return str(page.relative_to(ROOT))


def text_of(page: Path) -> str:
    """The text of a page."""
    return page.read_text(encoding="utf-8")


def inline_code(page: Path) -> list[str]:
    """Everything between single backticks, outside fenced blocks; a line break inside counts as a space."""
    return [" ".join(code.split()) for code in _CODE.findall(_FENCE.sub("", text_of(page)))]


def fenced_lines(page: Path) -> list[str]:
    """The lines of the fenced blocks, without the prompt of a shell."""
    blocks = "\n".join(_FENCE.findall(text_of(page)))
    return [line.strip().removeprefix("$ ") for line in blocks.splitlines()]


def commands(page: Path, program: str) -> list[str]:
    """What the page tells a person to type that begins with `program`, without comments."""
    typed = [line.partition("  #")[0].strip() for line in [*inline_code(page), *fenced_lines(page)]]
    return [line for line in typed if line.startswith(f"{program} ")]


def rows(page: Path) -> list[dict[str, str]]:
    """Every row of every table of a page, by the words of the table's head."""
    found: list[dict[str, str]] = []
    head: list[str] = []
    for line in text_of(page).splitlines():
        if not line.startswith("|"):
            head = []
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
        if not head:
            head = cells
        elif not all(set(cell) <= set("-:") and cell for cell in cells):
            assert len(cells) == len(head), f"{page_name(page)}: {line}"
            found.append(dict(zip(head, cells, strict=True)))
    return found
