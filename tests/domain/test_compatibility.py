"""Do the components of a release fit each other?"""

from __future__ import annotations

import pytest

from builders_domain import component, release, sample_release
from hopline.domain.compatibility import constraint_findings
from hopline.domain.plan import Severity
from hopline.domain.release import ComponentVersion, Release


def needs(name: str, *rules: tuple[str, str], **spec: object) -> ComponentVersion:
    constraints = [{"component": other, "rule": rule} for other, rule in rules]
    return component(name, compatibility={"constraints": constraints}, **spec)


def messages(built: Release) -> list[str]:
    findings = constraint_findings(built)
    assert all(finding.severity is Severity.BLOCKS and finding.remedy for finding in findings)
    return [finding.message for finding in findings]


def test_sample_fits() -> None:
    assert constraint_findings(sample_release("v26.06")) == ()


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (">=v1.34.0 <v1.36.0", True),
        (">=v1.34.3-of.2", True),
        (">=v1.34.3-of.3", False),
        (">=v1.0.0,<v1.34.3-of.2", False),
    ],
)
def test_all_bounds_and_of_n_count(rule: str, fits: bool) -> None:
    built = release("v2", needs("coredns", ("kubernetes-master", rule)), component("kubernetes-master", "v1.34.3-of.2"))
    expected = f"coredns v1 needs kubernetes-master {rule}: the release has v1.34.3-of.2"
    assert messages(built) == ([] if fits else [expected])


def test_every_conflict_is_reported_with_its_place() -> None:
    built = release(
        "v2", needs("a", ("b", ""), ("ghost", "*"), ("b", ">=v3.0.0"), ("b", "*")), component("b", "latest")
    )
    assert messages(built) == [
        "a v1 needs b: the version rule is empty",
        "a v1 needs ghost *: the release has no such component",
        "a v1 needs b >=v3.0.0: version 'latest' cannot be ordered by number",
        "a v1 needs b *: version 'latest' cannot be ordered by number",
    ]
    assert constraint_findings(built)[2].field == "spec.compatibility.constraints[2]"
    assert constraint_findings(built)[2].object == "ComponentVersion a@v1 (components/a/v1/component.yaml)"


def test_upgrade_list_overrides_install_list() -> None:
    old, new = component("b", "v1.0.0"), component("b", "v2.0.0")
    strict = needs("a", ("b", "^2.0.0"))
    built = release("v2", strict, old, new, upgrade=[("a", "v1"), ("b", "v2.0.0")], install=[("b", "v1.0.0")])
    assert messages(built) == []


def test_composites_and_their_parts_count() -> None:
    part = needs("part", ("suite", ">=v2.0.0"), ("b", "v1.0.0"), version="v1")
    suite = needs("suite", ("part", "*"), ("b", "<v1.0.0"), version="v1.5.0", sub_components=[part.model_dump()])
    built = release("v2", suite, part, component("b", "v1.0.0"), upgrade=[("suite", "v1.5.0"), ("b", "v1.0.0")])
    assert messages(built) == [
        "part v1 needs suite >=v2.0.0: the release has v1.5.0",
        "suite v1.5.0 needs part *: version 'v1' cannot be ordered by number",
        "suite v1.5.0 needs b <v1.0.0: the release has v1.0.0",
    ]
