"""Templates render byte for byte as Go's text/template renders them, or both refuse."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from hopline.domain.errors import InvalidRelease
from hopline.domain.templates import render
from oracles.agreement import FUZZ, extra_refusal
from oracles.programs import Oracle
from oracles.template_cases import DATA, templates

EXTRA_REFUSALS = {
    "a value that was never set would be printed": r"has no value|a null value would be printed|index of nothing",
    "printf would print an error into the manifest": r"printf: ",
    "a function of Go that no manifest uses": r"function '(html|js|urlquery|slice|call)' not defined",
    "a number beyond 64 bits that rendering does not reach": r"integer overflow",
    "numbers that are hexadecimal floats or imaginary": r"is a number form that manifests do not use",
    "strings with bytes that are no text": r"is a byte, not a text",
    "named templates": r"(define|template|block) is not supported in manifests",
}
"""Where ours refuses what Go renders: name → pattern of our message."""


def compare(oracle: Oracle, text: str, data: dict[str, object], counted: Counter[str]) -> None:
    """Assert agreement on one case."""
    go = oracle.ask({"template": text, "data": data})
    try:
        ours = render(text, data, "f.yaml")
    except InvalidRelease as error:
        if go.ok:
            row = extra_refusal(EXTRA_REFUSALS, error.message, counted)
            assert row, f"ours: {error.message}; Go: {go.result!r}"
        return
    assert go.ok, f"ours: {ours!r}; Go: {go.error}"
    assert ours == go.result


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("a value that was never set would be printed", "{{ .missing }}"),
        ("printf would print an error into the manifest", '{{ printf "%d" "x" }}'),
        ("a function of Go that no manifest uses", '{{ html "<" }}'),
        (
            "a number beyond 64 bits that rendering does not reach",
            "{{ if .missing }}{{ 9223372036854775808 }}{{ end }}",
        ),
        ("numbers that are hexadecimal floats or imaginary", "{{ 0x1p4 }}{{ 1i }}"),
        ("strings with bytes that are no text", '{{ "\\xc3\\xa9" }}'),
        ("named templates", '{{ define "x" }}{{ end }}'),
    ],
)
def test_every_extra_refusal_is_one(go_render: Oracle, row: str, text: str) -> None:
    counted: Counter[str] = Counter()
    compare(go_render, text, {}, counted)
    assert counted == {row: 1}


@pytest.mark.parametrize(
    "text",
    [
        "{{ range $i, $e := .list }}{{ else }}{{ $e }}{{ end }}",
        "{{ $x := 1 }}{{ range $x = .words }}{{ $x }}{{ end }}{{ $x }}",
        "{{ '\\xff' }}{{ '\\377' }}",
        '{{ "\\ud800" }}',
        "{{ 1e400 }}",
        "{{ 1__0 }}",
        "{{ .5 }}{{ 1. }}{{ 0_7 }}{{ 0x_1 }}{{ 0b11 }}",
    ],
)
def test_cases_that_once_differed(go_render: Oracle, text: str) -> None:
    counted: Counter[str] = Counter()
    compare(go_render, text, {"list": [], "words": ["a", "b"]}, counted)
    assert not counted


def test_random_templates(go_render: Oracle) -> None:
    counted: Counter[str] = Counter()
    tried = 0

    @FUZZ
    @given(templates(), DATA)
    def agree(text: str, data: dict[str, object]) -> None:
        nonlocal tried
        tried += 1
        compare(go_render, text, data, counted)

    agree()
    print(f"{tried} templates compared; refused by ours alone: {dict(counted)}")
    assert sum(counted.values()) < tried / 2, "most cases must say something about rendering"
