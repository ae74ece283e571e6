"""Copies of release folders without some of their components, for clusters that cannot carry those out.

The files of a component that are kept are copied as they are; `release.yaml` and `component.yaml` are written as JSON,
which is YAML too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from hopline.documents.loading import load_documents


def copy_releases(source: Path, destination: Path, without: Collection[str] = ()) -> Path:
    """Copies every release below a folder; what depended on a component left out gets its dependencies instead."""
    for release in sorted(folder for folder in source.iterdir() if folder.is_dir()):
        copied = destination / release.name
        shutil.copytree(release, copied)
        components = {file: _only(file) for file in sorted(copied.glob("components/*/*/component.yaml"))}
        dependencies = {_name(component): _dependencies(component) for component in components.values()}
        for file, component in components.items():
            if _name(component) in without:
                shutil.rmtree(file.parent.parent)
            elif set(_dependencies(component)) & set(without):
                names = _replaced(_dependencies(component), dependencies, without)
                component["spec"]["dependencies"] = [{"name": name} for name in names]
                _write(file, component)
        _shorten(copied / "release.yaml", without)
    return destination


def _shorten(file: Path, without: Collection[str]) -> None:
    document = _only(file)
    for part in ("install", "upgrade"):
        listed = document["spec"][part]["components"]
        document["spec"][part]["components"] = [entry for entry in listed if entry["name"] not in without]
    _write(file, document)


def _replaced(names: list[str], dependencies: dict[str, list[str]], without: Collection[str]) -> list[str]:
    """The names with each one that is left out replaced by what it depended on itself."""
    found: dict[str, None] = {}
    for name in names:
        found |= dict.fromkeys(_replaced(dependencies[name], dependencies, without) if name in without else [name])
    return list(found)


def _name(component: dict[str, Any]) -> str:
    return str(component["spec"]["name"])


def _dependencies(component: dict[str, Any]) -> list[str]:
    return [entry["name"] for entry in component["spec"].get("dependencies", [])]


def _only(file: Path) -> dict[str, Any]:
    [source] = load_documents(file.read_text(), str(file))
    return dict(source.document)


def _write(file: Path, document: dict[str, Any]) -> None:
    file.write_text(json.dumps(document, indent=1) + "\n")
