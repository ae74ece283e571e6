"""Where a cluster gets its images from: online or offline, which lists there are, and what they do not name.

A cluster is online when its releases come from the public repository, or when `bke-config` says `onlineImage`; else it
is offline, and lives on what was loaded into the registry that its `imageRepo` names. The lists are the VersionConfigs
that the openFuyao guide puts into ConfigMaps. An upgrade itself does not need them (openfuyao-api.md §9.3), so that one
is missing is worth a note; that an image is not in it means that a bundle built from it lacks the image.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hopline.domain.container_images import image_name
from hopline.domain.errors import HoplineError
from hopline.domain.image_references import PUBLIC_HOST, ImageReference, Repository, release_repository
from hopline.domain.plan import Finding, ImageList, ImageSupply, Severity, SupplyMode
from hopline.domain.resources import CONFIG_MAP, ObjectRef
from hopline.domain.version_config import VersionConfig, wanted_images

PLATFORM_CONFIG = ObjectRef(kind=CONFIG_MAP, name="bke-config", kube_namespace="cluster-system")
LIST_NAMESPACE = "openfuyao-patch"
MAX_REWRITES = 50
"""Rewritten images that a plan names; the others are counted."""
MAX_NAMED = 10
_REPOSITORY = "spec.clusterConfig.cluster.imageRepo"


@dataclass(frozen=True)
class ImageWish:
    """An image that a release runs on the cluster, as it is applied.

    Attributes:
        wanted_by: object and place, for messages.
        probable: read from a text that need not be an image.
    """

    version: str
    image: str
    wanted_by: str
    probable: bool = False


def index_key(version: str) -> str:
    """The key in `bke-config` that leads to the list of a version."""
    return f"patch.{version}"


def list_ref(version: str) -> ObjectRef:
    """The ConfigMap of a version as the guide names it."""
    return ObjectRef(kind=CONFIG_MAP, name=f"cm.{version}", kube_namespace=LIST_NAMESPACE)


def supply_of(image_repo: Mapping[str, object], config: Mapping[str, object], subject: str) -> ImageSupply:
    """Online or offline, and which field says so.

    Args:
        image_repo: `imageRepo` of the BKECluster.
        config: `data` of `bke-config`, empty when there is none.
        subject: the BKECluster, for messages.
    """
    repository = release_repository(image_repo, config)
    own = f"{subject} {_REPOSITORY}"
    if repository.is_public and not repository.field.startswith(_REPOSITORY):
        return ImageSupply(mode=SupplyMode.ONLINE, field=repository.field, hosts=repository.hosts)
    if repository.is_public:
        return ImageSupply(mode=SupplyMode.ONLINE, field=f"{subject} {repository.field}", hosts=repository.hosts)
    if _says_online(config):
        return ImageSupply(mode=SupplyMode.ONLINE, field=f"{PLATFORM_CONFIG} onlineImage", hosts=repository.hosts)
    if _names_public(repository):
        return ImageSupply(mode=SupplyMode.ONLINE, field=f"{own}.domain", hosts=repository.hosts)
    part = "domain" if image_repo.get("domain") else "ip"
    return ImageSupply(mode=SupplyMode.OFFLINE, field=f"{own}.{part}", hosts=repository.hosts)


def catalogue_mode(repository: Repository, config: Mapping[str, object]) -> SupplyMode:
    """Whether the catalogue comes from a registry of the site's own."""
    online = repository.is_public or _says_online(config) or _names_public(repository)
    return SupplyMode.ONLINE if online else SupplyMode.OFFLINE


def _says_online(config: Mapping[str, object]) -> bool:
    return bool(config.get("onlineImage")) and not config.get("otherRepo")


def _names_public(repository: Repository) -> bool:
    return PUBLIC_HOST in {host.partition(":")[0] for host in repository.hosts}


def list_of(version: str, place: str, config: VersionConfig) -> ImageList:
    """What the plan says of a list."""
    return ImageList(version=version, object=place, images=len(wanted_images(config)))


