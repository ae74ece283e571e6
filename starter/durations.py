"""Durations as people write and read them: `90s`, `4m12s`, `1h02m`."""

from __future__ import annotations

import re
from datetime import timedelta

_PARTS = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def shown(duration: timedelta | float) -> str:
    """At most two units; seconds are dropped from an hour on."""
    seconds = round(duration.total_seconds() if isinstance(duration, timedelta) else duration)
    seconds = max(seconds, 0)
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"


def about(seconds: float) -> str:
    """A prediction, in whole minutes from one minute on."""
    if seconds < 60:
        return f"{max(round(seconds), 0)}s"
    minutes = round(seconds / 60)
    return f"{minutes // 60}h{minutes % 60:02d}m" if minutes >= 60 else f"{minutes}m"


def parsed(text: str) -> timedelta:
    """`90s`, `15m`, `1h30m`. ValueError for anything else, and for nothing."""
    match = _PARTS.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"{text!r} is not a duration; write it like 90s, 15m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)
