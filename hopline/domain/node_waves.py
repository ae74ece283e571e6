"""Waves of a rollout: which nodes are in hand at once, in which order, and how many may fail.

Rules:
- control plane: one node at a time, whatever the release asks for (design §8), and the leader of etcd last;
- workers: `batchSize`, else `maxUnavailable` (number, or percentage of the pool rounded down), at least 1; of both the
  smaller one; never more than `MAX_WAVE`;
- a canary wave goes first and alone, unless as many nodes of the pool are at the target already;
- a node whose Command failed is tried again: a worker node once, a control-plane node only where the release says so,
  because each try overwrites what its agent keeps of /etc/kubernetes (openfuyao-nodes.md §2.4);
- a failed node is put aside while the others go on, as long as no more fail than the budget allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from hopline.domain.node_strategy import WaveStrategy, amount
from hopline.domain.plan import Pool

MAX_WAVE = 60
"""Nodes in hand at once: with about 30 events each, a wave fits into one execution of 2,500 events (design §6)."""

WORKER_RETRIES = 1
"""Of a worker node whose Command failed, where the release says nothing. Its agent has tried four times by then."""

T = TypeVar("T")


def wave_size(strategy: WaveStrategy, pool: Pool, total: int) -> int:
    """Nodes of a pool of `total` that are in hand at once, at least 1."""
    if pool is Pool.CONTROL_PLANE:
        return 1
    wanted = [strategy.batch_size] if strategy.batch_size > 0 else []
    if strategy.max_unavailable:
        wanted.append(amount(strategy.max_unavailable, total))
    return max(1, min([*wanted, MAX_WAVE]) if wanted else 1)


def failures_allowed(strategy: WaveStrategy, pool: Pool, total: int) -> int:
    """Failed nodes that are put aside; of the control plane none, because every member counts."""
    if pool is Pool.CONTROL_PLANE or not strategy.failure_budget:
        return 0
    return amount(strategy.failure_budget, total)


def node_retries(strategy: WaveStrategy, pool: Pool) -> int:
    """How often a node whose Command failed is tried again before it counts as failed."""
    if strategy.node_retries >= 0:
        return strategy.node_retries
    return WORKER_RETRIES if pool is Pool.WORKERS else 0


def canaries(strategy: WaveStrategy, pool: Pool, done: int) -> int:
    """Nodes of the canary wave that are still to come, given how many of the pool are at the target."""
    return max(0, strategy.canary - done) if pool is Pool.WORKERS else 0


def waves(items: Sequence[T], size: int, canary: int = 0) -> tuple[tuple[T, ...], ...]:
    """`items` in their order, in waves of `size`; the first ones have `canary` in all, and end there."""
    first = [items[at : min(at + size, canary)] for at in range(0, min(canary, len(items)), size)]
    rest = [items[at : at + size] for at in range(min(canary, len(items)), len(items), size)]
    return tuple(tuple(wave) for wave in (*first, *rest) if wave)


def leader_last(names: Iterable[str], leader: str = "") -> tuple[str, ...]:
    """By name; the leader of etcd last, so that it moves once (openfuyao-nodes.md §8, "leader-last order")."""
    return tuple(sorted(names, key=lambda name: (name == leader and bool(leader), name)))
