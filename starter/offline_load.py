"""What `hopline offline load` does: opens a package, brings its images to a registry, and installs its files."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hopline.domain.errors import InvalidInput
from hopline.domain.image_references import parse_reference
from hopline.domain.release_origin import RegistryAccess
from hopline.domain.wire import WireModel
from hopline.oci.bundle_archive import unpack_archive
from hopline.oci.bundle_loading import Brought, ImageLoader, LoadedImages
from hopline.oci.file_installing import InstalledFile, install_files
from hopline.oci.one_at_a_time import alone
from hopline.oci.packages import REGISTRY_STORAGE, SOURCE_ARCHIVE, Package, needs_room, open_package
from hopline.oci.progress import Progress
from hopline.oci.upload_notes import notes_in
from hopline.oci.uploads import UPLOAD_PATIENCE, RegistryWriter
from starter.transfer_progress import counted


class LoadReport(WireModel):
    """The stable JSON of `hopline offline load`.

    Attributes:
        files_left: files of the package that were not installed, because no folder was named.
    """

    source: str
    target: str
    versions: tuple[str, ...] = ()
    registry: LoadedImages = LoadedImages()
    files: tuple[InstalledFile, ...] = ()
    files_left: tuple[str, ...] = ()


def check_target(target: str) -> str:
    """`host:port`. InvalidInput for something else."""
    try:
        parse_reference(f"{target}/name:tag", field="--target")
    except InvalidInput:
        raise InvalidInput(
            "the target is no registry",
            subject="option",
            field="--target",
            value=target,
            remedy="write host:port, such as 192.0.2.10:40443",
        ) from None
    return target


@contextmanager
def package_in(source: Path, work: Path, progress: Progress) -> Iterator[Package]:
    """The package in a folder or tarball; what has to be unpacked goes below `work`, and is removed after success.

    Raises:
        InvalidInput: another load has unpacked it there and is not over.
        InvalidDocument: this is no package.
        Permanent: there is no room to unpack.
    """
    is_folder = source.is_dir()
    if is_folder and not needs_room(source):
        yield open_package(source, source, progress.moved)
        return
    folder = work / f".{source.name}.unpacked"
    remedy = "wait for it, name another folder with --work-dir, or unpack the tarball and name its folder"
    with alone(folder, who="load", field="--source", remedy=remedy):
        archive = source / REGISTRY_STORAGE if is_folder else source
        progress.expect(archive.stat().st_size if archive.is_file() else 0)
        root = source if is_folder else unpack_archive(source, folder, progress.moved)
        yield open_package(root, folder / ".images", progress.moved)
        # Nothing but what was made here: the folder is below the one that somebody has named.
        shutil.rmtree(folder, ignore_errors=True)


async def load(
    source: Path,
    target: str,
    access: RegistryAccess,
    progress: Progress,
    *,
    files_dir: Path | None = None,
    work: Path | None = None,
    patience: float = 1.0,
) -> LoadReport:
    """Load. What is under way is kept below `work`, else beside the source, until the load is over.

    Raises as `package_in`, `ImageLoader.load` and `install_files` do.
    """
    place = await asyncio.to_thread(source.resolve)
    beside = work or place.parent
    with package_in(place, beside, progress) as package:
        with notes_in(beside / f".{place.name}.uploads") as notes:
            async with RegistryWriter(target, access, UPLOAD_PATIENCE) as writer:
                loader = ImageLoader(package, writer, target, progress, notes=notes, patience=patience)
                images = await loader.load()
        files: tuple[InstalledFile, ...] = ()
        if files_dir is not None:
            progress.expect(sum(file.size for file in package.bundle.files))
            files = await asyncio.to_thread(_installed, package, files_dir, progress)
        left = () if files_dir is not None else tuple(file.installed for file in package.bundle.files)
        if package.source_archive is not None:
            left = (*left, SOURCE_ARCHIVE)
        return LoadReport(
            source=str(source),
            target=target,
            versions=package.bundle.versions,
            registry=images,
            files=files,
            files_left=left,
        )


def _installed(package: Package, folder: Path, progress: Progress) -> tuple[InstalledFile, ...]:
    done = []
    for file in install_files(package, folder, progress.moved):
        progress.tell(f"{file.path}  {file.digest[:19]}  {file.state.value}")
        done.append(file)
    return tuple(done)


def report_lines(report: LoadReport) -> list[str]:
    """What a person reads at the end."""
    images = Counter(image.state for image in report.registry.images)
    registry = report.registry
    resumed = f", {_mib(registry.resumed_bytes)} of them before an interruption" if registry.resumed_bytes else ""
    lines = [
        f"{report.target}: {counted(images[Brought.NEW], 'image')} brought, {images[Brought.THERE]} already there, "
        "all read back",
        f"  {counted(registry.uploaded_blobs, 'blob')} uploaded ({_mib(registry.uploaded_bytes)}{resumed}), "
        f"{registry.mounted_blobs} taken over, {registry.present_blobs} already there",
    ]
    if report.files:
        files = Counter(file.state for file in report.files)
        lines.append(f"{counted(files[Brought.NEW], 'file')} installed, {files[Brought.THERE]} already there")
    if left := [name for name in report.files_left if name != SOURCE_ARCHIVE]:
        names = ", ".join(left[:5]) + (", …" if len(left) > 5 else "")
        files_left = counted(len(left), "file")
        lines.append(f"{files_left} not installed, which hopline offline load does with --files-dir: {names}")
    if SOURCE_ARCHIVE in report.files_left:
        lines.append(
            f"{SOURCE_ARCHIVE}, the files of the existing tools, is not unpacked; in the folder of the package:"
        )
        lines.append(f"  tar -xzf {SOURCE_ARCHIVE} -C /bke/mount/source_registry")
    return lines


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:.1f} MiB"
