"""Builds JSON values from YAML events, the careful road: without recursion, with the line of every key."""

from __future__ import annotations

import base64
import binascii
import copy
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from yaml import events

from hopline.documents.origins import Origin
from hopline.documents.scalars import Scalar, is_version_key, json_number, read_plain
from hopline.domain.errors import InvalidDocument, bounded

MAX_DEPTH = 200
"""Containers inside each other; deep enough for every schema, shallow enough for every later walk."""
MAX_VALUES = 1_000_000
"""Values of one document with all aliases written out: a small text must not become gigabytes."""

_TAG = "tag:yaml.org,2002:"
_CONTAINER_TAGS = {None, f"{_TAG}map", f"{_TAG}seq"}
_MERGE = "<<"
_FIRST_UNSIGNED = 2**63
_LINE_BREAKS = str.maketrans("", "", "\r\n")
"""All that the Go reader overlooks in base64."""


@dataclass(frozen=True)
class UnquotedVersion:
    """A number where a version belongs: the key, the text as written, the line."""

    key: str
    text: str
    line: int


@dataclass(frozen=True)
class RawDocument:
    """One document before anyone looked at its kind."""

    value: Any
    line: int
    unquoted_versions: tuple[UnquotedVersion, ...]


@dataclass
class _Frame:
    """A container that is being filled."""

    container: dict[str, Any] | list[Any]
    anchor: str | None
    line: int
    key: str | None = None
    merging: bool = False
    key_lines: dict[str, int] = field(default_factory=dict)
    size: int = 1
    height: int = 1


class _Built(NamedTuple):
    """A finished value, the number of values in it, and the levels of containers in it."""

    value: Any
    size: int
    height: int


