"""What an unquoted YAML scalar means to Kubernetes: the YAML 1.1 subset of its Go reader, not that of PyYAML.

Differences to PyYAML that matter: `y` and `n` are booleans; dates and `12:30:45` are text; `1e3` and `.5` are numbers;
`017` and `0o17` are octal, `08` is the float 8; digit groups may have underscores; an integer beyond 64 bits is a
float, a float beyond its range is text. (Compared with sigs.k8s.io/yaml v1.6.0 on random scalars.)
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))"
)
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DOT_FLOAT = re.compile(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?")
"""After a leading dot the Go reader allows underscores between digits only; after a digit, anywhere."""
_LOWEST, _HIGHEST = -(2**63), 2**64 - 1
_FIRST_WITH_EXPONENT = 1e21


def read_plain(text: str) -> Scalar:
    """The value of an unquoted scalar. May be a float that JSON cannot hold (`.inf`, `.nan`)."""
    if text in _WORDS:
        return _WORDS[text]
    if not text or text[0] not in "+-.0123456789":
        return text
    digits = text.replace("_", "")
    if text[0] == ".":
        return float(digits) if _DOT_FLOAT.fullmatch(text) else text
    integer = _INTEGER.fullmatch(digits)
    if integer is not None and integer.lastgroup is not None:
        number = int(integer["sign"] + integer[integer.lastgroup], _BASES[integer.lastgroup])
        if _LOWEST <= number <= _HIGHEST and not (integer["sign"] == "+" and number > 2**63 - 1):
            return number
    if not _FLOAT.fullmatch(digits):
        return text
    value = float(digits)
    return value if math.isfinite(value) else text


def json_number(value: float) -> int | float:
    """The number as Go writes it into JSON: whole ones below 1e21 are integers of the shortest digits."""
    if not value.is_integer() or abs(value) >= _FIRST_WITH_EXPONENT:
        return value
    return int(Decimal(repr(value)))


def read_json_plain(text: str) -> Scalar:
    """As `read_plain`, with numbers as they stand in the JSON; NotImplemented for one that JSON cannot hold."""
    value = read_plain(text)
    if not isinstance(value, float):
        return value
    return json_number(value) if math.isfinite(value) else NotImplemented


def is_version_key(key: str) -> bool:
    """Whether a number under this key is most likely a version that lost its quotes."""
    return key.endswith("Version") or key in ("version", "from", "to")


def needs_quotes(text: str) -> bool:
    """Whether this text, written without quotes, would be read as something else than itself."""
    return not isinstance(read_plain(text), str)
