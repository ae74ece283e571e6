"""VersionConfig: the images, files and packages that a version needs, as the existing tools read it.

Source: openfuyao-api.md §9.2. What nobody could carry is refused by `check_carried`, never dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field, ValidationError

from hopline.domain.errors import InvalidDocument, InvalidInput
from hopline.domain.image_references import ImageReference, parse_reference
from hopline.domain.wire import WireModel

ARCHITECTURE_MARK = "-*-"
"""In a tag: what stands before it is the tag at the target; at the source it is `-<architecture>-`."""
DEFAULT_ARCHITECTURES = ("amd64",)
FILE_SECTIONS = ("files", "patches", "charts")
PACKAGE_SECTIONS = ("rpms", "debs")
_CARRIED = frozenset({"registry", "repos", *FILE_SECTIONS, *PACKAGE_SECTIONS})
_SAID_ONLY = frozenset({"addons"})
"""Sections without anything to carry: addons name components of a cluster, whose images stand under `repos`."""


class PodUse(WireModel):
    """A pod that runs an image."""

    pod_prefix: str = ""
    kube_namespace: str = Field(default="", alias="namespace")


class ListedImage(WireModel):
    """One image with its tags."""

    name: str
    tag: tuple[str, ...] = ()
    used_pod_info: tuple[PodUse, ...] = ()


class ImageSource(WireModel):
    """Images of one registry and where they go (`subImages[]`).

    Attributes:
        source_repo: `HOST/PATH` before the names.
        target_repo: path before the names at the target; `/` or empty: none.
        image_track: how the newest tag would be found; nothing but exact tags can be carried by digest.
    """

    source_repo: str
    target_repo: str = ""
    image_track: str = ""
    images: tuple[ListedImage, ...] = ()


class ImageGroup(WireModel):
    """`repos[]`."""

    architecture: tuple[str, ...] = ()
    need_download: bool = False
    is_kubernetes: bool = False
    sub_images: tuple[ImageSource, ...] = ()


class ListedFile(WireModel):
    """A file, and the name that it has afterwards where that is another one."""

    file_name: str
    file_alias: str = ""

    @property
    def kept_name(self) -> str:
        """The name in the package and where it is installed."""
        return self.file_alias or self.file_name


class FileSource(WireModel):
    """Files below one address (`files[]`, `patches[]`, `charts[]`)."""

    address: str
    files: tuple[ListedFile, ...] = ()


class PackageSource(WireModel):
    """Folders of packages, every combination of what is listed (`rpms[]`, `debs[]`)."""

    address: str
    system: tuple[str, ...] = ()
    system_version: tuple[str, ...] = ()
    system_architecture: tuple[str, ...] = ()
    directory: tuple[str, ...] = ()

    def folders(self) -> Iterator[str]:
        """`system/version/architecture/directory` of each folder."""
        for system in self.system:
            for version in self.system_version:
                for architecture in self.system_architecture:
                    for directory in self.directory:
                        yield f"{system}/{version}/{architecture}/{directory}"


class HelperRegistry(WireModel):
    """`registry`: the existing tool's own registry image, which loading with Hopline does not need."""

    image_address: str = ""
    architecture: tuple[str, ...] = ()


class VersionConfig(WireModel):
    """One file. Every scalar is kept as it is written: a tag `3.10` stays `3.10`."""

    open_fuyao_version: str = ""
    kubernetes_version: str = ""
    etcd_version: str = ""
    containerd_version: str = ""
    registry: HelperRegistry = HelperRegistry()
    repos: tuple[ImageGroup, ...] = ()
    files: tuple[FileSource, ...] = ()
    patches: tuple[FileSource, ...] = ()
    charts: tuple[FileSource, ...] = ()
    rpms: tuple[PackageSource, ...] = ()
    debs: tuple[PackageSource, ...] = ()

    @property
    def architectures(self) -> tuple[str, ...]:
        """Of the machines that the package is for."""
        listed = [*self.registry.architecture, *(name for group in self.repos for name in group.architecture)]
        return tuple(dict.fromkeys(listed)) or DEFAULT_ARCHITECTURES


