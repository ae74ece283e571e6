"""What `hopline offline verify` does: reads a bundle to its last byte, renders every release, and compares."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hopline.documents.bundles import parse_bundle
from hopline.documents.loading import load_documents
from hopline.documents.version_configs import load_version_config, version_config_document
from hopline.domain.assumed_cluster import assumed_cluster
from hopline.domain.bundle_closure import (
    BundleSignature,
    ClosureReport,
    Contents,
    CorruptPart,
    Demand,
    HeldImage,
    architecture_findings,
    lacking,
)
from hopline.domain.bundle_plan import hops
from hopline.domain.catalogue import Catalogue, read_catalogue
from hopline.domain.cluster import ClusterFacts
from hopline.domain.container_images import image_name
from hopline.domain.errors import (
    InvalidCatalogue,
    InvalidDocument,
    InvalidInput,
    InvalidRelease,
    NoUpgradePath,
    Refusal,
)
from hopline.domain.image_overrides import NO_OVERRIDES, ImageOverrides
from hopline.domain.image_references import CATALOGUE_NAME, CATALOGUE_TAG, DEFAULT_PREFIX, RELEASE_NAME
from hopline.domain.image_supply import name_at, supply_of
from hopline.domain.offline_bundle import CONFIG_FILE, BundledImage
from hopline.domain.plan import Finding, Severity
from hopline.domain.release import Release
from hopline.domain.release_verdict import verdict_of, verdict_on
from hopline.domain.resources import UPGRADE_PATH
from hopline.domain.version_config import read_version_config, wanted_images
from hopline.files.objects import read_objects
from hopline.oci.bundle_archive import unpack_archive
from hopline.oci.bundle_reading import PackageReader
from hopline.oci.keys import read_keys
from hopline.oci.layout import writing
from hopline.oci.packages import REGISTRY_STORAGE, Package, needs_room, open_package
from hopline.oci.progress import Progress
from hopline.oci.signatures import require_signature
from hopline.operations.bundle_images import wished_images
from hopline.operations.image_supply import image_repo_of

CATALOGUE_FILE = "paths.yaml"


@dataclass(frozen=True)
class VerifyOrder:
    """What is asked.

    Attributes:
        objects: files with the BKEClusters that the releases are rendered for; none: an assumed one.
        keys: PEM; every release must be signed by one of them.
        architectures: of the machines; none: those that the bundle says it is for.
        starts: versions that clusters have now; none: as the bundle says.
        excepted: images that are at hand without the bundle.
    """

    source: Path
    objects: tuple[Path, ...] = ()
    keys: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    excepted: tuple[str, ...] = ()
    overrides: ImageOverrides = NO_OVERRIDES
    work: Path | None = None


@dataclass
class _Found:
    """Everything that was found, before it is one report."""

    demand: Demand = field(default_factory=Demand)
    findings: list[Finding] = field(default_factory=list)
    inside: dict[str, HeldImage] = field(default_factory=dict)
    wanted: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    """Of missing images, as a VersionConfig would list them."""
    signatures: list[BundleSignature] = field(default_factory=list)


def key_texts(files: Sequence[Path]) -> tuple[str, ...]:
    """The PEM texts of files. InvalidInput for one that cannot be read."""
    try:
        return tuple(file.read_text() for file in files)
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(
            "a key cannot be read as text",
            subject="option",
            field="--key",
            value=", ".join(map(str, files)),
            remedy="name PEM files",
        ) from None


def verify(order: VerifyOrder, progress: Progress) -> ClosureReport:
    """The verdict; blocks for as long as it reads.

    A package that cannot be opened is an answer, too. Raises InvalidInput for an option that cannot be used.
    """
    clusters = _clusters(order.objects)
    read_keys(order.keys, field="--key")
    try:
        with _opened(order, progress) as package:
            return _Verifier(order, package, clusters, progress).report()
    except (InvalidDocument, InvalidRelease) as error:
        why = f"{error.message}: {error.value}" if error.value else error.message
        return ClosureReport(source=str(order.source), corrupt=(CorruptPart(path=error.subject, reason=why),))


@contextmanager
def _opened(order: VerifyOrder, progress: Progress) -> Iterator[Package]:
    """The package; a tarball is unpacked into a folder of its own, which is gone afterwards."""
    is_folder = order.source.is_dir()
    if is_folder and not needs_room(order.source):
        yield open_package(order.source, order.source, progress.moved)
        return
    beside = order.work or order.source.absolute().parent
    with writing(beside):
        temporary = tempfile.TemporaryDirectory(prefix=f".{order.source.name}.", dir=beside)
    with temporary as folder:
        archive = order.source / REGISTRY_STORAGE if is_folder else order.source
        progress.expect(archive.stat().st_size)
        root = order.source if is_folder else unpack_archive(order.source, Path(folder), progress.moved)
        yield open_package(root, Path(folder) / ".images", progress.moved)


def _clusters(files: Sequence[Path]) -> tuple[ClusterFacts, ...]:
    if not files:
        return ()
    objects = read_objects(files)
    found = tuple(objects.cluster(key) for key in objects.clusters())
    if not found:
        raise InvalidDocument("there is no BKECluster in the files", subject=objects.origin, remedy="add one")
    return found


class _Verifier:
    """One verification of an open package."""

    def __init__(
        self, order: VerifyOrder, package: Package, clusters: Sequence[ClusterFacts], progress: Progress
    ) -> None:
        self._order = order
        self._clusters = clusters
        self._progress = progress
        self._bundle = package.bundle
        self._package = package
        self._reader = PackageReader(package, progress.moved)
        self._contents = Contents(self._reader.held())
        self._documents = self._version_configs()
        self._packed, self._unpacked = self._listed(packed=True), self._listed(packed=False)
        self._found = _Found()
        releases = [one for one in self._bundle.images if one.repository.rpartition("/")[2] == RELEASE_NAME]
        self._releases = {one.tag: one for one in releases}
        self._prefix = releases[0].repository.rpartition("/")[0] if releases else DEFAULT_PREFIX

    def report(self) -> ClosureReport:
        """Everything, in one."""
        self._progress.expect(self._reader.size)
        self._reader.check()
        self._check_path()
        for image in self._releases.values():
            self._check_release(image)
        self._check_lists()
        architectures = self._order.architectures or self._bundle.architectures
        self._found.findings += architecture_findings(self._found.inside, architectures)
        excepted = sorted(self._found.wanted & set(self._order.excepted) - self._found.inside.keys())
        return ClosureReport(
            source=str(self._order.source),
            versions=self._bundle.versions,
            releases=tuple(self._releases),
            architectures=tuple(architectures),
            images=len(self._found.wanted),
            missing=self._found.demand.missing(),
            corrupt=self._reader.corrupt,
            excepted=tuple(excepted),
            signatures=tuple(self._found.signatures),
            findings=tuple(dict.fromkeys(self._found.findings)),
        ).judged()

    # --- the path --------------------------------------------------------------------------------------------------

    def _check_path(self) -> None:
        """Every hop has its release, by what the bundle declares and by the catalogue in it."""
        for version in self._bundle.releases:
            self._need_release(version, "the bundle says that it has the release")
        name = f"{self._prefix}/{CATALOGUE_NAME}:{CATALOGUE_TAG}"
        image = next((one for one in self._bundle.images if one.name == name), None)
        if image is None or image.name not in self._contents.by_name:
            self._found.demand.add(name, "whoever looks for a path to a version")
            return
        try:
            catalogue = _catalogue(self._reader.files(image), image.name)
            starts = self._order.starts
            if not starts and self._package.is_ours:
                starts = self._declared_starts(catalogue)
            for version in hops(catalogue, self._bundle.versions, starts):
                self._need_release(version, f"the path to {', '.join(self._bundle.versions)} by {name}")
        except Refusal as error:
            self._found.findings.extend(verdict_of(error).findings)

    def _declared_starts(self, catalogue: Catalogue) -> tuple[str, ...]:
        """Versions whose whole way the bundle says to have. That no way is whole is a finding."""
        possible = dict.fromkeys(edge.from_version for edge in catalogue.edges)
        declared, starts = set(self._bundle.releases), []
        for start in possible:
            try:
                way = hops(catalogue, self._bundle.versions, [start])
            except NoUpgradePath:
                continue
            if declared.issuperset(way):
                starts.append(start)
            else:
                lack = ", ".join(version for version in way if version not in declared)
                self._note(f"a cluster at {start} cannot be upgraded with it: it was built without {lack}")
        if not starts and possible:
            self._block("no version of the catalogue leads to what the bundle is for with the releases in it")
        return tuple(starts)

    def _need_release(self, version: str, wanted_by: str) -> None:
        name = f"{self._prefix}/{RELEASE_NAME}:{version}"
        if name not in self._contents.by_name:
            self._found.demand.add(name, wanted_by)

    # --- releases --------------------------------------------------------------------------------------------------

    def _check_release(self, image: BundledImage) -> None:
        if image.name not in self._contents.by_name:
            self._found.demand.add(image.name, f"the bundle lists release {image.tag}")
            return
        try:
            release = parse_bundle(self._reader.release(image))
        except Refusal as error:
            self._found.findings.extend(verdict_of(error).findings)
            return
        self._found.findings.extend(verdict_on(release, image.tag).findings)
        self._check_signature(image, release)
        applied = release.model_copy(update={"image_overrides": self._order.overrides.rules})
        for facts in self._clusters or (self._assumed(release.version),):
            self._check_images(applied, facts)

    def _check_images(self, release: Release, facts: ClusterFacts) -> None:
        self._progress.tell(f"rendering release {release.version} for {facts.key}")
        wishes, findings = wished_images(release, facts)
        self._found.findings += findings
        hosts = supply_of(image_repo_of(facts), {}, facts.subject).hosts
        demand, inside = lacking(wishes, self._contents, hosts, unpacked=self._unpacked, excepted=self._order.excepted)
        self._found.wanted.update(wish.image for wish in wishes)
        self._found.inside.update(inside)
        for image, places in demand.places.items():
            name = image_name(image)
            self._found.names.add(name_at(name, hosts) if name else "")
            for place in places:
                self._found.demand.add(image, place, demand.reasons.get(image, ""))

    def _check_lists(self) -> None:
        """What the VersionConfigs list is in, too."""
        for name, place in self._packed.items():
            if name not in {*self._contents.by_name, *self._found.names, *self._order.excepted}:
                self._found.demand.add(name, place)
        for held in self._contents.by_name.values():
            if held.name in self._packed:
                self._found.inside.setdefault(held.name, held)

    def _check_signature(self, image: BundledImage, release: Release) -> None:
        spec: Mapping[str, Any] = release.document.get("spec") or {}
        own_key = str(spec.get("signatureKey") or "")
        required = bool(self._order.keys) or spec.get("verifySignature") is True
        texts = self._order.keys or ((own_key,) if "-----BEGIN" in own_key else ())
        try:
            digests, found = self._reader.signatures(image)
            keys: tuple[str, ...] = ()
            if texts and required:
                keys = require_signature(image.name, found, digests, read_keys(texts, field="--key"))
            elif required and not found:
                self._block("a signature is required, and none is in the bundle", image.name, "sign it, build again")
            elif required:
                self._note("its signature was not looked at: give the key with --key", image.name)
            self._found.signatures.append(BundleSignature(image=image.name, found=len(found), keys=keys))
        except Refusal as error:
            self._found.findings.extend(verdict_of(error).findings)

    # --- what the bundle says ----------------------------------------------------------------------------------------

    def _version_configs(self) -> dict[str, dict[str, Any]]:
        """Path → VersionConfig as a document; one that cannot be read is corrupt, and told there."""
        paths = [config.path for config in self._bundle.configs] or [CONFIG_FILE]
        found = {}
        for path in paths:
            try:
                text = (self._package.root / path).read_text()
                load_version_config(text, path)
                found[path] = version_config_document(text, path)
            except (OSError, UnicodeDecodeError, InvalidDocument):
                continue
        return found

    def _listed(self, *, packed: bool) -> dict[str, str]:
        """Name → the place in the VersionConfig that lists it."""
        found: dict[str, str] = {}
        for path, document in self._documents.items():
            config = read_version_config(document, path)
            found.update({one.name: f"{path} {one.place}" for one in wanted_images(config) if one.packed is packed})
        return found

    def _assumed(self, version: str) -> ClusterFacts:
        documents = list(self._documents.values())
        own = next((one for one in documents if one.get("openFuyaoVersion") == version), None)
        return assumed_cluster(self._prefix, own or (documents[-1] if documents else {}), version)

    def _block(self, message: str, subject: str = "", remedy: str = "build it again, with every version") -> None:
        subject = subject or self._bundle.name
        self._found.findings.append(Finding(severity=Severity.BLOCKS, object=subject, message=message, remedy=remedy))

    def _note(self, message: str, subject: str = "") -> None:
        subject = subject or self._bundle.name
        self._found.findings.append(Finding(severity=Severity.INFO, object=subject, message=message))


def _catalogue(files: Mapping[str, str], origin: str) -> Catalogue:
    documents = load_documents(files.get(CATALOGUE_FILE, ""), f"{origin}!{CATALOGUE_FILE}")
    found: Iterable[Any] = [one for one in documents if one.kind in (UPGRADE_PATH.kind, "")]
    for source in found:
        return read_catalogue(source.document)
    raise InvalidCatalogue(
        "the image of the catalogue holds no UpgradePath", subject=origin, field=CATALOGUE_FILE, remedy="push it anew"
    )
