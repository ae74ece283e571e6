"""Where a field stands in a text: looked up again only when a message needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from hopline.documents.origins import Origin
from hopline.documents.reading import parts_of
from hopline.domain.errors import InvalidDocument

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def field_line(text: str, document_line: int, path: Sequence[str | int]) -> int:
    """The line of the deepest part of `path` that the document has which begins at `document_line` of the text.

    A list index counts as a part. The line of the document itself for a text that is no YAML.
    """
    try:
        parts = list(parts_of(text, 0, Origin("")))
        above = max((part for part in parts if part.lines_above < document_line), key=lambda part: part.lines_above)
        node = yaml.compose(above.text, Loader=_LOADER)
    except (yaml.YAMLError, InvalidDocument, ValueError):
        return document_line
    line = document_line
    for name in path:
        mark, node = _step(node, name)
        if mark is None:
            break
        line = above.lines_above + mark.line + 1
    return line


def _step(node: Any, name: str | int) -> tuple[Any, Any]:
    """Where the key or item stands, and its value; None and None when there is none."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == name:
                return key.start_mark, value
    if isinstance(node, yaml.SequenceNode) and isinstance(name, int) and name < len(node.value):
        return node.value[name].start_mark, node.value[name]
    return None, None
