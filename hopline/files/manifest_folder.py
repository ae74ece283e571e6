"""A folder of manifests, read, rendered and judged as a component would be, without any cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hopline.documents.bundles import COMPONENT_FILE, RELEASE_FILE, YAML_SUFFIXES
from hopline.documents.loading import SourceDocument, iterate_documents, load_documents
from hopline.documents.locating import field_line
from hopline.documents.origins import Origin
from hopline.documents.reading import MAX_TEXT
from hopline.domain.builtin_kinds import Scopes, brought_kinds, group_of, known_scopes
from hopline.domain.errors import HoplineError, InvalidDocument, InvalidInput, InvalidRelease
from hopline.domain.foreign_templates import foreign_text
from hopline.domain.manifest_findings import (
    Complaint,
    Component,
    ManifestFinding,
    ManifestReport,
    identity,
    mapping,
)
from hopline.domain.manifest_rules import guarding_webhooks, object_complaints, unknown_kind
from hopline.domain.plan import Severity
from hopline.domain.resources import COMPONENT_VERSION, RELEASE_IMAGE, Document, describe
from hopline.domain.template_variables import PLACES
from hopline.domain.templates import Rendering, render_with_lines
from hopline.domain.templates.lines import Piece
from hopline.files.texts import read_text

UNRENDERED = "noexecute"
"""A file whose path contains it is read as it stands (openfuyao-api.md §7.2)."""


@dataclass
class _File:
    """One manifest: what it became, and what is wrong with it."""

    name: str
    text: str = ""
    rendered: Rendering | None = None
    sources: list[SourceDocument] = field(default_factory=list)
    findings: list[ManifestFinding] = field(default_factory=list)


Wanted = set[tuple[str, str]]
"""(apiVersion, kind) of objects."""
Served = Mapping[tuple[str, str], bool | None]
"""(apiVersion, kind) → whether its objects live in namespaces; None when the cluster does not serve it."""


def check_folder(
    folder: Path,
    values: Mapping[str, object],
    *,
    kubernetes: str = "",
    render_to: Path | None = None,
    ask: Callable[[Wanted], Served] | None = None,
) -> ManifestReport:
    """Read and judge every manifest below `folder`, in the order of a component (openfuyao-api.md §7.1).

    Args:
        values: the template variables; `version` and `namespace` of a `component.yaml` count where it has none.
        kubernetes: the version that the cluster will have; else the variable `k8sVersion`.
        ask: asks a cluster which kinds it serves; without it nobody can say.
        render_to: where each rendered file goes, and beside it `<file>.json` with its documents.

    Raises InvalidInput when the folder cannot be read or `render_to` cannot be written.
    """
    try:
        component, known = _component(folder, values, kubernetes)
        files = [_read(folder, path, known) for path in _manifests(folder)]
        left_out = [finding for path in _descriptions(folder) for finding in _no_description(folder, path)]
    except OSError as error:
        raise InvalidInput(
            f"cannot read {error.filename or folder}: {error.strerror}", remedy="check the path"
        ) from error
    if render_to is not None:
        _write(files, folder, render_to)
    documents = [source.document for file in files for source in file.sources]
    served = ask(_kinds(documents)) if ask is not None else {}
    scopes = dict(known_scopes(documents))
    scopes.update({(group_of(api), kind): scope for (api, kind), scope in served.items() if scope is not None})
    brought = brought_kinds(documents)
    unknown = {kind for kind, scope in served.items() if scope is None} - brought
    _judge(files, component, scopes, unknown)
    return ManifestReport(
        files=len(files),
        objects=sum(len(file.sources) for file in files),
        findings=(
            *left_out,
            *(finding for file in files for finding in sorted(file.findings, key=lambda found: found.line)),
        ),
    )


def read_values(path: Path) -> Mapping[str, object]:
    """Template variables from a YAML or JSON file; an empty file is none. Raises InvalidInput, InvalidDocument."""
    documents = load_documents(_text(path), str(path))
    if len(documents) > 1:
        raise InvalidInput(f"{path} holds {len(documents)} documents", remedy="keep one mapping of variables")
    return documents[0].document if documents else {}


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}", remedy="check the path") from error


def _manifests(folder: Path) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.name.endswith(YAML_SUFFIXES) and path.is_file()]
    hidden = [path for path in found if any(part.startswith(".") for part in path.relative_to(folder).parts)]
    special = _descriptions(folder)
    return sorted(set(found) - set(hidden) - set(special), key=lambda path: path.relative_to(folder).as_posix())


def _descriptions(folder: Path) -> list[Path]:
    return sorted(path for name in (COMPONENT_FILE, RELEASE_FILE) for path in folder.rglob(name) if path.is_file())


def _no_description(folder: Path, path: Path) -> Iterator[ManifestFinding]:
    """A manifest with the name of a description is never applied: `kustomize build > release.yaml`."""
    name = path.relative_to(folder).as_posix()
    try:
        sources = load_documents(read_text(path), name)
    except InvalidDocument:
        return
    for source in sources:
        if source.kind and source.kind not in (COMPONENT_VERSION.kind, RELEASE_IMAGE.kind):
            message = f"a file named {path.name} describes a component or release, so its objects are not applied"
            yield ManifestFinding(
                severity=Severity.WARNS,
                file=name,
                line=source.line,
                object=describe(source.document),
                message=message,
                remedy="give the file another name",
            )
            return


def _component(folder: Path, values: Mapping[str, object], kubernetes: str) -> tuple[Component, Mapping[str, object]]:
    """What a `component.yaml` in the folder says, and the variables with it."""
    known = dict(values)
    target = kubernetes or str(values.get("k8sVersion") or "")
    path = folder / COMPONENT_FILE
    if not path.is_file():
        return Component(kubernetes=target), known
    for source in load_documents(read_text(path), COMPONENT_FILE):
        if source.kind in ("", COMPONENT_VERSION.kind):
            spec = mapping(source.document.get("spec"))
            known.setdefault("version", spec.get("version"))
            place = mapping(spec.get("yaml")).get("namespace")
            return Component(str(place or ""), described=True, kubernetes=target), known
    return Component(kubernetes=target), known


def _read(folder: Path, path: Path, values: Mapping[str, object]) -> _File:
    file = _File(path.relative_to(folder).as_posix())
    try:
        size = path.stat().st_size
        if size > MAX_TEXT:
            raise _too_large(size, file.name)
        file.text = read_text(path)
        if UNRENDERED in file.name:
            file.rendered = Rendering([Piece(file.text, 1, True)])
        else:
            file.rendered = render_with_lines(file.text, values, file.name, PLACES)
        for source in iterate_documents(file.rendered.text, Origin(file.name, file.rendered.line_of)):
            file.sources.append(source)
    except (InvalidDocument, InvalidRelease) as error:
        file.findings.append(_foreign(file) or _refused(file, error))
    return file


def _too_large(size: int, name: str) -> InvalidDocument:
    return InvalidDocument(
        f"the file has {size / 1024 / 1024:.1f} MiB, more than {MAX_TEXT // 1024 // 1024} MiB",
        subject=f"{name}:1",
        remedy="split it into several files; data of this size belongs into an image or an artifact",
    )


def _foreign(file: _File) -> ManifestFinding | None:
    """The better word for a file that does not render or parse: it is written for somebody else."""
    found = foreign_text(file.text) if UNRENDERED not in file.name else None
    if found is None:
        return None
    message = f"this is text of {found.language}, not a template of manifests: {found.text}"
    return ManifestFinding(
        severity=Severity.BLOCKS, file=file.name, line=found.line, message=message, remedy=found.remedy
    )


def _refused(file: _File, error: HoplineError) -> ManifestFinding:
    line = error.subject.rpartition(":")[2]
    return ManifestFinding(
        severity=Severity.BLOCKS,
        file=file.name,
        line=int(line) if line.isdigit() else 0,
        field=error.field,
        message=error.message,
        remedy=error.remedy,
    )


def _kinds(documents: list[Document]) -> Wanted:
    kinds = {(document.get("apiVersion"), document.get("kind")) for document in documents}
    return {(api, kind) for api, kind in kinds if api and kind and isinstance(api, str) and isinstance(kind, str)}


def _judge(files: list[_File], component: Component, scopes: Scopes, unknown: Wanted) -> None:
    everything = [(file, source) for file in files for source in file.sources]
    seen: dict[tuple[str, str, str, str], tuple[_File, SourceDocument]] = {}
    for file, source in everything:
        complaints = list(object_complaints(source.document, component, scopes))
        if (source.document.get("apiVersion"), source.document.get("kind")) in unknown:
            complaints.append(unknown_kind(source.document))
        file.findings += [_finding(file, source, complaint) for complaint in complaints]
        if any(complaint.severity is Severity.BLOCKS for complaint in complaints):
            continue
        key = identity(source.document, component.kube_namespace)
        other = seen.setdefault(key, (file, source))[1]
        if other is not source:
            file.findings.append(_finding(file, source, _twice(source, other)))
    for at, complaint in guarding_webhooks([source.document for _, source in everything]):
        file, source = everything[at]
        file.findings.append(_finding(file, source, complaint))


def _twice(source: SourceDocument, other: SourceDocument) -> Complaint:
    message = f"{describe(source.document)} stands twice, first in {other.place}"
    return Complaint(Severity.BLOCKS, ("metadata", "name"), message, "keep one of the two")


def _finding(file: _File, source: SourceDocument, complaint: Complaint) -> ManifestFinding:
    line = source.line
    if file.rendered is not None and source.text_line:
        line = file.rendered.line_of(field_line(file.rendered.text, source.text_line, complaint.path))
    return ManifestFinding(
        severity=complaint.severity,
        file=file.name,
        line=line,
        object=describe(source.document),
        field=complaint.field,
        message=complaint.message,
        remedy=complaint.remedy,
    )


def _write(files: list[_File], folder: Path, target: Path) -> None:
    """Each rendered file, and its documents as a JSON list; nothing for a file that could not be rendered."""
    try:
        for file in files:
            if file.rendered is None:
                continue
            path = target / file.name
            if path.resolve() == (folder / file.name).resolve():
                raise InvalidInput(
                    f"{path} would overwrite its own template", field="--render-to", remedy="name another folder"
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.rendered.text, encoding="utf-8", newline="")
            if not any(finding.severity is Severity.BLOCKS for finding in file.findings):
                documents = [source.document for source in file.sources]
                Path(f"{path}.json").write_text(json.dumps(documents, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write {error.filename or target}: {error.strerror}", remedy="check it") from error
