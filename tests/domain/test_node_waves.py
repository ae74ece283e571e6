"""Laws of waves, and the numbers of a strategy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.errors import InvalidInput
from hopline.domain.node_strategy import WaveStrategy, amount
from hopline.domain.node_waves import (
    MAX_WAVE,
    canaries,
    failures_allowed,
    leader_last,
    node_retries,
    wave_size,
    waves,
)
from hopline.domain.plan import Pool

NAMES = st.lists(st.text("abc123", min_size=1, max_size=4), unique=True, max_size=40)


@given(NAMES, st.integers(1, 12), st.integers(0, 12))
def test_waves_lose_nothing_and_keep_the_order(names: list[str], size: int, canary: int) -> None:
    found = waves(names, size, canary)
    assert [name for wave in found for name in wave] == names
    assert all(1 <= len(wave) <= size for wave in found)


@given(NAMES, st.integers(1, 12), st.integers(1, 12))
def test_no_wave_holds_both_canaries_and_others(names: list[str], size: int, canary: int) -> None:
    ends = []
    count = 0
    for wave in waves(names, size, canary):
        count += len(wave)
        ends.append(count)
    assert min(canary, len(names)) in [0, *ends]


@given(NAMES, st.integers(1, 12))
def test_without_canaries_there_is_no_wave_more_than_needed(names: list[str], size: int) -> None:
    assert len(waves(names, size)) == -(-len(names) // size)


@given(st.integers(0, 5000), st.integers(0, 200), st.sampled_from(["", "1", "7", "10%", "100%", "0", "0%"]))
def test_a_wave_has_at_least_one_node_and_never_too_many(total: int, batch: int, text: str) -> None:
    strategy = WaveStrategy(batch_size=batch, max_unavailable=text)
    assert 1 <= wave_size(strategy, Pool.WORKERS, total) <= MAX_WAVE
    assert wave_size(strategy, Pool.CONTROL_PLANE, total) == 1


@given(NAMES)
def test_the_leader_comes_last_and_the_others_by_name(names: list[str]) -> None:
    for leader in names:
        order = leader_last(names, leader)
        assert order[-1] == leader
        assert list(order[:-1]) == sorted(set(names) - {leader})
    assert list(leader_last(names)) == sorted(names)


@pytest.mark.parametrize(
    ("strategy", "total", "size"),
    [
        (WaveStrategy(), 50, 1),
        (WaveStrategy(batch_size=4), 50, 4),
        (WaveStrategy(max_unavailable="10%"), 50, 5),
        (WaveStrategy(max_unavailable="10%"), 5, 1),
        (WaveStrategy(batch_size=4, max_unavailable="2"), 50, 2),
        (WaveStrategy(batch_size=500), 5000, MAX_WAVE),
    ],
)
def test_the_size_of_a_wave(strategy: WaveStrategy, total: int, size: int) -> None:
    assert wave_size(strategy, Pool.WORKERS, total) == size


def test_the_budget_counts_for_workers_only() -> None:
    strategy = WaveStrategy(failure_budget="10%")
    assert failures_allowed(strategy, Pool.WORKERS, 50) == 5
    assert failures_allowed(strategy, Pool.CONTROL_PLANE, 50) == 0
    assert failures_allowed(WaveStrategy(), Pool.WORKERS, 50) == 0


def test_canaries_that_are_done_are_not_waited_for_again() -> None:
    strategy = WaveStrategy(canary=3)
    assert [canaries(strategy, Pool.WORKERS, done) for done in (0, 2, 9)] == [3, 1, 0]
    assert canaries(strategy, Pool.CONTROL_PLANE, 0) == 0


@pytest.mark.parametrize("text", ["", "%", "-1", "1.5", "101%", "many", "٣", "1 %"])
def test_what_is_no_number_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        amount(text, 10)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("said", "pool", "allowed"),
    [(-1, Pool.WORKERS, 1), (-1, Pool.CONTROL_PLANE, 0), (0, Pool.WORKERS, 0), (2, Pool.CONTROL_PLANE, 2)],
)
def test_a_worker_node_is_tried_again_once_and_a_control_plane_node_where_it_is_said(
    said: int, pool: Pool, allowed: int
) -> None:
    assert node_retries(WaveStrategy(node_retries=said), pool) == allowed
