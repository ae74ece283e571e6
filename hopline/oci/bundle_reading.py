"""What is really in a package: every image with everything below it, every checksum, releases and signatures. Blocks.

Nothing that the package says of itself is believed before its bytes have been read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from hopline.documents.bundles import content_digest
from hopline.domain.bundle_closure import CorruptPart, HeldImage
from hopline.domain.errors import InvalidDocument, Refusal
from hopline.domain.offline_bundle import BUNDLE_FILE, LAYOUT_FOLDER, BundledImage
from hopline.domain.release import BundleSource, RawBundle
from hopline.oci.layout import OciLayout
from hopline.oci.manifests import Manifest, choose_platform
from hopline.oci.packages import REGISTRY_STORAGE, Package
from hopline.oci.signatures import SIGNATURE_ANNOTATION, FoundSignature
from hopline.oci.unpacking import Limits, unpack

READERS = 4
_MAX_DEPTH = 4
_MAX_CONFIG_BYTES = 4 * 1024 * 1024
_MAX_SIGNATURE_BYTES = 1024 * 1024
_UNKNOWN = "unknown"
_CONFIGS = ("application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json")


@dataclass
class _Tree:
    """What a name leads to, as far as it is there."""

    sizes: dict[str, int] = field(default_factory=dict)
    manifests: dict[str, Manifest] = field(default_factory=dict)


class PackageReader:
    """Reads one package; collects what is corrupt as it goes."""

    def __init__(self, package: Package, moved: Callable[[int], None]) -> None:
        self.package = package
        self._layout: OciLayout = package.layout
        self._moved = moved
        self._corrupt: dict[str, str] = {}
        self._trees = {image.name: self._tree(image.digest) for image in package.bundle.images}

    @property
    def corrupt(self) -> tuple[CorruptPart, ...]:
        """What was found so far, by path."""
        return tuple(CorruptPart(path=path, reason=why) for path, why in sorted(self._corrupt.items()))

    def held(self) -> tuple[HeldImage, ...]:
        """Every image, with what was really found of it. One whose manifest cannot be read is not held."""
        return tuple(
            HeldImage(image.name, frozenset(tree.manifests), self._architectures(image, tree))
            for image in self.package.bundle.images
            if image.digest in (tree := self._trees[image.name]).manifests
        )

    @property
    def size(self) -> int:
        """Bytes that `check` reads."""
        files = self.package.bundle.files
        return sum(self._sizes().values()) + sum(file.size for file in files if file.digest)

    def check(self) -> None:
        """Read every byte of the package that has a checksum."""
        bundle = self.package.bundle
        if self.package.is_ours:
            self._compare_names()
        parts = [(one.path, one.digest, one.size) for one in bundle.configs]
        parts += [(one.path, one.digest, one.size) for one in bundle.files if one.digest]
        with ThreadPoolExecutor(READERS) as pool:
            jobs = [pool.submit(self._check_blob, digest, size) for digest, size in self._sizes().items()]
            jobs += [pool.submit(self._check_file, *part) for part in parts]
            for job in jobs:
                job.result()

    def release(self, image: BundledImage) -> RawBundle:
        """The files of a release. Raises Refusal when they cannot be read."""
        files = self.files(image)
        return RawBundle(
            version=image.tag,
            digest=image.digest,
            content_digest=content_digest(files),
            source=BundleSource.OCI,
            origin=image.name,
            files=files,
        )

    def files(self, image: BundledImage) -> dict[str, str]:
        """The YAML files of an image, by path. Raises Refusal when they cannot be read."""
        limits = Limits()
        manifest = self._chosen(image)
        layers = [(layer, self._layout.small(layer.digest, limits.layer_bytes)) for layer in manifest.layers]
        return unpack(image.name, layers, limits)

    def signatures(self, image: BundledImage) -> tuple[frozenset[str], tuple[FoundSignature, ...]]:
        """The digests that a signature may name, and the signatures in both formats. Raises Refusal as `files`."""
        digests = frozenset({image.digest, self._chosen(image).digest})
        names = {one.name: one.descriptor.digest for one in self._layout.names()}
        tagged = [names.get(f"{image.repository}:{digest.replace(':', '-')}.sig", "") for digest in sorted(digests)]
        attached = [one.digest for one in image.attached if one.subject in digests]
        found: list[FoundSignature] = []
        for digest in dict.fromkeys(one for one in (*tagged, *attached) if one):
            for layer in self._layout.manifest(digest).layers:
                content = self._layout.small(layer.digest, _MAX_SIGNATURE_BYTES)
                note = layer.annotations.get(SIGNATURE_ANNOTATION, "")
                found.append(FoundSignature(layer.media_type, content, note))
        return digests, tuple(found)

    def _chosen(self, image: BundledImage) -> Manifest:
        top = self._layout.manifest(image.digest)
        return self._layout.manifest(choose_platform(top).digest) if top.is_index else top

    def _sizes(self) -> dict[str, int]:
        """Digest → size of everything that is listed or reached."""
        sizes = {blob.digest: blob.size for blob in self.package.bundle.blobs}
        for tree in self._trees.values():
            sizes.update(tree.sizes)
        return sizes

    def _tree(self, digest: str) -> _Tree:
        tree = _Tree()
        self._walk(tree, digest, 0)
        return tree

    def _walk(self, tree: _Tree, digest: str, depth: int) -> None:
        try:
            manifest = self._layout.manifest(digest)
            children = [entry.digest for entry in manifest.manifests] if manifest.is_index else []
            blobs = () if manifest.is_index else manifest.blobs
        except Refusal as error:
            self._note_blob(digest, error)
            return
        if depth > _MAX_DEPTH or digest in tree.manifests:
            return
        tree.manifests[digest] = manifest
        tree.sizes[digest] = len(manifest.body)
        tree.sizes.update({blob.digest: blob.size for blob in blobs})
        for child in children:
            self._walk(tree, child, depth + 1)

    def _architectures(self, image: BundledImage, tree: _Tree) -> tuple[str, ...]:
        """By what an index lists and the configs of images say; empty for what is no image of a program."""
        top = tree.manifests[image.digest]
        if top.is_index:
            named = [entry.platform[1] for entry in top.manifests if entry.platform[0] != _UNKNOWN]
            return tuple(dict.fromkeys(name for name in named if name))
        return tuple(self._of_config(top))

    def _of_config(self, manifest: Manifest) -> Iterator[str]:
        for blob in manifest.blobs[:1]:
            if blob.media_type not in _CONFIGS:
                return
            try:
                said = json.loads(self._layout.small(blob.digest, _MAX_CONFIG_BYTES)).get("architecture")
            except (Refusal, ValueError, AttributeError):
                return
            if isinstance(said, str) and said:
                yield said

    def _compare_names(self) -> None:
        """The index of the layout is what other tools read: it must say the same as the manifest of the bundle."""
        named = {one.name: one.descriptor.digest for one in self._layout.names()}
        place = f"{LAYOUT_FOLDER}/index.json"
        for image in self.package.bundle.images:
            if named.get(image.name) != image.digest:
                said = f"names it {named[image.name]}" if image.name in named else "does not name it"
                self._corrupt[place] = f"{image.name} is {image.digest} in {BUNDLE_FILE}, and the index {said}"

    def _check_blob(self, digest: str, size: int) -> None:
        try:
            self._layout.check(digest, size)
        except InvalidDocument as error:
            self._note_blob(digest, error)
        self._moved(size)

    def _check_file(self, path: str, digest: str, size: int) -> None:
        place = self.package.root / path
        if why := _difference(place, self.package.root, digest, size):
            self._corrupt[path] = why
        self._moved(size)

    def _note_blob(self, digest: str, error: Refusal) -> None:
        blob = self._layout.blob(digest)
        is_inside = blob.is_relative_to(self.package.root)
        path = blob.relative_to(self.package.root).as_posix() if is_inside else f"{REGISTRY_STORAGE} {digest}"
        self._corrupt.setdefault(path, _reason(error))


def _difference(place: Path, root: Path, digest: str, size: int) -> str:
    """Why a file is not what is listed; empty when it is."""
    if not place.is_file() or place.resolve() != root.resolve() / place.relative_to(root):
        return "the file is not there"
    try:
        if (found := place.stat().st_size) != size:
            return f"it has {found} bytes, listed with {size}"
        with place.open("rb") as file:
            real = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    return "" if real == digest else f"it has {real}, listed with {digest}"


def _reason(error: Refusal) -> str:
    return f"{error.message} ({error.field} {error.value})" if error.value else error.message
