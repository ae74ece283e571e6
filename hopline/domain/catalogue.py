"""The UpgradePath catalogue: which version change is allowed (openfuyao-api.md §1.3, §4.1).

Rules, checked in this order; the first offence in file order is reported:

1. `from` and `to` are not empty, can be ordered (`versions`), and differ; every named check has a name.
2. No edge stands twice. Two *blocked* entries of one edge say the same and are accepted; a blocked one beside an
   open one contradicts it and is refused.
3. One version has one spelling: `v26.6` beside `v26.06` would be two nodes of the graph for one release.
4. Open edges form no cycle, and each leads to a newer version. Blocked edges are never counted: a blocked downgrade
   edge is how a catalogue says "never" (openfuyao-api.md §11.2 B25).
5. `spec.versions` names versions that can be ordered, and says one thing about each.

An empty list of edges is valid, as upstream; `Catalogue.is_empty` tells it apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, Field, StrictBool, StrictStr, ValidationError

from hopline.domain.errors import InvalidCatalogue, InvalidVersion
from hopline.domain.resources import UPGRADE_PATH, Document
from hopline.domain.versions import Version, parse_version
from hopline.domain.wire import WireModel


def _absent(value: object) -> object:
    """`key:` with nothing behind it is an absent list, as Go reads it."""
    return () if value is None else value


class NamedCheck(WireModel):
    """One entry of `preCheck` or `postCheck`."""

    name: StrictStr = ""
    required: StrictBool = False


Checks = Annotated[tuple[NamedCheck, ...], BeforeValidator(_absent)]


class Edge(WireModel):
    """One entry of `spec.paths`: a version change that the catalogue speaks about."""

    from_version: StrictStr = Field("", alias="from")
    to_version: StrictStr = Field("", alias="to")
    blocked: StrictBool = False
    deprecated: StrictBool = False
    notes: StrictStr = ""
    pre_check: Checks = ()
    post_check: Checks = ()

    def __str__(self) -> str:
        return f"{self.from_version} -> {self.to_version}"


class CatalogueVersion(WireModel):
    """One entry of `spec.versions`: what the catalogue says about a version apart from its edges."""

    version: StrictStr = ""
    installable: StrictBool = False
    deprecated: StrictBool = False
    notes: StrictStr = ""


class Catalogue(WireModel):
    """An UpgradePath. `edges` keeps the file's order, so that an index is the index in `spec.paths`."""

    name: str
    edges: Annotated[tuple[Edge, ...], BeforeValidator(_absent)] = ()
    versions: Annotated[tuple[CatalogueVersion, ...], BeforeValidator(_absent)] = ()

    @property
    def subject(self) -> str:
        """For messages."""
        return f"{UPGRADE_PATH.kind} {self.name}"

    @property
    def is_empty(self) -> bool:
        """No edge at all: valid, but never a replacement for one that has some (design §8)."""
        return not self.edges


def read_catalogue(document: Document) -> Catalogue:
    """Read an UpgradePath document. It is not checked yet: `check_catalogue` does that.

    Raises:
        InvalidCatalogue: a field has the wrong type, for example `from: 26.06` without quotes.
    """
    name = _name_of(document)
    spec = document.get("spec")
    if spec is None:
        spec = {}
    if not isinstance(spec, Mapping):
        raise InvalidCatalogue(
            "spec is not a mapping",
            subject=f"{UPGRADE_PATH.kind} {name}",
            field="spec",
            value=repr(spec),
            remedy="give it the fields paths and versions",
        )
    try:
        return Catalogue.model_validate(
            {"name": name, "edges": spec.get("paths"), "versions": spec.get("versions")}, by_alias=True, by_name=False
        )
    except ValidationError as error:
        raise _wrong_type(name, error) from None


