from datetime import timedelta

import pytest

from starter.durations import about, parsed, shown


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (60, "1m00s"), (252, "4m12s"), (3720, "1h02m"), (-3, "0s")]
)
def test_shown(seconds: int, text: str) -> None:
    assert shown(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(("seconds", "text"), [(12, "12s"), (90, "2m"), (1860, "31m"), (3720, "1h02m")])
def test_about(seconds: int, text: str) -> None:
    assert about(seconds) == text


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("1h30m", 5400), ("1h2m3s", 3723)])
def test_parsed(text: str, seconds: int) -> None:
    assert parsed(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "1d", "30m1h", "-1s", "1.5h"])
def test_refuses_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="90s, 15m or 1h30m"):
        parsed(text)
