"""Version order: the table of the module, and the laws of a total order."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.errors import InvalidVersion
from hopline.domain.versions import Stage, Version, minor_distance, parse_version

NUMBERS = st.integers(min_value=0, max_value=120)


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """Any spelling that the table accepts."""
    minor = draw(NUMBERS)
    padded = draw(st.sampled_from([f"{minor}", f"{minor:02d}", f"{minor:03d}"]))
    text = draw(st.sampled_from(["", "v"])) + f"{draw(NUMBERS)}.{padded}"
    text += draw(st.one_of(st.just(""), NUMBERS.map(lambda n: f".{n}")))
    stage = draw(st.sampled_from(["", "-alpha", "-beta", "-rc"]))
    if stage:
        stage += draw(st.one_of(st.just(""), NUMBERS.map(lambda n: f".{n}"), NUMBERS.map(str)))
    revision = draw(st.one_of(st.just(""), NUMBERS.map(lambda n: f"-of.{n}")))
    return text + stage + revision


VERSIONS = spellings().map(parse_version)

ASCENDING = [
    "v26.03",
    "v26.06-alpha",
    "v26.06-alpha.1",
    "v26.06-beta.0",
    "v26.06-rc",
    "v26.06-rc.0",
    "v26.06-rc.2",
    "v26.06-rc.2-of.1",
    "v26.06-rc.3",
    "v26.06-rc.9",
    "v26.06-rc.10",
    "v26.06",
    "v26.06-of.1",
    "v26.06.1-rc.1",
    "v26.06.1",
    "v26.12",
    "v27.01",
]


def test_the_table_sorts_as_written() -> None:
    for earlier, later in itertools.pairwise(ASCENDING):
        assert parse_version(earlier) < parse_version(later), (earlier, later)


def test_component_versions_sort_by_base_then_revision() -> None:
    texts = ["v1.34.3", "v1.34.3-of.1", "v1.34.3-of.2", "v1.34.3-of.10", "v1.34.4", "v1.34.10", "v1.35.0-rc.1"]
    for earlier, later in itertools.pairwise(texts):
        assert parse_version(earlier) < parse_version(later), (earlier, later)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("v26.06", "v26.6"),
        ("v26.06", "26.06"),
        ("v26.06", "v26.06.0"),
        ("v26.06-rc.2", "v26.6.0-rc2"),
        ("v1.34.3", "v1.34.3-of.0"),
    ],
)
def test_spellings_of_one_version_are_equal_and_keep_their_text(one: str, other: str) -> None:
    assert parse_version(one) == parse_version(other)
    assert hash(parse_version(one)) == hash(parse_version(other))
    assert (str(parse_version(one)), str(parse_version(other))) == (one, other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latest",
        "v26",
        "26.6.1.2",
        "v26.06+build.1",
        "v26.06-preview",
        "v26.06-rc.1.2",
        "v26.06-of1",
        "v26.06-of.1-rc.1",
        "V26.06",
        " v26.06",
        "v26.06\n",
        "v26.٠٦",
        "v-1.2",
        "v1." + "9" * 5000,
    ],
)
def test_what_cannot_be_ordered_is_refused_with_place_and_remedy(text: str) -> None:
    with pytest.raises(InvalidVersion) as caught:
        parse_version(text, subject="ClusterVersion east/east", field="spec.desiredVersion")
    error = caught.value
    assert error.subject == "ClusterVersion east/east"
    assert error.field == "spec.desiredVersion"
    assert "v26.06-rc.2" in error.remedy
    assert "cannot be ordered" in error.message or "is empty" in error.message


@given(st.text(alphabet=st.sampled_from("v.-0123456789rcofalphbetl+ \n٣"), max_size=25))
def test_arbitrary_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    try:
        version = parse_version(text)
    except InvalidVersion:
        return
    assert str(version) == text


@given(spellings())
def test_a_version_goes_round_through_its_text_and_its_canonical_form(text: str) -> None:
    version = parse_version(text)
    assert str(version) == text
    assert parse_version(version.canonical) == version
    assert parse_version(version.canonical).canonical == version.canonical


@given(VERSIONS, VERSIONS)
def test_exactly_one_of_less_equal_greater_holds(a: Version, b: Version) -> None:
    assert [a < b, a == b, b < a].count(True) == 1
    assert (a <= b) == (not b < a)
    assert (a == b) == (a.canonical == b.canonical)
    if a == b:
        assert hash(a) == hash(b)


@given(VERSIONS, VERSIONS, VERSIONS)
def test_order_is_transitive(a: Version, b: Version, c: Version) -> None:
    low, middle, high = sorted([a, b, c])
    assert low <= middle <= high
    assert low <= high


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_a_release_is_newer_than_its_rcs_and_rcs_sort_by_number(major: int, minor: int, one: int, two: int) -> None:
    release = parse_version(f"v{major}.{minor:02d}")
    first, second = parse_version(f"v{major}.{minor:02d}-rc.{one}"), parse_version(f"v{major}.{minor:02d}-rc.{two}")
    assert first < release
    assert (first < second) == (one < two)
    assert parse_version(f"v{major}.{minor:02d}-beta.{two}") < first


def test_the_parts_can_be_read() -> None:
    version = parse_version("v1.34.3-rc.2-of.7")
    assert version.base == (1, 34, 3)
    assert version.stage is Stage.RC
    assert version.revision == 7
    assert not version.is_release
    assert parse_version("v26.06-of.1").is_release


@pytest.mark.parametrize(
    ("older", "newer", "distance"),
    [
        ("v1.34.3-of.1", "v1.34.5-of.1", 0),
        ("v1.34.3", "v1.35.0", 1),
        ("v1.33.9", "v1.35.0-rc.1", 2),
        ("v1.35.0", "v1.34.9", -1),
    ],
)
def test_minor_distance_counts_minors(older: str, newer: str, distance: int) -> None:
    assert minor_distance(parse_version(older), parse_version(newer)) == distance


def test_a_change_of_major_is_never_a_neighbour() -> None:
    assert minor_distance(parse_version("v1.34.0"), parse_version("v2.0.0")) > 1
