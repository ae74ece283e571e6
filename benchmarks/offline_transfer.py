"""Loading a bundle and pulling one: beside a plain copy of the files, and beside skopeo where it is installed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import SecretStr

from artifacts import MANIFEST_TYPE, TAR_TYPE, Artifact, descriptor, digest_of
from benchmarks.measure import Figure, median
from hopline.domain.offline_bundle import BundledImage, ImageRole, OfflineBundle
from hopline.domain.release_origin import RegistryAccess
from hopline.domain.version_config import WantedImage
from hopline.oci.bundle_loading import ImageLoader
from hopline.oci.client import RegistryClient
from hopline.oci.image_fetching import ImageFetcher
from hopline.oci.layout import OciLayout
from hopline.oci.packages import Package
from hopline.oci.progress import Silent
from hopline.oci.upload_notes import notes_in
from hopline.oci.uploads import UPLOAD_PATIENCE, RegistryWriter
from registry import programs
from registry.server import PASSWORD, USER, Registry

IMAGES, LAYERS, LAYER_BYTES, ROUNDS = 4, 4, 16_000_000, 3
TARGET = 1.3


def offline_transfer() -> Iterator[Figure]:
    """Ratios of one run: each round does everything once, on registries of its own."""
    skopeo = shutil.which("skopeo")
    times: dict[str, list[float]] = {}
    with TemporaryDirectory(prefix="hopline-bench-") as temporary:
        folder = Path(temporary)
        layout, images = _layout(folder / "layout")
        for number in range(ROUNDS):
            place = folder / f"round-{number}"
            place.mkdir()
            for name, seconds in _round(place, layout, images, skopeo):
                times.setdefault(name, []).append(seconds)
            shutil.rmtree(place)
    size = IMAGES * LAYERS * LAYER_BYTES / 1024 / 1024
    copied = median(times["copy"])
    for what in ("load", "pull"):
        ours = median(times[what])
        detail = f"{size / ours:.0f} MiB/s, copy {size / copied:.0f} MiB/s"
        yield Figure(f"offline {what} of {size:.0f} MiB / plain copy of the files", ours / copied, "x", None, detail)
        name = f"offline {what} / skopeo copy --all"
        if skopeo is None:
            print(f"{name:<58} not measured: skopeo is not installed (apt-get install skopeo)", flush=True)
            continue
        theirs = median(times[f"skopeo {what}"])
        yield Figure(name, ours / theirs, "x", TARGET, f"skopeo {size / theirs:.0f} MiB/s, {ROUNDS} rounds")


def _round(
    place: Path, layout: OciLayout, images: dict[str, Artifact], skopeo: str | None
) -> Iterator[tuple[str, float]]:
    yield "copy", _timed(lambda: _copy(layout.root, place / "copy"))
    ours = Registry(programs.registry())
    try:
        yield "load", _timed(lambda: asyncio.run(_load(layout, images, ours)))
        yield "pull", _timed(lambda: asyncio.run(_pull(place / "pulled", images, ours)))
    finally:
        ours.close()
    if skopeo is None:
        return
    theirs = Registry(programs.registry())
    try:
        options = _options(place, theirs)
        yield "skopeo load", _timed(lambda: _skopeo_load(skopeo, layout, images, theirs, options))
        yield "skopeo pull", _timed(lambda: _skopeo_pull(skopeo, place / "skopeo", images, theirs, options))
    finally:
        theirs.close()


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _layout(root: Path) -> tuple[OciLayout, dict[str, Artifact]]:
    """Images of layers that nothing makes smaller."""
    layout = OciLayout(root)
    layout.create()
    images = {f"kubernetes/program-{number}:v1": _image(number) for number in range(IMAGES)}
    entries = []
    for name, image in images.items():
        for digest, content in {**image.blobs, image.digest: image.body}.items():
            layout.put(digest, content)
        entries.append((name, image.digest, len(image.body), MANIFEST_TYPE))
    layout.write_index(entries)
    return layout, images


def _image(number: int) -> Artifact:
    config = json.dumps(
        {"architecture": "amd64", "os": "linux", "number": number, "rootfs": {"type": "layers"}}
    ).encode()
    contents = [os.urandom(LAYER_BYTES) for _ in range(LAYERS)]
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": descriptor(config, "application/vnd.oci.image.config.v1+json", {}),
        "layers": [descriptor(one, TAR_TYPE, {}) for one in contents],
    }
    blobs = {digest_of(one): one for one in (config, *contents)}
    return Artifact(json.dumps(document).encode(), blobs=blobs)


def _copy(source: Path, target: Path) -> None:
    """With everything on disk at the end, as the others have it."""
    shutil.copytree(source, target)
    for file in target.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())


def _access(registry: Registry) -> RegistryAccess:
    return RegistryAccess(ca=registry.ca, username=USER, password=SecretStr(PASSWORD))


async def _load(layout: OciLayout, images: dict[str, Artifact], registry: Registry) -> None:
    listed = tuple(
        BundledImage(source=name, repository=name.partition(":")[0], tag="v1", digest=image.digest)
        for name, image in images.items()
    )
    package = Package(layout.root, layout, OfflineBundle(name="bench", images=listed), is_ours=True)
    with notes_in(layout.root.parent / ".uploads") as notes:
        async with RegistryWriter(registry.host, _access(registry), UPLOAD_PATIENCE) as writer:
            await ImageLoader(package, writer, registry.host, Silent(), notes=notes).load()


async def _pull(root: Path, images: dict[str, Artifact], registry: Registry) -> None:
    layout = OciLayout(root)
    layout.create()
    async with RegistryClient(registry.host, _access(registry)) as client:
        fetcher = ImageFetcher(layout, lambda host: client, Silent())
        wanted = [WantedImage(f"{registry.host}/{name}", name.partition(":")[0], "v1", ("amd64",)) for name in images]
        await asyncio.gather(*(fetcher.fetch(one, ImageRole.IMAGE) for one in wanted))


def _options(place: Path, registry: Registry) -> list[str]:
    certificates = place / "certificates"
    certificates.mkdir()
    (certificates / "ca.crt").write_text(registry.ca)
    return [f"cert-dir={certificates}", f"creds={USER}:{PASSWORD}"]


def _skopeo_load(
    skopeo: str, layout: OciLayout, images: dict[str, Artifact], registry: Registry, options: list[str]
) -> None:
    for name in images:
        flags = [f"--dest-{option}" for option in options]
        _run([skopeo, "copy", "--all", *flags, f"oci:{layout.root}:{name}", f"docker://{registry.host}/{name}"])


def _skopeo_pull(
    skopeo: str, target: Path, images: dict[str, Artifact], registry: Registry, options: list[str]
) -> None:
    for name in images:
        flags = [f"--src-{option}" for option in options]
        _run([skopeo, "copy", "--all", *flags, f"docker://{registry.host}/{name}", f"oci:{target}:{name}"])


def _run(command: list[str]) -> None:
    policy = ["--insecure-policy"]
    done = subprocess.run([command[0], *policy, *command[1:]], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[1:3])}: {done.stderr}")


if __name__ == "__main__":
    for figure in offline_transfer():
        print(figure.line(), flush=True)
    sys.stdout.flush()