def check_catalogue(catalogue: Catalogue) -> dict[str, Version]:
    """Hold a catalogue to the rules of this module; returns every version on an edge, read.

    Raises:
        InvalidCatalogue: the first offence, with object, field, value and remedy.
    """
    known: dict[str, Version] = {}
    for index, edge in enumerate(catalogue.edges):
        _check_edge(catalogue, index, edge, known)
    _check_duplicates(catalogue)
    _check_spellings(catalogue, known)
    _check_direction(catalogue, known)
    _check_versions(catalogue, known)
    return known


def _name_of(document: Document) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name") or "?") if isinstance(metadata, Mapping) else "?"


_SPEC_FIELDS = {"edges": "paths", "versions": "versions"}


def _wrong_type(name: str, error: ValidationError) -> InvalidCatalogue:
    first = error.errors(include_url=False, include_context=False)[0]
    path = "spec"
    for part in first["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{_SPEC_FIELDS.get(part, part)}"
    unquoted = first["type"] == "string_type" and isinstance(first["input"], bool | int | float)
    return InvalidCatalogue(
        "the catalogue has a value of the wrong type",
        subject=f"{UPGRADE_PATH.kind} {name}",
        field=path,
        value=repr(first["input"]),
        remedy="put it in quotes: YAML does not read it as a text" if unquoted else first["msg"],
    )


def _refuse(catalogue: Catalogue, field: str, value: str, message: str, remedy: str) -> InvalidCatalogue:
    return InvalidCatalogue(message, subject=catalogue.subject, field=field, value=value, remedy=remedy)


def _check_edge(catalogue: Catalogue, index: int, edge: Edge, known: dict[str, Version]) -> None:
    """Rule 1. Adds the versions of the edge to `known`."""
    for key, text in (("from", edge.from_version), ("to", edge.to_version)):
        if text not in known:
            known[text] = _ordered(catalogue, f"spec.paths[{index}].{key}", text)
    if edge.from_version == edge.to_version:
        message, remedy = "an edge leads from a version to itself", f"remove spec.paths[{index}]"
        raise _refuse(catalogue, f"spec.paths[{index}].to", edge.to_version, message, remedy)
    if not edge.pre_check and not edge.post_check:
        return
    for key, checks in (("preCheck", edge.pre_check), ("postCheck", edge.post_check)):
        for number, check in enumerate(checks):
            if not check.name:
                field = f"spec.paths[{index}].{key}[{number}].name"
                remedy = "name it, for example nodes-ready, or remove the entry"
                raise _refuse(catalogue, field, '""', f"a named check of {edge} has no name", remedy)


def _ordered(catalogue: Catalogue, field: str, text: str) -> Version:
    if not text:
        raise _refuse(catalogue, field, '""', "the catalogue names an empty version", "name it, or remove the entry")
    try:
        return parse_version(text)
    except InvalidVersion as error:
        raise _refuse(catalogue, field, text, error.message, error.remedy) from None


def _check_duplicates(catalogue: Catalogue) -> None:
    """Rule 2."""
    first: dict[tuple[str, str], int] = {}
    for index, edge in enumerate(catalogue.edges):
        earlier = first.setdefault((edge.from_version, edge.to_version), index)
        if earlier == index:
            continue
        other = catalogue.edges[earlier]
        if edge.blocked and other.blocked:
            continue
        contradiction = " and one entry blocks it" if edge.blocked or other.blocked else ""
        raise _refuse(
            catalogue,
            f"spec.paths[{index}].to",
            edge.to_version,
            f"the edge {edge} stands twice, first as spec.paths[{earlier}]{contradiction}",
            f"keep one of spec.paths[{earlier}] and spec.paths[{index}]",
        )


def _check_spellings(catalogue: Catalogue, known: Mapping[str, Version]) -> None:
    """Rule 3. `known` is in file order, so the later spelling is the one to blame."""
    first: dict[Version, str] = {}
    for text, version in known.items():
        earlier = first.setdefault(version, text)
        if earlier != text:
            raise _refuse(
                catalogue,
                _place_of(catalogue, text),
                text,
                f"{text} and {earlier} are two spellings of one version, and the catalogue uses both",
                f"write {earlier} everywhere, as the release image is tagged",
            )


def _place_of(catalogue: Catalogue, text: str) -> str:
    """The first field that holds this version."""
    for index, edge in enumerate(catalogue.edges):
        if text in (edge.from_version, edge.to_version):
            return f"spec.paths[{index}].{'from' if edge.from_version == text else 'to'}"
    return "spec.paths"


def _check_direction(catalogue: Catalogue, known: Mapping[str, Version]) -> None:
    """Rule 4. Edges that all lead to newer versions cannot form a cycle, so only a backward edge needs a search."""
    rank = {text: number for number, text in enumerate(sorted(known, key=known.__getitem__))}
    backward = {
        (edge.from_version, edge.to_version): index
        for index, edge in enumerate(catalogue.edges)
        if rank[edge.to_version] < rank[edge.from_version] and not edge.blocked
    }
    if not backward:
        return
    cycle = _cycle(catalogue.edges)
    if cycle:
        oldest = cycle.index(min(cycle, key=rank.__getitem__))
        cycle = cycle[oldest:] + cycle[:oldest]
        index = backward[(cycle[-1], cycle[0])]
        message = f"the catalogue has a cycle: {' -> '.join([*cycle, cycle[0]])}"
        remedy = f"set blocked: true on spec.paths[{index}], which goes backwards, or remove it"
        raise _refuse(catalogue, f"spec.paths[{index}].to", cycle[0], message, remedy)
    index = min(backward.values())
    edge = catalogue.edges[index]
    raise _refuse(
        catalogue,
        f"spec.paths[{index}].to",
        edge.to_version,
        f"the edge {edge} goes backwards: {edge.to_version} is older than {edge.from_version}",
        f"set blocked: true on spec.paths[{index}], or remove it",
    )


def _cycle(edges: Iterable[Edge]) -> list[str]:
    """The versions of one cycle of open edges, in order; empty when there is none. The same for any order of `edges`.

    Versions that nothing leads to are taken away until none is left. Each of the rest has a predecessor among the
    rest, so walking back from any of them comes round.
    """
    before: dict[str, set[str]] = {}
    after: dict[str, set[str]] = {}
    for edge in edges:
        if not edge.blocked:
            before.setdefault(edge.to_version, set()).add(edge.from_version)
            before.setdefault(edge.from_version, set())
            after.setdefault(edge.from_version, set()).add(edge.to_version)
    starts = [version for version, sources in before.items() if not sources]
    for version in starts:
        del before[version]
        for target in after.get(version, ()):
            before[target].discard(version)
            if not before[target]:
                starts.append(target)
    if not before:
        return []
    walk = [min(before)]
    while (earlier := min(before[walk[-1]])) not in walk:
        walk.append(earlier)
    return walk[walk.index(earlier) :][::-1]


class _Said(NamedTuple):
    """The first entry of `spec.versions` about a version."""

    place: int
    entry: CatalogueVersion


def _check_versions(catalogue: Catalogue, known: Mapping[str, Version]) -> None:
    """Rule 5."""
    spelled = {version: text for text, version in known.items()}
    said: dict[Version, _Said] = {}
    for index, entry in enumerate(catalogue.versions):
        field = f"spec.versions[{index}].version"
        version = _ordered(catalogue, field, entry.version)
        spelling = spelled.setdefault(version, entry.version)
        if spelling != entry.version:
            message = f"{entry.version} and {spelling} are two spellings of one version, and the catalogue uses both"
            raise _refuse(catalogue, field, entry.version, message, f"write {spelling} everywhere")
        earlier = said.setdefault(version, _Said(index, entry))
        if earlier.entry != entry:
            message = f"spec.versions[{earlier.place}] says something else about {entry.version}"
            remedy = f"keep one of spec.versions[{earlier.place}] and spec.versions[{index}]"
            raise _refuse(catalogue, field, entry.version, message, remedy)
