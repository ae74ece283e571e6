"""What `hopline offline build` does: reads VersionConfigs, and has the bundle built."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

from hopline.documents.version_configs import load_version_config, version_config_document
from hopline.domain.errors import InvalidInput
from hopline.domain.offline_bundle import OfflineBundle, is_inside
from hopline.domain.version_config import check_carried
from hopline.domain.versions import parse_version
from hopline.oci.bundle_building import BuildOrder, BundleBuilder, GivenConfig
from hopline.oci.client import RegistryClient
from hopline.oci.downloads import Downloader
from hopline.oci.progress import Progress
from starter.offline_access import Access

SUFFIXES = (".tar.gz", ".tgz", ".tar")


def build_order(
    files: Sequence[Path], target: Path, *, starts: Sequence[str] = (), releases: str = "", work: Path | None = None
) -> BuildOrder:
    """What the options mean.

    Raises:
        InvalidInput: a file that cannot be read, a section that cannot be carried, or a name that cannot be used.
        InvalidDocument: a file that is no VersionConfig.
    """
    name = next((target.name.removesuffix(end) for end in SUFFIXES if target.name.endswith(end)), "")
    if not name or not is_inside(name):
        raise InvalidInput(
            "the bundle is a tarball", subject="option", field="-t", value=str(target), remedy="name it NAME.tar.gz"
        )
    configs = tuple(_given(file) for file in files)
    names = [config.name for config in configs]
    if len(set(names)) != len(names):
        raise InvalidInput(
            "two VersionConfigs have one name", subject="option", field="-f", value=names[-1], remedy="rename one"
        )
    for start in starts:
        parse_version(start)
    target = target.absolute()
    # A folder of its own, because it is removed at the end.
    place = (work or target.parent).absolute() / f"{target.name}.work"
    return BuildOrder(target, name, place, configs, tuple(starts), releases)


def _given(file: Path) -> GivenConfig:
    try:
        content = file.read_bytes()
        text = content.decode()
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(
            "a VersionConfig cannot be read as text",
            subject="option",
            field="-f",
            value=str(file),
            remedy="name another file",
        ) from None
    document = version_config_document(text, str(file))
    config = load_version_config(text, str(file))
    check_carried(document, config, str(file))
    if not config.open_fuyao_version:
        raise InvalidInput(
            "a VersionConfig does not say for which version it is",
            subject=str(file),
            field="openFuyaoVersion",
            remedy="add it, or fetch the published one: hopline offline fetch",
        )
    return GivenConfig(file.name, content, document, config)


async def build(order: BuildOrder, access: Access, progress: Progress, *, patience: float = 1.0) -> OfflineBundle:
    """Build. Raises as `BundleBuilder.build` does."""
    clients: dict[str, RegistryClient] = {}
    downloaders: dict[str, Downloader] = {}
    async with AsyncExitStack() as stack:

        def client(host: str) -> RegistryClient:
            if host not in clients:
                clients[host] = RegistryClient(host, access.to(host))
                stack.push_async_callback(clients[host].aclose)
            return clients[host]

        for host in _file_hosts(order):
            downloaders[host] = await stack.enter_async_context(Downloader(access.to(host)))
        builder = BundleBuilder(
            order, client, lambda url: downloaders[urlsplit(url).netloc], progress, patience=patience
        )
        return await builder.build()


def _file_hosts(order: BuildOrder) -> set[str]:
    addresses = [
        source.address
        for given in order.configs
        for section in ("files", "patches", "charts", "rpms", "debs")
        for source in getattr(given.config, section)
    ]
    return {urlsplit(address).netloc for address in addresses}


def build_now(order: BuildOrder, access: Access, progress: Progress) -> OfflineBundle:
    """As `build`, for a command."""
    return asyncio.run(build(order, access, progress))