@dataclass
class DocumentBuilder:
    """Turns the events of one YAML text into documents. `origin` and the lines above the text are for messages."""

    origin: Origin
    lines_above: int = 0
    _stack: list[_Frame] = field(default_factory=list)
    _anchors: dict[str, _Built] = field(default_factory=dict)
    _versions: list[UnquotedVersion] = field(default_factory=list)
    _root: Any = None
    _line: int = 1
    _size: int = 0

    def documents(self, stream: Iterable[events.Event]) -> Iterator[RawDocument]:
        """The documents in order, empty ones included. Raises InvalidDocument with `file:line`."""
        for event in stream:
            if isinstance(event, events.DocumentStartEvent):
                self._stack, self._anchors, self._versions = [], {}, []
                self._root, self._line, self._size = None, 0, 0
            elif isinstance(event, events.DocumentEndEvent):
                yield RawDocument(self._root, self._line, tuple(self._versions))
            elif isinstance(event, events.NodeEvent):
                self._node(event)
            elif isinstance(event, events.CollectionEndEvent):
                self._close()

    def _node(self, event: events.NodeEvent) -> None:
        line = self.lines_above + (event.start_mark.line if event.start_mark else 0) + 1
        self._line = self._line or line
        if isinstance(event, events.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, events.AliasEvent):
            self._alias(event, line)
        else:
            self._open(event, line)

    def _open(self, event: events.NodeEvent, line: int) -> None:
        tag = getattr(event, "tag", None)
        if tag not in _CONTAINER_TAGS:
            raise self._refuse(line, f"the tag {tag} has no meaning in Kubernetes", "remove the tag")
        if self._expects_key():
            raise self._refuse(line, "a key is a list or a mapping", "write keys as text, and render templates first")
        self._dive(1, line)
        container: dict[str, Any] | list[Any] = {} if isinstance(event, events.MappingStartEvent) else []
        self._stack.append(_Frame(container, event.anchor, line))
        if event.anchor:
            self._anchors.pop(event.anchor, None)

    def _close(self) -> None:
        frame = self._stack.pop()
        built = _Built(frame.container, frame.size, frame.height)
        if frame.anchor and frame.anchor not in self._anchors:  # else the name was given anew inside
            self._anchors[frame.anchor] = built
        self._put(built, frame.line)

    def _alias(self, event: events.AliasEvent, line: int) -> None:
        name = event.anchor or ""
        if name not in self._anchors:
            if any(frame.anchor == name for frame in self._stack):
                raise self._refuse(line, f"the anchor {name} contains itself", "write the value out")
            raise self._refuse(line, f"the alias {name} has no anchor", f"define it with &{name}, or write the value")
        built = self._anchors[name]
        if self._expects_key():
            self._key(self._key_text(built.value, name, line), line)
            return
        if self._stack and self._stack[-1].merging and not isinstance(built.value, dict):
            raise self._refuse(line, "the value of << is not a mapping", "merge an anchored mapping")
        self._grow(built.size, line)
        self._dive(built.height, line)
        self._put(built._replace(value=_in_json(copy.deepcopy(built.value))), line)

    def _scalar(self, event: events.ScalarEvent, line: int) -> None:
        plain = bool(event.implicit[0])
        value = self._value(event, plain, line)
        if event.anchor:
            self._anchors[event.anchor] = _Built(value, 1, 0)
        if self._expects_key():
            if plain and event.value == _MERGE:
                self._stack[-1].merging = True
            else:
                self._key(self._key_text(value, event.value, line), line)
            return
        if plain and not isinstance(value, str | bool | None):
            self._note_version(event.value, line)
        self._grow(1, line)
        self._put(_Built(_in_json(value), 1, 0), line)

    def _value(self, event: events.ScalarEvent, plain: bool, line: int) -> Scalar:
        text, tag = str(event.value), event.tag
        if tag in (None, "!") or tag == f"{_TAG}str":
            value = read_plain(text) if plain and tag is None else text
        elif tag == f"{_TAG}binary":
            try:
                value = base64.b64decode(text.translate(_LINE_BREAKS), validate=True).decode()
            except (binascii.Error, ValueError):
                raise self._refuse(line, "a !!binary value is not base64 of a text", "correct it") from None
        else:
            value = self._tagged(text, str(tag), line)
        if isinstance(value, float) and not math.isfinite(value):
            raise self._refuse(line, f"{text} is not a number that JSON can hold", "put it in quotes if it is a text")
        return value

    def _tagged(self, text: str, tag: str, line: int) -> Scalar:
        value = read_plain(text)
        fits = {
            "int": isinstance(value, int) and not isinstance(value, bool),
            "float": isinstance(value, int | float) and not isinstance(value, bool),
            "bool": isinstance(value, bool),
            "null": value is None,
        }
        name = tag.removeprefix(_TAG)
        if name not in fits:
            raise self._refuse(line, f"the tag {tag} has no meaning in Kubernetes", "remove the tag")
        if not fits[name]:
            raise self._refuse(line, f"{bounded(text, 60)!r} is not of type {name}", "correct the value or the tag")
        return float(value) if name == "float" and isinstance(value, int) else value

    def _expects_key(self) -> bool:
        if not self._stack or not isinstance(self._stack[-1].container, dict):
            return False
        return self._stack[-1].key is None and not self._stack[-1].merging

    def _key_text(self, value: Any, text: str, line: int) -> str:
        """The Go reader writes booleans and integers up to 2⁶³ as keys in their JSON spelling, and refuses others."""
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int) and value < _FIRST_UNSIGNED:
            return str(value)
        raise self._refuse(line, f"the key {text or 'null'} is not a text", f'put it in quotes: "{text}"')

    def _key(self, key: str, line: int) -> None:
        frame = self._stack[-1]
        earlier = frame.key_lines.get(key)
        if earlier is not None:
            raise self._refuse(
                line,
                f"the key {bounded(key, 80)} stands twice, first in line {self.origin.source_line(earlier)}",
                "keep one of the two",
                key,
            )
        frame.key_lines[key] = line
        frame.key = key

    def _note_version(self, text: str, line: int) -> None:
        key = self._stack[-1].key if self._stack else None
        if key and is_version_key(key):
            self._versions.append(UnquotedVersion(key, text, line))

    def _grow(self, size: int, line: int) -> None:
        self._size += size
        if self._size > MAX_VALUES:
            raise self._refuse(
                line, f"the document has more than {MAX_VALUES} values", "split it, or use fewer aliases"
            )

    def _dive(self, levels: int, line: int) -> None:
        if len(self._stack) + levels > MAX_DEPTH:
            raise self._refuse(line, f"more than {MAX_DEPTH} levels inside each other", "make the document flatter")

    def _put(self, built: _Built, line: int) -> None:
        value = built.value
        if not self._stack:
            self._root = value
            return
        frame = self._stack[-1]
        frame.size += built.size
        frame.height = max(frame.height, built.height + 1)
        if isinstance(frame.container, list):
            frame.container.append(value)
        elif frame.merging:  # The Go reader merges where the << stands: what comes later wins.
            frame.merging = False
            sources = value if isinstance(value, list) else [value]
            if not all(isinstance(source, dict) for source in sources):
                raise self._refuse(line, "the value of << is not a mapping", "merge an anchored mapping")
            for source in reversed(sources):
                frame.container.update(copy.deepcopy(source))
        elif frame.key is not None:
            frame.container[frame.key] = value
            frame.key = None

    def _refuse(self, line: int, problem: str, remedy: str, key: str = "") -> InvalidDocument:
        return InvalidDocument(problem, subject=self.origin.place(line), field=key, remedy=remedy)


def _in_json(value: Any) -> Any:
    """Only as a key does a number keep the form that its author gave it."""
    return json_number(value) if isinstance(value, float) else value
