"""The functions that a manifest template may call: Go's own, and the twelve documented ones (openfuyao-api.md §7.2)."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hopline.domain.templates.formatting import (
    Missing,
    TemplateValueError,
    go_text,
    printable,
    sprint,
    sprintf,
    type_name,
)

Function = Callable[..., object]

_SEMVER = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_INTEGER = re.compile(r"[+-]?[0-9]+")


def truth(value: object) -> bool:
    """Whether a value counts as true: not absent, not zero, not empty."""
    return not isinstance(value, Missing) and bool(value)


def _absent(value: object) -> bool:
    return value is None or isinstance(value, Missing)


def _string(value: object) -> str:
    if isinstance(value, str):
        return value
    if _absent(value):
        printable(value)
    raise TemplateValueError(f"wrong type: expected string, got {type_name(value)} {go_text(value)}")


def _basic(value: object) -> str:
    """The kind by which Go compares; empty when it has no order."""
    name = type_name(value)
    return name if name in ("bool", "int", "float64", "string") else ""


def equal(first: object, *others: object) -> bool:
    """`eq`: whether the first value equals any of the others."""
    if not others:
        raise TemplateValueError("eq: missing argument for comparison")
    return any(_equal(first, other) for other in others)


def _equal(first: object, other: object) -> bool:
    if _absent(first) or _absent(other):
        return _absent(first) and _absent(other)
    if _basic(first) != _basic(other):
        raise TemplateValueError(f"incompatible types for comparison: {type_name(first)} and {type_name(other)}")
    if not _basic(first):
        raise TemplateValueError(f"non-comparable type {type_name(first)}")
    return first == other


def less(first: object, other: object) -> bool:
    """`lt`: by number or by text."""
    kinds = _basic(first), _basic(other)
    if not all(kinds):
        raise TemplateValueError(f"invalid type for comparison: {type_name(other if kinds[0] else first)}")
    if kinds[0] != kinds[1]:
        raise TemplateValueError(f"incompatible types for comparison: {type_name(first)} and {type_name(other)}")
    if kinds[0] == "bool":
        raise TemplateValueError("bool values have no order")
    ordered: Any = first
    if isinstance(first, str) and isinstance(other, str):
        return first.encode() < other.encode()
    return bool(ordered < other)


def length(value: object) -> int:
    """`len`: bytes of a string, entries of a list or map."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, Sequence | Mapping):
        return len(value)
    raise TemplateValueError(f"len of type {type_name(value)}")


def index(value: object, *keys: object) -> object:
    """`index`: one step into a list, string or map per key."""
    for key in keys:
        value = _step(value, key)
    if not keys and _absent(value):
        raise TemplateValueError("index of nothing")
    return value


def _step(value: object, key: object) -> object:
    if isinstance(value, Mapping):
        if not isinstance(key, str):
            raise TemplateValueError(f"index: a map is read by string, got {type_name(key)}")
        return value[key] if key in value else Missing(f"index … {key!r}")
    if isinstance(value, Sequence):
        if not isinstance(key, int) or isinstance(key, bool):
            raise TemplateValueError(f"cannot index a list with type {type_name(key)}")
        items: Sequence[object] = value.encode() if isinstance(value, str) else value
        if not 0 <= key < len(items):
            raise TemplateValueError(f"index out of range: {key}")
        return items[key]
    raise TemplateValueError(f"cannot index type {type_name(value)}")


