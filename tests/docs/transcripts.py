"""Transcripts of a terminal in the docs: fenced blocks of the language `console`, as a test types and compares them.

A line that begins with `$ ` is typed; what follows up to the next one is what it prints. A line `...` stands for any
number of lines that the page leaves out. `^C` ends what would go on for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from docs.pages import ROOT

ENGLISH, CHINESE = ROOT / "docs" / "guide.md", ROOT / "docs" / "guide.zh-CN.md"
PROMPT, LEFT_OUT, INTERRUPT = "$ ", "...", "^C"
OFFLINE = "<!-- offline -->"
"""Stands in the guides before the part that is typed where there is no network."""
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?( UTC)?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\bplan [0-9a-f]{8}\b"), "plan DIGEST"),
    (re.compile(r"(?<![\w.])(\d+d)?(\d+h)?(\d+m)?(\d+s)?(?<=[dhms])(?![\w.])"), "AGE"),
    (re.compile(r"(resourceVersion: )\"\d+\""), r'\1"NUMBER"'),
)
"""What is another in every run: moments, ages and lengths, identities."""


@dataclass(frozen=True)
class Typed:
    """One command of a page and what the page shows below it."""

    command: str
    shown: tuple[str, ...]

    @property
    def is_endless(self) -> bool:
        """Whether the page ends it with Ctrl-C."""
        return bool(self.shown) and self.shown[-1] == INTERRUPT


def transcript(text: str) -> list[Typed]:
    """Every command of a page in order."""
    return [typed for block in _BLOCK.findall(text) for typed in _commands(block)]


def parts(text: str) -> tuple[str, str]:
    """A guide's part for a lab with a network, and the one without."""
    online, mark, offline = text.partition(OFFLINE)
    return online, mark + offline


def _commands(block: str) -> Iterator[Typed]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.rstrip("\n").split("\n")
        yield Typed(command, tuple(shown))


def normal(line: str) -> str:
    """A line without what varies; columns are as wide as their widest cell, so any run of spaces is one."""
    for pattern, name in _VARIES:
        line = pattern.sub(name, line)
    return " ".join(line.split())


def without_repeats(lines: Iterable[str]) -> list[str]:
    """What a person sees change: a watch prints a line for every write, also when no column moves."""
    kept: list[str] = []
    for line in lines:
        if not kept or normal(kept[-1]) != normal(line):
            kept.append(line)
    return kept


def matched(shown: Sequence[str], printed: Sequence[str]) -> list[str] | None:
    """The printed lines in the places of the shown ones; None when the page does not tell the truth."""
    if not shown:
        return None if printed else []
    if shown[0] == LEFT_OUT:
        for start in range(len(printed) + 1):
            rest = matched(shown[1:], printed[start:])
            if rest is not None:
                return [LEFT_OUT, *rest]
        return None
    if not printed or normal(shown[0]) != normal(printed[0]):
        return None
    rest = matched(shown[1:], printed[1:])
    return None if rest is None else [printed[0], *rest]


def rewritten(text: str, outputs: Sequence[Sequence[str]]) -> str:
    """The page with other lines below its commands, in order."""
    remaining = iter(outputs)

    def block(found: re.Match[str]) -> str:
        lines = [line for typed in _commands(found[1]) for line in (PROMPT + typed.command, *next(remaining))]
        return "\n".join(("```console", *lines, "```"))

    return _BLOCK.sub(block, text)
