"""The images of a planned way: where they come from, and whether the lists of an offline cluster name them.

The lists are read as the openFuyao guide's commands leave them: `bke-config` has `patch.<version>`, which names a
ConfigMap in `openfuyao-patch`, which has the text of the VersionConfig under `<version>`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hopline.documents.version_configs import load_version_config
from hopline.domain.cluster import ClusterFacts
from hopline.domain.container_images import container_images
from hopline.domain.errors import Forbidden, InvalidDocument, NotFound
from hopline.domain.image_overrides import ImageRewrite
from hopline.domain.image_supply import (
    LIST_NAMESPACE,
    MAX_REWRITES,
    PLATFORM_CONFIG,
    ImageWish,
    index_key,
    list_of,
    missing_list,
    strange_images,
    supply_of,
    unlisted_images,
    unreadable_list,
    unusable_list,
)
from hopline.domain.plan import Finding, ImageSupply, SupplyMode
from hopline.domain.release import Release
from hopline.domain.resources import CONFIG_MAP, Document, ObjectRef, describe
from hopline.domain.version_config import VersionConfig
from hopline.operations.component_objects import ComponentObjects

Get = Callable[[ObjectRef], Awaitable[Document]]
"""Reads an object of the management cluster, as `ClusterClient.get` does."""


@dataclass
class SeenImages:
    """Collects what the manifests of a planned way run (`manifest_review`)."""

    wishes: list[ImageWish] = field(default_factory=list)
    rewrites: dict[ImageRewrite, None] = field(default_factory=dict)

    def add(self, release: Release, objects: ComponentObjects) -> None:
        """The objects of one component."""
        for source in objects.sources:
            for use in container_images(source.document):
                wanted_by = f"{objects.component} {describe(source.document)}"
                self.wishes.append(ImageWish(release.version, use.image, wanted_by))
        self.rewrites.update(dict.fromkeys(objects.rewrites))


@dataclass
class _Lists:
    """What was found of the lists."""

    configs: dict[str, VersionConfig] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


async def review_supply(
    get: Get, facts: ClusterFacts, versions: Sequence[str], seen: SeenImages, *, looked: bool = True
) -> tuple[ImageSupply, tuple[Finding, ...]]:
    """Online or offline, and for an offline cluster what its lists say about the images of these versions.

    Args:
        looked: a cluster was asked; on files alone a missing list is no news.

    Raises Transient when the management cluster does not answer just now.
    """
    try:
        config: Mapping[str, Any] = (await get(PLATFORM_CONFIG)).get("data") or {}
    except NotFound:
        config = {}
    except Forbidden as error:
        unread = unusable_list(", ".join(versions), str(PLATFORM_CONFIG), "data", error.message)
        return _supply(facts, {}, seen), (unread,)
    supply = _supply(facts, config, seen)
    if supply.mode is not SupplyMode.OFFLINE or not versions:
        return supply, ()
    lists = _Lists()
    for version in versions:
        await _read(get, version, config, lists)
    return judged(supply, seen, lists.configs, lists.places, [*(_missing(lists) if looked else ()), *lists.findings])


def judged(
    supply: ImageSupply,
    seen: SeenImages,
    configs: Mapping[str, VersionConfig],
    places: Mapping[str, str],
    findings: Sequence[Finding] = (),
) -> tuple[ImageSupply, tuple[Finding, ...]]:
    """What the lists of an offline cluster mean for what it runs.

    Args:
        configs: version → its list; `places`: the object that holds it.
        findings: about the lists themselves.
    """
    listed = tuple(list_of(version, places[version], config) for version, config in configs.items())
    found = (
        *findings,
        *strange_images(seen.wishes, supply.hosts),
        *unlisted_images(seen.wishes, supply.hosts, configs),
    )
    return supply.model_copy(update={"lists": listed}), found


def _supply(facts: ClusterFacts, config: Mapping[str, Any], seen: SeenImages) -> ImageSupply:
    supply = supply_of(image_repo_of(facts), config, facts.subject)
    rewrites = tuple(seen.rewrites)
    return supply.model_copy(update={"rewrites": rewrites[:MAX_REWRITES], "rewritten": len(rewrites)})


def image_repo_of(facts: ClusterFacts) -> Mapping[str, Any]:
    """`spec.clusterConfig.cluster.imageRepo`, empty when there is none."""
    found: Any = facts.document
    for key in ("spec", "clusterConfig", "cluster", "imageRepo"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _missing(lists: _Lists) -> list[Finding]:
    if not lists.missing:
        return []
    return [missing_list(lists.missing, "no list of images is at hand for")]


async def _read(get: Get, version: str, config: Mapping[str, Any], lists: _Lists) -> None:
    name = config.get(index_key(version))
    if not isinstance(name, str) or not name.strip():
        lists.missing.append(version)
        return
    ref = ObjectRef(kind=CONFIG_MAP, name=name.strip(), kube_namespace=LIST_NAMESPACE)
    try:
        found = parsed_list(version, str(ref), await get(ref))
    except NotFound:
        key = f"data[{index_key(version)}]"
        finding = unusable_list(version, str(PLATFORM_CONFIG), key, f"{ref} does not exist")
        lists.findings.append(finding)
    except (InvalidDocument, Forbidden) as error:
        lists.findings.append(unreadable_list(version, str(ref), error))
    else:
        lists.configs[version] = found
        lists.places[version] = str(ref)


def parsed_list(version: str, place: str, config_map: Document) -> VersionConfig:
    """The VersionConfig in a ConfigMap. Raises InvalidDocument when there is none, or that of another version."""
    text = (config_map.get("data") or {}).get(version)
    if not isinstance(text, str) or not text.strip():
        keys = ", ".join(sorted(map(str, config_map.get("data") or {}))) or "nothing"
        raise InvalidDocument(f"the ConfigMap has {keys} instead", field=f"data[{version}]")
    config = load_version_config(text, f"{place} {version}")
    if config.open_fuyao_version != version:
        message = f"it is the list of {config.open_fuyao_version or 'no version'}"
        raise InvalidDocument(message, field=f"data[{version}] openFuyaoVersion")
    return config
