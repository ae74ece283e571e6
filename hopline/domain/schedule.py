"""Which components start now: one pure decision, used by the workflow and by the prediction alike (design §2.9).

Rules, in both modes:

- a component starts once, when everything before it is done and a slot is free (`DEFAULT_SLOTS` as upstream). What is
  skipped counts as done from the start, yet what it waits for must be done too: with etcd up to date, no master starts
  before containerd is done;
- a node-level component holds all of its pools from start to end, and a pool has one holder at a time: so no two
  components ever have a control-plane node in hand together;
- after a failure under FailFast (or Rollback, treated alike) nothing new starts; under Continue everything goes on
  that does not wait for the failed one.

`batches` adds the guide's barrier: a batch starts when every earlier one has settled, by name where slots are short.
`eager` has no barrier and a start order instead, most urgent first, which `makespan.eager_schedule` chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hopline.domain.plan import Action, HopPlan, Pool, SchedulingMode
from hopline.domain.release import FailurePolicy
from hopline.domain.step_graph import Gate, StepGraph, build_graph

DEFAULT_SLOTS = 8
"""Components in flight at once (openfuyao-api.md §6.2)."""


@dataclass(frozen=True)
class Schedule:
    """What stays the same while a hop runs.

    Attributes:
        order: start order of `eager`, most urgent first; names that it lacks come last, by name.
        in_sequence: in `eager`, a component also waits until all before it in `order` have started.
        pools: node-level component → its pools; others have no entry.
        policies: component → what its failure means; FailFast where there is no entry.
    """

    graph: StepGraph
    mode: SchedulingMode = SchedulingMode.BATCHES
    slots: int = DEFAULT_SLOTS
    order: tuple[str, ...] = ()
    in_sequence: bool = False
    pools: Mapping[str, tuple[Pool, ...]] = field(default_factory=dict)
    policies: Mapping[str, FailurePolicy] = field(default_factory=dict)

    @cached_property
    def batches(self) -> tuple[tuple[str, ...], ...]:
        """The batches of the graph."""
        return self.graph.batches()

    @cached_property
    def ranked(self) -> tuple[str, ...]:
        """Every component in the order in which free slots are given out."""
        if self.mode is not SchedulingMode.EAGER:
            return tuple(name for batch in self.batches for name in batch)
        known = frozenset(self.graph.names)
        first = tuple(dict.fromkeys(name for name in self.order if name in known))
        return (*first, *(name for name in self.graph.names if name not in first))


@dataclass(frozen=True)
class Progress:
    """Where a hop is.

    Attributes:
        done: finished or skipped.
        failed: failed for good; a retry takes the component out again.
        stopped: a person or a deletion asked to end; nothing new starts.
    """

    done: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    stopped: bool = False


def next_steps(schedule: Schedule, progress: Progress) -> tuple[str, ...]:
    """The components to start now, most urgent first. Empty: wait for a running one, or the hop is at its end."""
    if progress.stopped or any(_stops_all(schedule, name) for name in progress.failed):
        return ()
    free_slots = max(schedule.slots, 1) - len(progress.running)
    held = {pool for name in progress.running for pool in schedule.pools.get(name, ())}
    chosen: list[str] = []
    for name in _candidates(schedule, progress):
        if free_slots <= len(chosen):
            break
        pools = schedule.pools.get(name, ())
        startable = held.isdisjoint(pools) and progress.done.issuperset(schedule.graph.all_before(name))
        if startable:
            chosen.append(name)
            held.update(pools)
        elif _keeps_sequence(schedule):
            break
    return tuple(chosen)


def is_settled(schedule: Schedule, progress: Progress) -> bool:
    """Nothing runs and nothing will start without a person: the hop is done, held or stopped."""
    return not progress.running and not next_steps(schedule, progress)


def waiting_for(schedule: Schedule, progress: Progress, name: str) -> tuple[str, ...]:
    """For the status: the unfinished components that `name` waits for, its barrier and pool holders included."""
    direct = [need for need in schedule.graph.waits_for(name) if need not in progress.done]
    if direct:
        return tuple(direct)
    behind_skipped = schedule.graph.all_before(name) - progress.done
    if behind_skipped:
        return tuple(sorted(behind_skipped))
    if schedule.mode is not SchedulingMode.EAGER:
        earlier = next(index for index, batch in enumerate(schedule.batches) if name in batch)
        barrier = [one for batch in schedule.batches[:earlier] for one in batch if one not in progress.done]
        if barrier:
            return tuple(barrier)
    pools = frozenset(schedule.pools.get(name, ()))
    return tuple(sorted(one for one in progress.running if not pools.isdisjoint(schedule.pools.get(one, ()))))


def schedule_of(hop: HopPlan, mode: SchedulingMode, slots: int, gates: tuple[Gate, ...] = ()) -> Schedule:
    """The schedule of a planned hop, with the start order that the plan has pinned.

    Args:
        gates: `components.gates_of` of the hop's components.
    """
    graph = build_graph(
        (component.name for component in hop.components),
        {component.name: component.dependencies for component in hop.components},
        gates=gates,
        subject=f"ReleaseImage {hop.release_name}",
    )
    return Schedule(
        graph=graph,
        mode=mode,
        slots=slots,
        order=hop.eager_order,
        in_sequence=hop.eager_in_sequence,
        pools={component.name: component.pools for component in hop.components if component.pools},
        policies={component.name: policy_of(component.failure_policy) for component in hop.components},
    )


def policy_of(text: str) -> FailurePolicy:
    """The policy that `upgradeStrategy.failurePolicy` names; the default when it is empty or from a newer release."""
    try:
        return FailurePolicy(text)
    except ValueError:
        return FailurePolicy.FAIL_FAST


def skipped(hop: HopPlan) -> frozenset[str]:
    """The components that are done before the hop starts."""
    return frozenset(component.name for component in hop.components if component.action is Action.SKIP)


def _stops_all(schedule: Schedule, name: str) -> bool:
    return schedule.policies.get(name, FailurePolicy.FAIL_FAST) is not FailurePolicy.CONTINUE


def _keeps_sequence(schedule: Schedule) -> bool:
    return schedule.mode is SchedulingMode.EAGER and schedule.in_sequence


def _candidates(schedule: Schedule, progress: Progress) -> Iterator[str]:
    """Components that could still start and that no barrier holds back, most urgent first."""
    settled = progress.done | progress.failed | schedule.graph.blocked_by(progress.failed)
    begun = settled | progress.running
    if schedule.mode is SchedulingMode.EAGER:
        yield from (name for name in schedule.ranked if name not in begun)
        return
    for batch in schedule.batches:
        yield from (name for name in batch if name not in begun)
        if not settled.issuperset(batch):
            return
