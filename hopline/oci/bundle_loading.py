"""Brings the images of a package to a registry: what is there stays, what is missing goes up, everything is read back.

For each repository every blob and manifest is asked for, so that a load also mends what an earlier one, killed or not,
has left unfinished. Blobs that another repository of the registry has are taken over from there.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from hopline.domain.errors import NotFound, Permanent
from hopline.domain.image_references import ImageReference, parse_reference
from hopline.domain.offline_bundle import Attachment, BundledImage
from hopline.domain.wire import WireEnum, WireModel
from hopline.oci.layout import missing
from hopline.oci.manifests import OCI_INDEX, Descriptor, Manifest, read_manifest
from hopline.oci.packages import Package
from hopline.oci.progress import Progress
from hopline.oci.side_by_side import all_of, patiently
from hopline.oci.upload_notes import NoNotes, UploadNotes
from hopline.oci.uploads import RegistryWriter

T = TypeVar("T")

PARALLEL_IMAGES = 4
PARALLEL_BLOBS = 6


class Brought(WireEnum):
    """What a load had to do for an image or file."""

    THERE = "already there"
    NEW = "brought"
    UNKNOWN = "unknown"


class LoadedImage(WireModel):
    """One tag at the target, read back."""

    reference: str
    digest: str
    state: Brought


class LoadedImages(WireModel):
    """What a load has done at the registry. Blobs are counted once per repository.

    Attributes:
        resumed_bytes: of the uploaded ones, those that had come before an upload was broken off.
    """

    images: tuple[LoadedImage, ...] = ()
    uploaded_blobs: int = 0
    uploaded_bytes: int = 0
    resumed_bytes: int = 0
    mounted_blobs: int = 0
    present_blobs: int = 0


@dataclass
class _Counts:
    """Of one load."""

    uploaded_blobs: int = 0
    uploaded_bytes: int = 0
    resumed_bytes: int = 0
    mounted_blobs: int = 0
    present_blobs: int = 0


class ImageLoader:
    """One load of one package into one registry."""

    def __init__(
        self,
        package: Package,
        writer: RegistryWriter,
        host: str,
        progress: Progress,
        *,
        notes: UploadNotes | None = None,
        patience: float = 1.0,
    ) -> None:
        self._layout = package.layout
        self._bundle = package.bundle
        self._writer = writer
        self._host = host
        self._progress = progress
        self._notes = notes or NoNotes()
        self._patience = patience
        self._counts = _Counts()
        self._repositories_with: defaultdict[str, list[str]] = defaultdict(list)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._blob_slots = asyncio.Semaphore(PARALLEL_BLOBS)
        self._image_slots = asyncio.Semaphore(PARALLEL_IMAGES)

    async def load(self) -> LoadedImages:
        """Bring everything.

        Raises:
            InvalidDocument: a blob is missing in the package, or is not what its name says.
            PortError: the registry does not answer, does not let us in, or does not take it.
        """
        images = await all_of(self._image(image) for image in self._bundle.images)
        counts = self._counts
        return LoadedImages(
            images=tuple(images),
            uploaded_blobs=counts.uploaded_blobs,
            uploaded_bytes=counts.uploaded_bytes,
            resumed_bytes=counts.resumed_bytes,
            mounted_blobs=counts.mounted_blobs,
            present_blobs=counts.present_blobs,
        )

    async def _image(self, image: BundledImage) -> LoadedImage:
        reference = parse_reference(f"{self._host}/{image.name}", field="image")
        async with self._image_slots:
            changed = await self._tree(reference, image.digest)
            changed |= await self._tagged(reference, image.digest)
            for attached in image.attached:
                changed |= await self._attachment(reference, attached)
            await self._read_back(reference, image.digest)
        state = Brought.NEW if changed else Brought.THERE
        self._progress.tell(f"{reference}  {image.digest[:19]}  {state.value}")
        return LoadedImage(reference=str(reference), digest=image.digest, state=state)

    async def _tree(self, reference: ImageReference, digest: str) -> bool:
        """A manifest by digest, and first everything that it lists. Returns whether anything was missing."""
        manifest = await asyncio.to_thread(self._layout.manifest, digest)
        if manifest.is_index:
            changed = any(await all_of(self._tree(reference, one.digest) for one in _once(manifest.manifests)))
        else:
            changed = any(await all_of(self._blob(reference, one) for one in _once(manifest.blobs)))
        return await self._manifest(reference.at(digest), manifest) or changed

    async def _manifest(self, reference: ImageReference, manifest: Manifest) -> bool:
        async with self._locks[str(reference)]:
            there = await self._try(lambda: self._writer.named(reference))
            if there == manifest.digest:
                return False
            await self._try(lambda: self._writer.put_manifest(reference, manifest))
            return True

    async def _tagged(self, reference: ImageReference, digest: str) -> bool:
        return await self._manifest(reference, await asyncio.to_thread(self._layout.manifest, digest))

    async def _blob(self, reference: ImageReference, descriptor: Descriptor) -> bool:
        """One blob into one repository; the same blob never goes up twice at once."""
        async with self._locks[descriptor.digest]:
            known = self._repositories_with[descriptor.digest]
            if reference.repository in known:
                return False
            if not known:
                self._progress.expect(descriptor.size)
            async with self._blob_slots:
                state = await self._brought(reference, descriptor, known)
            known.append(reference.repository)
            return state

    async def _brought(self, reference: ImageReference, descriptor: Descriptor, known: list[str]) -> bool:
        counts, first = self._counts, not known
        if await self._try(lambda: self._writer.has_blob(reference, descriptor)):
            counts.present_blobs += 1
            if first:
                self._progress.moved(descriptor.size)
            return False
        if known:
            mounted: bool = await self._try(lambda: self._writer.mount(reference, descriptor, known[0]))
            counts.mounted_blobs += mounted
            if mounted:
                return True
        place = self._layout.blob(descriptor.digest)
        if not await asyncio.to_thread(self._layout.has, descriptor.digest, descriptor.size):
            # A file of another size is read to its end all the same, to tell which digest it has.
            await asyncio.to_thread(self._layout.check, descriptor.digest, descriptor.size)
            raise missing(place)
        moved = self._progress.moved if first else _nothing
        resumed = await self._try(lambda: self._writer.upload(reference, descriptor, place, moved, self._notes))
        counts.resumed_bytes += resumed
        counts.uploaded_blobs += 1
        counts.uploaded_bytes += descriptor.size
        return True

    async def _attachment(self, reference: ImageReference, attached: Attachment) -> bool:
        """A signature: under its tag, or listed among the referrers of its subject."""
        changed = await self._tree(reference, attached.digest)
        manifest = await asyncio.to_thread(self._layout.manifest, attached.digest)
        if attached.tag:
            return await self._manifest(reference.at(attached.tag), manifest) or changed
        subject = f"referrers of {attached.subject}"
        async with self._locks[f"{reference.repository} {subject}"]:
            entries = await self._try(lambda: self._writer.referrers(reference, attached.subject))
            if any(entry.digest == attached.digest for entry in entries):
                return changed
            await self._list_referrer(reference.at(attached.subject.replace(":", "-")), manifest)
        return True

    async def _list_referrer(self, tag: ImageReference, manifest: Manifest) -> None:
        """Add to the index that stands in for the referrers API, as the distribution specification says."""
        try:
            present = (await self._try(lambda: self._writer.manifest(tag))).document.get("manifests") or []
        except NotFound:
            present = []
        entry = {"mediaType": manifest.media_type, "digest": manifest.digest, "size": len(manifest.body)}
        kind = manifest.document.get("artifactType") or (manifest.document.get("config") or {}).get("mediaType")
        if kind:
            entry["artifactType"] = kind
        if annotations := manifest.document.get("annotations"):
            entry["annotations"] = annotations
        document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [*present, entry]}
        index = read_manifest(str(tag), json.dumps(document).encode())
        assert index is not None
        await self._try(lambda: self._writer.put_manifest(tag, index))

    async def _read_back(self, reference: ImageReference, digest: str) -> None:
        """What a cluster will get by the tag is what was packed."""
        found = await self._try(lambda: self._writer.manifest(reference))
        if found.digest != digest:
            raise Permanent(
                "the registry gives another image than the one that was loaded",
                subject=str(reference),
                field="digest",
                value=f"{found.digest}, loaded {digest}",
                remedy="load again when nobody else pushes there",
            )

    async def _try(self, work: Callable[[], Awaitable[T]]) -> T:
        return await patiently(work, self._progress.tell, patience=self._patience)


def _once(descriptors: Iterable[Descriptor]) -> list[Descriptor]:
    return list({one.digest: one for one in descriptors}.values())


def _nothing(size: int) -> None:
    """Bytes that were counted before."""
