"""The tables of docs/manifests.md are those of the code."""

from __future__ import annotations

import re

from builders_domain import component, release, sample_facts
from docs.pages import ROOT, rows
from hopline.domain.template_variables import PLACES, variables
from hopline.domain.templates import functions
from oracles import test_templates_as_go, test_yaml_as_kubectl

PAGE = ROOT / "docs" / "manifests.md"
_NAME = re.compile(r"`(\w+)`")


def named(column: str) -> set[str]:
    return {name for row in rows(PAGE) for name in _NAME.findall(row.get(column, ""))}


def test_every_variable_is_named() -> None:
    facts = sample_facts()
    made = variables(facts, release("v26.06", component("web")), component("web"))
    assert set(PLACES) | set(made) <= named("variable")


def test_every_documented_function_is_there() -> None:
    documented = named("function")
    assert len(documented) == 12
    assert documented <= set(functions.NAMES)


def test_every_refusal_of_ours_alone_is_named() -> None:
    told = {row["refused by Hopline alone"] for row in rows(PAGE) if "refused by Hopline alone" in row}
    assert told == {*test_templates_as_go.EXTRA_REFUSALS, *test_yaml_as_kubectl.EXTRA_REFUSALS}
