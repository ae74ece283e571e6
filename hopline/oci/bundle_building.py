"""Builds an offline bundle: everything into a work folder, then one tarball. Killed, it goes on where it stopped."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopline.documents.loading import load_documents
from hopline.documents.writing import dump_documents
from hopline.domain.bundle_plan import (
    PlannedImage,
    catalogue_image,
    hops,
    merged_config,
    planned_images,
    release_place,
)
from hopline.domain.catalogue import Catalogue, read_catalogue
from hopline.domain.errors import InvalidCatalogue
from hopline.domain.offline_bundle import (
    BUNDLE_FILE,
    CONFIG_FILE,
    CONFIG_FOLDER,
    LAYOUT_FOLDER,
    VOLUMES,
    BundledBlob,
    BundledConfig,
    BundledFile,
    OfflineBundle,
)
from hopline.domain.resources import UPGRADE_PATH
from hopline.domain.version_config import VersionConfig, wanted_images
from hopline.oci.bundle_archive import Entry, write_archive
from hopline.oci.client import RegistryClient
from hopline.oci.downloads import Downloader
from hopline.oci.file_fetching import FileFetcher, wanted_files
from hopline.oci.image_fetching import FetchedImage, ImageFetcher
from hopline.oci.layout import OciLayout, write_whole, writing
from hopline.oci.manifests import choose_platform, digest_of
from hopline.oci.one_at_a_time import alone
from hopline.oci.progress import Progress
from hopline.oci.side_by_side import all_of, both
from hopline.oci.unpacking import Limits, unpack

CATALOGUE_FILE = "paths.yaml"
_ORDER = ".order"


@dataclass(frozen=True)
class GivenConfig:
    """A VersionConfig as it was given."""

    name: str
    text: bytes
    document: Mapping[str, Any]
    config: VersionConfig


@dataclass(frozen=True)
class BuildOrder:
    """What is wanted.

    Attributes:
        target: the tarball.
        name: the folder in it.
        work: where everything is gathered.
        starts: versions that clusters have now; none: every one from which a target can be reached.
        releases: `HOST/PATH` of releases and catalogue; empty: as the VersionConfigs say.
    """

    target: Path
    name: str
    work: Path
    configs: tuple[GivenConfig, ...]
    starts: tuple[str, ...] = ()
    releases: str = ""

    @property
    def by_name(self) -> dict[str, VersionConfig]:
        """The VersionConfigs, by the names of their files."""
        return {given.name: given.config for given in self.configs}

    @property
    def targets(self) -> tuple[str, ...]:
        """The versions that they are for."""
        return tuple(dict.fromkeys(given.config.open_fuyao_version for given in self.configs))


class BundleBuilder:
    """One build. `client` and `downloader` answer for a host; whoever made them closes them."""

    def __init__(
        self,
        order: BuildOrder,
        client: Callable[[str], RegistryClient],
        downloader: Callable[[str], Downloader],
        progress: Progress,
        *,
        patience: float = 1.0,
    ) -> None:
        self._order = order
        self._progress = progress
        self._root = order.work / order.name
        self._layout = OciLayout(self._root / LAYOUT_FOLDER)
        self._images = ImageFetcher(self._layout, client, progress, patience=patience)
        self._files = FileFetcher(self._root, downloader, progress, patience=patience)

    async def build(self) -> OfflineBundle:
        """Gather everything and write the tarball; the work folder is gone afterwards.

        Raises:
            InvalidInput, Refusal: something that cannot be carried, or is not what it should be.
            PortError: a server that does not answer, or a disk that is full; what has come is kept for next time.
        """
        remedy = "wait for it, or give the tarball another name"
        with alone(self._order.work, who="build", field="-t", remedy=remedy):
            await asyncio.to_thread(self._prepare)
            try:
                bundle = await self._gathered()
            finally:
                await self._images.aclose()
            entries = await asyncio.to_thread(self._written, bundle)
            self._progress.tell(f"writing {self._order.target}")
            self._progress.expect(sum(entry.size for entry in entries))
            moved = self._progress.moved
            await asyncio.to_thread(write_archive, self._order.target, self._order.name, entries, moved)
            await asyncio.to_thread(shutil.rmtree, self._order.work, True)
        return bundle

    def _prepare(self) -> None:
        """Blobs of any earlier attempt are kept, other files only when the same was ordered."""
        order = hashlib.sha256(b"\0".join(given.text for given in self._order.configs)).hexdigest()
        mark = self._order.work / _ORDER
        self._layout.create()
        with writing(self._order.work):
            if not mark.is_file() or mark.read_text() != order:
                for path in (self._root / VOLUMES).iterdir():
                    if path.name != self._layout.root.name:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                write_whole(mark, order.encode())

    async def _gathered(self) -> OfflineBundle:
        order = self._order
        place = release_place(order.by_name, order.releases)
        fetched_catalogue = await self._fetch(catalogue_image(place))
        catalogue = await asyncio.to_thread(self._catalogue, fetched_catalogue)
        versions = hops(catalogue, order.targets, order.starts)
        self._tell_what_is_not_in(versions)
        planned = planned_images(order.by_name, place, versions)
        named = wanted_files(order.by_name)
        rest = [one for one in planned if one.wanted.name != fetched_catalogue.image.name]
        images, files = await both(all_of(self._fetch(one) for one in rest), self._all_files(named))
        return await asyncio.to_thread(self._described, [fetched_catalogue, *images], files, versions, planned)

    def _tell_what_is_not_in(self, versions: tuple[str, ...]) -> None:
        without = [version for version in versions if version not in self._order.targets]
        if without:
            self._progress.tell(
                f"the path leads through {', '.join(without)}: their images are in only as far as a given VersionConfig"
                " lists them; give theirs as well with -f, or the versions to start from with --from"
            )
        for name, config in self._order.by_name.items():
            if config.registry.image_address:
                address = config.registry.image_address
                self._progress.tell(f"{name}: registry.imageAddress {address} is not carried: no load needs it")
            left = [wanted.name for wanted in wanted_images(config) if not wanted.packed]
            if left:
                self._progress.tell(f"{name}: not packed, as needDownload says: {', '.join(left)}")

    async def _fetch(self, planned: PlannedImage) -> FetchedImage:
        return await self._images.fetch(planned.wanted, planned.role)

    async def _all_files(self, named: tuple[Any, ...]) -> list[BundledFile]:
        packages = await self._files.packages(self._order.by_name)
        return await self._files.fetch((*named, *packages))

    def _catalogue(self, fetched: FetchedImage) -> Catalogue:
        """The UpgradePath in the image. Raises InvalidCatalogue when there is none."""
        source = fetched.image.source
        manifest = self._layout.manifest(fetched.image.digest)
        if manifest.is_index:
            manifest = self._layout.manifest(choose_platform(manifest).digest)
        limits = Limits()
        layers = [(layer, self._layout.small(layer.digest, limits.layer_bytes)) for layer in manifest.layers]
        files = unpack(source, layers, limits)
        documents = load_documents(files.get(CATALOGUE_FILE, ""), f"{source}!{CATALOGUE_FILE}")
        found = [one for one in documents if one.kind == UPGRADE_PATH.kind]
        if len(found) != 1:
            raise InvalidCatalogue(
                "the image of the catalogue does not hold one UpgradePath",
                subject=source,
                field=CATALOGUE_FILE,
                value=f"{len(found)} of {len(documents)} documents",
                remedy="push it anew, or name another place with --releases",
            )
        return read_catalogue(found[0].document)

    def _described(
        self,
        images: list[FetchedImage],
        files: list[BundledFile],
        versions: tuple[str, ...],
        planned: tuple[PlannedImage, ...],
    ) -> OfflineBundle:
        """Writes everything that is not fetched, `bundle.json` last."""
        order = self._order
        sizes = {digest: size for one in images for digest, size in sorted(one.sizes.items())}
        names = {one.image.name: (one.image.digest, one) for one in images}
        for one in images:
            tagged = [attached for attached in one.image.attached if attached.tag]
            names.update({f"{one.image.repository}:{each.tag}": (each.digest, one) for each in tagged})
        self._layout.write_index(
            (name, digest, one.sizes[digest], one.media_types[digest]) for name, (digest, one) in names.items()
        )
        configs = tuple(self._config(given) for given in order.configs)
        merged = dump_documents([merged_config([given.document for given in order.configs], planned)])
        with writing(self._root / CONFIG_FILE):
            write_whole(self._root / CONFIG_FILE, merged.encode())
        bundle = OfflineBundle(
            name=order.name,
            versions=order.targets,
            releases=versions,
            architectures=tuple(dict.fromkeys(a for given in order.configs for a in given.config.architectures)),
            configs=configs,
            images=tuple(one.image for one in images),
            files=tuple(files),
            blobs=tuple(BundledBlob(digest=digest, size=size) for digest, size in sizes.items()),
        )
        with writing(self._root / BUNDLE_FILE):
            write_whole(self._root / BUNDLE_FILE, bundle.model_dump_json(indent=1).encode())
        return bundle

    def _config(self, given: GivenConfig) -> BundledConfig:
        path = f"{CONFIG_FOLDER}/{given.name}"
        with writing(self._root / path):
            (self._root / CONFIG_FOLDER).mkdir(exist_ok=True)
            write_whole(self._root / path, given.text)
        version = given.config.open_fuyao_version
        return BundledConfig(version=version, path=path, digest=digest_of(given.text), size=len(given.text))

    def _written(self, bundle: OfflineBundle) -> list[Entry]:
        """What goes into the tarball, in its order: what describes it first."""
        own = [BUNDLE_FILE, CONFIG_FILE, f"{LAYOUT_FOLDER}/oci-layout", f"{LAYOUT_FOLDER}/index.json"]
        entries = []
        for path in own:
            content = (self._root / path).read_bytes()
            entries.append(Entry(path, self._root / path, digest_of(content), len(content)))
        entries += [Entry(one.path, self._root / one.path, one.digest, one.size) for one in bundle.configs]
        for blob in bundle.blobs:
            place = self._layout.blob(blob.digest)
            entries.append(Entry(place.relative_to(self._root).as_posix(), place, blob.digest, blob.size))
        entries += [Entry(one.path, self._root / one.path, one.digest, one.size) for one in bundle.files]
        return entries
