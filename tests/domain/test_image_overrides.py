"""Registries in the place of others: the longest prefix wins, and twice is as once."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.errors import InvalidInput
from hopline.domain.image_overrides import ImageRewrite, read_overrides

RULES = "docker.io=reg.example:5000/hub, quay.io=reg.example:5000/quay,quay.io/calico=reg.example:5000/net/calico"


@pytest.mark.parametrize(
    ("image", "applied"),
    [
        ("busybox", "reg.example:5000/hub/library/busybox:latest"),
        ("busybox:1.36", "reg.example:5000/hub/library/busybox:1.36"),
        ("calico/node:v3", "reg.example:5000/hub/calico/node:v3"),
        ("quay.io/a/b:v1", "reg.example:5000/quay/a/b:v1"),
        ("quay.io/calico/node:v3", "reg.example:5000/net/calico/node:v3"),
        ("quay.io/calico-more/node:v3", "reg.example:5000/quay/calico-more/node:v3"),
        ("quay.io:443/a:1", "reg.example:5000/quay/a:1"),
        ("gcr.io/a:1", "gcr.io/a:1"),
        ("reg.example:5000/hub/library/busybox:1.36", "reg.example:5000/hub/library/busybox:1.36"),
        ("no image", "no image"),
        ("quay.io/a@sha256:" + "0" * 64, "reg.example:5000/quay/a@sha256:" + "0" * 64),
    ],
)
def test_the_longest_prefix_wins(image: str, applied: str) -> None:
    overrides = read_overrides(RULES, "X")
    assert overrides.rewritten(image) == applied
    assert overrides.rewritten(applied) == applied


PLACES = st.sampled_from(["a.io", "b.io", "a.io/x", "b.io/x/y", "c.io:5000", "docker.io", "docker.io/library"])


@given(st.lists(st.tuples(PLACES, PLACES), max_size=4), PLACES, st.sampled_from(["z:1", "x/y:1", "y"]))
def test_twice_is_as_once(rules: list[tuple[str, str]], place: str, rest: str) -> None:
    try:
        overrides = read_overrides(",".join(f"{source}={target}" for source, target in rules), "X")
    except InvalidInput:
        return
    once = overrides.rewritten(f"{place}/{rest}")
    assert overrides.rewritten(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "docker.io",
        "docker.io=",
        "=a.io",
        "library=a.io",
        "a.io=b.io,a.io=c.io",
        "a.io=b.io,b.io/x=c.io,b.io=d.io",
        "a.io=B.io/X",
    ],
)
def test_rules_that_cannot_be_used(text: str) -> None:
    with pytest.raises(InvalidInput, match="HOPLINE_X"):
        read_overrides(text, "HOPLINE_X")


def test_a_rule_that_leads_deeper_into_its_own_registry_is_applied_once() -> None:
    overrides = read_overrides("a.io=a.io/mirror", "X")
    assert overrides.rewritten("a.io/z:1") == "a.io/mirror/z:1"
    assert overrides.rewritten("a.io/mirror/z:1") == "a.io/mirror/z:1"


def test_no_rules() -> None:
    overrides = read_overrides(" , ", "X")
    assert not overrides
    assert overrides.rewritten("busybox") == "busybox"


def test_containers_of_a_document_and_nothing_else() -> None:
    pod = {
        "initContainers": [{"name": "i", "image": "quay.io/a:1"}],
        "containers": [{"name": "c", "image": "gcr.io/a:1", "env": [{"name": "IMAGE", "value": "quay.io/a:1"}]}],
    }
    document: dict[str, Any] = {"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}}
    before = copy.deepcopy(document)
    overrides = read_overrides(RULES, "X")
    changed, rewrites = overrides.apply(document)
    assert rewrites == (ImageRewrite(named="quay.io/a:1", applied="reg.example:5000/quay/a:1"),)
    assert document == before
    before["spec"]["template"]["spec"]["initContainers"][0]["image"] = "reg.example:5000/quay/a:1"
    assert changed == before
    again, more = overrides.apply(changed)
    assert (again, more) == (changed, ())
    assert again is changed
