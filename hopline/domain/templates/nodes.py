"""The syntax tree of a template. Every node knows the line of its first character."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Branch(Enum):
    """Which control structure a `Control` node is."""

    IF = "if"
    WITH = "with"
    RANGE = "range"


@dataclass(frozen=True)
class Text:
    """Literal output."""

    text: str
    line: int


@dataclass(frozen=True)
class Literal:
    """A string, number, truth value, or None for `nil`."""

    value: object
    source: str
    line: int


@dataclass(frozen=True)
class Dot:
    """The value that is current."""

    line: int


@dataclass(frozen=True)
class Field:
    """`.a.b`, read from the current value."""

    names: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Variable:
    """`$`, `$x` or `$x.a.b`; `name` has its dollar sign."""

    name: str
    names: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Chain:
    """`(pipeline).a.b`."""

    operand: Operand
    names: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Function:
    """The name of a function: a call when it stands first in a command."""

    name: str
    line: int


@dataclass(frozen=True)
class Pipeline:
    """Commands, each fed with the result of the one before; then the variables that take the result."""

    variables: tuple[str, ...]
    assigns: bool
    commands: tuple[tuple[Operand, ...], ...]
    line: int


Operand = Literal | Dot | Field | Variable | Chain | Function | Pipeline


@dataclass(frozen=True)
class Output:
    """An action: prints its value, unless it declares or sets a variable."""

    pipeline: Pipeline
    line: int


@dataclass(frozen=True)
class Control:
    """`if`, `with` or `range`, with what follows when there is nothing."""

    branch: Branch
    pipeline: Pipeline
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]
    line: int


@dataclass(frozen=True)
class Jump:
    """`break`, or `continue`, of the innermost `range`."""

    leaves: bool
    line: int


Node = Text | Output | Control | Jump


def source_of(operand: Operand) -> str:
    """How an operand is written, for messages."""
    match operand:
        case Literal(source=source):
            return source
        case Dot():
            return "."
        case Field(names=names):
            return "." + ".".join(names)
        case Variable(name=name, names=names):
            return ".".join((name, *names))
        case Function(name=name):
            return name
        case Chain(operand=inner, names=names):
            return ".".join((source_of(inner), *names))
        case Pipeline(commands=commands):
            return "(" + " | ".join(" ".join(source_of(word) for word in command) for command in commands) + ")"
