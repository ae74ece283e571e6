"""The fast road from YAML events to JSON values, for documents without anything unusual: most of them.

It keeps no lines and gives up (`Unusual`) on everything that needs a message or a rule: anchors, tags, merges, keys
that are no text or stand twice, versions without quotes, depth. `building.DocumentBuilder` then reads the document
again. As little per event as possible: building must cost less than half of what libyaml takes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from yaml.events import (
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from hopline.documents.scalars import is_version_key, read_json_plain

MAX_PLAIN_DEPTH = 100
"""Containers inside each other; far below what the careful road allows."""

_NUMBERS = frozenset({int, float})


class Unusual(Exception):
    """This document needs the careful road."""


class PlainDocument(NamedTuple):
    """`line`: of its first key, counted from 1 within the text; the value is None for an empty document."""

    value: Any
    line: int


class PlainBuilder:
    """Reads documents one after another; what their unquoted texts mean is remembered for the next one."""

    def __init__(self) -> None:
        self._meanings: dict[str, Any] = {}
        self._keys: set[str] = set()

    def document(self, loader: Any) -> PlainDocument:
        """The one document of the text at whose start the parser stands. Raises Unusual, or what the parser raises."""
        loader.get_event()
        if loader.get_event().__class__ is StreamEndEvent:
            return PlainDocument(None, 1)
        root = loader.get_event()
        if root.__class__ is ScalarEvent:
            if root.value or root.anchor or root.tag or not root.implicit[0]:
                raise Unusual
            value: Any = None
        else:
            value = self._container(loader, root, 0)
        loader.get_event()
        if loader.get_event().__class__ is not StreamEndEvent:
            raise Unusual
        return PlainDocument(value, root.start_mark.line + 1)

    def _container(self, loader: Any, event: Any, depth: int) -> Any:
        kind = event.__class__
        if (kind is not MappingStartEvent and kind is not SequenceStartEvent) or depth > MAX_PLAIN_DEPTH:
            raise Unusual
        if event.anchor is not None or event.tag is not None:
            raise Unusual
        return (self._mapping if kind is MappingStartEvent else self._sequence)(loader, depth + 1)

    def _mapping(self, loader: Any, depth: int) -> dict[str, Any]:
        next_event, meanings, keys = loader.get_event, self._meanings, self._keys
        made: dict[str, Any] = {}
        while True:
            event = next_event()
            if event.__class__ is not ScalarEvent:
                if event.__class__ is MappingEndEvent:
                    return made
                raise Unusual
            key = event.value
            if key in made or event.anchor is not None or event.tag is not None:
                raise Unusual
            if key not in keys and event.implicit[0]:
                self._learn_key(key)
            event = next_event()
            if event.__class__ is not ScalarEvent:
                made[key] = self._container(loader, event, depth)
            elif event.anchor is not None or event.tag is not None:
                raise Unusual
            elif event.implicit[0]:
                text = event.value
                value = meanings[text] if text in meanings else self._learn(text)
                if value.__class__ in _NUMBERS and is_version_key(key):
                    raise Unusual
                made[key] = value
            else:
                made[key] = event.value

    def _sequence(self, loader: Any, depth: int) -> list[Any]:
        next_event, meanings = loader.get_event, self._meanings
        made: list[Any] = []
        while True:
            event = next_event()
            if event.__class__ is not ScalarEvent:
                if event.__class__ is SequenceEndEvent:
                    return made
                made.append(self._container(loader, event, depth))
            elif event.anchor is not None or event.tag is not None:
                raise Unusual
            elif event.implicit[0]:
                text = event.value
                made.append(meanings[text] if text in meanings else self._learn(text))
            else:
                made.append(event.value)

    def _learn(self, text: str) -> Any:
        value = read_json_plain(text)
        if value is NotImplemented:
            raise Unusual
        self._meanings[text] = value
        return value

    def _learn_key(self, key: str) -> None:
        if key == "<<" or not isinstance(read_json_plain(key), str):
            raise Unusual
        self._keys.add(key)