@dataclass(frozen=True)
class WantedImage:
    """One tag of one listed image.

    Attributes:
        source: `HOST/PATH:TAG`; with `-*-` in the tag it has one image per architecture.
        repository: path at the target, such as `kubernetes/etcd`.
        tag: at the target.
        packed: `needDownload`; an image without it is named by the file and not carried.
        place: where in the file it stands, for messages.
    """

    source: str
    repository: str
    tag: str
    architectures: tuple[str, ...]
    packed: bool = True
    place: str = ""

    @property
    def name(self) -> str:
        """`repository:tag`, which is how layouts, loads and plans name it."""
        return f"{self.repository}:{self.tag}"

    def at_source(self, architecture: str = "") -> ImageReference:
        """What is asked for. InvalidInput when it is no reference."""
        text = self.source.replace(ARCHITECTURE_MARK, f"-{architecture}-") if architecture else self.source
        return parse_reference(text, field=self.place)

    def at(self, host: str) -> ImageReference:
        """Where a load puts it, and where a cluster finds it. InvalidInput when it is no reference."""
        return parse_reference(f"{host}/{self.name}", field=self.place)


def read_version_config(document: Mapping[str, Any], origin: str) -> VersionConfig:
    """The model of a document whose scalars are texts.

    Raises:
        InvalidDocument: a field has another shape than the documented one, or has no word for what it holds.
    """
    known = dict(document)
    # One of the existing readers spells the key with a small f.
    known.setdefault("openFuyaoVersion", known.pop("openfuyaoVersion", ""))
    try:
        return VersionConfig.model_validate(_without_empty(known))
    except ValidationError as error:
        first = error.errors()[0]
        place = _place(first["loc"])
        raise InvalidDocument(
            f"the VersionConfig has something else than it should: {first['msg'].lower()}",
            subject=origin,
            field=place,
            value=str(first.get("input", ""))[:80],
            remedy="compare it with the published VersionConfig of that version",
        ) from None


def check_carried(document: Mapping[str, Any], config: VersionConfig, origin: str) -> None:
    """Refuse what could not be put into a package.

    Raises:
        InvalidInput: a section that nobody could carry, or an image that is to be the newest one.
    """
    for key, value in document.items():
        if isinstance(value, list | dict) and value and key not in _CARRIED | _SAID_ONLY:
            raise InvalidInput(
                f"the section {key} cannot be carried in a package, and is not left out in silence",
                subject=origin,
                field=key,
                value=f"{len(value)} entries",
                remedy=f"list what it needs under repos, files or charts, and remove {key}",
            )
    for group_index, group in enumerate(config.repos):
        for index, source in enumerate(group.sub_images):
            if source.image_track and group.need_download:
                raise InvalidInput(
                    "the newest image would have to be looked up, which is another one tomorrow",
                    subject=origin,
                    field=f"repos[{group_index}].subImages[{index}].imageTrack",
                    value=source.image_track.partition("@")[0],
                    remedy="write the exact tags, and remove imageTrack",
                )


def wanted_images(config: VersionConfig) -> tuple[WantedImage, ...]:
    """Every tag of every listed image, in the order of the file; those that are not packed as well."""
    return tuple(
        WantedImage(
            source=f"{source.source_repo.rstrip('/')}/{image.name}:{tag}",
            repository=target_repository(source.target_repo, image.name),
            tag=tag.partition(ARCHITECTURE_MARK)[0],
            architectures=group.architecture or config.architectures,
            packed=group.need_download,
            place=f"repos[{i}].subImages[{j}].images[{k}].tag[{n}]",
        )
        for i, group in enumerate(config.repos)
        for j, source in enumerate(group.sub_images)
        for k, image in enumerate(source.images)
        for n, tag in enumerate(image.tag)
    )


def target_repository(target_repo: str, name: str) -> str:
    """The path of an image at the target: `targetRepo/name`, and the name alone for `/` or nothing."""
    prefix = target_repo.strip("/")
    return f"{prefix}/{name}" if prefix else name


def _without_empty(value: Any) -> Any:
    """A key without a value counts as absent, as it does for the existing tools."""
    if isinstance(value, Mapping):
        return {key: _without_empty(item) for key, item in value.items() if item is not None and item != ""}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _place(parts: tuple[int | str, ...]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")
