"""What `hopline offline fetch` does: the index of versions, then the VersionConfig of one, both in one folder."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote, urljoin, urlsplit

from hopline.documents.origins import Origin
from hopline.documents.reading import read_documents
from hopline.documents.version_configs import load_version_config
from hopline.domain.errors import InvalidDocument, InvalidInput, Transient
from hopline.domain.release_origin import RegistryAccess
from hopline.domain.version_index import INDEX_FILE, IndexEntry, entry_for, read_index
from hopline.domain.wire import WireModel
from hopline.oci.downloads import Downloader
from starter.offline_access import AccessOptions

ATTEMPTS = 4
LONGEST_WAIT_SECONDS = 10.0
MAX_BYTES = 10 * 1024 * 1024
"""Of an index or a VersionConfig; published ones have some 50 KB."""

Tell = Callable[[str], None]


class FetchedConfig(WireModel):
    """The stable JSON of `hopline offline fetch`.

    Attributes:
        index: the address or file that was given.
        source: where the VersionConfig came from.
        file: where it lies now.
        changed: nothing of that name and content lay there before.
    """

    version: str
    index: str
    source: str
    file: str
    digest: str
    changed: bool


def access_of(url: str, *, ca: Path | None, insecure: bool, auth_file: Path | None) -> RegistryAccess:
    """What the options mean for the host of an address. InvalidInput when one of them cannot be used."""
    login, _, host = urlsplit(url).netloc.rpartition("@")
    if login:
        raise InvalidInput(
            "an address with a login in it ends in logs and histories",
            subject="option",
            field="--index",
            value=host,
            remedy="leave it out, and give the login with --auth-file",
        )
    given = AccessOptions([str(ca)] if ca else [], [host] if insecure else [], auth_file=auth_file)
    return given.read().to(host)


def is_url(index: str) -> bool:
    """An address, and not a file."""
    return "://" in index


async def fetch_from_server(
    index: str, version: str, folder: Path, access: RegistryAccess, *, tell: Tell, patience: float = 1.0
) -> FetchedConfig:
    """Bring index and VersionConfig into a folder, under the names that the server gives them.

    Args:
        patience: seconds before the second attempt, when the server does not say.

    Raises:
        Refusal: the index has no such version.
        InvalidDocument: a web page, no YAML, or a VersionConfig of another version.
        PortError: the server does not answer, or not with the file.
    """
    async with Downloader(access) as downloader:
        place = folder / INDEX_FILE

        async def bring(url: str, target: Path, check: Callable[[Path], None]) -> None:
            await _patiently(lambda: downloader.download(url, target, limit=MAX_BYTES, check=check), tell, patience)

        def look(file: Path) -> None:
            _entry_in(file, version, index)

        await bring(index, place, look)
        entry = _entry_in(place, version, index)
        url = urljoin(index, quote(entry.path))
        target = folder / entry.name
        before = _digest(target)
        await bring(url, target, lambda file: _require(file, version, url))
    return _fetched(index, version, url, target, before)


def fetch_from_file(index: Path, version: str, folder: Path) -> FetchedConfig:
    """The same with files that somebody has downloaded: beside the index, by path or by name alone.

    Raises as `fetch_from_server`; InvalidInput when the VersionConfig is not there.
    """
    entry = _entry_in(index, version, str(index))
    places = dict.fromkeys((index.parent / entry.path, index.parent / entry.name))
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise InvalidInput(
            "the VersionConfig is not beside its index",
            subject=str(index),
            field="filePath",
            value=entry.path,
            remedy=f"download it into {index.parent}, or give the address of the index",
        )
    _require(found, version, str(found))
    target = folder / entry.name
    before = _digest(target)
    if before != _digest(found):
        _copy(index, folder / INDEX_FILE)
        _copy(found, target)
    return _fetched(str(index), version, str(found), target, before)


async def _patiently(work: Callable[[], Awaitable[None]], tell: Tell, patience: float) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await work()
        except Transient as fault:
            if attempt == ATTEMPTS:
                raise
            wait = min(fault.retry_after or patience * 2 ** (attempt - 1), LONGEST_WAIT_SECONDS)
            value = f" ({fault.value})" if fault.value else ""
            tell(f"{fault.subject}: {fault.message}{value}; trying again, {attempt} of {ATTEMPTS - 1}")
            await asyncio.sleep(wait)
    return None


def _entry_in(file: Path, version: str, subject: str) -> IndexEntry:
    documents = list(read_documents(_yaml(file, subject), Origin(subject)))
    if len(documents) != 1:
        raise InvalidDocument(
            "the index must be exactly one document", subject=subject, value=str(len(documents)), remedy="correct it"
        )
    return entry_for(read_index(documents[0].value, subject), version, subject)


def _require(file: Path, version: str, subject: str) -> None:
    named = load_version_config(_yaml(file, subject), subject).open_fuyao_version
    if named != version:
        raise InvalidDocument(
            f"the VersionConfig is not for {version}",
            subject=subject,
            field="openFuyaoVersion",
            value=named,
            remedy="ask who publishes it: a bundle of it would hold another version",
        )


def _yaml(file: Path, subject: str) -> str:
    """The text of a file. InvalidDocument for a web page."""
    text = _text(file, subject)
    if text.lstrip()[:32].lower().startswith(("<!doctype", "<html")):
        raise InvalidDocument(
            "this is a web page, not YAML", subject=subject, remedy="check the address and proxies on the way"
        )
    return text


def _fetched(index: str, version: str, source: str, target: Path, before: str) -> FetchedConfig:
    digest = _digest(target)
    return FetchedConfig(
        version=version, index=index, source=source, file=str(target), digest=digest, changed=digest != before
    )


def _digest(file: Path) -> str:
    try:
        return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    except OSError:
        return ""


def _copy(source: Path, target: Path) -> None:
    if target.exists() and source.samefile(target):
        return
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, part)
        part.replace(target)
    except OSError as error:
        raise InvalidInput(
            f"the file cannot be written: {error.strerror or error}",
            subject="option",
            field="--to",
            value=str(target),
            remedy="make room there, or name another folder",
        ) from None


def _text(file: Path, subject: str = "") -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(
            "a file cannot be read as text",
            subject=subject or "option",
            field="file",
            value=str(file),
            remedy="name another one",
        ) from None
