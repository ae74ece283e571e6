"""What a new release costs at its registry: requests from the first plan to the start of its hop, on a real one."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from pydantic import SecretStr

from artifacts import titled
from benchmarks.measure import Figure
from controlplane.binaries import BinariesUnavailable
from hopline.domain.image_references import parse_reference
from hopline.domain.release_origin import RegistryAccess, ReleaseOrigin
from hopline.oci.releases import OneOrigin, RegistryReleaseSource
from registry import programs
from registry.server import PASSWORD, USER, Registry

FILES = 21
BEFORE = 174
"""Requests of the existing controller for a new release of as many files (observed)."""

VERSION = "v26.06"


def new_release() -> list[Figure]:
    """A plan, the same plan by another worker, the start of the hop, and each component's look at the bundle."""
    try:
        registry = Registry(programs.registry(), keep_requests=True)
    except BinariesUnavailable as error:
        print(f"not measured: {error}")
        return []
    try:
        names = ["release.yaml", *(f"components/c{index:02d}/v1/object.yaml" for index in range(FILES - 1))]
        image = titled({name: f"kind: {name}\nspec: {{version: {VERSION}}}\n" for name in names})
        registry.push("kubernetes/release-image", VERSION, image)
        began = len(registry.requests())
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(_story(registry, Path(folder)))
        asked = registry.requests()[began:]
    finally:
        registry.close()
    blobs = [line for line in asked if "/blobs/" in line]
    note = f"{len(asked)} requests in all, {len(blobs)} for blobs; the existing controller makes {BEFORE}"
    return [
        Figure(f"release of {FILES} files: requests per blob", len(blobs) / FILES, "x", 1.0, note),
        Figure(f"release of {FILES} files: requests ÷ existing controller's", len(asked) / BEFORE, "x"),
    ]


async def _story(registry: Registry, folder: Path) -> None:
    access = RegistryAccess(ca=registry.ca, username=USER, password=SecretStr(PASSWORD))
    reference = parse_reference(f"{registry.host}/kubernetes/release-image:{VERSION}")

    def worker() -> RegistryReleaseSource:
        return RegistryReleaseSource(OneOrigin(ReleaseOrigin((reference,), access)), folder)

    first, second = worker(), worker()
    digest = (await first.fetch(VERSION)).digest
    await second.fetch(VERSION)
    await second.fetch(VERSION, digest=digest, anew=True)
    for _ in range(FILES):
        await first.fetch(VERSION, digest=digest)
