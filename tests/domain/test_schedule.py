"""Which components start now, in both modes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hopline.domain.plan import Action, ComponentType, HopPlan, PlannedComponent, Pool, SchedulingMode
from hopline.domain.release import FailurePolicy
from hopline.domain.schedule import (
    Progress,
    Schedule,
    is_settled,
    next_steps,
    policy_of,
    schedule_of,
    skipped,
    waiting_for,
)
from hopline.domain.step_graph import build_graph

BATCHES, EAGER = SchedulingMode.BATCHES, SchedulingMode.EAGER
DECLARED = {"a": [], "b": [], "c": ["a"], "d": ["c"], "e": ["b"]}


def schedule(mode: SchedulingMode = BATCHES, **changes: object) -> Schedule:
    return replace(Schedule(graph=build_graph(DECLARED, DECLARED), mode=mode), **changes)  # type: ignore[arg-type]


def progress(done: str = "", running: str = "", failed: str = "", stopped: bool = False) -> Progress:
    return Progress(done=frozenset(done), running=frozenset(running), failed=frozenset(failed), stopped=stopped)


def test_batches_wait_for_the_whole_batch_before() -> None:
    assert next_steps(schedule(), progress()) == ("a", "b")
    assert next_steps(schedule(), progress(done="a", running="b")) == ()
    assert next_steps(schedule(), progress(done="ab")) == ("c", "e")


def test_eager_waits_for_own_dependencies_only() -> None:
    assert next_steps(schedule(EAGER), progress(done="a", running="b")) == ("c",)


def test_eager_gives_slots_to_the_most_urgent_and_unranked_ones_come_last() -> None:
    assert next_steps(schedule(EAGER, order=("b",), slots=1), progress()) == ("b",)
    assert next_steps(schedule(EAGER, order=("b", "gone"), slots=2), progress()) == ("b", "a")


def test_eager_in_sequence_never_overtakes() -> None:
    kept = schedule(EAGER, order=("a", "c", "b", "d", "e"), in_sequence=True)
    assert next_steps(kept, progress()) == ("a",)
    assert next_steps(kept, progress(done="a")) == ("c", "b")


@pytest.mark.parametrize("mode", [BATCHES, EAGER])
def test_slots_count_running_components(mode: SchedulingMode) -> None:
    assert next_steps(schedule(mode, slots=2), progress(running="b")) == ("a",)
    assert next_steps(schedule(mode, slots=1), progress(running="b")) == ()
    assert next_steps(schedule(mode, slots=0), progress()) == ("a",), "a setting of 0 must not stop the hop for good"


@pytest.mark.parametrize("mode", [BATCHES, EAGER])
@pytest.mark.parametrize("policy", [FailurePolicy.FAIL_FAST, FailurePolicy.ROLLBACK])
def test_fail_fast_starts_nothing_after_a_failure(mode: SchedulingMode, policy: FailurePolicy) -> None:
    halted = schedule(mode, policies={"b": policy})
    assert next_steps(halted, progress(done="a", failed="b")) == ()
    assert not is_settled(halted, progress(running="a", failed="b")), "what runs is finished"
    assert is_settled(halted, progress(done="a", failed="b"))


@pytest.mark.parametrize("mode", [BATCHES, EAGER])
def test_continue_goes_on_with_what_does_not_wait_for_the_failed_one(mode: SchedulingMode) -> None:
    lenient = schedule(mode, policies={"b": FailurePolicy.CONTINUE})
    assert next_steps(lenient, progress(done="a", failed="b")) == ("c",)
    assert next_steps(lenient, progress(done="ac", failed="b")) == ("d",)
    assert is_settled(lenient, progress(done="acd", failed="b"))


@pytest.mark.parametrize("mode", [BATCHES, EAGER])
def test_retried_component_starts_again_and_frees_what_waited(mode: SchedulingMode) -> None:
    assert next_steps(schedule(mode), progress(done="acd")) == ("b",)
    assert next_steps(schedule(mode), progress(done="abcd")) == ("e",)


@pytest.mark.parametrize("mode", [BATCHES, EAGER])
def test_skipped_component_does_not_cut_the_chain(mode: SchedulingMode) -> None:
    """`c` was skipped: it is done from the start, and `d` still waits for `a`."""
    assert "d" not in next_steps(schedule(mode), progress(done="c"))
    assert "d" not in next_steps(schedule(mode), progress(done="c", running="ab"))
    assert waiting_for(schedule(mode), progress(done="c", running="ab"), "d") == ("a",)
    assert "d" in next_steps(schedule(mode), progress(done="abce"))


@pytest.mark.parametrize("mode", [BATCHES, EAGER])
def test_stop_starts_nothing(mode: SchedulingMode) -> None:
    assert next_steps(schedule(mode), progress(done="a", stopped=True)) == ()


def test_one_holder_per_pool() -> None:
    pools = {"a": (Pool.CONTROL_PLANE,), "b": (Pool.CONTROL_PLANE, Pool.WORKERS), "e": (Pool.WORKERS,)}
    locked = schedule(EAGER, pools=pools)
    assert next_steps(locked, progress()) == ("a",)
    assert waiting_for(locked, progress(running="a"), "b") == ("a",)
    assert next_steps(locked, progress(done="a")) == ("b", "c")
    assert next_steps(locked, progress(done="ab", running="c")) == ("e",)


def test_pools_that_do_not_meet_run_side_by_side() -> None:
    pools = {"a": (Pool.CONTROL_PLANE,), "b": (Pool.WORKERS,)}
    assert next_steps(schedule(EAGER, pools=pools), progress()) == ("a", "b")


@pytest.mark.parametrize("mode", [BATCHES, EAGER])
def test_gated_component_waits_in_its_own_batch_even_with_one_slot(mode: SchedulingMode) -> None:
    names = ["kubernetes-master", "kubernetes-worker"]
    graph = build_graph(names, {}, gates=[("kubernetes-worker", "kubernetes-master")])
    gated = Schedule(graph=graph, mode=mode, slots=1, order=("kubernetes-worker", "kubernetes-master"))
    master, worker = frozenset(names[:1]), frozenset(names[1:])
    assert graph.batches() == (tuple(names),)
    assert next_steps(gated, Progress()) == ("kubernetes-master",)
    assert waiting_for(gated, Progress(running=master), "kubernetes-worker") == ("kubernetes-master",)
    assert next_steps(gated, Progress(done=master)) == ("kubernetes-worker",)
    lenient = replace(gated, policies={"kubernetes-master": FailurePolicy.CONTINUE})
    assert is_settled(lenient, Progress(failed=master)), "no kubelet before every API server"
    assert is_settled(lenient, Progress(done=master | worker))


def test_waiting_for_names_dependencies_then_barrier() -> None:
    assert waiting_for(schedule(), progress(running="ab"), "d") == ("c",)
    assert waiting_for(schedule(), progress(done="a", running="b"), "c") == ("b",)
    assert waiting_for(schedule(EAGER), progress(done="a", running="b"), "c") == ()


def test_schedule_of_a_plan_carries_order_pools_and_policies() -> None:
    hop = HopPlan(
        from_version="v1.0",
        to_version="v1.1",
        release_name="release-v1.1",
        components=(
            PlannedComponent(name="x", version="v1", type=ComponentType.MANIFEST, action=Action.SKIP),
            PlannedComponent(
                name="y",
                version="v1",
                type=ComponentType.NODE,
                dependencies=("x",),
                pools=(Pool.WORKERS,),
                failure_policy="Continue",
            ),
        ),
        eager_order=("y", "x"),
        eager_in_sequence=True,
    )
    built = schedule_of(hop, EAGER, 3)
    assert (built.graph.dependencies_of("y"), built.slots, built.ranked) == (("x",), 3, ("y", "x"))
    assert (built.in_sequence, built.pools) == (True, {"y": (Pool.WORKERS,)})
    assert built.policies == {"x": FailurePolicy.FAIL_FAST, "y": FailurePolicy.CONTINUE}
    assert skipped(hop) == {"x"}


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("", FailurePolicy.FAIL_FAST),
        ("Continue", FailurePolicy.CONTINUE),
        ("Rollback", FailurePolicy.ROLLBACK),
        ("SomethingNewer", FailurePolicy.FAIL_FAST),
    ],
)
def test_policy_of(text: str, policy: FailurePolicy) -> None:
    assert policy_of(text) is policy
