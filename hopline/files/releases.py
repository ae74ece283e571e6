"""Release bundles from a directory: one sub-folder per version, as a registry artifact would unpack (§5.2).

A folder is found by its name, which is the version; else by `spec.version` of the `release.yaml` in it. Only `.yaml`
and `.yml` files count; hidden files and folders are left out, and links that leave the folder are refused.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from hopline.documents.bundles import RELEASE_FILE, YAML_SUFFIXES, content_digest
from hopline.documents.loading import load_documents
from hopline.domain.errors import InvalidDocument, InvalidRelease, InvalidVersion, Transient
from hopline.domain.release import BundleSource, RawBundle
from hopline.domain.versions import parse_version
from hopline.domain.wire import ClusterKey
from hopline.files.texts import read_text


class DirectoryReleaseSource:
    """A `ReleaseSource` over a directory of bundles. Reads in a thread, and anew for every fetch."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def fetch(
        self, version: str, *, digest: str = "", cluster: ClusterKey | None = None, anew: bool = False
    ) -> RawBundle:
        """The bundle of a version, as it stands now.

        Raises:
            InvalidRelease: no such release here, or not the bytes of `digest`.
            InvalidDocument: a file that is not UTF-8 text.
            Transient: the directory cannot be read just now.
        """
        bundle = await asyncio.to_thread(self._read, version)
        if digest and bundle.digest != digest:
            raise InvalidRelease(
                f"the bundle of {version} has changed since the plan was made",
                subject=f"release {version}",
                field="digest",
                value=bundle.digest,
                remedy=f"put the bundle with digest {digest} back into {bundle.origin}, or plan anew",
            )
        return bundle

    def versions(self) -> list[str]:
        """The versions that are here, oldest first; what cannot be ordered last, by text. Blocks."""
        return sorted({_version_inside(folder) or folder.name for folder in self._folders()}, key=_age)

    def _read(self, version: str) -> RawBundle:
        folder = self._folder(version)
        try:
            files = {
                path.relative_to(folder).as_posix(): read_text(path)
                for path in sorted(folder.rglob("*"))
                if path.name.endswith(YAML_SUFFIXES) and self._counts(folder, path)
            }
        except OSError as error:
            raise _unreadable(folder, error) from error
        return RawBundle(
            version=version,
            digest=content_digest(files),
            source=BundleSource.DISK,
            origin=str(folder),
            files=files,
        )

    def _folder(self, version: str) -> Path:
        folders = self._folders()
        named = [folder for folder in folders if folder.name == version]
        matches = named or [folder for folder in folders if version and _version_inside(folder) == version]
        if not matches:
            raise InvalidRelease(
                f"there is no bundle of release {version or '(no version)'}",
                subject=f"release {version}",
                field="folder",
                value=str(self._root / version),
                remedy=f"put it there; versions in {self._root}: {', '.join(self.versions()) or 'none'}",
            )
        if len(matches) > 1:
            raise InvalidRelease(
                f"several folders hold release {version}",
                subject=f"release {version}",
                field="folder",
                value=", ".join(str(match) for match in matches),
                remedy=f"keep one of them, named {version}",
            )
        return matches[0]

    def _folders(self) -> list[Path]:
        try:
            return sorted(entry for entry in self._root.iterdir() if entry.is_dir() and entry.name[0] != ".")
        except FileNotFoundError:
            raise InvalidRelease(
                "the directory of releases does not exist",
                subject="releases",
                field="directory",
                value=str(self._root),
                remedy="name a directory with one sub-folder per version",
            ) from None
        except OSError as error:
            raise _unreadable(self._root, error) from error

    def _counts(self, folder: Path, path: Path) -> bool:
        """A regular file of the bundle, not hidden."""
        if any(part.startswith(".") for part in path.relative_to(folder).parts) or not path.is_file():
            return False
        if not path.resolve().is_relative_to(self._root.resolve()):
            raise InvalidRelease(
                "a file of the bundle is a link that leaves the directory of releases",
                subject=str(path),
                field="link",
                value=str(path.resolve()),
                remedy="copy the file into the bundle",
            )
        return True


def _version_inside(folder: Path) -> str:
    """`spec.version` of the folder's release.yaml; empty when it cannot be told."""
    path = folder / RELEASE_FILE
    try:
        documents = load_documents(read_text(path), str(path)) if path.is_file() else []
    except (InvalidDocument, OSError):
        return ""
    spec = documents[0].document.get("spec") if documents else None
    version = spec.get("version") if isinstance(spec, dict) else None
    return version if isinstance(version, str) else ""


def _age(version: str) -> tuple[int, object]:
    try:
        return (0, parse_version(version))
    except InvalidVersion:
        return (1, version)


def _unreadable(path: Path, error: OSError) -> Transient:
    return Transient(
        "the directory of releases cannot be read",
        subject=str(path),
        field="directory",
        value=error.strerror or str(error),
        remedy="make it readable for this process",
    )
