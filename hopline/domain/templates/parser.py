"""Tokens → syntax tree, by the rules of Go's text/template, without `define`, `template` and `block`."""

from __future__ import annotations

import math
from collections.abc import Collection

from hopline.domain.templates.lexer import LITERAL_BRACES, TemplateSyntaxError, Token, TokenType, tokens
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
)

_REFUSED = frozenset({"define", "template", "block"})
_CONSTANTS = {"nil": None, "true": True, "false": False}
_BRANCHES = {branch.value: branch for branch in Branch}
_MAX_DEPTH = 100
_STARTS = frozenset(
    {
        TokenType.FIELD,
        TokenType.VARIABLE,
        TokenType.IDENTIFIER,
        TokenType.STRING,
        TokenType.NUMBER,
        TokenType.CHARACTER,
        TokenType.DOT,
        TokenType.LEFT,
    }
)


def parse(text: str, functions: Collection[str]) -> tuple[Node, ...]:
    """The tree of a template that may call `functions`. Raises TemplateSyntaxError."""
    return _Parser(text, functions).template()


class _Parser:
    def __init__(self, text: str, functions: Collection[str]) -> None:
        self._tokens = list(tokens(text))
        self._at = 0
        self._functions = functions
        self._variables = ["$"]
        self._ranges = 0
        self._depth = 0

    def template(self) -> tuple[Node, ...]:
        body, word, line = self._body()
        if word:
            raise self._error(f"unexpected {{{{{word}}}}}", line)
        return body

    # --- tokens

    def _peek(self, *, blanks: bool = False) -> Token:
        at = self._at
        while not blanks and self._tokens[at].type is TokenType.SPACE:
            at += 1
        return self._tokens[at]

    def _next(self, *, blanks: bool = False) -> Token:
        while not blanks and self._tokens[self._at].type is TokenType.SPACE:
            self._at += 1
        token = self._tokens[self._at]
        if token.type is not TokenType.END:
            self._at += 1
        return token

    def _error(self, message: str, line: int, remedy: str = LITERAL_BRACES) -> TemplateSyntaxError:
        return TemplateSyntaxError(message, line, remedy)

    def _unexpected(self, token: Token, context: str) -> TemplateSyntaxError:
        shown = token.value if token.type in (TokenType.IDENTIFIER, TokenType.KEYWORD) else token.type.value
        return self._error(f"unexpected {shown} in {context}", token.line)

    # --- structure

    def _body(self) -> tuple[tuple[Node, ...], str, int]:
        """Nodes up to `end`, `else` or the end of the file; which of them ended it, and where."""
        found: list[Node] = []
        while True:
            token = self._next(blanks=True)
            if token.type is TokenType.END:
                return tuple(found), "", token.line
            if token.type is TokenType.TEXT:
                found.append(Text(token.value, token.line))
                continue
            word = self._peek()
            if word.type is TokenType.KEYWORD and word.value in ("end", "else"):
                self._next()
                return tuple(found), word.value, word.line
            found.append(self._action(word))

    def _action(self, word: Token) -> Node:
        if word.type is TokenType.KEYWORD and word.value not in _CONSTANTS:
            self._next()
            return self._keyword(word)
        pipeline = self._pipeline("command", TokenType.CLOSE)
        return Output(pipeline, word.line)

    def _keyword(self, word: Token) -> Node:
        if word.value in _BRANCHES:
            return self._control(_BRANCHES[word.value], word.line)
        if word.value in _REFUSED:
            raise self._error(
                f"{word.value} is not supported in manifests", word.line, "write the text out where it is needed"
            )
        if not self._ranges:
            raise self._error(f"{{{{{word.value}}}}} outside {{{{range}}}}", word.line)
        self._close(word.value)
        return Jump(word.value == "break", word.line)

    def _close(self, context: str) -> None:
        token = self._next()
        if token.type is not TokenType.CLOSE:
            raise self._unexpected(token, context)

    def _control(self, branch: Branch, line: int) -> Control:
        scope = len(self._variables)
        self._deeper(line)
        pipeline = self._pipeline(branch.value, TokenType.CLOSE)
        self._ranges += branch is Branch.RANGE
        body, word, at = self._body()
        self._ranges -= branch is Branch.RANGE
        otherwise: tuple[Node, ...] = ()
        if word == "else":
            otherwise = self._else(branch, at)
        elif not word:
            raise self._error(f"{{{{{branch.value}}}}} is not closed by {{{{end}}}}", line)
        else:
            self._close("end")
        del self._variables[scope:]
        self._depth -= 1
        return Control(branch, pipeline, body, otherwise, line)

    def _else(self, branch: Branch, line: int) -> tuple[Node, ...]:
        """The rest of a control structure behind `else`, with its `end`."""
        word = self._peek()
        if word.type is TokenType.KEYWORD and word.value == branch.value and branch is not Branch.RANGE:
            self._next()
            return (self._control(branch, word.line),)
        self._close("else")
        body, ending, at = self._body()
        if ending != "end":
            raise self._error(f"expected end; found {ending or 'the end of the file'}", at if ending else line)
        self._close("end")
        return body

    def _deeper(self, line: int) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(f"nested deeper than {_MAX_DEPTH} levels", line)

    # --- pipelines

    def _pipeline(self, context: str, ending: TokenType) -> Pipeline:
        line = self._peek().line
        self._deeper(line)
        variables, assigns = self._declarations(context)
        commands: list[tuple[Operand, ...]] = []
        while True:
            token = self._peek()
            if token.type is ending:
                self._next()
                break
            if token.type not in _STARTS and token.value not in _CONSTANTS:
                raise self._unexpected(token, context)
            commands.append(self._command())
        if not commands:
            raise self._error(f"missing value for {context}", line)
        for number, command in enumerate(commands[1:], start=2):
            if isinstance(command[0], Literal | Dot):
                raise self._error(f"non executable command in pipeline stage {number}", command[0].line)
        self._depth -= 1
        return Pipeline(variables, assigns, tuple(commands), line)

    def _declarations(self, context: str) -> tuple[tuple[str, ...], bool]:
        """`$x :=`, `$x =`, and for range `$i, $x :=`; whether it sets variables that exist."""
        start, names = self._at, []
        while self._peek().type is TokenType.VARIABLE:
            names.append(self._next())
            following = self._peek()
            if following.type in (TokenType.DECLARE, TokenType.ASSIGN):
                self._next()
                self._variables.extend(name.value for name in names)
                return tuple(name.value for name in names), following.type is TokenType.ASSIGN
            if following.type is not TokenType.COMMA:
                break
            self._next()
            if context != Branch.RANGE.value or len(names) > 1:
                raise self._error(f"too many declarations in {context}", following.line)
        if len(names) > 1 or (names and self._tokens[self._at - 1].type is TokenType.COMMA):
            raise self._error("range can only initialize variables", names[0].line)
        self._at = start
        return (), False

    def _known(self, token: Token) -> None:
        if token.value not in self._variables:
            raise self._error(f"undefined variable {token.value!r}", token.line)

    def _command(self) -> tuple[Operand, ...]:
        """Operands up to a pipe (taken) or to the end of the pipeline (left)."""
        operands: list[Operand] = []
        while True:
            token = self._peek()
            if token.type in _STARTS or token.value in _CONSTANTS:
                operands.append(self._operand())
                following = self._peek(blanks=True)
                if following.type is TokenType.SPACE:
                    continue
                token = following
            if token.type is TokenType.PIPE:  # nothing need follow: Go lets a pipeline end with it
                self._next()
                return tuple(operands)
            if token.type in (TokenType.CLOSE, TokenType.RIGHT):
                return tuple(operands)
            raise self._unexpected(token, "operand")

    def _operand(self) -> Operand:
        term = self._term(self._next())
        names: list[str] = []
        line = self._peek(blanks=True).line
        while self._peek(blanks=True).type is TokenType.FIELD:
            names.append(self._next().value[1:])
        if not names:
            return term
        match term:
            case Field(names=head):
                return Field((*head, *names), term.line)
            case Variable(name=name):
                return Variable(name, tuple(names), term.line)
            case Pipeline() | Function():
                return Chain(term, tuple(names), line)
        raise self._error("unexpected . after a constant", line)

    def _term(self, token: Token) -> Operand:
        match token.type:
            case TokenType.FIELD:
                return Field((token.value[1:],), token.line)
            case TokenType.VARIABLE:
                self._known(token)
                return Variable(token.value, (), token.line)
            case TokenType.DOT:
                return Dot(token.line)
            case TokenType.STRING:
                return Literal(token.value, f'"{token.value}"', token.line)
            case TokenType.CHARACTER:
                return Literal(ord(token.value), f"'{token.value}'", token.line)
            case TokenType.NUMBER:
                return Literal(self._number(token), token.value, token.line)
            case TokenType.LEFT:
                return self._pipeline("parenthesized pipeline", TokenType.RIGHT)
            case TokenType.IDENTIFIER:
                if token.value not in self._functions:
                    raise self._error(f"function {token.value!r} not defined", token.line)
                return Function(token.value, token.line)
        return Literal(_CONSTANTS[token.value], token.value, token.line)

    def _number(self, token: Token) -> int | float:
        """An integer of 64 bits in any of Go's bases, or a float where the text has a point or an exponent."""
        text = token.value
        digits = text.lstrip("+-").lower()
        if digits.endswith("i") or (digits.startswith("0x") and any(mark in digits for mark in ".p")):
            raise self._error(f"{text} is a number form that manifests do not use", token.line)
        try:
            if digits[:2] in ("0x", "0b", "0o"):
                number: int | float = int(text, 0)
            elif any(mark in digits for mark in ".e"):
                number = float(text)
                if math.isinf(number):
                    raise ValueError(text)
            else:
                number = int(text, 8 if len(digits) > 1 and digits[0] == "0" else 10)
        except ValueError:
            raise self._error(f"bad number syntax: {text!r}", token.line) from None
        if isinstance(number, int) and not -(2**63) <= number < 2**63:
            raise self._error(f"integer overflow: {text}", token.line)
        return number
