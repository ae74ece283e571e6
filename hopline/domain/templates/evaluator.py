"""Syntax tree and data → text, by the rules of Go's text/template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hopline.domain.templates.formatting import Missing, TemplateValueError, go_text, printable, type_name
from hopline.domain.templates.functions import FUNCTIONS, SHORT_CIRCUIT, truth
from hopline.domain.templates.lines import Piece
from hopline.domain.templates.nodes import (
    Branch,
    Chain,
    Control,
    Dot,
    Field,
    Function,
    Jump,
    Literal,
    Node,
    Operand,
    Output,
    Pipeline,
    Text,
    Variable,
    source_of,
)

MAX_STEPS = 1_000_000
"""Nodes that one rendering may walk: a `range` over a huge number ends with a message, not with a dead worker."""


class TemplateRuntimeError(Exception):
    """Rendering stopped at `line`; `missing` is the name of a variable without a value."""

    def __init__(self, message: str, line: int, missing: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.missing = missing


class _Left(Exception):
    """A `break` or `continue` on its way to its `range`."""

    def __init__(self, *, leaves: bool) -> None:
        self.leaves = leaves


class _Nothing:
    """No value arrives through the pipe."""


_NOTHING = _Nothing()


def evaluate(nodes: Sequence[Node], data: Mapping[str, object]) -> list[Piece]:
    """The text that a template prints, in pieces. Raises TemplateRuntimeError."""
    evaluator = _Evaluator(data)
    evaluator.walk(nodes, data)
    return evaluator.pieces


class _Evaluator:
    def __init__(self, data: Mapping[str, object]) -> None:
        self.pieces: list[Piece] = []
        self._variables: list[tuple[str, object]] = [("$", data)]
        self._steps = 0

    def walk(self, nodes: Sequence[Node], dot: object) -> None:
        for node in nodes:
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise TemplateRuntimeError(f"rendering takes more than {MAX_STEPS} steps", node.line)
            match node:
                case Text(text=text, line=line):
                    self.pieces.append(Piece(text, line, True))
                case Output(pipeline=pipeline):
                    value = self._pipeline(pipeline, dot)
                    if not pipeline.variables:
                        self.pieces.append(Piece(self._printed(value, node.line), node.line, False))
                case Control(branch=branch):
                    mark = len(self._variables)
                    if branch is Branch.RANGE:
                        self._range(node, dot)
                    else:
                        self._choose(node, dot)
                    del self._variables[mark:]
                case Jump(leaves=leaves):
                    raise _Left(leaves=leaves)

    def _printed(self, value: object, line: int) -> str:
        try:
            return go_text(printable(value))
        except TemplateValueError as error:
            raise TemplateRuntimeError(str(error), line, error.missing) from None

    def _choose(self, node: Control, dot: object) -> None:
        value = self._pipeline(node.pipeline, dot)
        if not truth(value):
            self.walk(node.otherwise, dot)
        elif node.branch is Branch.WITH:
            self.walk(node.body, value)
        else:
            self.walk(node.body, dot)

    def _range(self, node: Control, dot: object) -> None:
        """The variables hold the whole value first, as in Go: that is what `else` sees."""
        names, assigns = node.pipeline.variables, node.pipeline.assigns
        value = self._pipeline(node.pipeline, dot)
        mark, ran = len(self._variables), False
        for key, item in self._items(value, node):
            ran = True
            for place, bound in enumerate((item,) if len(names) == 1 else (key, item)[: len(names)]):
                if assigns:
                    self._bind(names[place], bound, assigns=True, line=node.line)
                else:
                    self._variables[mark - len(names) + place] = (names[place], bound)
            try:
                self.walk(node.body, item)
            except _Left as left:
                if left.leaves:
                    break
            finally:
                del self._variables[mark:]
        if not ran:
            self.walk(node.otherwise, dot)

    def _items(self, value: object, node: Control) -> Iterable[tuple[object, object]]:
        if isinstance(value, Missing) or value is None:
            return ()
        if isinstance(value, Mapping):
            return [(key, value[key]) for key in sorted(value)]
        if isinstance(value, int) and not isinstance(value, bool):
            if len(node.pipeline.variables) > 1:
                raise TemplateRuntimeError(f"can't use {value} to iterate over more than one variable", node.line)
            return ((number, number) for number in range(value))
        if isinstance(value, Sequence) and not isinstance(value, str):
            return enumerate(value)
        raise TemplateRuntimeError(f"range can't iterate over {go_text(value)}", node.line)

    def _bind(self, name: str, value: object, *, assigns: bool, line: int) -> None:
        if not assigns:
            self._variables.append((name, value))
            return
        for at in range(len(self._variables) - 1, -1, -1):
            if self._variables[at][0] == name:
                self._variables[at] = (name, value)
                return
        raise TemplateRuntimeError(f"undefined variable {name!r}", line)

    def _pipeline(self, pipeline: Pipeline, dot: object) -> object:
        value: object = _NOTHING
        for command in pipeline.commands:
            value = self._command(command, dot, value)
        if value is None:
            value = Missing(" ".join(source_of(word) for word in pipeline.commands[-1]))
        for name in pipeline.variables:
            self._bind(name, value, assigns=pipeline.assigns, line=pipeline.line)
        return value

    def _command(self, command: tuple[Operand, ...], dot: object, piped: object) -> object:
        first = command[0]
        if isinstance(first, Function):
            return self._call(first, command[1:], dot, piped)
        if len(command) > 1 or piped is not _NOTHING:
            raise TemplateRuntimeError(f"can't give argument to non-function {source_of(first)}", first.line)
        if isinstance(first, Literal) and first.value is None:
            raise TemplateRuntimeError("nil is not a command", first.line)
        return self._operand(first, dot)

    def _operand(self, operand: Operand, dot: object) -> object:
        match operand:
            case Literal(value=value):
                return value
            case Dot():
                return dot
            case Field(names=names):
                return self._fields(dot, names, operand)
            case Variable(name=name, names=names):
                return self._fields(self._variable(name, operand.line), names, operand)
            case Chain(operand=inner, names=names):
                return self._fields(self._operand(inner, dot), names, operand)
            case Function():
                return self._call(operand, (), dot, _NOTHING)
            case Pipeline():
                return self._pipeline(operand, dot)

    def _variable(self, name: str, line: int) -> object:
        for known, value in reversed(self._variables):
            if known == name:
                return value
        raise TemplateRuntimeError(f"undefined variable {name!r}", line)

    def _fields(self, value: object, names: tuple[str, ...], operand: Operand) -> object:
        for name in names:
            if isinstance(value, Mapping):
                value = value[name] if name in value else Missing(source_of(operand))
            elif value is None:
                raise TemplateRuntimeError(f"nil value evaluating .{name} in {source_of(operand)}", operand.line)
            elif not isinstance(value, Missing):
                raise TemplateRuntimeError(
                    f"can't evaluate field {name} in type {type_name(value)} ({source_of(operand)})", operand.line
                )
        return value

    def _call(self, function: Function, operands: Sequence[Operand], dot: object, piped: object) -> object:
        name, count = function.name, len(operands) + (piped is not _NOTHING)
        if name in SHORT_CIRCUIT:
            return self._decide(function, operands, dot, piped)
        call, fewest, most = FUNCTIONS[name]
        if count < fewest or 0 <= most < count:
            wanted = str(fewest) if fewest == most else f"at least {fewest}"
            raise TemplateRuntimeError(f"wrong number of args for {name}: want {wanted} got {count}", function.line)
        arguments = [self._operand(operand, dot) for operand in operands]
        if piped is not _NOTHING:
            arguments.append(piped)
        try:
            return call(*arguments)
        except TemplateValueError as error:
            raise TemplateRuntimeError(f"error calling {name}: {error}", function.line, error.missing) from None

    def _decide(self, function: Function, operands: Sequence[Operand], dot: object, piped: object) -> object:
        """`and` and `or` give back the argument that decides, and look at none behind it."""
        if not operands and piped is _NOTHING:
            raise TemplateRuntimeError(
                f"wrong number of args for {function.name}: want at least 1 got 0", function.line
            )
        value: object = None
        for operand in operands:
            value = self._operand(operand, dot)
            if truth(value) == (function.name == "or"):
                return value
        return value if piped is _NOTHING else piped
