"""Images out of the storage folder of a registry: `volumes/image.tar.gz` in packages of the existing tools.

That archive is the storage folder of a registry as it stood when the package was built (docs/offline.md):

```
docker/registry/v2/blobs/sha256/<2>/<hex>/data                                    blobs and manifests
docker/registry/v2/repositories/<repository>/_manifests/tags/<tag>/current/link   the digest that a tag names
```

Nothing is believed but digests: a blob is written while it is hashed, and a tag is followed by digest. Blocks.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

from hopline.domain.errors import InvalidDocument
from hopline.domain.image_references import is_digest
from hopline.oci.bundle_archive import archive_members, opened_archive, read_part
from hopline.oci.layout import OciLayout, corrupt, writing

Moved = Callable[[int], None]

_ROOT = "/docker/registry/v2/"
_BLOB = re.compile(r"blobs/sha256/[0-9a-f]{2}/([0-9a-f]{64})/data")
_TAG = re.compile(r"repositories/(.+)/_manifests/tags/([^/]+)/current/link")
_MAX_LINK = 200


def layout_of_registry(tarball: Path, room: Path, moved: Moved) -> OciLayout:
    """An OCI layout of everything that has a tag in the storage, made in the folder `room`.

    Blobs that are there whole, from an earlier attempt, are not written again.

    Raises:
        InvalidDocument: the archive is damaged, holds no registry's storage, or a blob or manifest is not what its name
            says, or not there.
        Permanent: the folder cannot be written.
    """
    layout = OciLayout(room)
    layout.create()
    tags: dict[str, str] = {}
    with opened_archive(tarball) as archive:
        for info, path in archive_members(tarball, archive):
            rest = f"/{path}".partition(_ROOT)[2]
            if not info.isreg():
                continue
            if blob := _BLOB.fullmatch(rest):
                _write(tarball, archive, info, layout, f"sha256:{blob.group(1)}")
            elif tag := _TAG.fullmatch(rest):
                tags[f"{tag.group(1)}:{tag.group(2)}"] = _link(tarball, archive, info)
            moved(info.size)
    if not tags:
        raise _no_storage(tarball)
    manifests = {digest: layout.manifest(digest) for digest in tags.values()}
    layout.write_index(
        (name, digest, len(manifests[digest].body), manifests[digest].media_type)
        for name, digest in sorted(tags.items())
    )
    return layout


def _write(tarball: Path, archive: tarfile.TarFile, info: tarfile.TarInfo, layout: OciLayout, digest: str) -> None:
    if layout.has(digest, info.size):
        return
    source = archive.extractfile(info)
    assert source is not None
    hashed = hashlib.sha256()
    with writing(layout.blob(digest)):
        with layout.partial(digest).open("wb") as file:
            while part := read_part(source, tarball):
                hashed.update(part)
                file.write(part)
        if (real := f"sha256:{hashed.hexdigest()}") != digest:
            layout.partial(digest).unlink()
            raise corrupt(tarball / info.name, "digest", real)
        layout.partial(digest).replace(layout.blob(digest))


def _link(tarball: Path, archive: tarfile.TarFile, info: tarfile.TarInfo) -> str:
    source = archive.extractfile(info)
    assert source is not None
    text = source.read(_MAX_LINK).decode(errors="replace").strip()
    if not is_digest(text):
        raise corrupt(tarball / info.name, "digest", text)
    return text


def _no_storage(tarball: Path) -> InvalidDocument:
    return InvalidDocument(
        "the archive holds no images of a registry",
        subject=str(tarball),
        value=f"no tag below {_ROOT.strip('/')}",
        remedy="build the package again: bke build, bke build patch -s oci, or hopline offline build",
    )
