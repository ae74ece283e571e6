"""YAML text → documents with file and line, and the refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.documents import reading
from hopline.documents.building import MAX_DEPTH
from hopline.documents.loading import load_documents
from hopline.documents.scalars import json_number
from hopline.documents.writing import dump_documents
from hopline.domain.errors import InvalidDocument


def one(text: str) -> object:
    (source,) = load_documents(text, "a.yaml")
    return source.document


def refusal(text: str, origin: str = "a.yaml") -> InvalidDocument:
    with pytest.raises(InvalidDocument) as caught:
        load_documents(text, origin)
    error = caught.value
    assert error.subject.startswith(f"{origin}:")
    assert error.remedy
    return error


def test_documents_come_with_file_and_line_and_empty_ones_are_left_out() -> None:
    text = "# head\nkind: A\n---\n---\n# only a comment\n---\n\nkind: B\nx: 1\n...\n"
    first, second = load_documents(text, "dir/a.yaml")
    assert (first.document, first.place, first.kind) == ({"kind": "A"}, "dir/a.yaml:2", "A")
    assert (second.document, second.place) == ({"kind": "B", "x": 1}, "dir/a.yaml:8")


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n---\n", "~\n"])
def test_nothing_is_no_document(text: str) -> None:
    assert load_documents(text, "a.yaml") == []


def test_values_are_read_as_kubernetes_does() -> None:
    text = """
    metadata: {creationTimestamp: null, labels: {on: "on", 8080: port, 'yes': y}}
    at: 2026-11-30T12:00:00Z
    time: 12:30
    mode: 0644
    quoted: "26.06"
    block: |
      line
    tagged: !!str 12
    binary: !!binary aGVsbG8=
    """
    assert one(text) == {
        "metadata": {"creationTimestamp": None, "labels": {"true": "on", "8080": "port", "yes": True}},
        "at": "2026-11-30T12:00:00Z",
        "time": "12:30",
        "mode": 420,
        "quoted": "26.06",
        "block": "line\n",
        "tagged": "12",
        "binary": "hello",
    }


def test_anchors_aliases_and_merges_are_written_out_and_share_nothing() -> None:
    text = "base: &b {x: 1, z: [1]}\nsame: *b\nmerged: {<<: *b, x: 2}\nboth: {<<: [*b, {w: 3}]}\n"
    document = load_documents(text, "a.yaml")[0].document
    assert document["same"] == {"x": 1, "z": [1]}
    assert document["merged"] == {"x": 2, "z": [1]}
    document["same"]["x"] = 9
    assert document["base"]["x"] == 1
    assert document["both"] == {"x": 1, "z": [1], "w": 3}


@pytest.mark.parametrize(
    ("text", "merged"),
    [
        ("m: {<<: {a: 1, b: 2}, a: 3}", {"a": 3, "b": 2}),
        ("m: {a: 3, <<: {a: 1, b: 2}}", {"a": 1, "b": 2}),
        ("m: {<<: [{a: 1}, {a: 2}]}", {"a": 1}),
        ("m: {'<<': 1}", {"<<": 1}),
    ],
)
def test_merges_count_where_they_stand_as_in_go(text: str, merged: object) -> None:
    assert one(text) == {"m": merged}


def test_an_alias_can_be_a_key() -> None:
    assert one("a: &x 1\nb: {*x : 2}\n") == {"a": 1, "b": {"1": 2}}


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: List\nitems:\n- kind: A\n- kind: B\n",
        "apiVersion: g/v1\nkind: ThingList\nitems:\n- kind: A\n- kind: B\n",
    ],
)
def test_lists_are_unwrapped(text: str) -> None:
    assert [source.kind for source in load_documents(text, "a.yaml")] == ["A", "B"]


def test_items_of_a_typed_list_inherit_their_kind() -> None:
    text = "apiVersion: g/v1\nkind: ThingList\nitems:\n- metadata: {name: a}\n"
    assert one(text) == {"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "a"}}


def test_a_list_item_that_is_no_object_is_refused() -> None:
    assert "not an object" in refusal("kind: List\nitems: [1]\n").message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: A\n  bad: indent\n", 2),
        ("kind: A\n---\nlist: [1, 2\nmore: 3\n", 4),
        ('kind: "A\n', 2),
        ("kind: A\nname: {{ .name }}\n", 2),
        ("kind: A\nname: \x01\n", 2),
        ("a: *unknown\n", 1),
        ("\n\na: !custom x\n", 3),
        ("a: !!int x\n", 1),
        ("a: .inf\n", 1),
        ("? [a]\n: 1\n", 1),
        ("~: 1\n", 1),
        ("26.06: x\n", 1),
        ("a: &a [*a]\n", 1),
        ("<<: 3\n", 1),
        ("- a\n", 1),
        ("text\n", 1),
    ],
)
def test_what_does_not_parse_is_refused_with_file_and_line(text: str, line: int) -> None:
    assert refusal(text).subject == f"a.yaml:{line}"


def test_the_pure_python_parser_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_LOADER", reading.yaml.SafeLoader)
    assert one("a: [1, {b: 08}]\n") == {"a": [1, {"b": 8}]}
    assert refusal("kind: A\n  bad: indent\n").subject == "a.yaml:2"
    assert refusal("kind: A\nname: \x01\n").subject == "a.yaml:2"


def test_a_duplicate_key_is_refused_with_both_lines() -> None:
    error = refusal("spec:\n  a: 1\n  b: 2\n  a: 3\n")
    assert error.subject == "a.yaml:4"
    assert error.message == "the key a stands twice, first in line 2"
    assert "stands twice" in refusal("{a: 1, a: 2}\n").message
    assert "stands twice" in refusal("true: 1\ny: 2\n").message


@pytest.mark.parametrize(
    ("kind", "field", "text", "line"),
    [
        ("UpgradePath", "to", "spec:\n  paths:\n  - from: v26.03\n    to: 26.10\n", 5),
        ("ReleaseImage", "version", "spec: {version: 26.06}\n", 2),
        ("BKECluster", "openFuyaoVersion", "spec:\n  openFuyaoVersion: 26.06\n", 3),
        ("ClusterVersion", "desiredVersion", "spec:\n  desiredVersion: 26\n", 3),
    ],
)
def test_a_version_without_quotes_is_refused(kind: str, field: str, text: str, line: int) -> None:
    error = refusal(f"kind: {kind}\n{text}")
    assert error.subject == f"a.yaml:{line}"
    assert error.field == field
    assert error.remedy == f'put it in quotes: {field}: "{error.value}"'


def test_a_number_under_version_is_left_alone_in_foreign_kinds() -> None:
    assert one("kind: Dashboard\nversion: 26.06\n") == {"kind": "Dashboard", "version": 26.06}


def test_the_files_of_a_bundle_count_by_name_too() -> None:
    assert refusal("spec: {version: 26.06}\n", "v26.06/release.yaml").field == "version"


def test_deep_nesting_is_refused_not_a_stack_overflow() -> None:
    assert "levels inside each other" in refusal("a: " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)).message
    assert "levels inside each other" in refusal("\n".join("  " * n + "a:" for n in range(MAX_DEPTH + 5))).message
    assert refusal("a: " + "[" * 100_000).message


def test_aliases_cannot_make_a_small_text_huge() -> None:
    text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    assert "values" in refusal(text).message


def test_aliases_cannot_make_a_flat_text_deep() -> None:
    text = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [[[[*a{n - 1}]]]]\n" for n in range(1, 100))
    assert "levels inside each other" in refusal(text).message


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    try:
        for source in load_documents(text, "a.yaml"):
            assert isinstance(source.document, dict)
    except InvalidDocument as error:
        assert error.subject.startswith("a.yaml:")


TEXTS = st.text(
    alphabet=st.one_of(
        st.sampled_from("yYnNtrueoff01.eE+-_ :#'\"\\\n\t|>&*!%@`{}[],?~<"),
        st.characters(codec="utf-8", exclude_characters="\r", exclude_categories=("Cs",)),
    ),
    max_size=12,
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False).map(json_number)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS.filter(lambda key: key not in ("kind", "items")), VALUES, min_size=1, max_size=5))
def test_what_is_written_is_read_back(document: dict[str, object]) -> None:
    assert one(dump_documents([document])) == document


def test_several_documents_are_written_in_order() -> None:
    documents = [{"kind": "B", "a": "y"}, {"kind": "A", "text": "one\ntwo\n"}]
    text = dump_documents(documents)
    assert [source.document for source in load_documents(text, "a.yaml")] == documents
    assert 'a: "y"' in text
    assert "|" in text
