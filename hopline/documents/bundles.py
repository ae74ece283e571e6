"""A release bundle's YAML files → the release that they describe (openfuyao-api.md §5.2, §7.1).

Which file is what:

- `release.yaml`, or a document of kind ReleaseImage in any file that has no other role: the release; exactly one.
- `component.yaml`, or documents of kind ComponentVersion at any path: component versions; each `name@version` once.
- Everything else is a manifest template, kept as text. A manifest of `name@version` is a file under
  `components/<name>/<version>/` at any depth, or one under `components/<name>/` that no other version claims: beside
  `component.yaml`, or in a folder that is not a version folder. A folder is a version folder when a ComponentVersion of
  that name has its version, when its name can be read as a version, or when it holds a `component.yaml`. So files of
  another version are never collected (trap B53).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from hopline.documents.loading import SourceDocument, load_documents
from hopline.domain.errors import InvalidRelease, InvalidVersion
from hopline.domain.release import BundleSource, ComponentRef, ComponentVersion, ManifestFile, RawBundle, Release
from hopline.domain.resources import COMPONENT_VERSION, RELEASE_IMAGE
from hopline.domain.versions import parse_version
from hopline.domain.wire import WireModel

YAML_SUFFIXES = (".yaml", ".yml")
RELEASE_FILE, COMPONENT_FILE = "release.yaml", "component.yaml"

_ROOT = "components"
_OURS = re.compile(r"""^["']?kind["']?[ \t]*:[ \t]*["']?(ReleaseImage|ComponentVersion)["']?[ \t]*(#.*)?\r?$""", re.M)
"""Manifests are templates and need not be YAML yet, so only a file that names one of our kinds is parsed."""

_Model = TypeVar("_Model", bound=WireModel)


class _Found(NamedTuple):
    """The typed documents of a bundle, each with its path inside the bundle."""

    releases: list[tuple[str, SourceDocument]]
    components: list[tuple[str, SourceDocument]]


def content_digest(files: Mapping[str, str]) -> str:
    """`sha256:<hex>` over path, NUL, bytes, NUL of each file in path order (openfuyao-api.md §5.4)."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.encode() + b"\0" + files[path].encode() + b"\0")
    return f"sha256:{digest.hexdigest()}"


def release_name(version: str) -> str:
    """The name of the ReleaseImage object when the bundle gives none (openfuyao-api.md §5.3)."""
    normalized = re.sub(r"[/_@:]", "-", version.lower().removeprefix("v")).strip("-")
    return f"release-v{normalized}"


def parse_bundle(raw: RawBundle) -> Release:
    """Read a bundle. What its parts mean together (dependencies, missing components) is checked elsewhere.

    Raises:
        InvalidDocument: a file does not parse; with file and line.
        InvalidRelease: there is no release, or not the one asked for, or one of its documents has a wrong shape.
    """
    found = _typed_documents(raw)
    source = _the_release(raw, found.releases)
    spec = _mapping(source, "spec")
    version = spec.get("version")
    if not isinstance(version, str) or not version:
        raise _refuse(source, "the release has no version", "spec.version", f"write spec.version: {raw.version}")
    if version != raw.version:
        raise _refuse(
            source,
            f"the bundle of {raw.version} holds release {version}",
            "spec.version",
            f"put {version} under its own name, or correct spec.version",
            version,
        )
    metadata = _mapping(source, "metadata")
    components = _components(found.components)
    return Release(
        version=version,
        name=str(metadata.get("name") or release_name(version)),
        digest=raw.digest,
        source=raw.source,
        origin=raw.origin,
        document=source.document,
        install=_listed(source, spec, "install"),
        upgrade=_listed(source, spec, "upgrade"),
        components=components,
        manifests=_manifests(raw.files, components),
        content_digest=raw.content_digest or raw.digest,
        cache_fallback=raw.cache_fallback,
        signed_by=raw.signed_by,
        notices=raw.notices,
    )


def _place(raw: RawBundle, path: str) -> str:
    """Where a person finds a file of the bundle."""
    return f"{raw.origin}/{path}" if raw.source is BundleSource.DISK else f"{raw.origin}!{path}"


def _typed_documents(raw: RawBundle) -> _Found:
    found = _Found([], [])
    for path in sorted(raw.files):
        name = PurePosixPath(path).name
        text = raw.files[path]
        if name not in (RELEASE_FILE, COMPONENT_FILE) and not _OURS.search(text):
            continue
        for index, source in enumerate(load_documents(text, _place(raw, path))):
            first = index == 0
            if source.kind == RELEASE_IMAGE.kind or (first and name == RELEASE_FILE):
                found.releases.append((path, source))
            elif source.kind == COMPONENT_VERSION.kind or (first and name == COMPONENT_FILE):
                found.components.append((path, source))
    return found


def _the_release(raw: RawBundle, releases: list[tuple[str, SourceDocument]]) -> SourceDocument:
    if not releases:
        raise InvalidRelease(
            f"the bundle of {raw.version} has no {RELEASE_FILE}",
            subject=f"release {raw.version}",
            field=RELEASE_FILE,
            value=f"missing in {raw.origin}",
            remedy=f"add {_place(raw, RELEASE_FILE)}, a document of kind {RELEASE_IMAGE.kind}",
        )
    if len(releases) > 1:
        places = ", ".join(source.place for _, source in releases)
        raise InvalidRelease(
            f"the bundle of {raw.version} holds {len(releases)} documents of kind {RELEASE_IMAGE.kind}",
            subject=f"release {raw.version}",
            field="kind",
            value=places,
            remedy=f"keep one of them, in {RELEASE_FILE}",
        )
    return releases[0][1]


def _components(documents: Iterable[tuple[str, SourceDocument]]) -> tuple[ComponentVersion, ...]:
    first: dict[tuple[str, str], SourceDocument] = {}
    components: list[ComponentVersion] = []
    for path, source in documents:
        spec = _mapping(source, "spec")
        for key in ("name", "version"):
            if not spec.get(key):
                message = f"a {COMPONENT_VERSION.kind} has no {key}"
                raise _refuse(source, message, f"spec.{key}", f"write spec.{key} into {source.origin}")
        component = _validated(ComponentVersion, {**spec, "path": path}, source, "spec")
        earlier = first.setdefault((component.name, component.version), source)
        if earlier is not source:
            raise _refuse(
                source,
                f"component {component.name}@{component.version} stands twice, first in {earlier.place}",
                "spec.version",
                "keep one of the two files",
                component.version,
            )
        components.append(component)
    return tuple(components)


def _listed(source: SourceDocument, spec: Mapping[str, Any], key: str) -> tuple[ComponentRef, ...]:
    """`spec.install.components` or `spec.upgrade.components`, in the author's order."""
    section = spec.get(key) or {}
    field = f"spec.{key}.components"
    items = section.get("components") if isinstance(section, Mapping) else section
    if not isinstance(items or [], list):
        raise _refuse(source, f"{field} is not a list", field, "write a list of components", repr(items))
    return tuple(_validated(ComponentRef, item, source, f"{field}[{index}]") for index, item in enumerate(items or []))


