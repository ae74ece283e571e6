"""How long a hop should take: the decision of `schedule` played through with expected times.

"Eager is never slower than batches" is a property of the choice made here, not of eager scheduling as such: starting
whatever can start may delay a more urgent component that becomes ready a moment later (Graham's anomaly). So
`eager_schedule` plays several start orders and keeps the shortest. When each of them is longer than the batches, it
takes the start order of the batches and keeps it (`in_sequence`) without their barriers, which is never slower on the
same times. By induction over that order: when a component starts in the batches, all before it have started here, no
later than there; whatever of them still runs here runs there too, so the slot and the pools are free here as well.
(Without pools this order is the same for any times, so the claim then holds however wrong the expected times are.)
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hopline.domain.plan import SchedulingMode
from hopline.domain.schedule import Progress, Schedule, next_steps
from hopline.domain.step_graph import StepGraph


@dataclass(frozen=True)
class Timeline:
    """A hop as predicted; times in the unit of the weights, from the start of the hop.

    Attributes:
        starts, ends: per component, in start order.
        released_by: component → the one whose end let it start; no entry for those that start at once.
    """

    starts: Mapping[str, float]
    ends: Mapping[str, float]
    released_by: Mapping[str, str]

    @property
    def total(self) -> float:
        """When the last component ends."""
        return max(self.ends.values(), default=0)

    def critical_path(self) -> tuple[str, ...]:
        """The chain that decides the total, first to last: each starts because the one before it ended."""
        if not self.ends:
            return ()
        name = min(self.ends, key=lambda one: (-self.ends[one], one))
        chain = [name]
        while name in self.released_by:
            name = self.released_by[name]
            chain.append(name)
        return tuple(reversed(chain))


def simulate(schedule: Schedule, weights: Mapping[str, float], done: frozenset[str] = frozenset()) -> Timeline:
    """Play a hop in which nothing fails.

    Args:
        weights: component → its duration; 0 where there is no entry.
        done: components that need no work; they take no time, no slot and no pool.
    """
    starts: dict[str, float] = {}
    ends: dict[str, float] = {}
    released_by: dict[str, str] = {}
    finishing: list[tuple[float, int, str]] = []
    running: set[str] = set()
    finished = set(done)
    now: float = 0
    just_ended: list[str] = []
    while True:
        for name in next_steps(schedule, Progress(done=frozenset(finished), running=frozenset(running))):
            starts[name] = now
            running.add(name)
            heapq.heappush(finishing, (now + weights.get(name, 0), len(starts), name))
            if just_ended:
                released_by[name] = _releaser(schedule, name, just_ended)
        if not finishing:
            return Timeline(starts=starts, ends=ends, released_by=released_by)
        now = finishing[0][0]
        just_ended = []
        while finishing and finishing[0][0] == now:
            name = heapq.heappop(finishing)[2]
            ends[name] = now
            running.remove(name)
            finished.add(name)
            just_ended.append(name)


def eager_schedule(schedule: Schedule, weights: Mapping[str, float], done: frozenset[str] = frozenset()) -> Schedule:
    """The `eager` schedule of the same graph, slots and pools: the shortest found, never longer than the batches."""
    return _choose(schedule, weights, done)[0]


def predict(
    schedule: Schedule, weights: Mapping[str, float], done: frozenset[str] = frozenset()
) -> tuple[Schedule, dict[SchedulingMode, Timeline]]:
    """The eager schedule, and the timeline of each mode."""
    eager, timeline, batches = _choose(schedule, weights, done)
    return eager, {SchedulingMode.BATCHES: batches, SchedulingMode.EAGER: timeline}


def _choose(
    schedule: Schedule, weights: Mapping[str, float], done: frozenset[str]
) -> tuple[Schedule, Timeline, Timeline]:
    barriers = replace(schedule, mode=SchedulingMode.BATCHES)
    batches = simulate(barriers, weights, done)
    best: tuple[Schedule, Timeline] | None = None
    for order in _orders(barriers, weights, done):
        candidate = replace(schedule, mode=SchedulingMode.EAGER, order=order, in_sequence=False)
        timeline = simulate(candidate, weights, done)
        if best is None or timeline.total < best[1].total:
            best = candidate, timeline
    if best is None or best[1].total > batches.total:
        order = tuple(sorted(batches.starts, key=lambda name: batches.starts[name]))
        kept = replace(schedule, mode=SchedulingMode.EAGER, order=order, in_sequence=True)
        best = kept, simulate(kept, weights, done)
    return *best, batches


def _orders(schedule: Schedule, weights: Mapping[str, float], done: frozenset[str]) -> Iterable[tuple[str, ...]]:
    """Start orders worth a try, the best guess first."""
    left = {name: weights.get(name, 0) for name in schedule.graph.names if name not in done}
    remaining = schedule.graph.longest_remaining(left)
    yield _heaviest_first(remaining)
    behind = _work_behind(schedule.graph, left)
    yield _heaviest_first({name: remaining[name] + behind[name] / max(schedule.slots, 1) for name in remaining})
    yield schedule.ranked


def _heaviest_first(urgency: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted(urgency, key=lambda name: (-urgency[name], name)))


def _work_behind(graph: StepGraph, weights: Mapping[str, float]) -> dict[str, float]:
    return {name: sum(weights.get(after, 0) for after in graph.blocked_by([name])) for name in graph.names}


def _releaser(schedule: Schedule, name: str, just_ended: Iterable[str]) -> str:
    """Of several that ended in the same instant: what it waited for, else a holder of its pools, else the first."""
    needs = schedule.graph.all_before(name)
    pools = frozenset(schedule.pools.get(name, ()))

    def distance(ended: str) -> tuple[bool, bool, str]:
        return ended not in needs, pools.isdisjoint(schedule.pools.get(ended, ())), ended

    return min(just_ended, key=distance)
