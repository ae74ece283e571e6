"""A text that begins with `{` → its JSON documents, as far as `kubectl` takes them for JSON."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple, NoReturn

from hopline.documents.building import RawDocument
from hopline.documents.origins import Origin
from hopline.domain.errors import InvalidDocument, bounded

_BLANKS = re.compile(r"[ \t\n\r]*")
_BLANK_LINE = re.compile(r"[^\S\n]*\n?")
"""What kubectl drops before it tries YAML, which is why a tab does no harm there."""


class JsonStream(NamedTuple):
    """The documents that are JSON, and what is left to be read as YAML with the number of lines above it."""

    documents: list[RawDocument]
    rest: str
    lines_above: int


class _NotPlain(Exception):
    """JSON of Go that Python's reader takes otherwise, or a key that stands twice: the YAML reader has the words."""


class _TooLarge(Exception):
    """A number beyond the range of a float; as YAML it would be a text."""


def read_json_stream(text: str, origin: Origin) -> JsonStream:
    """One or no document may be followed by YAML; from the second one on all must be JSON, or it is refused."""
    found: list[RawDocument] = []
    if not text.lstrip().startswith("{"):
        return JsonStream([], text, 0)
    start, end = _blanks(text, 0), 0
    while start < len(text):
        try:
            value, stop = _DECODER.raw_decode(text, start)
        except _TooLarge as error:
            raise InvalidDocument(
                f"the number {bounded(str(error), 40)} is larger than JSON readers can hold",
                subject=origin.place(text.count("\n", 0, start) + 1),
                remedy="put it in quotes if it is a text",
            ) from None
        except (json.JSONDecodeError, RecursionError, _NotPlain) as error:
            if len(found) <= 1 and _may_be_yaml(text[end:]):
                break
            raise _refusal(text, start, error, origin) from None
        found.append(RawDocument(value, text.count("\n", 0, start) + 1, ()))
        end, start = stop, _blanks(text, stop)
    else:
        return JsonStream(found, "", 0)
    match = _BLANK_LINE.match(text, end)
    end = match.end() if match else end
    return JsonStream(found, text[end:], text.count("\n", 0, end))


def _may_be_yaml(rest: str) -> bool:
    """kubectl looks at four bytes at a time, up to the first line break, and gives up where there are fewer."""
    line, _, _ = rest.partition("\n")
    skipped = len(line) - len(line.lstrip())
    return len(rest[skipped:].encode(errors="replace")) >= 4


def _blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _refusal(text: str, start: int, error: Exception, origin: Origin) -> InvalidDocument:
    at = error.pos if isinstance(error, json.JSONDecodeError) else start
    line = text.count("\n", 0, at) + 1
    return InvalidDocument(
        f"the JSON does not parse: {getattr(error, 'msg', 'unreadable')}",
        subject=origin.place(line),
        remedy=f"correct line {origin.source_line(line)} of {origin.file}",
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _NotPlain
    return made


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _TooLarge(text)
    return value


def _constant(_: str) -> NoReturn:
    raise _NotPlain


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
