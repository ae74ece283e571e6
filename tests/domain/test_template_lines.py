"""Every line of a rendered text knows the line of the template that it comes from."""

from __future__ import annotations

import pytest

from hopline.domain.templates import render_with_lines


@pytest.mark.parametrize(
    ("template", "lines"),
    [
        ("a\nb\n", [1, 2, 3]),
        ("a: {{ .x }}\nb\n", [1, 2, 3]),
        ("{{ if .x }}\na\n{{ end }}\nb", [1, 2, 3, 4]),
        ("{{- if .x }}\na\n{{- end }}\nb", [1, 2, 4]),
        ("{{ if .no }}\na\n{{ end -}}\n\n\nb", [6]),
        ("{{ range .l }}x {{ . }}\n{{ end }}z", [1, 1, 2]),
        ("{{ .two }}\nb", [1, 1, 2]),
        ("{{/* a\nb */ -}}\nc", [3]),
    ],
)
def test_lines_lead_back_to_the_template(template: str, lines: list[int]) -> None:
    rendered = render_with_lines(template, {"x": "y", "l": [1, 2], "two": "1\n2"}, "f.yaml")
    assert rendered.text.count("\n") + 1 == len(lines)
    assert [rendered.line_of(number) for number in range(1, len(lines) + 1)] == lines
    assert rendered.line_of(99) == lines[-1]
