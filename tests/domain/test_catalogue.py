"""The rules of an UpgradePath, each with the message that a person reads."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.catalogue import Catalogue, NamedCheck, check_catalogue, read_catalogue
from hopline.domain.errors import InvalidCatalogue


def document(*paths: dict[str, Any], versions: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "config.openfuyao.com/v1alpha1",
        "kind": "UpgradePath",
        "metadata": {"name": "fuyao"},
        "spec": {"paths": list(paths), "versions": versions or []},
    }


def edge(source: str, target: str, **more: Any) -> dict[str, Any]:
    return {"from": source, "to": target, **more}


def refusal(*paths: dict[str, Any], versions: list[dict[str, Any]] | None = None) -> InvalidCatalogue:
    with pytest.raises(InvalidCatalogue) as caught:
        check_catalogue(read_catalogue(document(*paths, versions=versions)))
    error = caught.value
    assert error.subject == "UpgradePath fuyao"
    assert error.remedy
    return error


A, B, C, D = "v26.03", "v26.06-rc.2", "v26.06", "v26.12"


def test_a_catalogue_is_read_with_every_documented_field() -> None:
    catalogue = read_catalogue(
        document(
            edge(
                B,
                C,
                blocked=True,
                deprecated=True,
                notes="why",
                preCheck=[{"name": "cluster-health", "required": True}],
                postCheck=[{"name": "nodes-ready"}],
                unknownField=1,
            ),
            versions=[{"version": C, "installable": True, "deprecated": True, "notes": "n"}],
        )
    )
    first = catalogue.edges[0]
    assert (first.from_version, first.to_version, first.blocked, first.deprecated, first.notes) == (
        B,
        C,
        True,
        True,
        "why",
    )
    assert first.pre_check == (NamedCheck(name="cluster-health", required=True),)
    assert first.post_check == (NamedCheck(name="nodes-ready", required=False),)
    assert catalogue.versions[0].installable and catalogue.versions[0].deprecated
    assert check_catalogue(catalogue).keys() == {B, C}


@pytest.mark.parametrize("spec", [None, {}, {"paths": None, "versions": None}, {"paths": []}])
def test_an_empty_catalogue_is_valid_and_says_so(spec: Any) -> None:
    catalogue = read_catalogue({"metadata": {"name": "fuyao"}, "spec": spec})
    assert catalogue.is_empty
    assert check_catalogue(catalogue) == {}


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        ({"from": 26.06, "to": C}, "spec.paths[1].from", "26.06"),
        ({"from": B, "to": 26.06}, "spec.paths[1].to", "26.06"),
        (edge(B, C, preCheck=[{"name": 7}]), "spec.paths[1].preCheck[0].name", "7"),
    ],
)
def test_a_number_for_a_text_is_refused_with_the_advice_to_quote(path: Any, field: str, value: str) -> None:
    error = refusal(edge(A, B), path)
    assert (error.field, error.value) == (field, value)
    assert "quotes" in error.remedy


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (edge(B, C, blocked="true"), "spec.paths[1].blocked"),
        ("v26.06", "spec.paths[1]"),
        (edge(B, C, preCheck={"name": "x"}), "spec.paths[1].preCheck"),
    ],
)
def test_other_wrong_types_are_refused_at_their_field(path: Any, field: str) -> None:
    assert refusal(edge(A, B), path).field == field


@pytest.mark.parametrize("spec", ["v26.06", [], 3])
def test_a_spec_that_is_no_mapping_is_refused(spec: Any) -> None:
    with pytest.raises(InvalidCatalogue, match="spec is not a mapping"):
        read_catalogue({"metadata": {"name": "fuyao"}, "spec": spec})


@pytest.mark.parametrize(
    ("path", "field"),
    [(edge("", C), "spec.paths[1].from"), (edge(B, ""), "spec.paths[1].to"), ({"to": C}, "spec.paths[1].from")],
)
def test_an_empty_version_is_refused(path: Any, field: str) -> None:
    error = refusal(edge(A, B), path)
    assert error.field == field
    assert "empty version" in error.message


def test_a_version_that_cannot_be_ordered_is_refused() -> None:
    error = refusal(edge(A, B), edge(B, "latest"))
    assert (error.field, error.value) == ("spec.paths[1].to", "latest")
    assert "cannot be ordered" in error.message


def test_a_self_loop_is_refused() -> None:
    error = refusal(edge(A, B), edge(B, B))
    assert (error.field, error.value) == ("spec.paths[1].to", B)
    assert "to itself" in error.message
    assert error.remedy == "remove spec.paths[1]"


@pytest.mark.parametrize("key", ["preCheck", "postCheck"])
def test_a_check_without_a_name_is_refused(key: str) -> None:
    error = refusal(edge(A, B, **{key: [{"name": "nodes-ready"}, {"required": True}]}))
    assert error.field == f"spec.paths[0].{key}[1].name"


def test_a_duplicate_edge_is_refused_with_both_places() -> None:
    error = refusal(edge(A, B), edge(B, C), edge(A, B))
    assert (error.field, error.value) == ("spec.paths[2].to", B)
    assert "spec.paths[0]" in error.message
    assert "spec.paths[0] and spec.paths[2]" in error.remedy


@pytest.mark.parametrize("order", [1, -1])
def test_a_blocked_entry_beside_an_open_one_is_a_contradiction(order: int) -> None:
    error = refusal(*[edge(A, B), edge(A, B, blocked=True)][::order])
    assert "one entry blocks it" in error.message


def test_two_blocked_entries_of_one_edge_say_the_same() -> None:
    check_catalogue(read_catalogue(document(edge(A, B, blocked=True), edge(A, B, blocked=True, notes="again"))))


@pytest.mark.parametrize("other", ["v26.6", "26.06", "v26.06.0"])
def test_two_spellings_of_one_version_are_refused(other: str) -> None:
    error = refusal(edge(A, C), edge(A, other))
    assert (error.field, error.value) == ("spec.paths[1].to", other)
    assert error.remedy.startswith(f"write {C} everywhere")


def test_a_cycle_is_shown_from_its_oldest_version() -> None:
    error = refusal(edge(A, B), edge(C, A), edge(B, C), edge(C, D))
    assert f"{A} -> {B} -> {C} -> {A}" in error.message
    assert (error.field, error.value) == ("spec.paths[1].to", A)
    assert "spec.paths[1]" in error.remedy


def test_a_cycle_behind_which_other_versions_hang_is_found() -> None:
    error = refusal(edge("v26.01", A), edge(A, B), edge(B, A), edge(B, C), edge(C, D))
    assert f"{A} -> {B} -> {A}" in error.message


def test_a_very_long_cycle_does_not_exhaust_the_stack() -> None:
    versions = [f"v1.{n}" for n in range(3000)]
    paths = [edge(a, b) for a, b in itertools.pairwise(versions)] + [edge(versions[-1], versions[0])]
    assert "cycle" in refusal(*paths).message


def test_blocked_edges_are_never_part_of_a_cycle_nor_backwards() -> None:
    check_catalogue(read_catalogue(document(edge(A, B), edge(B, C), edge(C, A, blocked=True))))


def test_an_edge_that_goes_backwards_is_refused() -> None:
    error = refusal(edge(A, B), edge(D, C))
    assert (error.field, error.value) == ("spec.paths[1].to", C)
    assert "goes backwards" in error.message


@pytest.mark.parametrize(
    ("versions", "field"),
    [
        ([{"installable": True}], "spec.versions[0].version"),
        ([{"version": "latest"}], "spec.versions[0].version"),
        ([{"version": C}, {"version": C, "deprecated": True}], "spec.versions[1].version"),
        ([{"version": "v26.6-rc.2"}], "spec.versions[0].version"),
    ],
)
def test_bad_version_entries_are_refused(versions: list[dict[str, Any]], field: str) -> None:
    assert refusal(edge(B, C), versions=versions).field == field


def test_a_version_entry_that_stands_twice_alike_is_accepted() -> None:
    check_catalogue(read_catalogue(document(edge(B, C), versions=[{"version": C}, {"version": C}])))


def _has_cycle(pairs: set[tuple[int, int]]) -> bool:
    """By definition: some version leads back to itself."""
    reach = set(pairs)
    for _ in range(6):
        reach |= {(a, d) for a, b in reach for c, d in reach if b == c}
    return any(a == b for a, b in reach)


@given(
    st.sets(
        st.tuples(st.integers(1, 6), st.integers(1, 6)).filter(lambda pair: pair[0] != pair[1]), min_size=1, max_size=14
    ),
    st.randoms(use_true_random=False),
)
def test_cycles_are_found_exactly_when_there_are_any(pairs: set[tuple[int, int]], random: Any) -> None:
    rows = sorted(pairs)
    random.shuffle(rows)
    catalogue = read_catalogue(document(*[edge(f"v1.{a}", f"v1.{b}") for a, b in rows]))
    message = ""
    try:
        check_catalogue(catalogue)
    except InvalidCatalogue as error:
        message = error.message
    assert ("cycle" in message) == _has_cycle(pairs)
    assert ("goes backwards" in message) == (not _has_cycle(pairs) and any(a > b for a, b in pairs))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["from", "to", "paths", "versions", "version", "preCheck", "name", "blocked"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_document_raises_anything_but_a_refusal(spec: Any) -> None:
    try:
        catalogue = read_catalogue({"metadata": {"name": "fuyao"}, "spec": spec})
        check_catalogue(catalogue)
    except InvalidCatalogue as error:
        assert error.subject == "UpgradePath fuyao"
    else:
        assert isinstance(catalogue, Catalogue)