def semantic_version(text: object) -> tuple[int, int, int, tuple[tuple[int, int, str], ...]]:
    """Sort key of a version as the documented functions read it: tolerant, and 0.0.0 when it cannot be read.

    Tolerant: blanks and one leading `v` are dropped, missing parts are 0, leading zeros do not count. A short version
    with a suffix (`v26.06-rc.2`) cannot be read, and a suffix (`-of.1`) sorts before the plain version.
    """
    parts = _string(text).strip().removeprefix("v").split(".", 2)
    parts = [_without_zeros(part) for part in parts]
    if len(parts) < 3 and any(mark in parts[-1] for mark in "+-"):
        return (0, 0, 0, ((2, 0, ""),))
    match = _SEMVER.fullmatch(".".join((*parts, "0", "0")[:3]))
    identifiers = match.group(4).split(".") if match and match.group(4) is not None else []
    if match is None or any(not word or (word.isdigit() and len(word) > 1 and word[0] == "0") for word in identifiers):
        return (0, 0, 0, ((2, 0, ""),))
    order = tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in identifiers) or ((2, 0, ""),)
    return (int(match.group(1)), int(match.group(2)), int(match.group(3)), order)


def _without_zeros(part: str) -> str:
    stripped = part.lstrip("0") if len(part) > 1 else part
    return stripped if stripped[:1].isdigit() else ("0" + stripped if len(part) > 1 else part)


def _version(compare: Callable[[Any, Any], bool]) -> Function:
    return lambda first, other: compare(semantic_version(first), semantic_version(other))


def _default_false(value: object) -> str:
    text = "" if _absent(value) else go_text(value)
    return text if text in ("true", "false") else "false"


def _encode(value: object) -> str:
    return base64.b64encode(go_text(printable(value)).encode()).decode()


def _split(text: object, separator: object) -> list[str]:
    whole, by = _string(text), _string(separator)
    return whole.split(by) if by else list(whole)


def _quoted_list(text: object, separator: object) -> str:
    """`a,b` → `["a","b"]`; an empty text is the empty list."""
    words = _split(text, separator)
    if not text:
        return "[]"
    return "[" + ",".join(f'"{word}"' for word in words) + "]"


def _integer(text: object) -> int:
    word = _string(text)
    number = int(word) if _INTEGER.fullmatch(word) else 0
    return number if -(2**63) <= number < 2**63 else 0


def _indent(text: object, prefix: object) -> str:
    """Every line but the first gets the prefix."""
    return _string(text).replace("\n", "\n" + _string(prefix))


FUNCTIONS: Mapping[str, tuple[Function, int, int]] = {
    "eq": (equal, 1, -1),
    "ne": (lambda first, other: not _equal(first, other), 2, 2),
    "lt": (less, 2, 2),
    "le": (lambda first, other: less(first, other) or _equal(first, other), 2, 2),
    "gt": (lambda first, other: not (less(first, other) or _equal(first, other)), 2, 2),
    "ge": (lambda first, other: not less(first, other), 2, 2),
    "not": (lambda value: not truth(value), 1, 1),
    "len": (length, 1, 1),
    "index": (index, 1, -1),
    "print": (lambda *values: sprint(values), 0, -1),
    "println": (lambda *values: " ".join(go_text(printable(value)) for value in values) + "\n", 0, -1),
    "printf": (lambda layout, *values: sprintf(_string(layout), values), 1, -1),
    "vgt": (_version(lambda a, b: a > b), 2, 2),
    "vlt": (_version(lambda a, b: a < b), 2, 2),
    "veq": (_version(lambda a, b: a == b), 2, 2),
    "vgte": (_version(lambda a, b: a >= b), 2, 2),
    "vlte": (_version(lambda a, b: a <= b), 2, 2),
    "vne": (_version(lambda a, b: a != b), 2, 2),
    "defaultFalse": (_default_false, 1, 1),
    "b64encode": (_encode, 1, 1),
    "split": (_split, 2, 2),
    "stringToSliceString": (_quoted_list, 2, 2),
    "int": (_integer, 1, 1),
    "indent": (_indent, 2, 2),
}
"""name → function, fewest and most arguments (-1: any number)."""

SHORT_CIRCUIT = frozenset({"and", "or"})
"""They look at no argument behind the one that decides."""

NAMES = frozenset(FUNCTIONS) | SHORT_CIRCUIT
