"""Images from registries into an OCI layout: what a tag names, byte for byte, with everything that it lists.

An index is fetched with all its manifests, also those of platforms that nobody asked for: a registry takes an index
only with everything that it lists, and an index with less in it has another digest, which no manifest, `spec.digest`
or signature that names it would find. Blobs that are in the layout are not fetched again, whoever has brought them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field

from hopline.domain.errors import InvalidDocument, NotFound, Refusal
from hopline.domain.image_references import ImageReference
from hopline.domain.offline_bundle import Attachment, BundledImage, ImageRole
from hopline.domain.version_config import ARCHITECTURE_MARK, WantedImage
from hopline.oci.client import MAX_MANIFEST_BYTES, RegistryClient
from hopline.oci.layout import OciLayout
from hopline.oci.manifests import OCI_INDEX, Descriptor, Manifest, malformed, read_manifest
from hopline.oci.progress import Progress
from hopline.oci.pulling import MAX_SIGNATURES
from hopline.oci.side_by_side import all_of, patiently
from hopline.oci.sinks import FileSink

PARALLEL_BLOBS = 6
PARALLEL_IMAGES = 4
_IMAGE_CONFIGS = frozenset(
    {"application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"}
)
_UNKNOWN = "unknown"
_MAX_DEPTH = 3

ClientOf = Callable[[str], RegistryClient]
"""The client for a host."""


@dataclass
class FetchedImage:
    """An image that is whole in the layout.

    Attributes:
        sizes: of every manifest and blob of it, by digest.
        media_types: of its manifests.
    """

    image: BundledImage
    sizes: dict[str, int]
    media_types: dict[str, str]


@dataclass
class _Tree:
    """A manifest or index with everything below it."""

    top: Manifest
    sizes: dict[str, int] = field(default_factory=dict)
    media_types: dict[str, str] = field(default_factory=dict)
    manifests: dict[str, Manifest] = field(default_factory=dict)

    def add(self, manifest: Manifest) -> None:
        """One more manifest."""
        self.sizes[manifest.digest] = len(manifest.body)
        self.media_types[manifest.digest] = manifest.media_type
        self.manifests[manifest.digest] = manifest


class ImageFetcher:
    """Fetches images side by side into one layout."""

    def __init__(self, layout: OciLayout, client: ClientOf, progress: Progress, *, patience: float = 1.0) -> None:
        self._layout = layout
        self._client = client
        self._progress = progress
        self._patience = patience
        self._blobs: dict[str, asyncio.Task[None]] = {}
        self._blob_slots = asyncio.Semaphore(PARALLEL_BLOBS)
        self._image_slots = asyncio.Semaphore(PARALLEL_IMAGES)

    async def fetch(self, wanted: WantedImage, role: ImageRole) -> FetchedImage:
        """Bring one image, with its signatures.

        Raises:
            NotFound: the registry does not have it.
            Refusal: it is for other machines.
            InvalidRelease: a manifest that cannot be used.
            Transient: no usable answer, several times.
            Permanent: the layout cannot be written.
        """
        async with self._image_slots:
            reference = wanted.at_source(wanted.architectures[0] if ARCHITECTURE_MARK in wanted.source else "")
            tree = await self._named(wanted, reference)
            await self._below(reference, tree, tree.top, 0)
            served = await asyncio.to_thread(self._architectures, tree)
            if role is ImageRole.IMAGE:
                _require_architectures(wanted, served)
            attached = await self._attached(reference, tree)
        image = BundledImage(
            source=wanted.source,
            repository=wanted.repository,
            tag=wanted.tag,
            digest=tree.top.digest,
            role=role,
            media_type=tree.top.media_type,
            size=sum(tree.sizes.values()),
            architectures=served,
            attached=attached,
        )
        self._progress.tell(f"{wanted.name}  {tree.top.digest[:19]}")
        return FetchedImage(image, tree.sizes, tree.media_types)

    async def aclose(self) -> None:
        """End what still runs; what has come of a blob stays for the next build."""
        for task in self._blobs.values():
            task.cancel()
        await asyncio.gather(*self._blobs.values(), return_exceptions=True)

    async def _named(self, wanted: WantedImage, reference: ImageReference) -> _Tree:
        """What the tag names. One that exists per architecture only is put together as an index."""
        if ARCHITECTURE_MARK in wanted.source:
            return await self._put_together(wanted, [wanted.at_source(one) for one in wanted.architectures])
        try:
            tree = _Tree(await self._manifest(reference))
        except NotFound as fault:
            per_architecture = [reference.at(f"{reference.tag}-{one}") for one in wanted.architectures]
            try:
                return await self._put_together(wanted, per_architecture)
            except NotFound:
                raise _not_there(wanted, reference, fault) from None
        tree.add(tree.top)
        return tree

    async def _put_together(self, wanted: WantedImage, references: list[ImageReference]) -> _Tree:
        tops = await all_of(self._manifest(reference) for reference in references)
        if len(tops) == 1:
            tree = _Tree(tops[0])
            tree.add(tops[0])
            return tree
        entries = [
            {
                "mediaType": top.media_type,
                "digest": top.digest,
                "size": len(top.body),
                "platform": {"os": "linux", "architecture": architecture},
            }
            for architecture, top in zip(wanted.architectures, tops, strict=True)
        ]
        body = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries}, indent=1).encode()
        made = read_manifest(wanted.name, body)
        assert made is not None
        await asyncio.to_thread(self._layout.put, made.digest, body)
        tree = _Tree(made)
        for manifest in (made, *tops):
            tree.add(manifest)
        return tree

    async def _manifest(self, reference: ImageReference) -> Manifest:
        """A manifest that is in the layout afterwards; by digest it is asked for once in all builds."""
        if reference.digest and (kept := await asyncio.to_thread(self._kept, reference.digest)) is not None:
            return kept
        client = self._client(reference.host)
        found = await patiently(lambda: client.manifest(reference), self._progress.tell, patience=self._patience)
        await asyncio.to_thread(self._layout.put, found.digest, found.body)
        return found

    def _kept(self, digest: str) -> Manifest | None:
        try:
            return self._layout.manifest(digest)
        except InvalidDocument:
            return None

    async def _below(self, reference: ImageReference, tree: _Tree, manifest: Manifest, depth: int) -> None:
        """Everything that a manifest lists."""
        if depth > _MAX_DEPTH:
            raise malformed(str(reference), "manifests", "indexes inside indexes without an end")
        if manifest.is_index:
            unique = {entry.digest: entry for entry in manifest.manifests}
            children = await all_of(self._manifest(reference.at(digest)) for digest in unique)
            for child in children:
                tree.add(child)
            await all_of(self._below(reference, tree, child, depth + 1) for child in children)
            return
        blobs = {entry.digest: entry for entry in manifest.blobs}
        tree.sizes.update({entry.digest: entry.size for entry in blobs.values()})
        await all_of(self._blob(reference, entry) for entry in blobs.values())

    async def _blob(self, reference: ImageReference, descriptor: Descriptor) -> None:
        """Once, however many images share it."""
        task = self._blobs.get(descriptor.digest)
        if task is None:
            task = self._blobs[descriptor.digest] = asyncio.ensure_future(self._bring(reference, descriptor))
        await asyncio.shield(task)

    async def _bring(self, reference: ImageReference, descriptor: Descriptor) -> None:
        self._progress.expect(descriptor.size)
        if await asyncio.to_thread(self._layout.has, descriptor.digest, descriptor.size):
            self._progress.moved(descriptor.size)
            return
        client = self._client(reference.host)
        async with self._blob_slots:
            sink = FileSink(self._layout.partial(descriptor.digest), self._progress.moved)
            await sink.open()
            try:
                await patiently(
                    lambda: client.blob_into(reference, descriptor, sink), self._progress.tell, patience=self._patience
                )
                await sink.keep(self._layout.blob(descriptor.digest))
            finally:
                await sink.close()

    async def _attached(self, reference: ImageReference, tree: _Tree) -> tuple[Attachment, ...]:
        """Signatures and what else names one of the manifests as its subject, in both formats."""
        found: list[Attachment] = []
        client = self._client(reference.host)
        for subject in list(tree.manifests):
            tag = f"{subject.replace(':', '-')}.sig"
            try:
                holder = await self._manifest(reference.at(tag))
                found.append(Attachment(digest=holder.digest, subject=subject, tag=tag))
            except NotFound:
                pass
            entries = await patiently(
                lambda digest=subject: client.referrers(reference, digest),  # type: ignore[misc]
                self._progress.tell,
                patience=self._patience,
            )
            known = {one.digest for one in found}
            found += [Attachment(digest=one.digest, subject=subject) for one in entries if one.digest not in known]
        if len(found) > MAX_SIGNATURES:
            raise Refusal(
                "more is attached to the image than can belong to it",
                subject=str(reference),
                field="referrers",
                value=f"{len(found)}, over {MAX_SIGNATURES}",
                remedy="remove at the registry what does not belong to it",
            )
        for one in found:
            holder = await self._manifest(reference.at(one.digest))
            tree.add(holder)
            await self._below(reference, tree, holder, 1)
        return tuple(found)

    def _architectures(self, tree: _Tree) -> tuple[str, ...]:
        """Of an index by what it says, of a manifest by its config; empty for what is no image of a program."""
        if tree.top.is_index:
            named = [entry.platform[1] for entry in tree.top.manifests if entry.platform[0] != _UNKNOWN]
            return tuple(dict.fromkeys(name for name in named if name))
        config = tree.top.blobs[0] if tree.top.document.get("config") else None
        if config is None or config.media_type not in _IMAGE_CONFIGS:
            return ()
        try:
            document = json.loads(self._layout.small(config.digest, MAX_MANIFEST_BYTES))
            return (str(document["architecture"]),)
        except (ValueError, KeyError, TypeError):
            return ()


def _require_architectures(wanted: WantedImage, served: tuple[str, ...]) -> None:
    lacking = [name for name in wanted.architectures if name not in served]
    if served and lacking:
        raise Refusal(
            f"the image is not for {', '.join(lacking)}",
            subject=wanted.source,
            field=wanted.place,
            value=f"it is for {', '.join(served)}",
            remedy="push it for these machines too, or correct architecture in the VersionConfig",
        )


def _not_there(wanted: WantedImage, reference: ImageReference, fault: NotFound) -> NotFound:
    per = ", ".join(f"{reference.tag}-{one}" for one in wanted.architectures)
    return NotFound(
        "the registry does not have the image",
        subject=str(reference),
        field=wanted.place,
        value=f"{fault.value}; nor {per}",
        remedy="push it, or correct the VersionConfig",
    )
