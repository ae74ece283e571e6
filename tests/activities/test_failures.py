"""When a domain error is tried again, and how soon."""

from __future__ import annotations

from datetime import timedelta

import pytest

from activities.failures import CONFLICT_DELAY, to_application_error
from hopline.domain.errors import Blocked, ComponentFailed, Conflict, HoplineError, Rejected, Transient


@pytest.mark.parametrize(
    ("error", "is_final", "delay"),
    [
        pytest.param(Transient("away"), False, None, id="the policy's own back-off"),
        pytest.param(Transient("full", retry_after=7.0), False, timedelta(seconds=7), id="as the server asks"),
        pytest.param(Blocked("budget"), False, None, id="blocked"),
        pytest.param(Conflict("stale"), False, CONFLICT_DELAY, id="one fresh read"),
        pytest.param(Rejected("wrong"), True, None, id="refused"),
        pytest.param(ComponentFailed("wrong"), True, None, id="component failed"),
    ],
)
def test_how_soon(error: HoplineError, is_final: bool, delay: timedelta | None) -> None:
    failure = to_application_error(error)
    assert (failure.non_retryable, failure.next_retry_delay) == (is_final, delay)
