"""Where a command writes: results on standard output, refusals on standard error, and with `-o json` one document."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

MAX_WIDTH = 100
"""Columns: a screen beside another one, a CI log."""

Line = Text | str


class Output(StrEnum):
    """The value of `-o`."""

    TEXT = "text"
    JSON = "json"


def console(*, stderr: bool = False) -> Console:
    """A console without markup; without colour and redraw when it is not a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    plain = Console(file=stream, markup=False, highlight=False, emoji=False)
    width = min(plain.width, MAX_WIDTH) if plain.is_terminal else MAX_WIDTH
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)


class Terminal:
    """The two streams of one command."""

    def __init__(self, output: Output) -> None:
        self.is_json = output is Output.JSON
        self.out = console()
        self.err = console(stderr=True)

    @property
    def talk(self) -> Console:
        """Where a person reads along: standard error when standard output holds the document."""
        return self.err if self.is_json else self.out

    def show(self, lines: Iterable[Line]) -> None:
        """Print the result for a person; nothing with `-o json`."""
        if not self.is_json:
            print_lines(self.out, lines)

    def tell(self, lines: Iterable[Line]) -> None:
        """Print what happens meanwhile."""
        print_lines(self.talk, lines)

    def complain(self, lines: Iterable[Line]) -> None:
        """Print a refusal or failure."""
        print_lines(self.err, lines)

    def document(self, document: BaseModel | Mapping[str, Any]) -> None:
        """Print the one JSON document; nothing without `-o json`."""
        if not self.is_json:
            return
        if isinstance(document, BaseModel):
            text = document.model_dump_json(by_alias=True, indent=2)
        else:
            text = json.dumps(document, indent=2, ensure_ascii=False)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def print_lines(target: Console, lines: Iterable[Line]) -> None:
    """Print as they are. Too long a line goes on below on a terminal; elsewhere a line stays one line."""
    for line in lines:
        if target.is_terminal:
            target.print(line, overflow="fold")
        else:
            target.print(line, overflow="ignore", no_wrap=True, crop=False)
