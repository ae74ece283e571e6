"""What goes into an offline bundle: images of all VersionConfigs, releases of every hop, and the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hopline.domain.catalogue import Catalogue
from hopline.domain.errors import InvalidInput
from hopline.domain.image_references import (
    CATALOGUE_NAME,
    CATALOGUE_TAG,
    DEFAULT_PREFIX,
    PUBLIC_HOST,
    PUBLIC_PREFIX,
    RELEASE_NAME,
)
from hopline.domain.offline_bundle import ImageRole
from hopline.domain.oldest_version import OLDEST_VERSION, too_old
from hopline.domain.upgrade_graph import UpgradeGraph
from hopline.domain.version_config import (
    FILE_SECTIONS,
    PACKAGE_SECTIONS,
    VersionConfig,
    WantedImage,
    target_repository,
    wanted_images,
)

PUBLIC_RELEASES = f"{PUBLIC_HOST}/{PUBLIC_PREFIX}"
_SECTIONS = ("repos", *FILE_SECTIONS, *PACKAGE_SECTIONS)


@dataclass(frozen=True)
class PlannedImage:
    """An image, and what it is for."""

    wanted: WantedImage
    role: ImageRole


@dataclass(frozen=True)
class ReleasePlace:
    """Where releases and the catalogue are fetched from, and where they go."""

    source_repo: str = PUBLIC_RELEASES
    target_repo: str = DEFAULT_PREFIX

    def image(self, name: str, tag: str) -> WantedImage:
        """One image there."""
        repository = target_repository(self.target_repo, name)
        return WantedImage(f"{self.source_repo}/{name}:{tag}", repository, tag, (), place=f"{name}:{tag}")


def listed_images(configs: Mapping[str, VersionConfig]) -> tuple[WantedImage, ...]:
    """The images of all files, each name once; those that are not packed are left out.

    Args:
        configs: by the name of their file.

    Raises:
        InvalidInput: one name at the target stands for images of two places, or a name is none.
    """
    found: dict[str, WantedImage] = {}
    for origin, config in configs.items():
        for wanted in wanted_images(config):
            if not wanted.packed:
                continue
            wanted.at("localhost")
            earlier = found.setdefault(wanted.name, wanted)
            if earlier.source != wanted.source:
                raise InvalidInput(
                    f"two images would be {wanted.name} at the target",
                    subject=origin,
                    field=wanted.place,
                    value=f"{earlier.source} and {wanted.source}",
                    remedy="keep one of them in the VersionConfigs",
                )
            every = tuple(dict.fromkeys((*earlier.architectures, *wanted.architectures)))
            found[wanted.name] = replace(earlier, architectures=every)
    return tuple(found.values())


def release_place(configs: Mapping[str, VersionConfig], given: str = "") -> ReleasePlace:
    """Where releases lie: as `--releases` says, else where a VersionConfig lists one, else the public repository."""
    for config in configs.values():
        for group in config.repos:
            for source in group.sub_images:
                if any(image.name in (RELEASE_NAME, CATALOGUE_NAME) for image in source.images):
                    return ReleasePlace(given or source.source_repo.rstrip("/"), source.target_repo)
    return ReleasePlace(given.rstrip("/") or PUBLIC_RELEASES)


def catalogue_image(place: ReleasePlace) -> PlannedImage:
    """The upgrade catalogue."""
    return PlannedImage(place.image(CATALOGUE_NAME, CATALOGUE_TAG), ImageRole.CATALOGUE)


def hops(catalogue: Catalogue, targets: Iterable[str], starts: Sequence[str]) -> tuple[str, ...]:
    """Every version that a cluster installs on its way to one of the targets, the targets included.

    Args:
        starts: versions that clusters have now; none: every version of the catalogue from which a target is reached.

    Raises:
        InvalidCatalogue: the catalogue breaks its rules.
        NoUpgradePath: there is no path from a version that was given.
    """
    graph = UpgradeGraph(catalogue)
    if graph.fault:
        raise graph.fault
    on_the_way: dict[str, None] = {}
    for target in targets:
        for start in starts or _possible_starts(catalogue):
            route = graph.require_path(start, target) if starts else graph.find_path(start, target)
            on_the_way.update(dict.fromkeys(hop.to_version for hop in route.hops))
        on_the_way[target] = None
    return tuple(on_the_way)


def _possible_starts(catalogue: Catalogue) -> tuple[str, ...]:
    named = dict.fromkeys(edge.from_version for edge in catalogue.edges)
    return tuple(version for version in named if too_old(version, OLDEST_VERSION) is None)


def planned_images(
    configs: Mapping[str, VersionConfig], place: ReleasePlace, versions: Iterable[str]
) -> tuple[PlannedImage, ...]:
    """Everything that is fetched, the catalogue first. Raises as `listed_images` does."""
    releases = [place.image(RELEASE_NAME, version) for version in versions]
    catalogue = catalogue_image(place)
    special = {catalogue.wanted.name: catalogue}
    special.update({wanted.name: PlannedImage(wanted, ImageRole.RELEASE) for wanted in releases})
    listed = [PlannedImage(wanted, _role(wanted)) for wanted in listed_images(configs)]
    return (*special.values(), *(one for one in listed if one.wanted.name not in special))


def _role(wanted: WantedImage) -> ImageRole:
    name = wanted.repository.rpartition("/")[2]
    return {RELEASE_NAME: ImageRole.RELEASE, CATALOGUE_NAME: ImageRole.CATALOGUE}.get(name, ImageRole.IMAGE)


def merged_config(documents: Sequence[Mapping[str, Any]], images: Iterable[PlannedImage]) -> dict[str, Any]:
    """All VersionConfigs as one, for the existing tools: versions of the last, sections of all, releases listed."""
    merged: dict[str, Any] = {}
    for document in documents:
        merged.update({key: value for key, value in document.items() if key not in _SECTIONS})
    for section in _SECTIONS:
        entries: list[Any] = []
        for document in documents:
            entries += [entry for entry in document.get(section) or [] if entry not in entries]
        merged[section] = entries
    known = {wanted.name for document in documents for wanted in _names(document)}
    merged["repos"] = [*merged["repos"], *_release_group([one for one in images if one.wanted.name not in known])]
    return {key: value for key, value in merged.items() if value not in ("", None)}


def _names(document: Mapping[str, Any]) -> tuple[WantedImage, ...]:
    return wanted_images(VersionConfig.model_validate({"repos": document.get("repos") or []}))


def _release_group(images: Sequence[PlannedImage]) -> list[dict[str, Any]]:
    """A group of images that no VersionConfig lists."""
    sources = [
        {
            "sourceRepo": one.wanted.source.rpartition("/")[0],
            "targetRepo": one.wanted.repository.rpartition("/")[0] or "/",
            "images": [{"name": one.wanted.repository.rpartition("/")[2], "tag": [one.wanted.tag]}],
        }
        for one in images
    ]
    return [{"needDownload": True, "isKubernetes": False, "subImages": sources}] if sources else []
