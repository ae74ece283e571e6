"""`spec.upgradeStrategy` of a node-level component, read: waves and drains, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hopline.domain.durations import seconds_of
from hopline.domain.errors import InvalidInput
from hopline.domain.node_strategy import DrainPolicy, DrainWish, WaveStrategy, amount
from hopline.domain.release import UpgradeStrategy

POLICIES = tuple(one.value for one in DrainPolicy if one is not DrainPolicy.UNKNOWN)
MAX_NODE_RETRIES = 10
_ANY_TOTAL = 100


class Mistake(NamedTuple):
    """One field that cannot be used."""

    field: str
    value: str
    message: str
    remedy: str


def waves_of(strategy: UpgradeStrategy) -> WaveStrategy:
    """How nodes go together. Raises InvalidInput where `mistakes` has something to say."""
    return WaveStrategy(
        batch_size=strategy.batch_size,
        max_unavailable=str(strategy.max_unavailable),
        canary=strategy.canary,
        soak_seconds=seconds_of(strategy.soak) if strategy.soak else 0.0,
        failure_budget=str(strategy.failure_budget),
        node_retries=-1 if strategy.node_retries is None else strategy.node_retries,
    )


def drain_of(strategy: UpgradeStrategy) -> DrainWish:
    """What the release says about drains. Raises as `waves_of`."""
    drain = strategy.drain
    return DrainWish(
        policy=DrainPolicy(drain.policy) if drain.policy else None,
        timeout_seconds=seconds_of(drain.timeout) if drain.timeout else None,
        grace_seconds=drain.grace_seconds if drain.grace_seconds >= 0 else None,
    )


def mistakes(strategy: UpgradeStrategy) -> Iterator[Mistake]:
    """Every field of waves and drains that cannot be used."""
    for name, number in (("batchSize", strategy.batch_size), ("canary", strategy.canary)):
        if number < 0:
            yield Mistake(name, str(number), "is below 0", "write a number of nodes, 0 or more")
    if not 0 <= (strategy.node_retries or 0) <= MAX_NODE_RETRIES:
        yield Mistake(
            "nodeRetries",
            str(strategy.node_retries),
            "is no number of retries",
            f"write 0 to {MAX_NODE_RETRIES}",
        )
    for name, text in (("maxUnavailable", strategy.max_unavailable), ("failureBudget", strategy.failure_budget)):
        if text != "":
            yield from _amount(name, str(text))
    for name, text in (("soak", strategy.soak), ("drain.timeout", strategy.drain.timeout)):
        if text:
            yield from _duration(name, text)
    if strategy.drain.policy not in ("", *POLICIES):
        yield Mistake(
            "drain.policy", strategy.drain.policy, "is no policy for drains", f"use one of {', '.join(POLICIES)}"
        )


def _amount(name: str, text: str) -> Iterator[Mistake]:
    try:
        found = amount(text, _ANY_TOTAL)
    except InvalidInput as error:
        yield Mistake(name, text, error.message, error.remedy)
        return
    if name == "maxUnavailable" and found == 0:
        yield Mistake(name, text, "lets no node go", "write at least 1, or 1%")


def _duration(name: str, text: str) -> Iterator[Mistake]:
    try:
        seconds = seconds_of(text)
    except InvalidInput as error:
        yield Mistake(name, text, error.message, error.remedy)
        return
    if seconds <= 0:
        yield Mistake(name, text, "is no time at all", "write a duration above 0")
