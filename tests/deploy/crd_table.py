"""The documented fields of the existing CRDs (tests/fixtures/crd-fields.json), and our schemas in the same notation.

A path is written `status.conditions[].type`; `[]` is an item of a list, `{}` a value of a map.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
CRD_FOLDER = REPOSITORY / "deploy" / "crds"
TABLE: dict[str, dict[str, Any]] = json.loads((REPOSITORY / "tests" / "fixtures" / "crd-fields.json").read_text())
CRD_NAMES = sorted(TABLE)
PRESERVE = "x-kubernetes-preserve-unknown-fields"


def load_crd(name: str) -> dict[str, Any]:
    """Our CRD of that name, e.g. `clusterversions.config.openfuyao.com`."""
    plural, _, group = name.partition(".")
    document: dict[str, Any] = yaml.safe_load((CRD_FOLDER / f"{group}_{plural}.yaml").read_text())
    return document


def load_schema(name: str) -> dict[str, Any]:
    """The OpenAPI schema of our CRD's only version."""
    (version,) = load_crd(name)["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def steps(path: str) -> list[str]:
    """`status.conditions[].type` as `["status", "conditions", "[]", "type"]`."""
    return path.replace("[]", ".[]").replace("{}", ".{}").split(".")


@dataclass(frozen=True)
class Typed:
    """The path has a schema of its own."""

    schema: dict[str, Any]


class Preserved:
    """The path has none, and a parent keeps unknown fields."""


class Lost:
    """The server would drop the field."""


def look_up(schema: dict[str, Any], path: str) -> Typed | Preserved | Lost:
    """What our schema does with one documented path."""
    for step in steps(path):
        if step == "[]":
            child = schema.get("items")
        elif step == "{}":
            child = schema.get("additionalProperties")
        else:
            child = schema.get("properties", {}).get(step)
        if child is None:
            return Preserved() if schema.get(PRESERVE) else Lost()
        schema = child
    return Typed(schema)


def full_object(name: str) -> dict[str, Any]:
    """An object of one kind in which every documented field of spec and status has a value."""
    fields = TABLE[name]["fields"]

    def value(path: str) -> Any:
        field = fields[path]
        match field["type"]:
            case "array":
                return [value(path + "[]")]
            case "object" if path + "{}" in fields:
                return {"x": value(path + "{}")}
            case "object":
                prefix = path + "."
                names = [known[len(prefix) :] for known in fields if known.startswith(prefix)]
                return {child: value(prefix + child) for child in names if not set(child) & set(".[]{}")}
            case "integer":
                return 1
            case "boolean":
                return True
            case _ if "enum" in field:
                return field["enum"][-1]
            case _:
                return "2026-09-05T01:00:00Z" if field.get("format") == "date-time" else "x"

    names = TABLE[name]["names"]
    return {
        "apiVersion": f"{TABLE[name]['group']}/{TABLE[name]['version']}",
        "kind": names["kind"],
        "metadata": {"name": "crd-test-every-field"},
        "spec": value("spec"),
        "status": value("status"),
    }
