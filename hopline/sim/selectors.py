"""Label selectors, as text (`a=b,c in (d, e),!f`) and as an object (matchLabels, matchExpressions)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from hopline.domain.errors import Rejected

Labels = Mapping[str, str]
Requirement = Callable[[Labels], bool]
FieldRequirement = Callable[[Mapping[str, Any]], bool]

_SET_BASED = re.compile(r"^(?P<key>[^\s!=,()]+)\s+(?P<operator>in|notin)\s+\((?P<values>[^()]*)\)$")
_EQUALITY = re.compile(r"^(?P<key>[^\s!=,()]+)\s*(?P<operator>==|!=|=)\s*(?P<value>[^\s!=,()]*)$")
_EXISTENCE = re.compile(r"^(?P<negated>!?)\s*(?P<key>[^\s!=,()]+)$")
_TERMS = re.compile(r"(?:[^,(]|\([^)]*\))+")


def _is_in(key: str, values: frozenset[str], *, negated: bool) -> Requirement:
    if negated:
        return lambda labels: labels.get(key) not in values
    return lambda labels: labels.get(key) in values


def _exists(key: str, *, negated: bool) -> Requirement:
    return lambda labels: (key in labels) != negated


def _requirement(term: str) -> Requirement:
    if found := _SET_BASED.match(term):
        values = frozenset(value.strip() for value in found["values"].split(","))
        return _is_in(found["key"], values, negated=found["operator"] == "notin")
    if found := _EQUALITY.match(term):
        return _is_in(found["key"], frozenset({found["value"]}), negated=found["operator"] == "!=")
    if found := _EXISTENCE.match(term):
        return _exists(found["key"], negated=bool(found["negated"]))
    raise Rejected("the label selector does not parse", subject="label selector", value=term, remedy="write key=value")


def parse_selector(text: str) -> Requirement:
    """A test for labels; the empty selector accepts everything. Raises Rejected when the text does not parse."""
    requirements = [_requirement(term.strip()) for term in _TERMS.findall(text) if term.strip()]
    return lambda labels: all(requirement(labels) for requirement in requirements)


def parse_fields(text: str) -> FieldRequirement:
    """A test for documents from a field selector (`spec.nodeName=w1,metadata.name=x`). Raises Rejected."""
    wanted: list[tuple[list[str], str]] = []
    for term in filter(None, text.split(",")):
        path, separator, value = term.partition("=")
        if not separator:
            raise Rejected(
                "the field selector does not parse", subject="field selector", value=term, remedy="path=value"
            )
        wanted.append((path.split("."), value))
    return lambda document: all(_at(document, path) == value for path, value in wanted)


def _at(document: Any, path: list[str]) -> str:
    for step in path:
        document = document.get(step) if isinstance(document, Mapping) else None
    return "" if document is None else str(document)


def object_selector(selector: Mapping[str, Any]) -> Requirement:
    """A test for labels from a LabelSelector object; an empty one accepts nothing, as workloads need it."""
    requirements: list[Requirement] = [
        _is_in(key, frozenset({str(value)}), negated=False)
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        key, operator = str(expression.get("key", "")), expression.get("operator")
        if operator in {"In", "NotIn"}:
            values = frozenset(str(value) for value in expression.get("values") or ())
            requirements.append(_is_in(key, values, negated=operator == "NotIn"))
        else:
            requirements.append(_exists(key, negated=operator == "DoesNotExist"))
    return lambda labels: bool(requirements) and all(requirement(labels) for requirement in requirements)


def labels_of(document: Mapping[str, Any]) -> dict[str, str]:
    """metadata.labels, empty when there are none."""
    return dict((document.get("metadata") or {}).get("labels") or {})
