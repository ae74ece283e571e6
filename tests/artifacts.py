"""Release images for tests: the bytes of layers, manifests and indexes, in both packagings."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
TAR_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
TITLE = "org.opencontainers.image.title"
CONFIG = b"{}"

RELEASE = """apiVersion: config.openfuyao.com/v1alpha1
kind: ReleaseImage
metadata:
  name: release-v26.06
spec:
  version: v26.06
  upgrade:
    components:
      - name: coredns
        version: v1.12.0
"""
COMPONENT = """apiVersion: config.openfuyao.com/v1alpha1
kind: ComponentVersion
metadata:
  name: coredns
spec:
  name: coredns
  type: yaml
  version: v1.12.0
"""
OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: coredns\n  namespace: kube-system\n"
FILES: Mapping[str, str] = {
    "release.yaml": RELEASE,
    "components/coredns/v1.12.0/component.yaml": COMPONENT,
    "components/coredns/v1.12.0/object.yaml": OBJECT,
}


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass
class Artifact:
    """An image: its manifest or index, and everything below it, by digest."""

    body: bytes
    media_type: str = MANIFEST_TYPE
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return digest_of(self.body)


def titled(files: Mapping[str, str] = FILES) -> Artifact:
    """A layer per file, as ORAS pushes files."""
    return of_layers([(text.encode(), {TITLE: path}, "application/yaml") for path, text in files.items()])


def archived(*layers: bytes) -> Artifact:
    """An ordinary image of tar layers; by default one with every file."""
    found = layers or (tar({path: text.encode() for path, text in FILES.items()}),)
    return of_layers([(layer, {}, TAR_TYPE) for layer in found])


def of_layers(layers: Iterable[tuple[bytes, Mapping[str, str], str]], **more: Any) -> Artifact:
    blobs = {digest_of(CONFIG): CONFIG}
    entries = []
    for content, notes, media_type in layers:
        blobs[digest_of(content)] = content
        entries.append(descriptor(content, media_type, notes))
    config = descriptor(CONFIG, "application/vnd.oci.image.config.v1+json", {})
    document = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": entries, **more}
    return Artifact(json.dumps(document).encode(), blobs=blobs)


def indexed(images: Mapping[str, Artifact]) -> Artifact:
    """An index over images, by platform such as `linux/arm64`."""
    entries, blobs, manifests = [], {}, {}
    for platform, image in images.items():
        system, _, architecture = platform.partition("/")
        entry = descriptor(image.body, MANIFEST_TYPE, {})
        entries.append({**entry, "platform": {"os": system, "architecture": architecture}})
        blobs |= image.blobs
        manifests[image.digest] = image.body
    document = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries}
    return Artifact(json.dumps(document).encode(), INDEX_TYPE, blobs, manifests)


def descriptor(content: bytes, media_type: str, annotations: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"mediaType": media_type, "digest": digest_of(content), "size": len(content)}
    return {**found, "annotations": dict(annotations)} if annotations else found


def tar(files: Mapping[str, bytes], *, links: Mapping[str, str] | None = None, compressed: bool = True) -> bytes:
    """A tar archive; a path that ends in `/` is a folder."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path.rstrip("/"))
            entry.type = tarfile.DIRTYPE if path.endswith("/") else tarfile.REGTYPE
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for path, target in (links or {}).items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return gzip.compress(plain.getvalue(), mtime=0) if compressed else plain.getvalue()
