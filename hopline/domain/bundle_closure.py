"""Whether an offline bundle is closed: everything that its releases run is inside, and every byte is as it was.

An image is inside when the registry of the cluster will have it: its name below the cluster's registry is one of the
bundle's, and a digest in it is that of the image or of one of its platforms. An image of another registry is not,
wherever the bundle may carry the same bytes: nobody would find them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hopline.domain.container_images import image_name
from hopline.domain.image_references import ImageReference
from hopline.domain.image_supply import ImageWish, name_at
from hopline.domain.plan import Finding, Severity
from hopline.domain.wire import WireModel


class MissingImage(WireModel):
    """An image that is wanted and not inside.

    Attributes:
        wanted_by: the first place that names it, and how many more there are.
        reason: why what the bundle carries does not count.
    """

    image: str
    wanted_by: str
    reason: str = ""


class CorruptPart(WireModel):
    """A part of the bundle that is not what it should be, by its path from the top of the bundle."""

    path: str
    reason: str


class BundleSignature(WireModel):
    """Signatures of a release: how many are inside, and the keys whose signatures were looked for and count."""

    image: str
    found: int = 0
    keys: tuple[str, ...] = ()


class ClosureReport(WireModel):
    """The stable JSON of `hopline offline verify`.

    Attributes:
        closed: nothing is missing or corrupt, and no finding blocks.
        versions: for which the bundle was built; `releases`: whose release images are inside, every hop of the path.
        images: how many images the releases run, each counted once.
        excepted: images that were declared to be at hand anyway, and are not inside.
    """

    source: str
    closed: bool = False
    versions: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    images: int = 0
    missing: tuple[MissingImage, ...] = ()
    corrupt: tuple[CorruptPart, ...] = ()
    excepted: tuple[str, ...] = ()
    signatures: tuple[BundleSignature, ...] = ()
    findings: tuple[Finding, ...] = ()

    def judged(self) -> ClosureReport:
        """The same with its verdict."""
        blocks = any(finding.severity is Severity.BLOCKS for finding in self.findings)
        return self.model_copy(update={"closed": not (self.missing or self.corrupt or blocks)})


@dataclass(frozen=True)
class HeldImage:
    """An image in a bundle.

    Attributes:
        digests: of what its tag names, and of everything that lists.
        architectures: that it serves; empty where it has none.
    """

    name: str
    digests: frozenset[str] = frozenset()
    architectures: tuple[str, ...] = ()

    @property
    def repository(self) -> str:
        """Its path at the registry."""
        return self.name.rpartition(":")[0]


@dataclass
class Demand:
    """What is wanted of a bundle, and by whom: image → places, in the order in which they were found."""

    places: dict[str, list[str]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, image: str, wanted_by: str, reason: str = "") -> None:
        """One more place that wants an image."""
        places = self.places.setdefault(image, [])
        if wanted_by not in places:
            places.append(wanted_by)
        if reason:
            self.reasons.setdefault(image, reason)

    def missing(self) -> tuple[MissingImage, ...]:
        """Everything, by name."""
        return tuple(
            MissingImage(image=image, wanted_by=_counted(places), reason=self.reasons.get(image, ""))
            for image, places in sorted(self.places.items())
        )


def _counted(places: Sequence[str]) -> str:
    return places[0] + (f" and {len(places) - 1} more" if len(places) > 1 else "")


class Contents:
    """The images of a bundle, by the names under which a registry will have them."""

    def __init__(self, held: Iterable[HeldImage]) -> None:
        self.by_name = {image.name: image for image in held}
        self._repositories: dict[str, set[str]] = {}
        for image in self.by_name.values():
            self._repositories.setdefault(image.repository, set()).update(image.digests)

    def found(self, image: ImageReference, hosts: Collection[str]) -> HeldImage | None:
        """What a cluster with these registries would get; None when it would get nothing."""
        if image.digest:
            if image.host in hosts and image.digest in self._repositories.get(image.repository, ()):
                mine = [one for one in self.by_name.values() if one.repository == image.repository]
                return next(one for one in mine if image.digest in one.digests)
            return None
        return self.by_name.get(name_at(image, hosts))

    def reason(self, image: ImageReference, hosts: Collection[str], unpacked: Collection[str]) -> str:
        """Why an image that is not found is not found."""
        name = name_at(image, hosts)
        if name in unpacked:
            return "a VersionConfig lists it with needDownload: false"
        if name and image.digest:
            tags = sorted(one.name for one in self.by_name.values() if one.repository == image.repository)
            return f"{', '.join(tags)} has another digest" if tags else ""
        if name:
            return ""
        last = image.repository.rpartition("/")[2]
        same = sorted(one for one in self.by_name if one.rpartition("/")[2] == f"{last}:{image.tag}")
        where = f"{image.host} is not the registry of the cluster"
        return f"{where}; the bundle has {', '.join(same)}: set HOPLINE_REGISTRY_OVERRIDES" if same else where


def lacking(
    wishes: Iterable[ImageWish],
    contents: Contents,
    hosts: Collection[str],
    *,
    unpacked: Collection[str] = (),
    excepted: Collection[str] = (),
) -> tuple[Demand, dict[str, HeldImage]]:
    """The images that are not inside, and those that are, by the text that names them.

    Args:
        hosts: registries of the cluster that runs them.
        unpacked: names that a VersionConfig lists without packing them.
        excepted: images that are declared to be at hand.
    """
    demand, inside = Demand(), {}
    for wish in wishes:
        name = image_name(wish.image)
        if name is None:
            demand.add(wish.image, wish.wanted_by, "this is no reference of an image")
        elif (held := contents.found(name, hosts)) is not None:
            inside[wish.image] = held
        elif wish.image not in excepted and str(name) not in excepted:
            what = "probably an image; if not, name it with --except" if wish.probable else ""
            reason = "; ".join(filter(None, (contents.reason(name, hosts, unpacked), what)))
            demand.add(wish.image, wish.wanted_by, reason)
    return demand, inside


def architecture_findings(inside: Mapping[str, HeldImage], architectures: Sequence[str]) -> tuple[Finding, ...]:
    """Images that do not run on all machines that the bundle is for."""
    found = {}
    for image in inside.values():
        absent = [one for one in architectures if one not in image.architectures]
        if image.architectures and absent:
            found[image.name] = Finding(
                severity=Severity.BLOCKS,
                object=image.name,
                field="architecture",
                message=f"the image is not for {', '.join(absent)}, only for {', '.join(image.architectures)}",
                remedy="publish it for these machines, and build the bundle again",
            )
    return tuple(found[name] for name in sorted(found))
