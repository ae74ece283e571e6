"""Files, patches, charts and packages of a VersionConfig, from web servers into the folder of a bundle."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, unquote, urljoin, urlsplit

from hopline.domain.errors import InvalidInput, Refusal
from hopline.domain.offline_bundle import LAYOUT_FOLDER, VOLUMES, BundledFile, Section, is_inside
from hopline.domain.version_config import FILE_SECTIONS, PACKAGE_SECTIONS, PackageSource, VersionConfig
from hopline.oci.downloads import Downloader
from hopline.oci.progress import Progress
from hopline.oci.side_by_side import all_of, patiently

PARALLEL_FILES = 3
MAX_LISTING_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 4
"""Of folders below a folder of packages, such as `repodata`."""

DownloaderOf = Callable[[str], Downloader]
"""The downloader for an address."""


@dataclass(frozen=True)
class WantedFile:
    """One file, and where it lies in its section.

    Attributes:
        place: where in the VersionConfig it stands, for messages.
    """

    section: Section
    name: str
    url: str
    place: str

    @property
    def path(self) -> str:
        """Its place in the bundle."""
        folder = f"{VOLUMES}/{self.section.folder}" if self.section.folder else VOLUMES
        return f"{folder}/{self.name}"


def wanted_files(configs: Mapping[str, VersionConfig]) -> tuple[WantedFile, ...]:
    """The files that are listed by name, each once.

    Args:
        configs: by the name of their file.

    Raises:
        InvalidInput: a name that leads out of its folder, one that two addresses have, or a login in an address.
    """
    found: dict[str, WantedFile] = {}
    for origin, config in configs.items():
        for wanted in _listed(config, origin):
            earlier = found.setdefault(wanted.path, wanted)
            if earlier.url != wanted.url:
                raise _refused(wanted, origin, "two files have one name", f"{earlier.url} and {wanted.url}")
    return tuple(found.values())


def _listed(config: VersionConfig, origin: str) -> Iterator[WantedFile]:
    for section in FILE_SECTIONS:
        for index, source in enumerate(getattr(config, section)):
            for number, file in enumerate(source.files):
                place = f"{section}[{index}].files[{number}]"
                url = f"{_folder(source.address)}{quote(file.file_name)}"
                wanted = WantedFile(Section(section), file.kept_name, url, place)
                _require_plain(wanted, origin)
                yield wanted


def _require_plain(wanted: WantedFile, origin: str) -> None:
    taken = (LAYOUT_FOLDER.rpartition("/")[2], *(one.folder for one in Section if one.folder))
    if not is_inside(wanted.name):
        raise _refused(wanted, origin, "the name of a file leads out of its folder", wanted.name)
    if wanted.section is Section.FILES and wanted.name.partition("/")[0] in taken:
        raise _refused(wanted, origin, "a file has the name of a folder of the bundle", wanted.name)
    if "@" in urlsplit(wanted.url).netloc:
        raise _refused(wanted, origin, "an address holds a login, which would be written into the bundle", "***")


class FileFetcher:
    """Fetches files side by side into the folder of a bundle. What is there was fetched whole by an earlier attempt."""

    def __init__(self, root: Path, downloader: DownloaderOf, progress: Progress, *, patience: float = 1.0) -> None:
        self._root = root
        self._downloader = downloader
        self._progress = progress
        self._patience = patience
        self._slots = asyncio.Semaphore(PARALLEL_FILES)

    async def fetch(self, wanted: Iterable[WantedFile]) -> list[BundledFile]:
        """Bring files, in their order. Raises what `Downloader.download` raises."""
        return await all_of(self._one(one) for one in wanted)

    async def packages(self, configs: Mapping[str, VersionConfig]) -> tuple[WantedFile, ...]:
        """What the listed folders of packages hold, by the listings of their server.

        Raises:
            Refusal: a folder without a single file.
            PortError: no usable answer.
        """
        folders = {
            wanted.path: wanted
            for origin, config in configs.items()
            for section in PACKAGE_SECTIONS
            for index, source in enumerate(getattr(config, section))
            for wanted in _folders(Section(section), source, f"{section}[{index}]", origin)
        }
        found = await all_of(self._files_in(folder, 0) for folder in folders.values())
        return tuple(file for files in found for file in files)

    async def _files_in(self, folder: WantedFile, depth: int) -> list[WantedFile]:
        names = await self._listing(folder)
        files = [
            WantedFile(folder.section, f"{folder.name}/{name}", f"{folder.url}{quote(name)}", folder.place)
            for name in names
            if not name.endswith("/")
        ]
        if depth < MAX_DEPTH:
            below = [
                WantedFile(folder.section, f"{folder.name}/{name[:-1]}", f"{folder.url}{quote(name)}", folder.place)
                for name in names
                if name.endswith("/")
            ]
            for inner in await all_of(self._files_in(one, depth + 1) for one in below):
                files += inner
        if not files and depth == 0:
            raise Refusal(
                "the folder of packages lists no file",
                subject=folder.url,
                field=folder.place,
                remedy="correct it in the VersionConfig, or let the server show the folder",
            )
        return files

    async def _listing(self, folder: WantedFile) -> list[str]:
        """Names in a folder, as the page of its server links them; folders end in a slash."""
        with TemporaryDirectory(prefix="hopline-listing-") as temporary:
            page = Path(temporary) / "listing"
            downloader = self._downloader(folder.url)
            async with self._slots:
                await patiently(
                    lambda: downloader.download(folder.url, page, limit=MAX_LISTING_BYTES, pages=True),
                    self._progress.tell,
                    patience=self._patience,
                )
            text = await asyncio.to_thread(page.read_text, "utf-8", "replace")
        return linked_names(text, folder.url)

    async def _one(self, wanted: WantedFile) -> BundledFile:
        target = self._root / wanted.path
        async with self._slots:
            if not await asyncio.to_thread(target.is_file):
                await self._download(wanted, target)
            size, digest = await asyncio.to_thread(_measured, target)
        self._progress.tell(f"{wanted.section} {wanted.name}  {digest[:19]}")
        return BundledFile(
            section=wanted.section, path=wanted.path, name=wanted.name, digest=digest, size=size, source=wanted.url
        )

    async def _download(self, wanted: WantedFile, target: Path) -> None:
        seen, expected = 0, 0

        def moved(here: int, total: int) -> None:
            nonlocal seen, expected
            self._progress.expect(max(total, here) - expected)
            self._progress.moved(here - seen)
            seen, expected = here, max(total, here)

        downloader = self._downloader(wanted.url)
        await patiently(
            lambda: downloader.download(wanted.url, target, progress=moved),
            self._progress.tell,
            patience=self._patience,
        )


def linked_names(page: str, url: str) -> list[str]:
    """Names below an address that a page links; sorting links, parents and other places are left out."""
    parser = _Links()
    parser.feed(page)
    base = urlsplit(url)
    found: dict[str, None] = {}
    for link in parser.links:
        parts = urlsplit(urljoin(url, link))
        if (parts.scheme, parts.netloc) != (base.scheme, base.netloc):
            continue
        name = unquote(parts.path.removeprefix(base.path)) if parts.path.startswith(base.path) else ""
        if name and "/" not in name[:-1] and is_inside(name.rstrip("/")):
            found[name] = None
    return list(found)


class _Links(HTMLParser):
    """Collects what a page links."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One tag."""
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]


def _folders(section: Section, source: PackageSource, place: str, origin: str) -> Iterator[WantedFile]:
    for name in source.folders():
        folder = WantedFile(section, name, f"{_folder(source.address)}{quote(name)}/", place)
        _require_plain(folder, origin)
        yield folder


def _folder(address: str) -> str:
    return address if address.endswith("/") else f"{address}/"


def _measured(file: Path) -> tuple[int, str]:
    with file.open("rb") as stream:
        return file.stat().st_size, f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def _refused(wanted: WantedFile, origin: str, message: str, value: str) -> InvalidInput:
    return InvalidInput(message, subject=origin, field=wanted.place, value=value, remedy="correct the VersionConfig")
