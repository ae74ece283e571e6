"""Durations as Go writes them: `15m`, `1h30m`, `1.5s`, `500ms` (`time.ParseDuration`).

A sequence of numbers, each with an optional fraction and a unit of `ns us µs ms s m h`; an optional sign in front; `0`
alone needs no unit; nothing that does not fit into 64 bits of nanoseconds.
"""

from __future__ import annotations

import re
from fractions import Fraction

from hopline.domain.errors import InvalidInput

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_NUMBER = r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+"
_UNIT = "|".join(_UNITS)
_PART = re.compile(f"({_NUMBER})({_UNIT})")
_WHOLE = re.compile(f"[-+]?(?:0|(?:(?:{_NUMBER})(?:{_UNIT}))+)")
_MAX_TEXT = 100
"""Characters; longer ones are no duration that a person wrote."""


def seconds_of(text: str) -> float:
    """The duration in seconds.

    Raises:
        InvalidInput: the text is not a Go duration; the caller adds object and field.
    """
    if len(text) > _MAX_TEXT or not _WHOLE.fullmatch(text):
        raise _invalid(text)
    total = sum(int(Fraction(number) * _UNITS[unit]) for number, unit in _PART.findall(text))
    nanoseconds = -total if text.startswith("-") else total
    if not -(2**63) <= nanoseconds < 2**63:
        raise _invalid(text)
    return nanoseconds / 10**9


def _invalid(text: str) -> InvalidInput:
    return InvalidInput(
        f"{text!r} is not a duration", value=text, remedy="write a Go duration, for example 90s, 15m or 1h30m"
    )
