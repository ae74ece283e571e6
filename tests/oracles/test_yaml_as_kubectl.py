"""YAML is read value for value as kubectl reads it (its split, sigs.k8s.io/yaml), or both refuse."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given

from hopline.documents.origins import Origin
from hopline.documents.reading import read_documents
from hopline.domain.errors import InvalidDocument
from oracles.agreement import FUZZ, extra_refusal
from oracles.programs import Oracle
from oracles.yaml_cases import streams

EXTRA_REFUSALS = {
    "a key that stands twice": r"stands twice",
    "text behind the end of a document, which kubectl loses in silence": r"where kubectl does not look",
    "a JSON number beyond the range of a float": r"larger than JSON readers can hold",
    "a key that is a number with a fraction": r"the key .* is not a text",
    "a key that is infinite or not a number": r"is not a number that JSON can hold",
    "a tag that Kubernetes has no word for": r"the tag .* has no meaning",
    "a tag with signs that libyaml does not take": r"while (scanning|parsing) a tag",
    "a text in a flow list that ends with a colon": r"found unexpected ':'",
    "binary data that is no text": r"!!binary value is not base64 of a text",
    "a value that does not fit its tag": r"is not of type",
    "an anchor that contains itself": r"contains itself",
}
"""Where ours refuses what kubectl reads: name → pattern of our message."""


def ours(text: str) -> list[Any]:
    """The documents as we read them."""
    return [raw.value for raw in read_documents(text, Origin("f.yaml"))]


def differs(left: Any, right: Any) -> bool:
    """Whether two JSON values differ; 1.0 in a JSON text is the number 1, and `1` is not `true`."""
    if isinstance(left, float | int) and isinstance(right, float | int):
        return isinstance(left, bool) != isinstance(right, bool) or left != right
    if type(left) is not type(right):
        return True
    if isinstance(left, dict):
        return left.keys() != right.keys() or any(differs(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) != len(right) or any(differs(one, other) for one, other in zip(left, right, strict=True))
    return bool(left != right)


def compare(oracle: Oracle, text: str, counted: Counter[str]) -> None:
    """Assert agreement on one text."""
    kubectl = oracle.ask({"text": text})
    try:
        read = ours(text)
    except InvalidDocument as error:
        if kubectl.ok:
            assert extra_refusal(EXTRA_REFUSALS, error.message, counted), f"ours: {error}; kubectl: {kubectl.result!r}"
        return
    assert kubectl.ok, f"ours: {read!r}; kubectl: {kubectl.error}"
    assert not differs(read, kubectl.result), f"ours: {read!r}; kubectl: {kubectl.result!r}"


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("a key that stands twice", "a: 1\nb: 2\na: 3\n"),
        ("text behind the end of a document, which kubectl loses in silence", "a: 1\n...\nb: 2\n"),
        ("text behind the end of a document, which kubectl loses in silence", "a: 1\r---\rb: 2\r"),
        ("text behind the end of a document, which kubectl loses in silence", "{a: 1} x\n"),
        ("text behind the end of a document, which kubectl loses in silence", 'a: 1\n...\nb: "\\ud800"\n'),
        ("text behind the end of a document, which kubectl loses in silence", 'a: 1\n...\nb: "\\/"\n'),
        ("text behind the end of a document, which kubectl loses in silence", "a: 1\n...\nb: 1\nb: 2\n"),
        ("text behind the end of a document, which kubectl loses in silence", "a: 1\n...\nb: [\n"),
        ("text behind the end of a document, which kubectl loses in silence", "---\n...\nb: 1\n"),
        ("a JSON number beyond the range of a float", '{"a": 1e999}'),
        ("a key that is a number with a fraction", "26.06: x\n"),
        ("a tag that Kubernetes has no word for", "a: !mine x\n"),
        ("a tag that Kubernetes has no word for", "a: !!timestamp 2026-11-30\n"),
        ("a tag with signs that libyaml does not take", "a: ![!str 1\n"),
        ("a tag with signs that libyaml does not take", "a: !![str y\n"),
        ("a text in a flow list that ends with a colon", "a: [b:, c]\n"),
        ("binary data that is no text", "a: !!binary gICA\n"),
    ],
)
def test_every_extra_refusal_is_one(go_read: Oracle, row: str, text: str) -> None:
    counted: Counter[str] = Counter()
    compare(go_read, text, counted)
    assert counted == {row: 1}


@pytest.mark.parametrize(
    "text",
    [
        "a: -5.914359083398901e+16\nb: 3.0\nc: 1e21\nd: -0.0\n",
        "a: |\n  x",
        'a: "\\/"\n',
        "a: &A\n  b: &A y\n<<: *A\n",
        "a: &A\n  b: &A y\n  c: *A\n",
        '{"a": 1}\n{"a": 2}\n',
        '{"a": "\\ud83d\\ude00"}',
        '{"a": 1} x\n',
        '{"a": 1} x: 1\n',
        '{"a": 1}\n---',
        "{a}",
        "{a}\n",
        " {a}",
        "a: &A []\nb:\n  <<: *A\n",
        "a: &A [{x: 1}]\nb:\n  <<: *A\n",
        "a: &A {x: 1}\nb:\n  <<: [*A, {y: 2}]\n",
        '{"a": 1}\n---\nb: 2\n',
        "---\n...\n---\n",
        "---\r\n...\r\n---\r",
        "a: 1\n---\n---\n...\n",
        "---\n---\n---\nb: 1\n---\n---\nc: 1\n",
        "--- # c\n---\n%YAML 1.1\n---\na: 1\n",
        "9223372036854775808: y\n",
        "9223372036854775807: y\n-9223372036854775808: z\n",
        "a: !!binary 26.06\n",
        "a: !!binary aG k=\n",
        "a: !!binary |\n  aG\n  k=\n",
        "a: !!binary aGl=\n",
        "a: !!binary aGk\n",
        "a: !!binary ''\n",
        "\t\n",
        "a: 1\n---\n\t\n",
        "a: 1\n---\n \r\n---\nb: 1\n",
        "\t{a: 1}\n",
        " \n\t{a: 1}\n",
        "\t\n{a: 1}\n",
        "\u00a0{a: 1}\n",
        "{a: 1}\n\t\n",
        '{"a": 1}\n\t\n',
        '{"a": 1}\t\n---\nb: 1\n',
        "--- {a: 1}\n",
        "%YAML 1.1\n---\na: 1\n",
        "\ufeff---\na: 1\n---\n\ufeffb: 2\n",
        "a: 1\r\n---\r\nb: |\r\n  x\r\n  y",
        "a: &x 1.5\nb: *x\n",
        "a: x\n...\n# the end\n",
    ],
)
def test_cases_that_once_differed(go_read: Oracle, text: str) -> None:
    counted: Counter[str] = Counter()
    compare(go_read, text, counted)
    assert not counted


def test_random_texts(go_read: Oracle) -> None:
    counted: Counter[str] = Counter()
    tried = 0

    @FUZZ
    @given(streams())
    def agree(text: str) -> None:
        nonlocal tried
        tried += 1
        compare(go_read, text, counted)

    agree()
    print(f"{tried} texts compared; refused by ours alone: {dict(counted)}")
    assert sum(counted.values()) < tried / 2, "most cases must say something about reading"
