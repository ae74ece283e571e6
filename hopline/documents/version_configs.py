"""YAML text → VersionConfig. Scalars stay as they are written, so that a tag `3.10` is not read as 3.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from hopline.documents.loading import load_documents
from hopline.documents.scalars import read_plain
from hopline.domain.errors import InvalidDocument
from hopline.domain.version_config import VersionConfig, read_version_config

_BOOLEANS = ("needDownload", "isKubernetes")


def load_version_config(text: str, origin: str) -> VersionConfig:
    """The VersionConfig in a text. Line ends of Windows are taken as the existing tools take them.

    Raises:
        InvalidDocument: the text does not parse, holds more than one document, or is of another shape.
    """
    return read_version_config(version_config_document(text, origin), origin)


def version_config_document(text: str, origin: str) -> dict[str, Any]:
    """The one document of the text, every scalar a text. Raises InvalidDocument as `load_version_config` does."""
    text = text.replace("\r\n", "\n")
    # Kubernetes' own reading finds what is wrong (a key that stands twice); its values are not used.
    documents = load_documents(text, origin)
    if len(documents) != 1:
        raise InvalidDocument(
            "a VersionConfig is one document",
            subject=origin,
            value=f"{len(documents)} documents",
            remedy="keep one version in one file",
        )
    found = _truths(yaml.load(text, yaml.BaseLoader))
    assert isinstance(found, dict)
    return found


def _truths(value: Any, key: str = "") -> Any:
    if isinstance(value, Mapping):
        return {str(name): _truths(item, str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [_truths(item) for item in value]
    return read_plain(value) if key in _BOOLEANS else value
