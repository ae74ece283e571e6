"""The graph of a hop: edges, batches, chains and cycles."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.errors import InvalidRelease
from hopline.domain.step_graph import StepGraph, build_graph

SAMPLE = {
    "provider": [],
    "bkeagent": ["provider"],
    "containerd": ["bkeagent"],
    "etcd": ["containerd"],
    "kubernetes-master": ["etcd"],
    "kubernetes-worker": ["etcd"],
    "kube-proxy": ["kubernetes-master", "kubernetes-worker"],
    "coredns": ["kubernetes-master", "kubernetes-worker"],
    "calico": ["kubernetes-master", "kubernetes-worker"],
}
GATES = (("kubernetes-worker", "kubernetes-master"),)


@st.composite
def graphs(draw: st.DrawFn, max_size: int = 12) -> tuple[dict[str, list[str]], StepGraph]:
    """A random graph without cycles, and what was declared."""
    names = [f"c{index:02d}" for index in range(draw(st.integers(1, max_size)))]
    declared = {
        name: draw(st.lists(st.sampled_from(names[:index]), max_size=3, unique=True)) if index else []
        for index, name in enumerate(names)
    }
    return declared, build_graph(declared, declared)


def test_sample_release_has_the_six_batches_of_the_guide() -> None:
    assert build_graph(SAMPLE, SAMPLE, gates=GATES).batches() == (
        ("provider",),
        ("bkeagent",),
        ("containerd",),
        ("etcd",),
        ("kubernetes-master", "kubernetes-worker"),
        ("calico", "coredns", "kube-proxy"),
    )


def test_no_declared_dependencies_make_one_batch() -> None:
    assert build_graph(["b", "a"], {}).batches() == (("a", "b"),)


def test_every_component_depends_on_pre_upgrade_resources_when_it_is_listed() -> None:
    graph = build_graph(["coredns", "pre-upgrade-resources", "provider"], {"coredns": ["provider"]})
    assert graph.batches() == (("pre-upgrade-resources",), ("provider",), ("coredns",))
    assert graph.dependencies_of("coredns") == ("pre-upgrade-resources", "provider")
    assert graph.dependents_of("pre-upgrade-resources") == ("coredns", "provider")


def test_blank_and_own_names_are_dropped() -> None:
    graph = build_graph(["a", "b"], {"a": ["", "  ", "a"], "b": [" a "]})
    assert (graph.dependencies_of("a"), graph.dependencies_of("b")) == ((), ("a",))


def test_dependency_outside_the_list_is_refused_with_both_names() -> None:
    with pytest.raises(InvalidRelease) as refusal:
        build_graph(["coredns"], {"coredns": ["etcd"]}, subject="ReleaseImage r")
    assert str(refusal.value) == (
        "component coredns depends on etcd, which the upgrade list does not name; "
        "ReleaseImage r spec.upgrade.components is 'etcd'; "
        "remedy: add etcd to spec.upgrade.components, or remove the dependency from coredns"
    )


@pytest.mark.parametrize("names", [["a", "b", "c", "d"], ["d", "c", "b", "a"]])
def test_cycle_is_shown_from_end_to_end_for_any_order(names: list[str]) -> None:
    with pytest.raises(InvalidRelease, match="form a cycle: b -> d -> c -> b") as refusal:
        build_graph(names, {"b": ["d"], "d": ["c"], "c": ["b"], "a": []})
    assert refusal.value.remedy == "remove one of these dependencies, for example d from b"


def test_dependency_of_pre_upgrade_resources_closes_a_cycle() -> None:
    with pytest.raises(InvalidRelease, match="pre-upgrade-resources -> provider -> pre-upgrade-resources"):
        build_graph(["pre-upgrade-resources", "provider"], {"pre-upgrade-resources": ["provider"]})


def test_dependency_that_contradicts_a_gate_is_refused() -> None:
    declared = {"kubernetes-master": ["kubernetes-worker"]}
    with pytest.raises(InvalidRelease, match="no kubelet is newer than an API server"):
        build_graph(["kubernetes-master", "kubernetes-worker"], declared, gates=GATES)


def test_gate_moves_a_component_into_the_batch_of_the_one_it_waits_for() -> None:
    declared = {"kubernetes-master": ["etcd"], "kubernetes-worker": [], "calico": ["kubernetes-worker"]}
    graph = build_graph(["etcd", *declared], declared, gates=GATES)
    assert graph.batches() == (("etcd",), ("kubernetes-master", "kubernetes-worker"), ("calico",))
    assert graph.dependencies_of("kubernetes-worker") == ()
    assert graph.waits_for("kubernetes-worker") == ("kubernetes-master",)


def test_heaviest_chain_and_longest_remaining() -> None:
    graph = build_graph(SAMPLE, SAMPLE)
    weights = {"provider": 2, "kubernetes-worker": 9, "kubernetes-master": 3, "coredns": 4}
    assert graph.longest_remaining(weights)["provider"] == 15
    assert graph.heaviest_chain(weights)[-2:] == ("kubernetes-worker", "coredns")


@given(graphs())
def test_batches_hold_every_component_once_and_as_early_as_possible(
    drawn: tuple[dict[str, list[str]], StepGraph],
) -> None:
    declared, graph = drawn
    batches = graph.batches()
    batch_of = {name: number for number, batch in enumerate(batches) for name in batch}
    assert sorted(name for batch in batches for name in batch) == sorted(declared)
    for name, needs in declared.items():
        assert batch_of[name] == max((batch_of[need] + 1 for need in needs), default=0)
    assert all(list(batch) == sorted(batch) for batch in batches)


@given(graphs(), st.randoms())
def test_graph_is_the_same_for_any_order_of_the_file(drawn: tuple[dict[str, list[str]], StepGraph], chance) -> None:
    declared, graph = drawn
    names = list(declared)
    chance.shuffle(names)
    shuffled = {name: chance.sample(declared[name], len(declared[name])) for name in names}
    again = build_graph(names, shuffled)
    assert (again, again.order, again.batches()) == (graph, graph.order, graph.batches())


@given(graphs(), st.data())
def test_any_edge_that_closes_a_circle_is_found(drawn: tuple[dict[str, list[str]], StepGraph], data) -> None:
    declared, graph = drawn
    name = data.draw(st.sampled_from(sorted(declared)))
    ancestors = [one for one in declared if name in graph.blocked_by([one])]
    if not ancestors:
        return
    ancestor = data.draw(st.sampled_from(ancestors))
    with pytest.raises(InvalidRelease) as refusal:
        build_graph(declared, {**declared, ancestor: [*declared[ancestor], name]})
    shown = refusal.value.message.split(": ")[1].split(" -> ")
    assert shown[0] == shown[-1]
    assert len(set(shown)) == len(shown) - 1 >= 2


@given(graphs(), st.data())
def test_heaviest_chain_weighs_what_longest_remaining_says(drawn: tuple[dict[str, list[str]], StepGraph], data) -> None:
    declared, graph = drawn
    weights = {name: data.draw(st.integers(0, 9)) for name in declared}
    chain = graph.heaviest_chain(weights)
    assert sum(weights[name] for name in chain) == max(graph.longest_remaining(weights).values())
    assert all(before in declared[after] for before, after in pairwise(chain))
