"""Paths, their ties, and why there is none."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.catalogue import Catalogue, CatalogueVersion, Edge
from hopline.domain.errors import InvalidCatalogue, NoUpgradePath, PathReason
from hopline.domain.upgrade_graph import UpgradeGraph
from hopline.domain.versions import parse_version
from hopline.domain.wire import ClusterKey

EAST = ClusterKey(kube_namespace="east", name="east")
RC2, RC3, RC10, GA, NEXT = "v26.06-rc.2", "v26.06-rc.3", "v26.06-rc.10", "v26.06", "v26.12"


def edge(source: str, target: str, **more: Any) -> Edge:
    return Edge(from_version=source, to_version=target, **more)


def graph(*edges: Edge, versions: tuple[CatalogueVersion, ...] = ()) -> UpgradeGraph:
    return UpgradeGraph(Catalogue(name="fuyao", edges=edges, versions=versions))


SAMPLE = graph(edge(RC2, RC3), edge(RC3, GA), edge(RC2, GA, blocked=True, notes="go through rc.3"))


def test_the_sample_goes_through_rc3() -> None:
    route = SAMPLE.find_path(RC2, GA)
    assert route.versions == (RC2, RC3, GA)
    assert route.document() == {
        "from": RC2,
        "to": GA,
        "hops": [{"from": RC2, "to": RC3, "deprecated": False}, {"from": RC3, "to": GA, "deprecated": False}],
        "reason": "",
        "message": "",
    }
    assert SAMPLE.require_path(RC2, GA) == route


def test_fewest_hops_win_even_over_deprecated_edges() -> None:
    route = graph(edge(RC2, RC3), edge(RC3, GA), edge(RC2, GA, deprecated=True)).find_path(RC2, GA)
    assert route.versions == (RC2, GA)
    assert route.deprecated


def test_among_equals_the_path_without_a_deprecated_edge_wins() -> None:
    route = graph(edge(RC2, RC10), edge(RC10, GA, deprecated=True), edge(RC2, RC3), edge(RC3, GA)).find_path(RC2, GA)
    assert route.versions == (RC2, RC3, GA)


def test_among_equals_the_newest_intermediate_version_wins_by_number() -> None:
    route = graph(edge(RC2, RC3), edge(RC3, GA), edge(RC2, RC10), edge(RC10, GA)).find_path(RC2, GA)
    assert route.versions == (RC2, RC10, GA)


def test_a_withdrawn_version_has_a_way_out() -> None:
    withdrawn = graph(edge(RC2, RC3, blocked=True), edge(RC3, GA), edge(RC2, GA))
    assert withdrawn.find_path(RC3, GA).versions == (RC3, GA)


@pytest.mark.parametrize("version", [GA, "v99.9", "latest", ""])
def test_equal_versions_are_already_there_known_or_not(version: str) -> None:
    route = SAMPLE.find_path(version, version)
    assert (route.reason, route.hops) == (PathReason.ALREADY_THERE, ())
    assert SAMPLE.require_path(version, version).reason is PathReason.ALREADY_THERE


def test_another_spelling_of_the_current_version_is_already_there() -> None:
    route = SAMPLE.find_path("v26.6", GA)
    assert route.reason is PathReason.ALREADY_THERE
    assert "v26.6" in route.message


def refusal(answers: UpgradeGraph, current: str, desired: str) -> NoUpgradePath:
    with pytest.raises(NoUpgradePath) as caught:
        answers.require_path(current, desired, EAST)
    error = caught.value
    route = answers.find_path(current, desired, EAST)
    assert route.hops == ()
    assert route.document()["reason"] == error.reason.value
    assert (error.message, error.remedy) == (route.message, route.remedy)
    assert error.subject and error.field and error.value and error.remedy
    return error


def test_an_older_version_is_a_downgrade_even_when_unknown() -> None:
    for desired in (RC2, "v25.03"):
        error = refusal(SAMPLE, RC3, desired)
        assert error.reason is PathReason.DOWNGRADE
        assert error.message == f"{desired} is older than the current version {RC3}, and a platform is never downgraded"
        assert error.remedy == f"hopline upgrade east -n east --to {GA}"
        assert (error.subject, error.field, error.value) == ("ClusterVersion east/east", "spec.desiredVersion", desired)


def test_a_downgrade_over_a_blocked_edge_is_still_a_downgrade() -> None:
    answers = graph(edge(RC2, GA), edge(GA, RC2, blocked=True))
    assert refusal(answers, GA, RC2).reason is PathReason.DOWNGRADE


def test_an_unknown_desired_version_names_what_can_be_reached() -> None:
    error = refusal(SAMPLE, RC2, "v99.9")
    assert error.reason is PathReason.UNKNOWN_VERSION
    assert error.message == "UpgradePath fuyao does not know the desired version v99.9"
    assert error.remedy == f"hopline upgrade east -n east --to {GA}, or one of: {GA}, {RC3}"
    assert (error.field, error.value) == ("spec.desiredVersion", "v99.9")


def test_an_unknown_current_version_is_told_apart_from_the_desired_one() -> None:
    error = refusal(SAMPLE, "v26.01", GA)
    assert error.reason is PathReason.UNKNOWN_VERSION
    assert "does not know the current version v26.01" in error.message
    assert (error.field, error.value) == ("status.currentVersion", "v26.01")
    assert error.remedy == "use a catalogue with an edge that leaves v26.01"


@pytest.mark.parametrize("text", ["latest", "v26"])
def test_a_text_that_is_no_version_is_unknown_with_the_spelling_to_use(text: str) -> None:
    error = refusal(SAMPLE, RC2, text)
    assert error.reason is PathReason.UNKNOWN_VERSION
    assert "cannot be ordered" in error.message
    assert "vMAJOR.MINOR" in error.remedy


@pytest.mark.parametrize(("current", "desired", "words"), [("", GA, "no current version"), (RC2, "", "no desired")])
def test_an_end_that_is_not_set_is_said(current: str, desired: str, words: str) -> None:
    error = refusal(SAMPLE, current, desired)
    assert error.reason is PathReason.UNKNOWN_VERSION
    assert error.message.startswith(words)
    assert error.value == '""'


def test_another_spelling_than_the_catalogues_is_unknown_and_corrected() -> None:
    error = refusal(graph(edge(RC2, RC3), edge(RC3, NEXT)), RC2, "v26.12.0")
    assert error.reason is PathReason.UNKNOWN_VERSION
    assert "spells that version v26.12" in error.message


def test_a_version_that_is_only_listed_has_no_path() -> None:
    listed = (CatalogueVersion(version=NEXT), CatalogueVersion(version="v26.01"))
    answers = graph(edge(RC2, GA), versions=listed)
    error = refusal(answers, RC2, NEXT)
    assert error.reason is PathReason.NO_PATH
    assert error.message == f"UpgradePath fuyao lists the desired version {NEXT}, but no edge leads to it"
    error = refusal(answers, "v26.01", GA)
    assert error.reason is PathReason.NO_PATH
    assert error.message == "UpgradePath fuyao lists the current version v26.01, but no edge leaves it"


def test_a_blocked_edge_is_named_with_its_index_and_notes() -> None:
    error = refusal(graph(edge(RC2, RC3), edge(RC2, GA, blocked=True, notes="go through rc.3")), RC2, GA)
    assert error.reason is PathReason.BLOCKED
    assert error.message == f"UpgradePath fuyao blocks {RC2} -> {GA}"
    assert (error.subject, error.field) == ("UpgradePath fuyao", "spec.paths[1].blocked")
    assert error.value == "true, notes: go through rc.3"
    assert error.remedy == f"hopline upgrade east -n east --to {RC3}"


def test_a_blocked_edge_further_on_is_named_too() -> None:
    error = refusal(graph(edge(RC2, RC3), edge(RC3, GA), edge(GA, NEXT, blocked=True)), RC2, NEXT)
    assert error.reason is PathReason.BLOCKED
    assert error.field == "spec.paths[2].blocked"
    assert error.remedy.startswith(f"hopline upgrade east -n east --to {GA}, or one of: {GA}, {RC3}")


def test_a_blocked_edge_that_would_not_help_is_not_blamed() -> None:
    error = refusal(graph(edge(RC2, RC3), edge(GA, NEXT), edge(RC3, RC2, blocked=True)), RC3, NEXT)
    assert error.reason is PathReason.NO_PATH


def test_no_path_names_both_ends_and_what_can_be_reached() -> None:
    error = refusal(graph(edge(RC2, RC3), edge(GA, NEXT)), RC2, NEXT)
    assert error.reason is PathReason.NO_PATH
    assert error.message == f"UpgradePath fuyao has no path {RC2} -> {NEXT}"
    assert RC3 in error.remedy


def test_without_a_cluster_the_remedy_is_a_list() -> None:
    route = SAMPLE.find_path(RC2, "v99.9")
    assert route.remedy == f"ask for a version that {RC2} can reach: {GA}, {RC3}"
    assert route.subject == "ClusterVersion"


def test_a_long_list_of_reachable_versions_is_cut() -> None:
    versions = [f"v1.{minor}" for minor in range(40)]
    answers = graph(*[edge(a, b) for a, b in itertools.pairwise(versions)])
    assert refusal(answers, "v1.0", "v99.9").remedy.endswith("v1.30 and 29 older ones")


def test_an_empty_catalogue_says_so() -> None:
    error = refusal(graph(), RC2, GA)
    assert error.reason is PathReason.UNKNOWN_VERSION
    assert "it has no edge at all" in error.message


def test_an_invalid_catalogue_answers_every_question_with_its_fault() -> None:
    broken = graph(edge(RC2, GA), edge(GA, GA))
    route = broken.find_path(RC2, GA)
    assert route.document()["reason"] == "InvalidCatalogue"
    assert "spec.paths[1].to" in route.message
    assert broken.reachable(RC2).reason is PathReason.INVALID_CATALOGUE
    with pytest.raises(InvalidCatalogue, match="to itself"):
        broken.require_path(RC2, GA)


def test_reachable_versions_are_listed_oldest_first_with_hops() -> None:
    answers = graph(
        edge(RC2, RC10),
        edge(RC2, RC3, deprecated=True),
        edge(RC3, GA),
        edge(RC10, NEXT),
        versions=(CatalogueVersion(version=NEXT, deprecated=True),),
    )
    assert answers.reachable(RC2).document() == {
        "from": RC2,
        "versions": [
            {"version": RC3, "hops": 1, "deprecated": True},
            {"version": RC10, "hops": 1, "deprecated": False},
            {"version": GA, "hops": 2, "deprecated": True},
            {"version": NEXT, "hops": 2, "deprecated": True},
        ],
        "reason": "",
        "message": "",
    }


@pytest.mark.parametrize(
    ("current", "reason", "words"),
    [
        (GA, PathReason.BLOCKED, f"spec.paths[2] is {GA} -> {NEXT}, notes: withdrawn"),
        ("v99.9", PathReason.UNKNOWN_VERSION, "does not know the current version v99.9"),
        ("latest", PathReason.UNKNOWN_VERSION, "does not know the current version latest"),
        (NEXT, PathReason.ALREADY_NEWEST, f"{NEXT} is the newest version of UpgradePath fuyao"),
        ("v26.07", PathReason.NO_PATH, "has no edge that leaves v26.07"),
    ],
)
def test_why_nothing_can_be_reached(current: str, reason: PathReason, words: str) -> None:
    answers = graph(edge(RC2, GA), edge(RC2, "v26.07"), edge(GA, NEXT, blocked=True, notes="withdrawn"))
    answer = answers.reachable(current)
    assert answer.versions == ()
    assert answer.reason is reason
    assert words in answer.message
    assert answer.remedy


@st.composite
def catalogues(draw: st.DrawFn) -> list[Edge]:
    """Sound catalogues over a few versions whose text order is not their number order."""
    pool = ["v1.1", "v1.2-rc.2", "v1.2-rc.10", "v1.2", "v1.9", "v1.10", "v1.11"]
    pairs = draw(st.sets(st.sampled_from(list(itertools.combinations(pool, 2))), max_size=18))
    return [
        edge(a, b, blocked=draw(st.sampled_from([False, False, True])), deprecated=draw(st.booleans()))
        for a, b in sorted(pairs)
    ]


def every_path(edges: list[Edge], current: str, desired: str) -> list[tuple[Edge, ...]]:
    """All open paths, by brute force."""
    if current == desired:
        return [()]
    return [
        (first, *rest)
        for first in edges
        if first.from_version == current and not first.blocked
        for rest in every_path(edges, first.to_version, desired)
    ]


def rank(path: tuple[Edge, ...]) -> Any:
    """The rules of the module as a sort key."""
    newest_first = []
    for hop in path:
        version = parse_version(hop.to_version)
        newest_first.append(tuple(-part for part in (*version.base, version.stage, version.stage_number)))
    return (len(path), sum(hop.deprecated for hop in path), newest_first)


@given(catalogues(), st.randoms(use_true_random=False))
def test_the_best_of_all_paths_is_found_in_any_order_of_the_file(edges: list[Edge], random: Any) -> None:
    shuffled = edges.copy()
    random.shuffle(shuffled)
    answers, other = graph(*edges), graph(*shuffled)
    for current, desired in itertools.permutations(["v1.1", "v1.2-rc.10", "v1.9", "v1.11"], 2):
        route = answers.find_path(current, desired)
        paths = every_path(edges, current, desired)
        assert route.hops == (min(paths, key=rank) if paths else ())
        assert (route.reason is PathReason.NONE) == bool(paths)
        again = other.find_path(current, desired)
        assert route.document() == again.document()
        assert route.remedy == again.remedy


@given(catalogues())
def test_reachable_agrees_with_find_path(edges: list[Edge]) -> None:
    answers = graph(*edges)
    answer = answers.reachable("v1.2-rc.2")
    assert bool(answer.versions) == (answer.reason is PathReason.NONE) == (not answer.message)
    listed = {entry.version: entry for entry in answer.versions}
    assert [parse_version(v) for v in listed] == sorted(parse_version(v) for v in listed)
    for version in {end for e in edges for end in (e.from_version, e.to_version)} - {"v1.2-rc.2"}:
        route = answers.find_path("v1.2-rc.2", version)
        assert (version in listed) == bool(route.hops)
        if route.hops:
            assert listed[version].hops == len(route.hops)
            assert listed[version].deprecated == route.deprecated
