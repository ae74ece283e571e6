"""A node that something else holds: the workflow hears of it at once, and then whenever that changes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from activities.heartbeats import Pulse
from hopline.domain.errors import Blocked
from hopline.domain.wire import ClusterKey
from hopline.operations import nodes
from hopline.ports import ClusterClient

LOOK_AGAIN_SECONDS = 5.0
"""A node that is held by something else than a Command is looked at again this often."""

T = TypeVar("T")


async def when_free(
    take: Callable[[], Awaitable[T]],
    management: ClusterClient,
    cluster: ClusterKey,
    pulse: Pulse,
    *,
    told: str,
    window_seconds: float,
) -> T | str:
    """What `take` returns, or what holds the node.

    Args:
        take: raises Blocked while something holds the node.
        told: what the workflow knows to hold it: nothing new within `window_seconds`, and it is told again.
    """
    end, known = time.monotonic() + window_seconds, bool(told)
    while True:
        try:
            return await take()
        except Blocked as blocked:
            pulse.message = str(blocked)
            left = end - time.monotonic()
            # What has changed is told after a pause only: a text that changes all the time is no flood.
            if left <= 0 or (str(blocked) != told and not known):
                return str(blocked)
            known = False
            await nodes.wait_for_commands(management, cluster, timeout_seconds=min(left, LOOK_AGAIN_SECONDS))