def _mapping(source: SourceDocument, key: str) -> Mapping[str, Any]:
    value = source.document.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _refuse(source, f"{key} is not a mapping", key, f"write {key} as a mapping", repr(value))
    return value


def _validated(model: type[_Model], value: Any, source: SourceDocument, field: str) -> _Model:
    try:
        return model.model_validate(_without_nulls(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        path = field
        for part in first["loc"]:
            path += f"[{part}]" if isinstance(part, int) else f".{part}"
        unquoted = first["type"] == "string_type" and isinstance(first["input"], bool | int | float)
        remedy = "put it in quotes: YAML does not read it as a text" if unquoted else first["msg"]
        raise _refuse(source, "a value has the wrong type", path, remedy, repr(first["input"])) from None


def _without_nulls(value: Any) -> Any:
    """A key with nothing behind it is an absent field, as Go reads it."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _refuse(source: SourceDocument, message: str, field: str, remedy: str, value: str = "") -> InvalidRelease:
    return InvalidRelease(message, subject=source.place, field=field, value=value, remedy=remedy)


def _manifests(files: Mapping[str, str], components: Iterable[ComponentVersion]) -> dict[str, tuple[ManifestFile, ...]]:
    by_name: dict[str, list[str]] = {}
    folders: dict[str, set[str]] = {}
    for path in sorted(files):
        parts = PurePosixPath(path).parts
        if len(parts) < 3 or parts[0] != _ROOT or not path.endswith(YAML_SUFFIXES):
            continue
        if parts[-1] == COMPONENT_FILE and len(parts) == 4:
            folders.setdefault(parts[1], set()).add(parts[2])
        if parts[-1] not in (RELEASE_FILE, COMPONENT_FILE):
            by_name.setdefault(parts[1], []).append(path)
    described = {component.path for component in components}
    for component in components:
        folders.setdefault(component.name, set()).add(component.version)
    manifests: dict[str, tuple[ManifestFile, ...]] = {}
    for component in components:
        mine = tuple(
            ManifestFile(path=path, text=files[path])
            for path in by_name.get(component.name, ())
            if path not in described and _is_of(PurePosixPath(path).parts, component.version, folders[component.name])
        )
        if mine:
            manifests[f"{component.name}@{component.version}"] = mine
    return manifests


def _is_of(parts: tuple[str, ...], version: str, folders: set[str]) -> bool:
    """Whether the file `components/<name>/…` belongs to this version of the component."""
    if len(parts) == 3 or parts[2] == version:
        return True
    return parts[2] not in folders and not _is_version(parts[2])


def _is_version(text: str) -> bool:
    try:
        parse_version(text)
    except InvalidVersion:
        return False
    return True
