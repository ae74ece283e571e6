"""Text that belongs to another template language than that of the manifests, told by its words."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OUTSIDE = 'write literal braces as {{ "{{" }}, or put the file under a path that contains noexecute'


@dataclass(frozen=True)
class ForeignText:
    """`language`: whose text it is. `line`: of the template, counted from 1."""

    language: str
    line: int
    text: str
    remedy: str


_SIGNS = (
    (
        "Helm",
        re.compile(
            r"\{\{-?\s*[^{}\n]*?(?:\.(?:Values|Release|Chart|Capabilities|Files|Template)\b|\b(?:include|toYaml|nindent"
            r"|tpl|lookup|required|fromYaml|toJson|quote|trunc|default|coalesce|ternary|hasKey|dig)\s)"
        ),
        "render the chart first (helm template) and deliver its output",
    ),
    ("Jinja", re.compile(r"^[^#\n\"']*\{%-?\s*(?:if|for|set|block|extends|include|macro|raw|end\w+|else|elif)\b", re.M),
     "render it first, or write it with {{ if }} and {{ range }}"),
    ("Jinja", re.compile(r"\{\{-?\s*[\w.]+\s*\|\s*(?:(?:default|b64encode|replace)\(|(?:to_yaml|to_json|trim)\b)"),
     "render it first, or use the documented functions"),
    ("Prometheus", re.compile(r"\{\{-?\s*(?:[^{}\n]*\s)?(?:\$labels?\b|\$value\b|\$externalLabels\b|humanize\w*\b"
                              r"|[^{}\n]*\|\s*humanize)"), _OUTSIDE),
    ("Alertmanager", re.compile(r"\{\{-?\s*[^{}\n]*\.(?:CommonLabels|GroupLabels|CommonAnnotations|Alerts)\b"),
     _OUTSIDE),
    ("Grafana", re.compile(r"\"?legendFormat\"?\s*:\s*[^\n]*\{\{\s*\w+\s*\}\}"), _OUTSIDE),
)  # fmt: skip
"""In this order: the first language that fits is named."""


def foreign_text(template: str) -> ForeignText | None:
    """The first text of another language in a template that cannot be rendered; None when nothing looks like one."""
    for language, pattern, remedy in _SIGNS:
        match = pattern.search(template)
        if match is not None:
            start = match.start() + len(match.group()) - len(match.group().lstrip())
            start = max(start, template.rfind("\n", 0, match.end()) + 1) if language == "Jinja" else start
            line = template.count("\n", 0, start) + 1
            return ForeignText(language, line, match.group().strip()[:80], remedy)
    return None
