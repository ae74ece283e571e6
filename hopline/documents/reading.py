"""A text → its documents, split and read as `kubectl` does it, before anyone looks at their kinds.

`kubectl` cuts a text at lines that begin with `---`, whatever YAML says, and its YAML reader takes one document from
each part. So a directive, or a document on the line of its `---`, does not work there, and what stands behind `...` is
lost in silence: all of them are refused. A text that begins with `{` is read as a stream of JSON first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import yaml

from hopline.documents.building import DocumentBuilder, RawDocument
from hopline.documents.json_streams import read_json_stream
from hopline.documents.origins import Origin
from hopline.documents.plain_building import PlainBuilder, Unusual
from hopline.domain.errors import InvalidDocument, bounded

MAX_TEXT = 10 * 1024 * 1024
"""Characters of one text. The largest manifests that are around have four million."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BEHIND_THE_END = "did not find expected <document start>"
_SEPARATOR = "---"


class Part(NamedTuple):
    """What stands between two separators, and how many lines stand above it."""

    text: str
    lines_above: int


def read_documents(text: str, origin: Origin) -> Iterator[RawDocument]:
    """The documents in order, without the empty ones.

    Args:
        origin: the file, for messages.

    Raises InvalidDocument with `file:line`.
    """
    if len(text) > MAX_TEXT:
        raise InvalidDocument(
            f"the file has {len(text) / 1024 / 1024:.1f} MiB, more than {MAX_TEXT // 1024 // 1024} MiB",
            subject=origin.place(1),
            remedy="split it into several files; data of this size belongs into an image or an artifact",
        )
    stream = read_json_stream(text, origin)
    yield from stream.documents
    plain = PlainBuilder()
    for part in parts_of(stream.rest, stream.lines_above, origin):
        yield from _documents(part, origin, plain)


def parts_of(text: str, lines_above: int, origin: Origin) -> Iterator[Part]:
    """The text cut at its separators. Raises InvalidDocument for a separator with something behind it."""
    start, line = 0, lines_above
    for first, end in _separators(text):
        lines = text.count("\n", start, first)
        behind = text[first + len(_SEPARATOR) : end].strip()
        if behind and not behind.startswith("#"):
            raise InvalidDocument(
                f"{bounded(behind, 40)!r} stands on the line of the separator ---",
                subject=origin.place(line + lines + 1),
                remedy="begin the document on the next line, as kubectl wants it",
            )
        if first == start:
            continue  # kubectl leaves a separator that ends nothing at the head of what follows
        yield Part(text[start:first], line)
        start, line = end, line + lines + 1
    last = text[start:]
    yield Part(last if last.endswith("\n") else last + "\n", line)


def _separators(text: str) -> Iterator[tuple[int, int]]:
    """Where each line that begins with `---` begins and ends, its line feed included. A search for a text: a pattern
    that looks at the beginning of every line costs a tenth of all reading."""
    first = 0 if text.startswith(_SEPARATOR) else text.find(f"\n{_SEPARATOR}") + 1
    found = first > 0 or text.startswith(_SEPARATOR)
    while found:
        feed = text.find("\n", first)
        if feed < 0:
            yield first, len(text)
            return
        yield first, feed + 1
        first = text.find(f"\n{_SEPARATOR}", feed) + 1
        found = first > 0


def _documents(part: Part, origin: Origin, plain: PlainBuilder) -> Iterator[RawDocument]:
    if not part.text.strip(" \r\n"):
        return
    try:
        found = _read(part, origin, plain)
    except yaml.YAMLError as error:
        raise _does_not_parse(error, part, origin) from None
    except UnicodeEncodeError as error:
        line = part.lines_above + part.text.count("\n", 0, error.start) + 1
        raise _refusal(origin, line, "a character that is no Unicode text") from None
    if len(found) > 1:
        raise _lost(origin, found[1].line)
    yield from (document for document in found if document.value is not None)


def _read(part: Part, origin: Origin, plain: PlainBuilder) -> list[RawDocument]:
    """By the fast road, and by the careful one where that gives up."""
    if "\\/" in part.text:
        _refuse_escaped_slashes(part, origin)
    try:
        value, line = plain.document(_LOADER(part.text))
    except (Unusual, yaml.YAMLError):
        return _read_carefully(part, origin)
    return [RawDocument(value, part.lines_above + line, ())]


def _read_carefully(part: Part, origin: Origin) -> list[RawDocument]:
    """kubectl does not look behind the first document's end, so no mistake there is one of YAML."""
    found: list[RawDocument] = []
    try:
        found.extend(DocumentBuilder(origin, part.lines_above).documents(yaml.parse(part.text, Loader=_LOADER)))
    except (yaml.YAMLError, InvalidDocument) as error:
        if not found:
            raise
        mark = getattr(error, "problem_mark", None)
        raise _lost(origin, part.lines_above + mark.line + 1 if mark else found[0].line) from None
    return found


def _refuse_escaped_slashes(part: Part, origin: Origin) -> None:
    """The parser takes `\\/` in a quoted text, as YAML 1.2 does; the Go reader does not."""
    for event in _events_of_first_document(part.text):
        if not isinstance(event, yaml.ScalarEvent) or event.style != '"':
            continue
        start, end = event.start_mark, event.end_mark
        if start is None or end is None:
            continue
        written = part.text.removeprefix("\ufeff")[start.index : end.index]
        if "\\/" in written.replace("\\\\", ""):
            line = part.lines_above + start.line + 1
            raise _refusal(origin, line, "unknown escape \\/ in a quoted text, write / alone")


def _events_of_first_document(text: str) -> Iterator[yaml.Event]:
    """Those up to its end, or to the mistake in it, which is told elsewhere."""
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            yield event
            if isinstance(event, yaml.DocumentEndEvent):
                return
    except yaml.YAMLError:
        return


def _does_not_parse(error: yaml.YAMLError, part: Part, origin: Origin) -> InvalidDocument:
    if not isinstance(error, yaml.MarkedYAMLError):
        position = getattr(error, "position", 0)
        line = part.text.count("\n", 0, position) + 1
        return _refusal(origin, part.lines_above + line, str(error).splitlines()[0])
    mark = error.problem_mark or error.context_mark
    context = f" {error.context}" if error.context else ""
    line = part.lines_above + (mark.line if mark else 0) + 1
    if error.problem == _BEHIND_THE_END:
        return _lost(origin, line)
    return _refusal(origin, line, f"{error.problem or 'unreadable'}{context}")


def _lost(origin: Origin, line: int) -> InvalidDocument:
    return InvalidDocument(
        "text stands behind the end of a document, where kubectl does not look",
        subject=origin.place(line),
        remedy="begin a new document with a line ---, or remove the text",
    )


def _refusal(origin: Origin, line: int, problem: str) -> InvalidDocument:
    return InvalidDocument(
        f"the YAML does not parse: {problem}",
        subject=origin.place(line),
        remedy=f"correct line {origin.source_line(line)} of {origin.file}",
    )
