"""One image from one registry, through the store: each blob crosses the wire once, whatever is killed in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from hopline.domain.errors import InvalidRelease, NotFound
from hopline.domain.image_references import ImageReference, is_digest
from hopline.domain.release_origin import ReleasePolicy
from hopline.oci.client import RegistryClient
from hopline.oci.manifests import Descriptor, Manifest, choose_platform, malformed, read_manifest
from hopline.oci.side_by_side import all_of
from hopline.oci.signatures import BUNDLE_PREFIX, SIGNATURE_ANNOTATION, FoundSignature
from hopline.oci.store import BlobStore
from hopline.oci.unpacking import Limits

MAX_SIGNATURES = 50
"""Looked at for one image; somebody who may push could add thousands."""
MAX_SIGNATURE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class PulledImage:
    """An image, whole.

    Attributes:
        top: what was asked for: an index, or the manifest itself.
        manifest: of the platform that is read.
    """

    top: Manifest
    manifest: Manifest
    layers: tuple[tuple[Descriptor, bytes], ...] = field(repr=False)

    @property
    def digests(self) -> frozenset[str]:
        """What `spec.digest` may name and a signature may cover."""
        return frozenset({self.top.digest, self.manifest.digest})


class Puller:
    """Pulls through a store; one for all registries."""

    def __init__(self, store: BlobStore, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    async def named(self, client: RegistryClient, reference: ImageReference, policy: ReleasePolicy) -> Manifest:
        """What the reference means now: by the digest that is required, else by tag.

        Raises:
            NotFound: the registry does not have it.
            InvalidRelease: the tag is there, and the digest that is required is not.
            Transient: no usable answer.
        """
        if not policy.digest:
            top = await client.manifest(reference)
            await asyncio.to_thread(self._store.put, top.digest, top.body)
            if not reference.digest:
                await asyncio.to_thread(self._store.remember, str(reference), top.digest)
            return top
        try:
            return await self.by_digest(client, reference, policy.digest)
        except NotFound:
            if not reference.tag:
                raise
            found = await client.manifest(reference.at(reference.tag))
        raise InvalidRelease(
            "the release is not the one that is required",
            subject=str(reference),
            field="digest",
            value=f"{found.digest}, required {policy.digest}",
            remedy="correct spec.digest of the ReleaseImage, or push the image that has it",
        )

    async def by_digest(self, client: RegistryClient, reference: ImageReference, digest: str) -> Manifest:
        """A manifest or index by digest, from the store or the registry. Raises as `RegistryClient.manifest` does."""
        kept = await self._kept_manifest(str(reference), digest)
        if kept is not None:
            return kept
        found = await client.manifest(reference.at(digest))
        await asyncio.to_thread(self._store.put, found.digest, found.body)
        return found

    async def image(self, client: RegistryClient, reference: ImageReference, top: Manifest) -> PulledImage:
        """Everything that belongs to a manifest or index.

        Raises:
            InvalidRelease: it is too large, malformed, or names a blob that the registry does not have.
            Transient: no usable answer.
        """
        try:
            manifest = top
            if top.is_index:
                manifest = await self.by_digest(client, reference, choose_platform(top).digest)
            layers = self._checked(manifest)
            unique = {layer.digest: layer for layer in layers}
            contents = await all_of(self._blob(client, reference, layer) for layer in unique.values())
        except NotFound as error:
            raise InvalidRelease(
                "the manifest of the image names something that the registry does not have",
                subject=str(reference),
                field="digest",
                value=error.subject,
                remedy="push the image again",
            ) from None
        found = dict(zip(unique, contents, strict=True))
        return PulledImage(top, manifest, tuple((layer, found[layer.digest]) for layer in layers))

    async def kept_image(self, subject: str, digest: str) -> PulledImage | None:
        """An image of which every byte is in the store; None when anything is missing or damaged."""
        top = await self._kept_manifest(subject, digest)
        manifest = top
        if top is not None and top.is_index:
            manifest = await self._kept_manifest(subject, choose_platform(top).digest)
        if top is None or manifest is None:
            return None
        layers = self._checked(manifest)
        kept = [await asyncio.to_thread(self._store.get, layer.digest) for layer in layers]
        pairs = [(layer, content) for layer, content in zip(layers, kept, strict=True) if content is not None]
        return PulledImage(top, manifest, tuple(pairs)) if len(pairs) == len(layers) else None

    async def signatures(
        self, client: RegistryClient, reference: ImageReference, digests: Iterable[str]
    ) -> tuple[FoundSignature, ...]:
        """Every signature of these digests, in both formats. Raises Transient when it is not possible to look."""
        found: list[FoundSignature] = []
        for digest in sorted(digests):
            try:
                holder = await client.manifest(reference.at(f"{digest.replace(':', '-')}.sig"))
                found += await self._signatures_in(client, reference, holder)
            except NotFound:
                pass
            for entry in await client.referrers(reference, digest):
                # Registries without the referrers API leave the type to whoever writes the index; some do not.
                may_be = not entry.artifact_type or entry.artifact_type.startswith(BUNDLE_PREFIX)
                if may_be and len(found) < MAX_SIGNATURES:
                    holder = await self.by_digest(client, reference, entry.digest)
                    found += await self._signatures_in(client, reference, holder)
        return tuple(found)

    async def _signatures_in(
        self, client: RegistryClient, reference: ImageReference, holder: Manifest
    ) -> list[FoundSignature]:
        layers = [layer for layer in holder.layers[:MAX_SIGNATURES] if layer.size <= MAX_SIGNATURE_BYTES]
        contents = await all_of(self._blob(client, reference, layer) for layer in layers)
        return [
            FoundSignature(layer.media_type, content, layer.annotations.get(SIGNATURE_ANNOTATION, ""))
            for layer, content in zip(layers, contents, strict=True)
        ]

    def _checked(self, manifest: Manifest) -> tuple[Descriptor, ...]:
        """The layers, if they are worth fetching."""
        if manifest.is_index:
            raise malformed(manifest.subject, "manifests", "an index inside an index")
        layers = manifest.layers
        largest = max((layer.size for layer in layers), default=0)
        total = sum(layer.size for layer in layers)
        if largest > self._limits.layer_bytes or total > self._limits.total_bytes:
            raise InvalidRelease(
                "the image is too large for a release",
                subject=manifest.subject,
                field="layers",
                value=f"{total} bytes, largest layer {largest}",
                remedy=f"push YAML files only, at most {self._limits.total_bytes} bytes",
            )
        return layers

    async def _blob(self, client: RegistryClient, reference: ImageReference, layer: Descriptor) -> bytes:
        kept = await asyncio.to_thread(self._store.get, layer.digest)
        if kept is None:
            kept = await client.blob(reference, layer)
            await asyncio.to_thread(self._store.put, layer.digest, kept)
        return kept

    async def _kept_manifest(self, subject: str, digest: str) -> Manifest | None:
        if not is_digest(digest):
            return None
        body = await asyncio.to_thread(self._store.get, digest)
        return read_manifest(subject, body) if body is not None else None
