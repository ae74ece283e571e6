"""Unquoted scalars mean what the Go reader of Kubernetes says (values taken from sigs.k8s.io/yaml v1.6.0)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.documents.scalars import Scalar, needs_quotes, read_plain

GO_SAYS: list[tuple[str, Scalar]] = [
    ("y", True),
    ("n", False),
    ("No", False),
    ("ON", True),
    ("tRUE", "tRUE"),
    ("~", None),
    ("", None),
    ("Null", None),
    ("nil", "nil"),
    ("0", 0),
    ("-0x10", -16),
    ("0b101", 5),
    ("017", 15),
    ("0o17", 15),
    ("08", 8.0),
    ("1_000", 1000),
    ("_1", "_1"),
    ("1e3", 1000.0),
    (".5", 0.5),
    (".5_5", 0.55),
    ("._5", "._5"),
    ("5.", 5.0),
    ("1e400", "1e400"),
    ("9223372036854775808", 9223372036854775808),
    ("18446744073709551616", 1.8446744073709552e19),
    ("26.06", 26.06),
    ("v26.06", "v26.06"),
    ("1.2.3", "1.2.3"),
    ("12:30:45", "12:30:45"),
    ("2026-11-30", "2026-11-30"),
    ("2026-11-30T12:00:00Z", "2026-11-30T12:00:00Z"),
    ("-", "-"),
    ("+", "+"),
    ("0x", "0x"),
]


@pytest.mark.parametrize(("text", "value"), GO_SAYS)
def test_a_plain_scalar_means_what_go_says(text: str, value: Scalar) -> None:
    read = read_plain(text)
    assert read == value
    assert type(read) is type(value)


@given(st.text(alphabet=st.sampled_from("0123456789+-._eExXbBoyYnNuUlL~aAfF:"), max_size=12))
def test_every_text_has_a_meaning_and_a_text_means_itself(text: str) -> None:
    value = read_plain(text)
    assert needs_quotes(text) == (not isinstance(value, str))
    if isinstance(value, str):
        assert value == text
