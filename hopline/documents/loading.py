"""YAML text → documents with file and line, as Kubernetes reads it.

Stricter than kubectl where a mistake would otherwise pass in silence: a key that stands twice, a version without quotes
that YAML reads as a number (`26.10` would become 26.1), a key that is a decimal number, a tag of its own, and an anchor
that contains itself.
The documents are plain JSON values that share nothing with each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hopline.documents.building import RawDocument
from hopline.documents.origins import Origin
from hopline.documents.reading import read_documents
from hopline.domain.errors import InvalidDocument
from hopline.domain.resources import Document

_OUR_KINDS = frozenset({"UpgradePath", "ReleaseImage", "ComponentVersion", "ClusterVersion", "BKECluster"})
_OUR_FILES = ("release.yaml", "component.yaml")


@dataclass(frozen=True)
class SourceDocument:
    """A document, and where a person finds it.

    Attributes:
        line: the line of its first key in the file, counted from 1.
        text_line: the same in the text that was read, where that is a rendered template; 0 when nobody knows.
    """

    document: Document
    origin: str
    line: int
    text_line: int = 0

    @property
    def place(self) -> str:
        """`file:line`, for messages."""
        return f"{self.origin}:{self.line}"

    @property
    def kind(self) -> str:
        """The kind, empty when there is none."""
        kind = self.document.get("kind")
        return kind if isinstance(kind, str) else ""


def load_documents(text: str, origin: str | Origin) -> list[SourceDocument]:
    """Every document of a YAML text. Empty ones are left out, lists (`kind: List`, `…List`) are unwrapped.

    Args:
        origin: the file, as a person would type it; an Origin for a text that is a rendered template.

    Raises:
        InvalidDocument: the text does not parse, or holds something that Kubernetes has no word for; with `file:line`.
    """
    return list(iterate_documents(text, origin))


def iterate_documents(text: str, origin: str | Origin) -> Iterator[SourceDocument]:
    """As `load_documents`, one by one: what stands before a mistake is read."""
    known = origin if isinstance(origin, Origin) else Origin(origin)
    for raw in read_documents(text, known):
        yield from _unwrapped(raw, known)


def _unwrapped(raw: RawDocument, origin: Origin) -> Iterator[SourceDocument]:
    if not isinstance(raw.value, dict):
        raise InvalidDocument(
            f"a document is a {type(raw.value).__name__}, not an object",
            subject=origin.place(raw.line),
            remedy="write an object with apiVersion, kind and metadata",
        )
    kind = raw.value.get("kind")
    items = raw.value.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for item in items:
            if not isinstance(item, dict):
                raise InvalidDocument(
                    f"an item of the {kind} is not an object",
                    subject=origin.place(raw.line),
                    field="items",
                    remedy="write objects with apiVersion, kind and metadata",
                )
            yield _source(_with_kind(item, raw.value, kind), raw, origin)
        return
    yield _source(raw.value, raw, origin)


def _with_kind(item: Document, whole: Document, kind: str) -> Document:
    """An item with neither kind nor apiVersion takes both from the list, as kubectl does it."""
    if kind == "List" or item.get("kind") or item.get("apiVersion"):
        return item
    return {**item, "apiVersion": whole.get("apiVersion", "v1"), "kind": kind.removesuffix("List")}


def _source(document: Document, raw: RawDocument, origin: Origin) -> SourceDocument:
    _refuse_unquoted_versions(document, raw, origin)
    return SourceDocument(document, origin.file, origin.source_line(raw.line), raw.line)


def _refuse_unquoted_versions(document: Document, raw: RawDocument, origin: Origin) -> None:
    """Only in our own kinds: elsewhere a number under `version` may be meant as one."""
    if not raw.unquoted_versions:
        return
    if document.get("kind") not in _OUR_KINDS and not origin.file.endswith(_OUR_FILES):
        return
    first = raw.unquoted_versions[0]
    raise InvalidDocument(
        f"{first.key} {first.text} is read as a number, because it has no quotes",
        subject=origin.place(first.line),
        field=first.key,
        value=first.text,
        remedy=f'put it in quotes: {first.key}: "{first.text}"',
    )
