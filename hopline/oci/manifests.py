"""Manifests and indexes: read by what they say, never by the content type that a registry or proxy put on them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hopline.domain.errors import InvalidRelease
from hopline.domain.image_references import is_digest

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
ACCEPTED = ", ".join((OCI_INDEX, DOCKER_LIST, OCI_MANIFEST, DOCKER_MANIFEST))
TITLE = "org.opencontainers.image.title"
MAX_LAYERS = 20_000

PREFERRED_PLATFORM = ("linux", "amd64")
"""A bundle holds YAML, the same for every platform; this one is what the existing controller takes."""


@dataclass(frozen=True)
class Descriptor:
    """One entry of a manifest or index, with a digest that can be trusted to be one."""

    digest: str
    size: int
    media_type: str = ""
    artifact_type: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    platform: tuple[str, str] = ("", "")

    @property
    def title(self) -> str:
        """The path of a file that was pushed as a layer; empty for an ordinary layer."""
        return self.annotations.get(TITLE, "")


@dataclass(frozen=True)
class Manifest:
    """A manifest or an index, as it came."""

    subject: str
    digest: str
    body: bytes = field(repr=False)
    document: Mapping[str, Any] = field(repr=False)

    @property
    def is_index(self) -> bool:
        """It lists manifests, one per platform."""
        return "manifests" in self.document and "layers" not in self.document

    @property
    def layers(self) -> tuple[Descriptor, ...]:
        """In order, lowest first. Raises InvalidRelease for an entry that is none."""
        return self._descriptors("layers")

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """Everything that a manifest needs: its config, then its layers. Raises InvalidRelease as `layers` does."""
        config = self.document.get("config")
        first = () if config is None else (_descriptor(self.subject, "config", config),)
        return (*first, *self.layers)

    @property
    def media_type(self) -> str:
        """What it says it is, else what it is by its shape."""
        said = self.document.get("mediaType")
        return said if isinstance(said, str) and said else (OCI_INDEX if self.is_index else OCI_MANIFEST)

    @property
    def manifests(self) -> tuple[Descriptor, ...]:
        """Of an index. Raises InvalidRelease for an entry that is none."""
        return self._descriptors("manifests")

    def _descriptors(self, key: str) -> tuple[Descriptor, ...]:
        found = self.document.get(key) or []
        if not isinstance(found, list) or len(found) > MAX_LAYERS:
            raise malformed(self.subject, key, f"not a list of at most {MAX_LAYERS} entries")
        return tuple(_descriptor(self.subject, f"{key}[{index}]", entry) for index, entry in enumerate(found))


def read_manifest(subject: str, body: bytes) -> Manifest | None:
    """The manifest in a body; None when it is something else, such as a web page.

    Raises InvalidRelease for a manifest of the first, unsigned kind (`schemaVersion: 1`).
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    if document.get("schemaVersion") == 1:
        raise malformed(subject, "schemaVersion", "1, which has no digests; push it again with a current tool")
    if "layers" not in document and "manifests" not in document:
        return None
    return Manifest(subject, digest_of(body), body, document)


def choose_platform(index: Manifest) -> Descriptor:
    """The manifest of an index that is read: linux/amd64, else the first for linux, else the first at all.

    Attestations (platform `unknown`) are never taken. Raises InvalidRelease when nothing else is there.
    """
    found = [entry for entry in index.manifests if entry.platform[0] != "unknown"]
    if not found:
        raise malformed(index.subject, "manifests", "no manifest of any platform")
    ranks = {PREFERRED_PLATFORM: 0, ("linux", ""): 1}
    return min(found, key=lambda entry: ranks.get(entry.platform, 1 if entry.platform[0] == "linux" else 2))


def digest_of(content: bytes | bytearray) -> str:
    """`sha256:<hex>` of bytes."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def malformed(subject: str, place: str, value: str) -> InvalidRelease:
    """A manifest that cannot be used."""
    return InvalidRelease(
        "the manifest of the image cannot be used",
        subject=subject,
        field=place,
        value=value,
        remedy="build and push the image again",
    )


def _descriptor(subject: str, place: str, entry: object) -> Descriptor:
    if not isinstance(entry, dict):
        raise malformed(subject, place, "not a mapping")
    digest, size = entry.get("digest"), entry.get("size")
    if not isinstance(digest, str) or not is_digest(digest):
        raise malformed(subject, f"{place}.digest", f"{digest!r}, not sha256 with 64 hexadecimal digits")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise malformed(subject, f"{place}.size", f"{size!r}, not a number of bytes")
    platform = entry.get("platform")
    system = platform if isinstance(platform, dict) else {}
    annotations = entry.get("annotations")
    return Descriptor(
        digest=digest,
        size=size,
        media_type=str(entry.get("mediaType") or ""),
        artifact_type=str(entry.get("artifactType") or ""),
        annotations={str(k): str(v) for k, v in annotations.items()} if isinstance(annotations, dict) else {},
        platform=(str(system.get("os") or ""), str(system.get("architecture") or "")),
    )
