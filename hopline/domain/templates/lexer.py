"""Text → tokens, by the rules of Go's text/template: delimiters `{{` and `}}`, trim markers, comments.

Blanks inside an action are tokens, because `.a.b` is one operand and `.a .b` are two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class TokenType(StrEnum):
    """What a token is; the value is how a message names it."""

    TEXT = "text"
    OPEN = "{{"
    CLOSE = "}}"
    SPACE = "a blank"
    FIELD = "a field"
    VARIABLE = "a variable"
    IDENTIFIER = "a name"
    KEYWORD = "a keyword"
    STRING = "a string"
    NUMBER = "a number"
    CHARACTER = "a character constant"
    DOT = "'.'"
    PIPE = "'|'"
    DECLARE = "':='"
    ASSIGN = "'='"
    COMMA = "','"
    LEFT = "'('"
    RIGHT = "')'"
    END = "the end of the file"


KEYWORDS = frozenset(
    {"break", "continue", "block", "define", "else", "end", "if", "range", "nil", "template", "with", "true", "false"}
)


@dataclass(frozen=True)
class Token:
    """`value` is the source text, except for STRING and CHARACTER, where it is what the literal means."""

    type: TokenType
    value: str
    line: int


class TemplateSyntaxError(Exception):
    """The text is not a template; `line` counts from 1."""

    def __init__(self, message: str, line: int, remedy: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.remedy = remedy


LITERAL_BRACES = 'literal braces are written {{ "{{" }}; a file whose path contains noexecute is not rendered at all'

_TRIMMED = " \t\r\n"
_WORD = re.compile(r"[^\W]+")
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?|0[bB][01_]*|0[oO][0-7_]*"
    r"|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)i?"
)
_SINGLE = {
    "|": TokenType.PIPE,
    ",": TokenType.COMMA,
    "(": TokenType.LEFT,
    ")": TokenType.RIGHT,
    "=": TokenType.ASSIGN,
}
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_CODED = {"x": 2, "u": 4, "U": 8}


def tokens(text: str) -> Iterator[Token]:
    """The tokens of `text`, ending with END. Raises TemplateSyntaxError."""
    position, line, trim = 0, 1, False
    while True:
        start = text.find("{{", position)
        chunk = text[position : start if start >= 0 else len(text)]
        shown = chunk.lstrip(_TRIMMED) if trim else chunk
        trim_left = start >= 0 and text[start + 2 : start + 3] == "-" and text[start + 3 : start + 4] in (*_TRIMMED,)
        if trim_left:
            shown = shown.rstrip(_TRIMMED)
        if shown:
            yield Token(TokenType.TEXT, shown, line + (chunk.count("\n", 0, chunk.find(shown[0])) if trim else 0))
        line += chunk.count("\n")
        if start < 0:
            yield Token(TokenType.END, "", line)
            return
        inside = start + (4 if trim_left else 2)
        comment = _comment(text, inside, line)
        if comment is not None:
            position, trim = comment
        else:
            yield Token(TokenType.OPEN, "{{", line)
            action = _Action(text, inside, line + text.count("\n", start, inside))
            yield from action.tokens()
            position, trim = action.position, action.trims
        line += text.count("\n", start, position)


def _comment(text: str, inside: int, line: int) -> tuple[int, bool] | None:
    """Position after the comment that starts here and whether it trims; None when there is none."""
    if not text.startswith("/*", inside):
        return None
    end = text.find("*/", inside)
    if end < 0:
        raise TemplateSyntaxError("comment is not closed", line, "close it with */}}")
    rest = text[end + 2 : end + 6]
    if rest.startswith("}}"):
        return end + 4, False
    if rest[:1] and rest[0] in _TRIMMED and rest[1:] == "-}}":
        return end + 6, True
    raise TemplateSyntaxError("comment does not end its action", line, "write {{/* … */}} with nothing else in it")


class _Action:
    """Scans one action from behind its opening delimiter to behind the closing one."""

    def __init__(self, text: str, position: int, line: int) -> None:
        self.text = text
        self.position = position
        self.line = line
        self.trims = False
        self._depth = 0

    def tokens(self) -> Iterator[Token]:
        """Up to and with CLOSE."""
        while True:
            if self._closes():
                if self._depth:
                    raise self._error("unclosed left paren")
                yield Token(TokenType.CLOSE, "}}", self.line)
                return
            yield self._next()

    def _closes(self) -> bool:
        text, at = self.text, self.position
        if text.startswith("}}", at):
            self.position = at + 2
            return True
        if text.startswith("-}}", at + 1) and text[at] in _TRIMMED:
            self.position, self.trims = at + 4, True
            return True
        return False

    def _next(self) -> Token:
        text, at = self.text, self.position
        if at >= len(text):
            raise self._error("unclosed action")
        char = text[at]
        if char in _TRIMMED:
            return self._space()
        if text.startswith(":=", at):
            return self._take(TokenType.DECLARE, 2)
        if char in _SINGLE:
            self._count(char)
            return self._take(_SINGLE[char], 1)
        if char == '"' or char == "'":
            return self._quoted(char)
        if char == "`":
            return self._raw()
        if char == "$" or (char == "." and not text[at + 1 : at + 2].isdigit()):
            return self._dotted(char)
        if char in "+-." or char.isdecimal():
            return self._number()
        if char.isalnum() or char == "_":
            return self._word()
        raise self._error(f"unexpected {char!r} in an action")

    def _count(self, char: str) -> None:
        self._depth += {"(": 1, ")": -1}.get(char, 0)
        if self._depth < 0:
            raise self._error("unexpected right paren")

    def _take(self, kind: TokenType, length: int, value: str | None = None) -> Token:
        source = self.text[self.position : self.position + length]
        token = Token(kind, source if value is None else value, self.line)
        self.position += length
        self.line += source.count("\n")
        return token

    def _space(self) -> Token:
        """A run of blanks, without the one that belongs to a closing trim marker."""
        end = self.position
        while end < len(self.text) and self.text[end] in _TRIMMED:
            if self.text.startswith("-}}", end + 1):
                break
            end += 1
        return self._take(TokenType.SPACE, end - self.position)

    def _word(self) -> Token:
        match = _WORD.match(self.text, self.position)
        assert match is not None
        word = match.group()
        token = self._take(TokenType.KEYWORD if word in KEYWORDS else TokenType.IDENTIFIER, len(word))
        self._must_end(word)
        return token

    def _dotted(self, char: str) -> Token:
        match = _WORD.match(self.text, self.position + 1)
        length = 1 + (len(match.group()) if match else 0)
        dotted = TokenType.FIELD if match else TokenType.DOT
        kind = TokenType.VARIABLE if char == "$" else dotted
        token = self._take(kind, length)
        if kind is not TokenType.DOT:
            self._must_end(token.value)
        return token

    def _number(self) -> Token:
        match = _NUMBER.match(self.text, self.position)
        length = len(match.group()) if match else 0
        following = self.text[self.position + length : self.position + length + 1]
        if not length or following.isalnum() or not any(c.isdigit() for c in self.text[self.position :][:length]):
            raise self._error(f"bad number syntax: {self.text[self.position : self.position + length + 1]!r}")
        return self._take(TokenType.NUMBER, length)

    def _must_end(self, word: str) -> None:
        following = self.text[self.position : self.position + 1]
        if following and following not in " \t\r\n.,|:()" and not self.text.startswith("}}", self.position):
            raise self._error(f"bad character {following!r} after {word!r}")

    def _raw(self) -> Token:
        end = self.text.find("`", self.position + 1)
        if end < 0:
            raise self._error("unterminated raw quoted string")
        value = self.text[self.position + 1 : end].replace("\r", "")
        return self._take(TokenType.STRING, end + 1 - self.position, value)

    def _quoted(self, quote: str) -> Token:
        end, parts = self.position + 1, []
        while True:
            char = self.text[end : end + 1]
            if not char or char == "\n":
                raise self._error("unterminated quoted string")
            if char == quote:
                break
            part, end = self._escape(end, quote) if char == "\\" else (char, end + 1)
            parts.append(part)
        value = "".join(parts)
        if quote == "'" and len(value) != 1:
            raise self._error(f"malformed character constant: {self.text[self.position : end + 1]}")
        kind = TokenType.STRING if quote == '"' else TokenType.CHARACTER
        return self._take(kind, end + 1 - self.position, value)

    def _escape(self, at: int, quote: str) -> tuple[str, int]:
        """What the escape at `at` means, and where it ends."""
        letter = self.text[at + 1 : at + 2]
        if letter == quote:
            return quote, at + 2
        if letter in _ESCAPES:
            return _ESCAPES[letter], at + 2
        digits, base = (3, 8) if letter.isdigit() else (_CODED.get(letter, 0), 16)
        start = at + 1 if base == 8 else at + 2
        code = self.text[start : start + digits]
        number = int(code, base) if len(code) == digits > 0 and _digits(code, base) else -1
        byte = letter == "x" or base == 8
        if not 0 <= number <= (0xFF if byte else 0x10FFFF) or 0xD800 <= number < 0xE000:
            raise self._error(f"unknown escape \\{letter} in a string")
        if byte and number > 0x7F and quote == '"':
            raise self._error(
                f"the escape {self.text[at : start + digits]} is a byte, not a text; write the character itself"
            )
        return chr(number), start + digits

    def _error(self, message: str) -> TemplateSyntaxError:
        return TemplateSyntaxError(message, self.line, LITERAL_BRACES)


def _digits(code: str, base: int) -> bool:
    return all(char in "0123456789abcdefABCDEF" and int(char, 16) < base for char in code)
