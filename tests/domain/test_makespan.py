"""Predicted times, and the law that eager is never slower than batches."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from hopline.domain.makespan import Timeline, eager_schedule, predict, simulate
from hopline.domain.plan import Pool, SchedulingMode
from hopline.domain.schedule import Schedule
from hopline.domain.step_graph import build_graph

BATCHES, EAGER = SchedulingMode.BATCHES, SchedulingMode.EAGER
CONTROL_PLANE, WORKERS = (Pool.CONTROL_PLANE,), (Pool.WORKERS,)

Work = tuple[Schedule, dict[str, float]]


@st.composite
def work(draw: st.DrawFn, max_size: int = 12, locks: bool = True) -> Work:
    """A random hop with times; with `locks`, some components hold pools and one may be gated."""
    names = [f"c{index:02d}" for index in range(draw(st.integers(1, max_size)))]
    declared = {
        name: draw(st.lists(st.sampled_from(names[:index]), max_size=3, unique=True)) if index else []
        for index, name in enumerate(names)
    }
    pools: dict[str, tuple[Pool, ...]] = {}
    gates = []
    if locks:
        kinds = st.sampled_from([(), (), CONTROL_PLANE, WORKERS, (*CONTROL_PLANE, *WORKERS)])
        pools = {name: kind for name in names if (kind := draw(kinds))}
        gates = [(names[-1], draw(st.sampled_from(names)))] if len(names) > 1 and draw(st.booleans()) else []
        gates = [gate for gate in gates if gate[0] != gate[1]]
    graph = build_graph(declared, declared, gates=gates)
    weights: dict[str, float] = {name: draw(st.integers(0, 9)) for name in names}
    return Schedule(graph=graph, slots=draw(st.integers(1, 4)), pools=pools), weights


def hold_all_rules(schedule: Schedule, timeline: Timeline) -> None:
    names = schedule.graph.names
    assert sorted(timeline.starts) == sorted(timeline.ends) == sorted(names)
    for name in names:
        assert all(timeline.ends[need] <= timeline.starts[name] for need in schedule.graph.waits_for(name))
    for moment in timeline.starts.values():
        active = [name for name in names if timeline.starts[name] <= moment < timeline.ends[name]]
        assert len(active) <= schedule.slots
        for one, other in combinations(active, 2):
            assert not set(schedule.pools.get(one, ())) & set(schedule.pools.get(other, ()))


@given(work())
def test_every_component_starts_once_after_its_needs_within_slots_and_pools(drawn: Work) -> None:
    schedule, weights = drawn
    _, timelines = predict(schedule, weights)
    for timeline in timelines.values():
        hold_all_rules(schedule, timeline)


@given(work())
def test_batches_keep_their_barriers(drawn: Work) -> None:
    schedule, weights = drawn
    timeline = simulate(schedule, weights)
    for earlier, later in zip(schedule.batches, schedule.batches[1:], strict=False):
        assert max(timeline.ends[name] for name in earlier) <= min(timeline.starts[name] for name in later)


@settings(max_examples=400)
@given(work())
def test_eager_is_never_slower_than_batches_at_equal_slots(drawn: Work) -> None:
    schedule, weights = drawn
    eager, timelines = predict(schedule, weights)
    assert timelines[EAGER].total <= timelines[BATCHES].total
    assert simulate(eager, weights).total == timelines[EAGER].total


@settings(max_examples=300)
@given(work(locks=False), st.data())
def test_start_order_of_the_batches_is_never_slower_whatever_the_times_are(drawn: Work, data: st.DataObject) -> None:
    schedule, weights = drawn
    order = tuple(simulate(schedule, weights).starts)
    kept = Schedule(graph=schedule.graph, slots=schedule.slots, mode=EAGER, order=order, in_sequence=True)
    real = {name: data.draw(st.integers(0, 9)) for name in weights}
    assert simulate(kept, real).total <= simulate(schedule, real).total


@given(work(locks=False))
def test_eager_with_a_slot_for_each_takes_the_heaviest_chain(drawn: Work) -> None:
    schedule, weights = drawn
    wide = Schedule(graph=schedule.graph, slots=len(weights))
    chain = wide.graph.heaviest_chain(weights)
    _, timelines = predict(wide, weights)
    assert timelines[EAGER].total == sum(weights[name] for name in chain)


@given(work())
def test_critical_path_has_no_gap(drawn: Work) -> None:
    schedule, weights = drawn
    for timeline in predict(schedule, weights)[1].values():
        path = timeline.critical_path()
        assert sum(weights[name] for name in path) == timeline.total
        assert timeline.starts[path[0]] == 0


@given(work(), st.data())
def test_what_is_done_takes_no_time_and_cuts_no_chain(drawn: Work, data: st.DataObject) -> None:
    schedule, weights = drawn
    done = frozenset(data.draw(st.sets(st.sampled_from(sorted(weights)))))
    for timeline in predict(schedule, weights, done)[1].values():
        assert timeline.starts.keys() == weights.keys() - done
        for name, start in timeline.starts.items():
            needs = schedule.graph.all_before(name) - done
            assert all(timeline.ends[need] <= start for need in needs)


def test_order_of_the_batches_is_kept_where_every_eager_order_is_slower() -> None:
    """Found by search: eight components, two slots, one lock; starting what can start costs one more unit."""
    declared = {"c02": ["c00", "c01"], "c04": ["c00", "c03"], "c07": ["c06"]}
    weights = {"c00": 9, "c01": 1, "c02": 2, "c03": 1, "c04": 9, "c05": 2, "c06": 1, "c07": 5}
    pools = {"c04": WORKERS, "c05": WORKERS}
    schedule = Schedule(graph=build_graph(weights, declared), slots=2, pools=pools)
    eager = eager_schedule(schedule, weights)
    assert eager.in_sequence
    assert simulate(eager, weights).total == simulate(schedule, weights).total == 18


def sample(weights: Mapping[str, float]) -> Schedule:
    """The sample release, with the pools that its handlers hold."""
    declared = {
        "bkeagent": ["provider"],
        "containerd": ["bkeagent"],
        "etcd": ["containerd"],
        "kubernetes-master": ["etcd"],
        "kubernetes-worker": ["etcd"],
        "calico": ["kubernetes-master", "kubernetes-worker"],
        "coredns": ["kubernetes-master"],
    }
    pools = {
        "containerd": (*CONTROL_PLANE, *WORKERS),
        "etcd": CONTROL_PLANE,
        "kubernetes-master": CONTROL_PLANE,
        "kubernetes-worker": WORKERS,
    }
    graph = build_graph(weights, declared, gates=[("kubernetes-worker", "kubernetes-master")])
    return Schedule(graph=graph, pools=pools)


def test_gate_counts_in_the_critical_path_and_eager_gains_what_it_does_not_hold_back() -> None:
    names = ("provider", "bkeagent", "containerd", "etcd", "kubernetes-master", "kubernetes-worker")
    weights: dict[str, float] = {**dict.fromkeys(names, 10), "calico": 1, "coredns": 10}
    _, timelines = predict(sample(weights), weights)
    assert timelines[EAGER].critical_path() == (*names[:4], "kubernetes-master", "kubernetes-worker", "calico")
    assert timelines[EAGER].total == 61
    assert timelines[BATCHES].critical_path() == (*names, "coredns")
    assert timelines[BATCHES].total == 70


def test_nothing_to_do_takes_no_time() -> None:
    schedule = Schedule(graph=build_graph([], {}))
    eager, timelines = predict(schedule, {})
    assert (timelines[EAGER].total, timelines[EAGER].critical_path(), eager.order) == (0, (), ())
