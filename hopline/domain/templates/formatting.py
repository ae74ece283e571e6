"""Values as Go prints them: `fmt.Sprint` and the verbs of `fmt.Sprintf` that manifests use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_VERB = re.compile(r"%([-+# 0]*)(\d*)(?:\.(\d*))?(.)", re.DOTALL)
_SHORT_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
_BASES = {"d": "d", "x": "x", "X": "X", "o": "o", "b": "b"}
_MAX_WIDTH = 10_000


@dataclass(frozen=True)
class Missing:
    """A value that was never set; `name` is how the template spells it. It is false, equals nothing, prints nowhere."""

    name: str


class TemplateValueError(Exception):
    """A value that a template may not use in this way; `missing` is the name of one that was never set."""

    def __init__(self, message: str, *, missing: str = "") -> None:
        super().__init__(message)
        self.missing = missing


def type_name(value: object) -> str:
    """The type as a message names it."""
    match value:
        case None | Missing():
            return "nil"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float64"
        case str():
            return "string"
        case Mapping():
            return "map"
    return "list"


def printable(value: object) -> object:
    """The value, unless printing it would put Go's `<no value>` or `<nil>` into a manifest."""
    if isinstance(value, Missing):
        raise TemplateValueError(f"{value.name} has no value and would be printed", missing=value.name)
    if value is None:
        raise TemplateValueError("a null value would be printed")
    return value


def go_float(value: float) -> str:
    """A float as `%v` prints it: shortest form, exponent below 1e-4 and from 1e6 (as strconv decides)."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else ("+Inf" if value > 0 else "-Inf")
    sign, digits = ("-", repr(-value)) if str(value).startswith("-") else ("", repr(value))
    mantissa, _, exponent = digits.partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    power = int(exponent or 0)
    number = (whole + fraction).lstrip("0")
    if not number:
        return sign + "0"
    point = len(whole) + power - (len(whole + fraction) - len(number))
    number = number.rstrip("0")
    if -4 < point <= 6:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{number}"
        head = number[:point].ljust(point, "0")
        return f"{sign}{head}.{number[point:]}" if number[point:] else sign + head
    rest = f".{number[1:]}" if number[1:] else ""
    return f"{sign}{number[0]}{rest}e{point - 1:+03d}"


def go_text(value: object) -> str:
    """The value as `fmt.Sprint` prints it."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return go_float(value)
        case None:
            return "<nil>"
        case Mapping():
            return "map[" + " ".join(f"{go_text(key)}:{go_text(value[key])}" for key in sorted(value)) + "]"
        case Sequence():
            return "[" + " ".join(go_text(item) for item in value) + "]"
    return str(value)


def go_quote(text: str) -> str:
    """The text as a Go string literal (`%q`)."""
    parts = []
    for char in text:
        code = ord(char)
        if code in _SHORT_ESCAPES:
            parts.append(_SHORT_ESCAPES[code])
        elif char == " " or char.isprintable():
            parts.append(char)
        else:
            parts.append(f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return '"' + "".join(parts) + '"'


def sprint(values: Sequence[object]) -> str:
    """`print`: a blank between two operands when neither is a string."""
    parts: list[str] = []
    for index, value in enumerate(values):
        if index and not isinstance(value, str) and not isinstance(values[index - 1], str):
            parts.append(" ")
        parts.append(go_text(printable(value)))
    return "".join(parts)


def sprintf(layout: str, values: Sequence[object]) -> str:
    """`printf`. Raises TemplateValueError where Go would print `%!verb(…)` into the manifest."""
    remaining = list(values)
    parts: list[str] = []
    end = 0
    while (start := layout.find("%", end)) >= 0:
        parts.append(layout[end:start])
        match = _VERB.match(layout, start)
        if match is None:
            raise TemplateValueError(f"printf: incomplete verb at the end of {layout!r}")
        end = match.end()
        if match.group(4) == "%":
            parts.append("%")
            continue
        if not remaining:
            raise TemplateValueError(f"printf: no value for {match.group()} in {layout!r}")
        parts.append(_verb(match, printable(remaining.pop(0))))
    if remaining:
        raise TemplateValueError(f"printf: {len(remaining)} values too many for {layout!r}")
    return "".join(parts) + layout[end:]


def _verb(match: re.Match[str], value: object) -> str:
    flags, width, precision, verb = match.groups()
    if int(width or 0) > _MAX_WIDTH or int(precision or 0) > _MAX_WIDTH:
        raise TemplateValueError(f"printf: {match.group()} is wider than {_MAX_WIDTH}")
    text = _number(flags, precision, verb, value)
    numeric = text is not None
    if text is None:
        text = _words(flags, precision, verb, value)
    if text is None:
        raise TemplateValueError(f"printf: {match.group()} cannot print {type_name(value)} {go_text(value)}")
    if "-" in flags:
        return text.ljust(int(width or 0))
    if "0" in flags and numeric and not (precision is not None and isinstance(value, int)):
        return text.zfill(int(width or 0))
    return text.rjust(int(width or 0))


def _number(flags: str, precision: str | None, verb: str, value: object) -> str | None:
    sign = "+" if "+" in flags else " " if " " in flags else "-"
    if isinstance(value, bool) or "#" in flags:
        return None
    if isinstance(value, int) and (verb in _BASES or verb == "v"):
        digits = format(abs(value), _BASES.get(verb, "d")).zfill(int(precision or 0))
        return ("-" if value < 0 else sign.replace("-", "")) + digits
    if isinstance(value, float) and verb in "feEgvG":
        if verb in "gGv":
            if precision is not None:
                return None
            text = go_float(value)
        else:
            text = format(value, f".{int(precision) if precision is not None else 6}{verb}")
        return text if text.startswith(("-", "+")) else sign.replace("-", "") + text
    return None


def _words(flags: str, precision: str | None, verb: str, value: object) -> str | None:
    if set(flags) - {"-"}:
        return None
    if isinstance(value, str):
        cut = value if precision is None else value[: int(precision or 0)]
        if verb in "sv":
            return cut
        if verb == "q":
            return go_quote(cut)
        return value.encode().hex() if verb == "x" and precision is None else None
    if precision is not None:
        return None
    if isinstance(value, bool):
        return go_text(value) if verb in "tv" else None
    if isinstance(value, int):
        return chr(value) if verb == "c" and 0 <= value < 0x110000 else None
    if verb == "v" or (verb == "s" and isinstance(value, list) and all(isinstance(item, str) for item in value)):
        return go_text(value)
    return None
