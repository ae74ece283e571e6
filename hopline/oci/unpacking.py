"""Layers of an image → the YAML files of a bundle (openfuyao-api.md §5.2, §11.3 B41).

A layer with a title is one file of that path, as ORAS pushes files; any other layer is a tar archive. Of a file that
several archives hold the highest layer's counts; what a higher layer deletes by whiteout stays deleted; a titled file
wins over all of them. Paths lose leading `./` and `/`. Nothing is written anywhere, so no path can lead astray; one
that tries to is refused, and so is a link in the place of a file of the bundle.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, cast

from hopline.documents.bundles import YAML_SUFFIXES
from hopline.domain.errors import InvalidDocument, InvalidRelease
from hopline.oci.manifests import Descriptor

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_UNPACK = "io.deis.oras.content.unpack"
_ARCHIVES = (".tar", ".tar.gz", ".tgz")
_GZIP, _ZSTD, _EMPTY_JSON = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"{}"
_FOLDER = "components"


@dataclass(frozen=True)
class Limits:
    """What a bundle may cost. A release of 60 components has about 1 MB in 200 files.

    Attributes:
        layer_bytes: of one layer, as it is stored.
        total_bytes: of all layers, as they are stored.
        unpacked_bytes: of everything in all archives, YAML or not.
        file_bytes: of one YAML file.
        entries: of all archives.
        path_length: characters.
    """

    layer_bytes: int = 64 * 1024 * 1024
    total_bytes: int = 128 * 1024 * 1024
    unpacked_bytes: int = 256 * 1024 * 1024
    file_bytes: int = 4 * 1024 * 1024
    entries: int = 50_000
    path_length: int = 1024


def unpack(origin: str, layers: Iterable[tuple[Descriptor, bytes]], limits: Limits) -> dict[str, str]:
    """The YAML files of a bundle, by path. Blocks: run it in a thread.

    Args:
        origin: the image, for messages.

    Raises:
        InvalidRelease: an archive that does not unpack within the limits, a path that leaves the bundle, a link, two
            layers of one title, or no YAML file at all.
        InvalidDocument: a file that is not UTF-8 text.
    """
    unpacker = _Unpacker(origin, limits)
    titled: dict[str, bytes] = {}
    for index, (descriptor, content) in enumerate(layers):
        unpacker.place = f"layers[{index}]"
        if _is_file(descriptor):
            path = unpacker.path(descriptor.title)
            if path.endswith(YAML_SUFFIXES):
                unpacker.check_size(path, len(content))
                if titled.setdefault(path, content) != content:
                    raise unpacker.refuse("two layers have the same title", path, "push each file once")
        elif content != _EMPTY_JSON:
            unpacker.add_archive(content)
    files = {**unpacker.files, **titled}
    visible = {path: content for path, content in files.items() if not _is_hidden(path)}
    if not visible:
        raise InvalidRelease(
            "the image holds no YAML file",
            subject=origin,
            field="layers",
            value=f"{len(unpacker.files) + len(titled)} files",
            remedy="push release.yaml and components/, as files with titles or as an archive",
        )
    return {path: _text(origin, path, visible[path]) for path in sorted(visible)}


def _is_file(descriptor: Descriptor) -> bool:
    """A titled layer that is not an archive: ORAS packs a whole folder into one, and says so."""
    title = descriptor.title
    return bool(title) and descriptor.annotations.get(_UNPACK) != "true" and not title.endswith(_ARCHIVES)


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(path).parts)


def _text(origin: str, path: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidDocument(
            "the file is not UTF-8 text", subject=f"{origin}!{path}:{line}", remedy=f"save {path} as UTF-8"
        ) from None


class _Bounded(io.RawIOBase):
    """A stream that breaks off with InvalidRelease when more comes out of it than is left."""

    def __init__(self, stream: IO[bytes], unpacker: _Unpacker) -> None:
        self._stream = stream
        self._unpacker = unpacker

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(64 * 1024 if size is None or size < 0 else size)
        self._unpacker.spend(len(content))
        return content


class _Unpacker:
    """Archives on top of each other."""

    def __init__(self, origin: str, limits: Limits) -> None:
        self.files: dict[str, bytes] = {}
        self.place = ""
        self._origin = origin
        self._limits = limits
        self._bytes = 0
        self._entries = 0

    def add_archive(self, content: bytes) -> None:
        """Put one layer on top of what is there."""
        try:
            self._add(content)
        except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError) as error:
            remedy = "push files with titles, or a whole tar archive, plain or with gzip"
            raise self.refuse("a layer cannot be unpacked", str(error), remedy) from None

    def _add(self, content: bytes) -> None:
        below: dict[str, bytes] = self.files
        mine: dict[str, bytes] = {}
        for path, member, archive in self._members(content):
            name = PurePosixPath(path).name
            folder = path.removesuffix(name).rstrip("/")
            if name == _OPAQUE:
                below = _without(below, folder, keep_itself=True)
            elif name.startswith(_WHITEOUT):
                below = _without(below, f"{folder}/{name.removeprefix(_WHITEOUT)}".lstrip("/"))
            elif member.isdir():
                below = {kept: text for kept, text in below.items() if kept != path}
            else:
                below = _without(below, path)
                if path.endswith(YAML_SUFFIXES) or path == _FOLDER or path.startswith(f"{_FOLDER}/"):
                    self._take(path, member, archive, mine)
        self.files = {**below, **mine}

    def path(self, name: str) -> str:
        """A path inside the bundle. Raises InvalidRelease for one that leaves it."""
        parts = PurePosixPath(name.lstrip("/")).parts
        if ".." in parts or "\0" in name or "\\" in name or len(name) > self._limits.path_length:
            raise self.refuse("a path in the image leaves the bundle, or is too long", name, "build the image again")
        return "/".join(parts)

    def check_size(self, path: str, size: int) -> None:
        """Raises InvalidRelease when a file is larger than a file may be."""
        if size > self._limits.file_bytes:
            value = f"{path}: {size} bytes, at most {self._limits.file_bytes}"
            raise self.refuse("a file in the image is too large", value, "split the file")

    def spend(self, count: int) -> None:
        """Count what comes out of archives. Raises InvalidRelease when it is too much."""
        self._bytes += count
        if self._bytes > self._limits.unpacked_bytes:
            value = f"over {self._limits.unpacked_bytes} bytes"
            raise self.refuse("the archives in the image unpack to too much", value, "build it from YAML files only")

    def refuse(self, message: str, value: str, remedy: str) -> InvalidRelease:
        """A refusal that names the layer."""
        return InvalidRelease(message, subject=self._origin, field=self.place, value=value, remedy=remedy)

    def _members(self, content: bytes) -> Iterator[tuple[str, tarfile.TarInfo, tarfile.TarFile]]:
        if content.startswith(_ZSTD):
            raise self.refuse("a layer is compressed with zstd, which is not read", "zstd", "push it with gzip")
        plain: IO[bytes] = io.BytesIO(content)
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=plain)) if content.startswith(_GZIP) else plain
        with tarfile.open(fileobj=cast("IO[bytes]", _Bounded(stream, self)), mode="r|") as archive:
            for member in archive:
                self._entries += 1
                if self._entries > self._limits.entries:
                    value = f"over {self._limits.entries}"
                    raise self.refuse("the archives in the image hold too many entries", value, "build it anew")
                yield self.path(member.name), member, archive

    def _take(self, path: str, member: tarfile.TarInfo, archive: tarfile.TarFile, mine: dict[str, bytes]) -> None:
        if not member.isfile():
            kind = "link" if member.issym() or member.islnk() else "special file"
            raise self.refuse(f"a {kind} stands where a file of the bundle belongs", path, "put the file itself there")
        if not path.endswith(YAML_SUFFIXES):
            return
        self.check_size(path, member.size)
        stream = archive.extractfile(member)
        assert stream is not None
        mine[path] = stream.read()


def _without(files: dict[str, bytes], path: str, *, keep_itself: bool = False) -> dict[str, bytes]:
    """Without a file or folder; an empty path is the root."""
    inside = f"{path}/" if path else ""
    return {
        kept: content
        for kept, content in files.items()
        if not kept.startswith(inside) and (keep_itself or kept != path)
    }
