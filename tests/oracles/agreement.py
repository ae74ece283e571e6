"""Comparing two readers: both agree, both refuse, or ours refuses more for a reason that a table names."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping

from hypothesis import HealthCheck, settings

CASES = int(os.environ.get("HOPLINE_FUZZ_CASES", "300"))
"""Cases of each comparison; `make fuzz` asks for 10,000, and for new ones each time."""

FUZZ = settings(
    max_examples=CASES,
    deadline=None,
    database=None,
    derandomize="HOPLINE_FUZZ_CASES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def extra_refusal(table: Mapping[str, str], message: str, counted: Counter[str]) -> str:
    """The row of the table (name → pattern of our message) that explains a refusal of ours; counted, empty if none."""
    for name, pattern in table.items():
        if re.search(pattern, message):
            counted[name] += 1
            return name
    return ""
