"""The index of published versions (openfuyao-api.md §9.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hopline.domain.errors import InvalidDocument, Refusal

INDEX_FILE = "index.yaml"

_SEGMENT = re.compile(r"[A-Za-z0-9_+~-][A-Za-z0-9._+~-]*")
_SHOWN = 20


@dataclass(frozen=True)
class IndexEntry:
    """One version, and where its VersionConfig lies from the folder of the index, without a leading `./`."""

    version: str
    path: str

    @property
    def name(self) -> str:
        """The name that a download gives to the file."""
        return self.path.rpartition("/")[2]


def read_index(value: object, subject: str) -> tuple[IndexEntry, ...]:
    """The entries of an index.

    Raises:
        InvalidDocument: it is no list of pairs, a path leaves the folder of the index, or a version has two paths.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise _refused(subject, "", "the index is no list of versions", _word(value))
    found: dict[str, IndexEntry] = {}
    for number, item in enumerate(value):
        entry = _entry(item, f"[{number}]", subject)
        earlier = found.setdefault(entry.version, entry)
        if earlier != entry:
            paths = f"{earlier.path}, {entry.path}"
            raise _refused(subject, f"[{number}].filePath", f"the index has two files for {entry.version}", paths)
    return tuple(found.values())


def _entry(item: object, place: str, subject: str) -> IndexEntry:
    texts = []
    for key in ("openFuyaoVersion", "filePath"):
        text = item.get(key) if isinstance(item, Mapping) else None
        if not isinstance(text, str) or not text.strip():
            raise _refused(subject, f"{place}.{key}", f"an entry of the index has no {key}", _word(text))
        texts.append(text.strip())
    version, path = texts[0], texts[1].removeprefix("./")
    if not all(_SEGMENT.fullmatch(part) for part in path.split("/")):
        message = "a path of the index leaves its folder, or is no plain path"
        raise _refused(subject, f"{place}.filePath", message, texts[1])
    return IndexEntry(version, path)


def entry_for(entries: Sequence[IndexEntry], version: str, subject: str) -> IndexEntry:
    """The entry of one version. Refusal names those that are there."""
    for entry in entries:
        if entry.version == version:
            return entry
    names = ", ".join(entry.version for entry in entries[:_SHOWN])
    more = f" and {len(entries) - _SHOWN} more" if len(entries) > _SHOWN else ""
    raise Refusal(
        f"the index has no version {version}",
        subject=subject,
        field="openFuyaoVersion",
        value=version,
        remedy=f"choose one of: {names}{more}" if entries else "the index is empty: name another one",
    )


def _word(value: object) -> str:
    return value if isinstance(value, str) else type(value).__name__


def _refused(subject: str, field: str, message: str, value: str) -> InvalidDocument:
    return InvalidDocument(
        message,
        subject=subject,
        field=field,
        value=value,
        remedy="write a list of entries with openFuyaoVersion and filePath, a path below the folder of the index",
    )
