"""The line of a field is found when a message needs it."""

from __future__ import annotations

import pytest

from hopline.documents.locating import field_line

TEXT = "# head\na: 1\n---\n\nkind: X\nspec:\n  list:\n  - a: 1\n  - b: 2\n  'q': {x: 1,\n   y: 2}\n"


@pytest.mark.parametrize(
    ("document", "path", "line"),
    [
        (2, ("a",), 2),
        (5, ("spec", "list", 1, "b"), 9),
        (5, ("spec", "list", 0), 8),
        (5, ("spec", "q", "y"), 11),
        (5, ("spec", "nope", "deeper"), 6),
        (5, ("nope",), 5),
        (5, ("spec", "list", 7), 7),
    ],
)
def test_the_deepest_part_that_is_there_has_the_line(document: int, path: tuple[str | int, ...], line: int) -> None:
    assert field_line(TEXT, document, path) == line


@pytest.mark.parametrize("text", ["a: [", "--- x\n", ""])
def test_a_text_that_does_not_parse_keeps_the_line_of_its_document(text: str) -> None:
    assert field_line(text, 1, ("a",)) == 1
