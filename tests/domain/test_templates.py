"""Rendering agrees with what Go's text/template prints; the expected texts were printed by Go 1.26."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.errors import InvalidRelease
from hopline.domain.templates import render

DATA: dict[str, object] = {
    "a": "x",
    "empty": "",
    "n": 3,
    "zero": 0,
    "half": 1.5,
    "many": 1234567.0,
    "yes": True,
    "no": False,
    "list": ["p", "q"],
    "map": {"k": "v", "o": 1, "null": None},
    "lines": "l1\nl2\nl3",
    "null": None,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain } text }} stays", "plain } text }} stays"),
        ("{{ .a }}{{.a}}{{$.a}}", "xxx"),
        ("a  {{- .a -}}  b\n{{- \"\" }}", "axb"),
        ("{{/* note */}}{{- /* note\n */ -}} x", "x"),
        ("{{ .n }} {{ .half }} {{ .many }} {{ .yes }} {{ .list }} {{ .map.o }}", "3 1.5 1.234567e+06 true [p q] 1"),
        ("{{ 1e21 }} {{ 100000.0 }} {{ 0.0001 }} {{ 0.00001 }} {{ 0x1F }} {{ 017 }} {{ 'a' }} {{ 1_000 }}",
         "1e+21 100000 0.0001 1e-05 31 15 97 1000"),
        ("{{ `raw\\n` }}{{ \"t\\tq\\\"\\u00e9\" }}", "raw\\nt\tq\"é"),
        ("{{ if .empty }}a{{ else if .zero }}b{{ else if .null }}c{{ else }}d{{ end }}", "d"),
        ("{{ if .missing }}a{{ end }}{{ if .missing.deeper }}b{{ end }}{{ with .missing }}c{{ else }}d{{ end }}", "d"),
        ("{{ if eq .missing \"x\" }}a{{ else }}b{{ end }}{{ if not .missing }}c{{ end }}", "bc"),
        ("{{ with .map }}{{ .k }}{{ $.a }}{{ end }}", "vx"),
        ("{{ with .empty }}a{{ else with .a }}b{{ . }}{{ end }}", "bx"),
        ("{{ range .list }}{{ . }},{{ end }}{{ range $i, $e := .list }}{{ $i }}={{ $e }};{{ end }}", "p,q,0=p;1=q;"),
        ("{{ range $k, $v := .map }}{{ $k }} {{ end }}{{ range .missing }}a{{ else }}none{{ end }}", "k null o none"),
        ("{{ range 3 }}{{ . }}{{ end }}", "012"),
        ("{{ range .list }}{{ if eq . \"q\" }}{{ break }}{{ end }}{{ . }}{{ continue }}never{{ end }}", "p"),
        ("{{ $x := .a }}{{ if true }}{{ $x = \"y\" }}{{ end }}{{ $x }}", "y"),
        ("{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ end }}{{ $x }}", "1"),
        ("{{ and .a .empty .missing }}|{{ or .empty .a }}|{{ and .yes 3 }}|{{ 2 | or .zero }}", "|x|3|2"),
        ("{{ if and .yes (or .no .a) (not .empty) }}ok{{ end }}", "ok"),
        ("{{ eq .n 1 2 3 }} {{ ne .a \"y\" }} {{ lt 1 2 }} {{ le \"a\" \"a\" }} {{ gt 1.5 0.5 }} {{ ge 1 2 }}",
         "true true true true true false"),
        ("{{ len .list }} {{ len \"é\" }} {{ index .list 1 }} {{ index .map \"k\" }}", "2 2 q v"),
        ("{{ (index .list 0) | printf \"%s-%05d|%-4s|%q|%6.2f|%t|%x|%v%%\" \"s\" 42 \"l\" \"q\" 3.14159 true 255 }}",
         "s-00042|l   |\"q\"|  3.14|true|ff|p%"),
        ("{{ print 1 2 \"a\" 3 }}{{ println .a .n }}", "1 2a3x 3\n"),
        ("{{ .a | printf \"%s%s\" \"<\" | len }}", "2"),
        ("{{ .a | }}{{ (.n|) }}", "x3"),
        ("{{ \"{{\" }} $labels.instance }}", "{{ $labels.instance }}"),
        ("a: {{ .n }}\r\nb: {{ .a }}\r\n", "a: 3\r\nb: x\r\n"),
    ],
)  # fmt: skip
def test_renders_as_go_does(text: str, expected: str) -> None:
    assert render(text, DATA, "f.yaml") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ vlt \"v1.34.3-of.1\" \"v1.34.3\" }} {{ vgt \"1.34.10\" \"v1.34.9\" }} {{ veq \"v1.2\" \"1.2.0\" }}",
         "true true true"),
        ("{{ vgte \"v1.2.3\" \"v1.2.3\" }} {{ vlte \"v1.2.4\" \"v1.2.3\" }} {{ vne \"v1.02.3\" \"v1.2.3\" }}",
         "true false false"),
        ("{{ veq \"x\" \"0.0.0\" }} {{ veq \"v26.06-rc.2\" \"0.0.0\" }} {{ vlt \"1.0.0-alpha\" \"1.0.0-alpha.1\" }}",
         "true true true"),
        ("{{ defaultFalse .missing }} {{ defaultFalse \"true\" }} {{ defaultFalse .yes }} {{ defaultFalse \"on\" }}",
         "false true true false"),
        ("{{ b64encode \"user:pass\" }} {{ b64encode 5 }}", "dXNlcjpwYXNz NQ=="),
        ("{{ range split \"a,b\" \",\" }}[{{ . }}]{{ end }}", "[a][b]"),
        ("{{ stringToSliceString \"a,b\" \",\" }} {{ stringToSliceString \"\" \",\" }}", "[\"a\",\"b\"] []"),
        ("{{ int \"42\" }} {{ int \"x\" }}", "42 0"),
        ("{{ indent .lines \"  \" }}", "l1\n  l2\n  l3"),
    ],
)  # fmt: skip
def test_the_twelve_documented_functions(text: str, expected: str) -> None:
    assert render(text, DATA, "f.yaml") == expected


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a\nb: {{ .tenant }}\n", 2, [".tenant has no value", "(key tenant)", "{{ if .tenant }}"]),
        ("{{ .deep.er }}", 1, [".deep.er has no value"]),
        ("{{ .null }}", 1, [".null has no value"]),
        ('{{ printf "%s" .missing }}', 1, ["error calling printf", ".missing has no value"]),
        ('{{ index .map "nope" }}', 1, ["'nope' has no value"]),
        ("{{ b64encode .missing }}", 1, [".missing has no value"]),
        ("\n\n{{ .a.b }}", 3, ["can't evaluate field b in type string"]),
        ('{{ eq .n "3" }}', 1, ["incompatible types for comparison: int and string"]),
        ("{{ lt .list 1 }}", 1, ["invalid type for comparison: list"]),
        ("{{ index .list 5 }}", 1, ["index out of range: 5"]),
        ("{{ len 5 }}", 1, ["len of type int"]),
        ("{{ range .a }}{{ end }}", 1, ["range can't iterate over x"]),
        ("{{ .a 1 }}", 1, ["can't give argument to non-function .a"]),
        ("{{ eq 1 }}", 1, ["missing argument for comparison"]),
        ("{{ not 1 2 }}", 1, ["wrong number of args for not: want 1 got 2"]),
        ('{{ printf "%d" .a }}', 1, ["%d cannot print string x"]),
        ('{{ printf "%s" }}', 1, ["no value for %s"]),
        ("{{ range 2000000 }}{{ .}}{{ end }}", 1, ["more than 1000000 steps"]),
    ],
)
def test_refuses_what_cannot_be_rendered(text: str, line: int, words: list[str]) -> None:
    with pytest.raises(InvalidRelease) as caught:
        render(text, DATA, "components/x/v1/a.yaml")
    assert caught.value.subject == f"components/x/v1/a.yaml:{line}"
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("x\n{{ if .a }}", 2, "{{if}} is not closed by {{end}}"),
        ("{{ end }}", 1, "unexpected {{end}}"),
        ("{{ .a", 1, "unclosed action"),
        ("{{ (.a }}", 1, "unclosed left paren"),
        ("{{ .a) }}", 1, "unexpected right paren"),
        ('{{ "a\n" }}', 1, "unterminated quoted string"),
        ("{{ `a }}", 1, "unterminated raw quoted string"),
        ("{{/* a }}", 1, "comment is not closed"),
        ("{{}}", 1, "missing value for command"),
        ("{{ | .a }}", 1, "unexpected '|' in command"),
        ("{{ nope .a }}", 1, "function 'nope' not defined"),
        ("{{ toYaml .a | nindent 2 }}", 1, "function 'toYaml' not defined"),
        ("{{ .a | 3 }}", 1, "non executable command in pipeline stage 2"),
        ("{{ break }}", 1, "{{break}} outside {{range}}"),
        ("{{ $x }}", 1, "undefined variable '$x'"),
        ("{{ $a, $b := .map }}", 1, "too many declarations in command"),
        ("{{ 08 }}", 1, "bad number syntax"),
        ("{{ 99999999999999999999 }}", 1, "integer overflow"),
        ('{{ "\\z" }}', 1, "unknown escape"),
        ("{{ .a ! }}", 1, "unexpected '!'"),
        ("{{ else }}", 1, "unexpected {{else}}"),
        ("{{ if .a }}{{ else }}{{ else }}{{ end }}", 1, "expected end; found else"),
        ('{{ "a".b }}', 1, "unexpected . after a constant"),
        ("{{if .a}}" * 101 + "{{end}}" * 101, 1, "nested deeper"),
    ],
)
def test_refuses_what_does_not_parse(text: str, line: int, word: str) -> None:
    with pytest.raises(InvalidRelease, match="template does not parse") as caught:
        render(text, DATA, "f.yaml")
    assert caught.value.subject == f"f.yaml:{line}"
    assert word in caught.value.message


@pytest.mark.parametrize("word", ["define", "template", "block"])
def test_refuses_named_templates_by_name(word: str) -> None:
    with pytest.raises(InvalidRelease, match=f"{word} is not supported"):
        render(f'{{{{ {word} "x" . }}}}{{{{ end }}}}', DATA, "f.yaml")


def test_text_of_another_template_language_names_the_way_out() -> None:
    with pytest.raises(InvalidRelease) as caught:
        render("summary: 'on {{ $labels.instance }}'", DATA, "rules.yaml")
    assert '{{ "{{" }}' in caught.value.remedy
    assert "noexecute" in caught.value.remedy


def test_a_known_variable_names_its_own_field() -> None:
    places = {"nfsServer": "spec.clusterConfig.customExtra.nfsServer of the BKECluster"}
    with pytest.raises(InvalidRelease) as caught:
        render("{{ .nfsServer }}", {}, "f.yaml", places)
    assert "spec.clusterConfig.customExtra.nfsServer" in caught.value.remedy


@given(st.text())
def test_text_without_actions_is_kept_as_it_is(text: str) -> None:
    clean = text.replace("{{", "{")
    assert render(clean, DATA, "f.yaml") == clean


@given(st.text())
def test_any_text_renders_or_is_refused(text: str) -> None:
    try:
        render("{{" + text, DATA, "f.yaml")
    except InvalidRelease as error:
        assert error.subject.startswith("f.yaml:")


@given(st.text(alphabet=st.characters(exclude_characters='"\\', exclude_categories=["Cc", "Cs"])))
def test_a_string_literal_prints_itself(text: str) -> None:
    assert render('{{ "' + text + '" }}', {}, "f.yaml") == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_prints_a_text_that_means_the_same(value: float) -> None:
    assert float(render("{{ .f }}", {"f": value}, "f.yaml")) == value
