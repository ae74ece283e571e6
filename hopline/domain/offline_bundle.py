"""What is in an offline bundle: `bundle.json`, the manifest with checksums (docs/offline.md)."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from hopline.domain.errors import InvalidDocument
from hopline.domain.image_references import is_digest
from hopline.domain.wire import WireEnum, WireModel

BUNDLE_FILE = "bundle.json"
"""Ours, at the top of the bundle. A package of the existing tools does not have it."""
CONFIG_FILE = "manifests.yaml"
"""A VersionConfig, at the top: all that a package of the existing tools says about itself."""
CONFIG_FOLDER = "version-configs"
VOLUMES = "volumes"
LAYOUT_FOLDER = f"{VOLUMES}/oci-layout"
FORMAT = 1
TOP_LEVEL_PATTERN = "containerd-*.tar.gz"
"""What the guide copies from the folder in which the tarball is unpacked: these stand there as well."""


class Section(WireEnum):
    """The section of a VersionConfig that a file comes from."""

    FILES = "files"
    PATCHES = "patches"
    CHARTS = "charts"
    RPMS = "rpms"
    DEBS = "debs"
    UNKNOWN = "unknown"

    @property
    def folder(self) -> str:
        """Where its files lie in the bundle, and below the folder that they are installed to; `files` at its top."""
        return "" if self is Section.FILES else self.value


class ImageRole(WireEnum):
    """What an image is for."""

    IMAGE = "image"
    RELEASE = "release"
    CATALOGUE = "catalogue"
    UNKNOWN = "unknown"


class Attachment(WireModel):
    """A manifest that belongs to an image: a signature, an attestation.

    Attributes:
        digest: of the attached manifest.
        subject: digest of the manifest that it belongs to.
        tag: the tag that leads to it (cosign's `sha256-<hex>.sig`); empty for one that names its subject itself.
    """

    digest: str
    subject: str
    tag: str = ""


class BundledImage(WireModel):
    """One tag at the target, and what it names. Manifests and blobs lie in the OCI layout, by digest.

    Attributes:
        source: what it was fetched as, `HOST/PATH:TAG`.
        repository: path at the target, such as `kubernetes/etcd`.
        digest: of what the tag names, an index or a manifest.
        architectures: that it serves; empty where it has none (a bundle of YAML).
        size: bytes of everything that belongs to it, attachments included.
    """

    source: str
    repository: str
    tag: str
    digest: str
    role: ImageRole = ImageRole.IMAGE
    media_type: str = ""
    size: int = 0
    architectures: tuple[str, ...] = ()
    attached: tuple[Attachment, ...] = ()

    @property
    def name(self) -> str:
        """`repository:tag`: its name in the index of the layout."""
        return f"{self.repository}:{self.tag}"


class BundledFile(WireModel):
    """A file that is no image.

    Attributes:
        path: in the bundle, from its top.
        name: below the folder that the files of its section are installed to.
        digest: `sha256:<hex>` of its bytes.
        source: where it was fetched from, without a query or a login.
    """

    section: Section
    path: str
    name: str
    digest: str
    size: int
    source: str = ""

    @property
    def installed(self) -> str:
        """Its place below `--files-dir`."""
        return f"{self.section.folder}/{self.name}" if self.section.folder else self.name


class BundledConfig(WireModel):
    """A VersionConfig as it was given, byte for byte."""

    version: str
    path: str
    digest: str
    size: int


class BundledBlob(WireModel):
    """A manifest, config or layer in the layout."""

    digest: str
    size: int


class OfflineBundle(WireModel):
    """`bundle.json`.

    Attributes:
        name: of the folder that the tarball unpacks to.
        versions: platform versions whose VersionConfigs are in, in the order in which they were given.
        releases: versions whose release images are in: every hop of the path.
        blobs: everything in the layout, each once.
    """

    format: int = FORMAT
    name: str
    versions: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    configs: tuple[BundledConfig, ...] = ()
    images: tuple[BundledImage, ...] = ()
    files: tuple[BundledFile, ...] = ()
    blobs: tuple[BundledBlob, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of everything that is listed."""
        configs, files = sum(one.size for one in self.configs), sum(one.size for one in self.files)
        return configs + files + sum(one.size for one in self.blobs)


def read_bundle(text: str | bytes, origin: str) -> OfflineBundle:
    """The manifest of a bundle.

    Raises:
        InvalidDocument: it is none, is of a later format, or names a path outside of the bundle.
    """
    try:
        bundle = OfflineBundle.model_validate_json(text)
    except ValidationError as error:
        raise _not_ours(origin, str(error.errors()[0]["msg"])) from None
    if bundle.format != FORMAT:
        raise InvalidDocument(
            "the bundle has a format that this version does not know",
            subject=origin,
            field="format",
            value=str(bundle.format),
            remedy="load it with the version of hopline that built it",
        )
    for path in _paths(bundle):
        if not is_inside(path):
            raise _not_ours(origin, f"the path {path!r} leads out of the bundle")
    for digest in _digests(bundle):
        if not is_digest(digest):
            raise _not_ours(origin, f"{digest!r} is no digest")
    return bundle


def is_inside(path: str) -> bool:
    """A relative path in its shortest spelling, so that two paths are one file only when they are equal."""
    return "\\" not in path and not any(part in ("", ".", "..") for part in path.split("/"))


def _paths(bundle: OfflineBundle) -> Iterator[str]:
    yield bundle.name
    yield from (config.path for config in bundle.configs)
    for file in bundle.files:
        yield file.path
        yield file.name


def _digests(bundle: OfflineBundle) -> Iterator[str]:
    yield from (one.digest for one in bundle.configs)
    yield from (one.digest for one in bundle.files)
    yield from (one.digest for one in bundle.blobs)
    for image in bundle.images:
        yield image.digest
        for one in image.attached:
            yield from (one.digest, one.subject)


def _not_ours(origin: str, why: str) -> InvalidDocument:
    return InvalidDocument(
        "this is no manifest of an offline bundle",
        subject=origin,
        value=why,
        remedy="build it again, or name the folder that the tarball unpacks to",
    )