def name_at(image: ImageReference, hosts: Collection[str]) -> str:
    """`repository:tag` of an image at one of these registries; empty when it is at another one."""
    if image.host not in hosts:
        return ""
    return f"{image.repository}:{image.tag}" if image.tag else f"{image.repository}@{image.digest}"


def missing_list(versions: Sequence[str], what: str) -> Finding:
    """Versions without a list, with the guide's own commands for the first one."""
    first = versions[0]
    ref = list_ref(first)
    return Finding(
        severity=Severity.INFO,
        object=str(PLATFORM_CONFIG),
        field=f"data[{index_key(first)}]",
        message=f"{what}: {', '.join(versions)}; nobody can compare what these versions run with what was carried here",
        remedy=f'kubectl create configmap {ref.name} -n {ref.kube_namespace} --from-literal={first}="$(cat'
        f' VersionConfig-{first}.yaml)", then kubectl patch configmap {PLATFORM_CONFIG.name} -n'
        f" {PLATFORM_CONFIG.kube_namespace} --type merge -p"
        f' \'{{"data":{{"{index_key(first)}":"{ref.name}"}}}}\'',
    )


def unusable_list(version: str, place: str, field: str, message: str, value: str = "") -> Finding:
    """A list that is there and cannot be used."""
    shown = f" ({value})" if value else ""
    return Finding(
        severity=Severity.WARNS,
        object=place,
        field=field,
        message=f"the list of images of {version} cannot be used: {message}{shown}",
        remedy=f"create it anew from VersionConfig-{version}.yaml (hopline offline fetch brings it)",
    )


def unreadable_list(version: str, place: str, error: HoplineError) -> Finding:
    """A list that could not be read or does not parse."""
    return unusable_list(version, place, error.field or f"data[{version}]", error.message, error.subject)


def strange_images(wishes: Sequence[ImageWish], hosts: Collection[str]) -> Iterator[Finding]:
    """Images at registries that an offline cluster does not have, one finding for each version."""
    for version, images in _by_version(wishes, lambda name: not name_at(name, hosts)):
        yield _listing(
            version,
            images,
            f"{version} runs {{}} from a registry that this offline cluster does not have",
            "carry them to the registry of the cluster, and name that in HOPLINE_REGISTRY_OVERRIDES: FROM=TO",
        )


def unlisted_images(
    wishes: Sequence[ImageWish], hosts: Collection[str], lists: Mapping[str, VersionConfig]
) -> Iterator[Finding]:
    """Images at the registry of the cluster that the list of their version does not name."""
    names = {version: {image.name for image in wanted_images(config)} for version, config in lists.items()}
    for version, known in names.items():
        repositories = {name.rpartition(":")[0] for name in known}

        def is_unlisted(image: ImageReference, known: set[str] = known, repositories: set[str] = repositories) -> bool:
            name = name_at(image, hosts)
            return bool(name) and name not in known and not (image.digest and image.repository in repositories)

        mine = [wish for wish in wishes if wish.version == version]
        for _, images in _by_version(mine, is_unlisted):
            yield _listing(
                version,
                images,
                f"{version} runs {{}} that its list does not name, so that a bundle built from it lacks them",
                "hopline offline verify says what a bundle lacks; add them to the VersionConfig, and build it again",
            )


def _by_version(
    wishes: Sequence[ImageWish], is_odd: Callable[[ImageReference], bool]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Version → odd images, each with who wants it first."""
    found: dict[str, dict[str, str]] = {}
    for wish in wishes:
        name = image_name(wish.image)
        if name is not None and is_odd(name):
            found.setdefault(wish.version, {}).setdefault(wish.image, wish.wanted_by)
    yield from found.items()


def _listing(version: str, images: Mapping[str, str], message: str, remedy: str) -> Finding:
    shown = [f"{image} ({wanted_by})" for image, wanted_by in list(images.items())[:MAX_NAMED]]
    more = f" and {len(images) - MAX_NAMED} more" if len(images) > MAX_NAMED else ""
    count = f"{len(images)} image{'s' if len(images) != 1 else ''}"
    return Finding(
        severity=Severity.WARNS,
        object=f"release {version}",
        field="image",
        message=f"{message.format(count)}: {', '.join(shown)}{more}",
        remedy=remedy,
    )
