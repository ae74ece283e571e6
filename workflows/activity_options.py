"""Every timeout and retry policy, by name (design "Temporal settings that bind").

Retries have one owner: Temporal. Work inside a component has no limit of attempts, only the component's deadline.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

HEARTBEAT_TIMEOUT = timedelta(seconds=4)
STICKY_TIMEOUT = timedelta(seconds=2)
MAX_HEARTBEAT_THROTTLE = timedelta(seconds=1)
GRACEFUL_SHUTDOWN = timedelta(seconds=5)

STEADY = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=1.5, maximum_interval=timedelta(seconds=30)
)
"""Until it works or the deadline runs out."""

PATIENT = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=1.5, maximum_interval=timedelta(seconds=10)
)

SHORT_CALL = timedelta(seconds=60)
"""One attempt of an activity that makes a handful of requests of at most 10 s each."""

PLANNING_CALL = timedelta(minutes=10)
"""One attempt of a plan: every release of the path is fetched and every component looked at."""

WAIT_WINDOW = timedelta(minutes=4)
"""A wait tells what it sees when that changes, and at the latest after this long: so a minute in which nothing changes
costs no list and no new watch."""

WAIT_CALL = WAIT_WINDOW + timedelta(minutes=1)
"""One attempt of a wait."""

LAST_LOOK = timedelta(seconds=30)
"""How long after a deadline the truth is still asked for, when nobody answers just then (design §8)."""


FIRST_LOOK = timedelta(seconds=30)
LONGEST_LOOK = timedelta(minutes=10)
"""Between two looks whether the cluster is still there: doubled each time, so that a hop that is held for a month
stays a short history. What is published tells the same at once."""


class Options(TypedDict, total=False):
    """Keyword arguments of `workflow.execute_activity_method`."""

    start_to_close_timeout: timedelta
    schedule_to_close_timeout: timedelta
    heartbeat_timeout: timedelta
    retry_policy: RetryPolicy
    cancellation_type: ActivityCancellationType


READ: Options = {"start_to_close_timeout": SHORT_CALL, "heartbeat_timeout": HEARTBEAT_TIMEOUT, "retry_policy": PATIENT}
"""Looks, writes nothing."""

PLAN: Options = {
    "start_to_close_timeout": PLANNING_CALL,
    "heartbeat_timeout": HEARTBEAT_TIMEOUT,
    "retry_policy": PATIENT,
}

CATALOGUE: Options = {
    "start_to_close_timeout": timedelta(minutes=2),
    "heartbeat_timeout": HEARTBEAT_TIMEOUT,
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=5), backoff_coefficient=2.0, maximum_attempts=3),
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""One round of a schedule: the next round is the retry that counts, so a registry that is away is asked three times."""

WAIT: Options = {"start_to_close_timeout": WAIT_CALL, "heartbeat_timeout": HEARTBEAT_TIMEOUT, "retry_policy": PATIENT}
"""Waits by watch, writes nothing."""

PUSH: Options = {
    "start_to_close_timeout": timedelta(hours=1),
    "heartbeat_timeout": HEARTBEAT_TIMEOUT,
    "retry_policy": PATIENT,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""The agent itself, uploaded and proven within one call. A cancelled one has ended before the clean-up begins."""

AWAY: Options = {
    "start_to_close_timeout": timedelta(hours=1),
    "heartbeat_timeout": HEARTBEAT_TIMEOUT,
    "retry_policy": PATIENT,
}
"""Waits for a target cluster that is away: few attempts, because that may take days."""

EFFECT: Options = {
    "start_to_close_timeout": SHORT_CALL,
    "heartbeat_timeout": HEARTBEAT_TIMEOUT,
    "retry_policy": STEADY,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""Writes: a cancelled one reports its end before the clean-up begins."""


WAITING_EFFECT: Options = {
    "start_to_close_timeout": WAIT_CALL,
    "heartbeat_timeout": HEARTBEAT_TIMEOUT,
    "retry_policy": STEADY,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""Writes for as long as it waits: a drain. A cancelled one has ended before the clean-up begins."""


def within(options: Options, remaining: timedelta) -> Options:
    """`options`, retried only as long as the component's deadline allows."""
    bounded: Options = {**options, "schedule_to_close_timeout": max(remaining, timedelta(seconds=1))}
    return bounded
