"""The components of one hop and what each waits for (openfuyao-api.md §6.1, §6.2).

Edges come only from `ComponentVersion.spec.dependencies`, plus one from every other component to
`pre-upgrade-resources` when that is listed. A *gate* is not an edge but a safety rule between two components: the later
one never starts before the earlier one is done, though both may stand in the same batch (openfuyao-nodes.md §4.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from hopline.domain.errors import InvalidRelease
from hopline.domain.release import PRE_UPGRADE_RESOURCES

Gate = tuple[str, str]
"""(later, earlier)."""


@dataclass(frozen=True)
class StepGraph:
    """A graph without cycles; make one with `build_graph`.

    Attributes:
        prerequisites: name → the names that it depends on, sorted; one entry per component, in name order.
        gates: the gates between components of this graph.
    """

    prerequisites: Mapping[str, tuple[str, ...]]
    gates: tuple[Gate, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every component, sorted."""
        return tuple(self.prerequisites)

    def dependencies_of(self, name: str) -> tuple[str, ...]:
        """What `name` declares that it waits for, sorted. Raises KeyError."""
        return self.prerequisites[name]

    def dependents_of(self, name: str) -> tuple[str, ...]:
        """What declares that it waits for `name`, sorted. Raises KeyError."""
        return self._dependents[name]

    def waits_for(self, name: str) -> tuple[str, ...]:
        """Dependencies and gates of `name`: everything that must be done before it starts."""
        return self._waits[name]

    def all_before(self, name: str) -> frozenset[str]:
        """Everything that `name` waits for, directly or through others. Raises KeyError."""
        return self._ancestors[name]

    def batches(self) -> tuple[tuple[str, ...], ...]:
        """Batch after batch: all whose dependencies stand in earlier ones, sorted by name.

        A gated component never stands before the one that it waits for; a declared order that would put it there (no
        known release has one) moves it into the same batch, because the barrier could not be kept otherwise.
        """
        level: dict[str, int] = {}
        for name in self.order:
            after = [level[earlier] for later, earlier in self.gates if later == name]
            level[name] = max([0, *after, *(level[dependency] + 1 for dependency in self.prerequisites[name])])
        groups: dict[int, list[str]] = {}
        for name in self.names:
            groups.setdefault(level[name], []).append(name)
        return tuple(tuple(groups[number]) for number in sorted(groups))

    def longest_remaining(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Name → weight of the heaviest chain that begins with it, its own weight included."""
        remaining: dict[str, float] = {}
        for name in reversed(self.order):
            behind = (remaining[after] for after in self._followers[name])
            remaining[name] = weights.get(name, 0) + max(behind, default=0)
        return remaining

    def heaviest_chain(self, weights: Mapping[str, float]) -> tuple[str, ...]:
        """The heaviest chain, first to last; of equal ones the first by name.

        It knows no pool locks and no slots: `makespan.critical_path` does.
        """
        remaining = self.longest_remaining(weights)
        chain: list[str] = []
        candidates = self.names
        while candidates:
            chain.append(min(candidates, key=lambda name: (-remaining[name], name)))
            candidates = self._followers[chain[-1]]
        return tuple(chain)

    def blocked_by(self, names: Iterable[str]) -> frozenset[str]:
        """Everything that cannot start until all of `names` are done, `names` themselves apart."""
        blocked: set[str] = set()
        waiting = list(names)
        while waiting:
            for after in self._followers[waiting.pop()]:
                if after not in blocked:
                    blocked.add(after)
                    waiting.append(after)
        return frozenset(blocked)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Every component after everything that it waits for; by name where nothing else decides."""
        placed, cycle = _sorted_by_need(self._waits)
        if cycle:
            raise ValueError(f"a StepGraph never has a cycle: {' -> '.join(cycle)}")
        return placed

    @cached_property
    def _waits(self) -> dict[str, tuple[str, ...]]:
        return _with_gates(self.prerequisites, self.gates)

    @cached_property
    def _dependents(self) -> dict[str, tuple[str, ...]]:
        return _inverted(self.prerequisites)

    @cached_property
    def _ancestors(self) -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for name in self.order:
            needs = self._waits[name]
            found[name] = frozenset(needs).union(*(found[need] for need in needs))
        return found

    @cached_property
    def _followers(self) -> dict[str, tuple[str, ...]]:
        return _inverted(self._waits)


def build_graph(
    names: Iterable[str],
    dependencies: Mapping[str, Iterable[str]],
    *,
    gates: Iterable[Gate] = (),
    subject: str = "",
) -> StepGraph:
    """Make the graph of a hop.

    Blank names of dependencies and a component's dependency on itself are dropped (openfuyao-api.md §6.1); gates of
    components that are not listed fall away.

    Args:
        dependencies: component → what it declares.
        subject: the release, for messages.

    Raises:
        InvalidRelease: a dependency that is not listed, or a cycle, shown from end to end.
    """
    listed = frozenset(names)
    implicit = {PRE_UPGRADE_RESOURCES} & listed
    prerequisites: dict[str, tuple[str, ...]] = {}
    for name in sorted(listed):
        declared = {dependency.strip() for dependency in dependencies.get(name, ())} - {"", name}
        if outside := sorted(declared - listed):
            raise InvalidRelease(
                f"component {name} depends on {outside[0]}, which the upgrade list does not name",
                subject=subject,
                field="spec.upgrade.components",
                value=outside[0],
                remedy=f"add {outside[0]} to spec.upgrade.components, or remove the dependency from {name}",
            )
        prerequisites[name] = tuple(sorted((declared | implicit) - {name}))
    kept = tuple(sorted({(later, earlier) for later, earlier in gates if {later, earlier} <= listed}))
    _refuse_cycle(prerequisites, kept, subject)
    return StepGraph(prerequisites=prerequisites, gates=kept)


def _refuse_cycle(prerequisites: Mapping[str, tuple[str, ...]], gates: tuple[Gate, ...], subject: str) -> None:
    _, cycle = _sorted_by_need(prerequisites)
    if cycle:
        raise InvalidRelease(
            f"the dependencies of the components form a cycle: {' -> '.join(cycle)}",
            subject=subject,
            field="spec.dependencies",
            value=cycle[0],
            remedy=f"remove one of these dependencies, for example {cycle[1]} from {cycle[0]}",
        )
    _, cycle = _sorted_by_need(_with_gates(prerequisites, gates))
    if cycle:
        later, earlier = next(gate for gate in gates if gate[0] in cycle and gate[1] in cycle)
        raise InvalidRelease(
            f"{later} must wait for {earlier}, so that no kubelet is newer than an API server, but the dependencies say"
            f" the opposite: {' -> '.join(cycle)}",
            subject=subject,
            field="spec.dependencies",
            value=earlier,
            remedy=f"remove the dependency that leads from {earlier} to {later}",
        )


def _with_gates(prerequisites: Mapping[str, tuple[str, ...]], gates: tuple[Gate, ...]) -> dict[str, tuple[str, ...]]:
    waits = {name: set(before) for name, before in prerequisites.items()}
    for later, earlier in gates:
        waits[later].add(earlier)
    return {name: tuple(sorted(before)) for name, before in waits.items()}


def _inverted(before: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    after: dict[str, list[str]] = {name: [] for name in before}
    for name, earlier in before.items():
        for one in earlier:
            after[one].append(name)
    return {name: tuple(later) for name, later in after.items()}


def _sorted_by_need(waits: Mapping[str, tuple[str, ...]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A topological order, and a cycle (first = last, each depends on the next); one of the two is empty.

    The cycle begins with its first name and does not depend on the order of `waits`.
    """
    placed: list[str] = []
    left = dict.fromkeys(sorted(waits))
    while left:
        free = [name for name in left if not any(need in left for need in waits[name])]
        if not free:
            return (), _walk_cycle(left, waits)
        placed.extend(free)
        for name in free:
            del left[name]
    return tuple(placed), ()


def _walk_cycle(left: Iterable[str], waits: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Each of `left` needs another one of them, so following the first need comes round."""
    remaining = sorted(left)
    trail: list[str] = []
    name = remaining[0]
    while name not in trail:
        trail.append(name)
        name = next(need for need in waits[name] if need in remaining)
    cycle = trail[trail.index(name) :]
    first = cycle.index(min(cycle))
    turned = cycle[first:] + cycle[:first]
    return (*turned, turned[0])
