"""The rule language of compatibility constraints, by its table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.constraint_rules import parse_rule
from hopline.domain.errors import InvalidInput
from hopline.domain.versions import Stage, Version, parse_version


@pytest.mark.parametrize(
    ("rule", "accepted", "rejected"),
    [
        (">=v1.34.0", "v1.34.3-of.1 v1.34.0 v1.35.0-rc.1", "v1.33.9 v1.34.0-rc.1"),
        (">= v1.34.0 < v1.36.0", "v1.34.3 v1.35.9-of.4", "v1.36.0 v1.36.0-rc.1 v1.33.0"),
        (">=v1.34.0-of.1,<v1.34.1-of.1", "v1.34.0-of.1 v1.34.0-of.7 v1.34.1", "v1.34.0 v1.34.1-of.1 v1.35.0"),
        ("v1.34.3-of.2", "v1.34.3-of.2", "v1.34.3-of.1 v1.34.3"),
        ("v1.34.3", "v1.34.3 v1.34.3-of.1", "v1.34.4 v1.34.3-rc.1"),
        (">v1.34.3", "v1.34.4 v1.35.0-rc.1", "v1.34.3 v1.34.3-of.1"),
        ("<=v1.34.3", "v1.34.3-of.9 v1.34.3-rc.1", "v1.34.4"),
        ("<v1.34.3-of.2", "v1.34.3-of.1 v1.34.3", "v1.34.3-of.2 v1.34.3-rc.1"),
        (">=v26.06", "v26.06 v26.06.1 v26.09-rc.1", "v26.06-rc.2 v26.03"),
        (">=v26.06-rc.1", "v26.06-rc.2 v26.06-rc.10 v26.06", "v26.06-beta.3"),
        (">v26.06-rc.9", "v26.06-rc.10", "v26.06-rc.9 v26.06-rc.2"),
        ("<v26.06-rc.2", "v26.06-rc.1 v26.03", "v26.06-rc.2"),
        ("=v26.06-rc.2", "v26.06-rc.2", "v26.06 v26.06-rc.3"),
        ("v26.06", "v26.06 v26.06.4", "v26.06-rc.2 v26.07"),
        ("*", "v26.06-rc.2 v0.0.1", ""),
        ("1.34.x", "v1.34.0-rc.1 v1.34.9", "v1.35.0-rc.1 v1.33.9"),
        ("1.X", "v1.99.0", "v2.0.0-alpha.1"),
        (">v1.34", "v1.35.0-rc.1", "v1.34.99"),
        ("<=1.34", "v1.34.99-of.1", "v1.35.0-rc.1"),
        ("<1.34", "v1.33.99", "v1.34.0 v1.34.0-rc.1"),
        ("!=v1.34.3", "v1.34.4 v1.34.2", "v1.34.3 v1.34.3-of.1"),
        ("~v1.34.3", "v1.34.3 v1.34.9", "v1.34.2 v1.35.0 v1.35.0-rc.1"),
        ("~>1", "v1.0.0 v1.9.0", "v2.0.0"),
        ("^v2.1.0", "v2.1.0 v2.9.9", "v2.0.9 v3.0.0-rc.1"),
        ("^0.3.1", "v0.3.9", "v0.4.0 v0.3.0"),
        ("^0.0.2", "v0.0.2", "v0.0.3"),
        ("^0.0", "v0.0.7", "v0.1.0"),
        ("v1.33.0 - v1.34.5", "v1.33.0 v1.34.5-of.2", "v1.34.6 v1.32.9"),
        ("<v1.30.0 || >=v1.34.0", "v1.29.9 v1.34.0", "v1.31.0"),
        ("=>1.2.0 =<1.3.0", "v1.2.0 v1.3.0", "v1.3.1"),
    ],
)
def test_table(rule: str, accepted: str, rejected: str) -> None:
    parsed = parse_rule(rule)
    assert [text for text in accepted.split() if not parsed.accepts(parse_version(text))] == []
    assert [text for text in rejected.split() if parsed.accepts(parse_version(text))] == []


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "||", ">=1.0.0 ||", "latest", ">=", ">=1.0.0latest", "1.x.3", "1.x-rc.1", ">=1.0.0.0", ">>1.0.0"),
        *("1.0.0-dev", "v1.0.0+build", "1.0.0 -", "9999999999.0.0"),
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="version rule"):
        parse_rule(text)


versions = st.builds(
    Version,
    major=st.integers(0, 2),
    minor=st.integers(0, 2),
    patch=st.integers(0, 2),
    stage=st.sampled_from(Stage),
    stage_number=st.just(-1),
    revision=st.integers(0, 2),
)


@given(versions, versions)
def test_exact_bounds_with_a_revision_are_the_order_itself(bound: Version, version: Version) -> None:
    text = bound.canonical if bound.revision else f"{bound.canonical}-of.0"
    assert parse_rule(f">={text}").accepts(version) == (version >= bound)
    assert parse_rule(f">{text}").accepts(version) == (version > bound)
    assert parse_rule(f"<={text}").accepts(version) == (version <= bound)
    assert parse_rule(f"={text}").accepts(version) == (version == bound)


@given(versions, versions)
def test_opposite_bounds_never_agree_and_never_both_refuse(bound: Version, version: Version) -> None:
    text = bound.canonical
    above, not_above = parse_rule(f">{text}"), parse_rule(f"<={text}")
    assert above.accepts(version) is not not_above.accepts(version)
    assert parse_rule(f"={text}").accepts(version) is not parse_rule(f"!={text}").accepts(version)
    assert not (parse_rule(f"<{text}").accepts(version) and parse_rule(f">={text}").accepts(version))
