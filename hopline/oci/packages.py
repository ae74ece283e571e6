"""A package on disk, ours or one of the existing tools: which images and files are in it (docs/offline.md). Blocks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hopline.documents.version_configs import load_version_config
from hopline.domain.errors import InvalidDocument
from hopline.domain.image_references import is_digest
from hopline.domain.offline_bundle import (
    BUNDLE_FILE,
    CONFIG_FILE,
    LAYOUT_FOLDER,
    VOLUMES,
    BundledFile,
    BundledImage,
    OfflineBundle,
    Section,
    is_inside,
    read_bundle,
)
from hopline.domain.version_config import VersionConfig, WantedImage, wanted_images
from hopline.oci.layout import OciLayout, writing
from hopline.oci.manifests import OCI_INDEX, digest_of
from hopline.oci.registry_storage import layout_of_registry

_MAX_TEXT = 64 * 1024 * 1024
REGISTRY_STORAGE = f"{VOLUMES}/image.tar.gz"
"""The storage of a registry, in place of a layout."""
SOURCE_ARCHIVE = f"{VOLUMES}/source.tar.gz"
"""Files and packages as the existing tools serve them, in one archive."""
_NOT_FILES = ("image.tar.gz", "source.tar.gz", "registry.image")
"""What existing tools keep in `volumes` beside files."""
_SIGNATURE = ".sig"


@dataclass(frozen=True)
class Package:
    """A package.

    Attributes:
        layout: its images; not below `root` where they had to be taken out of a registry's storage.
        is_ours: it has a `bundle.json`; else its checksums are the digests of its images alone.
    """

    root: Path
    layout: OciLayout
    bundle: OfflineBundle
    is_ours: bool

    @property
    def source_archive(self) -> Path | None:
        """Files that the existing tools pack into one archive, which only they unpack; None where there is none."""
        archive = self.root / SOURCE_ARCHIVE
        return archive if archive.is_file() else None


def needs_room(root: Path) -> bool:
    """Whether the images of a package have to be taken out of the storage of a registry before they can be read."""
    return not OciLayout(root / LAYOUT_FOLDER).is_there and (root / REGISTRY_STORAGE).is_file()


def open_package(root: Path, room: Path, moved: Callable[[int], None]) -> Package:
    """The package in a folder.

    Args:
        room: a folder for images that have to be taken out of the storage of a registry; else it is not made.
        moved: told of bytes that are read there.

    Raises:
        InvalidDocument: no package, one of another making, or one whose manifest or images cannot be read.
        Permanent: there is no room.
    """
    if not (root / BUNDLE_FILE).is_file() and not (root / CONFIG_FILE).is_file():
        raise _no_package(root, f"neither {BUNDLE_FILE} nor {CONFIG_FILE}")
    layout = OciLayout(root / LAYOUT_FOLDER)
    if not layout.is_there:
        if not needs_room(root):
            raise _no_package(root, f"neither {LAYOUT_FOLDER} nor {REGISTRY_STORAGE}")
        layout = layout_of_registry(root / REGISTRY_STORAGE, room, moved)
    if (root / BUNDLE_FILE).is_file():
        return Package(root, layout, read_bundle(_text(root / BUNDLE_FILE), str(root / BUNDLE_FILE)), is_ours=True)
    config = load_version_config(_text(root / CONFIG_FILE), str(root / CONFIG_FILE))
    named = {one.name: one.descriptor.digest for one in layout.names()}
    named.update(_put_together(layout, config, named))
    bundle = OfflineBundle(
        name=root.name,
        versions=(config.open_fuyao_version,) if config.open_fuyao_version else (),
        architectures=config.architectures,
        images=tuple(_image(root, name, digest) for name, digest in named.items()),
        files=tuple(_files(root / VOLUMES)),
    )
    return Package(root, layout, bundle, is_ours=False)


def _image(root: Path, name: str, digest: str) -> BundledImage:
    repository, has_tag, tag = name.rpartition(":")
    if not has_tag or "/" in tag:
        raise InvalidDocument(
            "a name in the layout is no repository with a tag",
            subject=str(root / LAYOUT_FOLDER / "index.json"),
            field="org.opencontainers.image.ref.name",
            value=name,
            remedy="name it as targetRepo/name:tag",
        )
    return BundledImage(source=name, repository=repository, tag=tag, digest=digest)


def _put_together(layout: OciLayout, config: VersionConfig, named: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Images that the package holds per architecture only, as one index of them each."""
    for wanted in wanted_images(config):
        per = [(one, named.get(f"{wanted.name}-{one}", "")) for one in wanted.architectures]
        if wanted.name in named or not wanted.packed or not all(digest for _, digest in per):
            continue
        yield wanted.name, _index(layout, wanted, per)


def _index(layout: OciLayout, wanted: WantedImage, per: Iterable[tuple[str, str]]) -> str:
    entries = []
    for architecture, digest in per:
        manifest = layout.manifest(digest)
        platform = {"os": "linux", "architecture": architecture}
        entries.append(
            {"mediaType": manifest.media_type, "digest": digest, "size": len(manifest.body), "platform": platform}
        )
    body = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries}, indent=1).encode()
    digest = digest_of(body)
    assert is_digest(digest), wanted
    with writing(layout.blob(digest)):
        layout.put(digest, body)
    return digest


def _files(volumes: Path) -> Iterator[BundledFile]:
    """Everything below `volumes` that is neither the layout nor for another registry; without checksums."""
    for file in sorted(volumes.rglob("*")):
        path = file.relative_to(volumes).as_posix()
        first, _, rest = path.partition("/")
        if file.is_symlink() or not file.is_file() or first == "oci-layout" or first.startswith(_NOT_FILES):
            continue
        if not is_inside(path):
            continue
        section = next((one for one in Section if one.folder == first and rest), Section.FILES)
        name = rest if section.folder else path
        yield BundledFile(
            section=section, path=f"{VOLUMES}/{path}", name=name, digest="", size=file.stat().st_size, source=""
        )


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > _MAX_TEXT:
            raise _no_package(file, f"{file.stat().st_size} bytes")
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise _no_package(file, str(error)) from None


def _no_package(place: Path, why: str) -> InvalidDocument:
    return InvalidDocument(
        "this is no package that can be read",
        subject=str(place),
        value=why,
        remedy="name the folder that a tarball of hopline offline build, or of bke build, unpacks to",
    )
