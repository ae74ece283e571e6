"""Release bundles from a registry: every candidate is asked in turn, what comes is checked and kept by digest.

What pins a release is the digest of what its tag names, an index or a manifest. `spec.digest` of a ReleaseImage and a
signature may name either that or the platform's manifest that is read from it.

A release that was pinned is read from the store where every byte of it is there, without a request. Else, and whenever
somebody asks what a version means now, the registries are asked. A registry that answers decides: "not there", a wrong
digest, a signature that does not count are final. While none answers, the fault stays a fault that may pass; with
`allowCacheFallback`, the last bytes seen count meanwhile, after the same checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hopline.documents.bundles import RELEASE_FILE, content_digest
from hopline.documents.loading import load_documents
from hopline.domain.errors import (
    HoplineError,
    InvalidDocument,
    InvalidInput,
    InvalidRelease,
    NotFound,
    ReleasePhase,
    Transient,
)
from hopline.domain.image_references import ImageReference
from hopline.domain.release import BundleSource, RawBundle
from hopline.domain.release_origin import RegistryAccess, ReleaseOrigin, ReleasePolicy
from hopline.domain.wire import ClusterKey
from hopline.oci.client import RegistryClient
from hopline.oci.keys import SigningKey, read_keys
from hopline.oci.pulling import PulledImage, Puller
from hopline.oci.signatures import FoundSignature, require_signature
from hopline.oci.store import BlobStore
from hopline.oci.unpacking import Limits, unpack

T = TypeVar("T")
Connect = Callable[[str, RegistryAccess], RegistryClient]
Look = Callable[[], Awaitable[tuple[FoundSignature, ...]]]


class ReleaseOrigins(Protocol):
    """Knows where the releases of a cluster lie, and what they must prove."""

    async def origin(self, cluster: ClusterKey | None, version: str) -> ReleaseOrigin:
        """Raises Refusal or InvalidInput when it cannot be told, Transient when it cannot be read just now."""
        ...

    async def keys(self, cluster: ClusterKey | None, signature_key: str) -> tuple[str, ...]:
        """The PEM texts behind `spec.signatureKey`: itself, or those of the Secret that it names."""
        ...


class OneOrigin:
    """A `ReleaseOrigins` for everything: what a command line names, without a cluster that could hold a Secret."""

    def __init__(self, origin: ReleaseOrigin) -> None:
        self._origin = origin

    async def origin(self, cluster: ClusterKey | None, version: str) -> ReleaseOrigin:
        """The one."""
        return self._origin

    async def keys(self, cluster: ClusterKey | None, signature_key: str) -> tuple[str, ...]:
        """Only PEM text."""
        return (signature_key,)


@dataclass(frozen=True)
class _Wish:
    """What was asked for, and where it may come from."""

    version: str
    digest: str
    cluster: ClusterKey | None
    origin: ReleaseOrigin
    is_pinned: bool
    """Exactly `digest`, whatever the tag means by now."""


class RegistryReleaseSource:
    """A `ReleaseSource` over registries.

    Args:
        store: folder of the bytes that were seen; shared by workers where they share a volume.
    """

    def __init__(
        self, origins: ReleaseOrigins, store: Path, *, limits: Limits | None = None, connect: Connect = RegistryClient
    ) -> None:
        self._origins = origins
        self._store = BlobStore(store)
        self._limits = limits or Limits()
        self._puller = Puller(self._store, self._limits)
        self._connect = connect
        self._swept = False

    async def fetch(
        self, version: str, *, digest: str = "", cluster: ClusterKey | None = None, anew: bool = False
    ) -> RawBundle:
        """The bundle of a version, checked. Without a version, of the one version that the image says it has.

        Raises:
            InvalidRelease: what a registry has is not usable, or none has it (`ManifestMissing`).
            InvalidDocument: a file that is not UTF-8 text.
            Transient: no registry gives a usable answer just now.
        """
        if not self._swept:
            self._swept = True
            await asyncio.to_thread(self._store.sweep)
        origin = await self._origins.origin(cluster, version)
        wish = _Wish(version, digest, cluster, origin, is_pinned=bool(digest) and not anew)
        if wish.is_pinned:
            kept = await self._puller.kept_image(f"release {version}", digest)
            if kept is not None:
                return await self._bundle(wish, origin.references[0], kept)
        try:
            return await self._from_registries(wish)
        except Transient as fault:
            return await self._from_store(wish, fault)

    async def latest(self, version: str, *, cluster: ClusterKey | None = None) -> ImageReference:
        """What the reference names now, by digest; no layer is fetched. Raises as `fetch` does."""
        wish = _Wish(version, "", cluster, await self._origins.origin(cluster, version), is_pinned=False)

        async def look(client: RegistryClient, reference: ImageReference) -> ImageReference:
            return reference.at((await self._puller.named(client, reference, wish.origin.policy)).digest)

        return await self._by_candidates(wish, look)

    async def _from_registries(self, wish: _Wish) -> RawBundle:
        async def look(client: RegistryClient, reference: ImageReference) -> RawBundle:
            return await self._from_registry(client, reference, wish)

        return await self._by_candidates(wish, look)

    async def _by_candidates(self, wish: _Wish, ask: Callable[[RegistryClient, ImageReference], Awaitable[T]]) -> T:
        """What the first candidate gives that has a usable answer; else the gravest fault of them all."""
        faults: list[HoplineError] = []
        for reference in wish.origin.references:
            client = self._connect(reference.host, wish.origin.access)
            try:
                return await ask(client, reference)
            except (NotFound, Transient, InvalidRelease) as fault:
                faults.append(fault)
            except InvalidInput as fault:
                # The authority's certificate comes from an object of the cluster: a refusal, not a typing error.
                faults.append(_refused(fault, str(reference)))
            finally:
                await client.aclose()
        raise _gravest(wish, faults)

    async def _from_registry(self, client: RegistryClient, reference: ImageReference, wish: _Wish) -> RawBundle:
        if wish.is_pinned:
            top = await self._puller.by_digest(client, reference, wish.digest)
        else:
            top = await self._puller.named(client, reference, wish.origin.policy)
            if wish.digest and top.digest != wish.digest:
                raise _changed(wish, reference, top.digest)
        image = await self._puller.image(client, reference, top)
        bundle = await self._bundle(wish, reference, image)
        if wish.is_pinned:
            # Checked when it was pinned; a key that is changed in mid-hop must not stop the hop.
            return bundle

        async def look() -> tuple[FoundSignature, ...]:
            found = await self._puller.signatures(client, reference, image.digests)
            await asyncio.to_thread(self._store.keep_signatures, image.top.digest, found)
            return found

        return await self._checked(bundle, image, wish, look)

    async def _from_store(self, wish: _Wish, fault: Transient) -> RawBundle:
        """The last bytes seen, where that is allowed; else the fault of the registries."""
        for reference in wish.origin.references:
            last = wish.origin.policy.digest or await asyncio.to_thread(self._store.recall, str(reference))
            image = await self._puller.kept_image(str(reference), last) if last else None
            if image is None or (wish.digest and image.top.digest != wish.digest):
                continue
            bundle = await self._bundle(wish, reference, image)
            if not (wish.origin.policy.allow_cache_fallback or _own_words(bundle)[0].allow_cache_fallback):
                break

            async def look(digest: str = image.top.digest) -> tuple[FoundSignature, ...]:
                kept = await asyncio.to_thread(self._store.kept_signatures, digest)
                if kept is None:
                    raise fault
                return kept

            checked = await self._checked(bundle, image, wish, look)
            notice = f"the registry is out of reach, so the copy that this worker keeps is used: {fault.message}"
            notices = (*checked.notices, notice)
            return checked.model_copy(update={"source": BundleSource.DISK, "cache_fallback": True, "notices": notices})
        raise fault

    async def _bundle(self, wish: _Wish, reference: ImageReference, image: PulledImage) -> RawBundle:
        name = str(reference.at(image.top.digest))
        files = await asyncio.to_thread(unpack, name, image.layers, self._limits)
        return RawBundle(
            version=wish.version or str(_spec(files, name).get("version") or ""),
            digest=image.top.digest,
            content_digest=content_digest(files),
            source=BundleSource.OCI,
            origin=name,
            files=files,
            notices=(wish.origin.notice,) if wish.origin.notice else (),
        )

    async def _checked(self, bundle: RawBundle, image: PulledImage, wish: _Wish, look: Look) -> RawBundle:
        """With the names of the keys that signed it, where anybody requires a signature."""
        own, signature_key = _own_words(bundle)
        if own.digest and own.digest not in image.digests:
            raise InvalidRelease(
                "the release names a digest of its own, which it cannot know",
                subject=bundle.origin,
                field="spec.digest",
                value=own.digest,
                remedy=f"remove it from {RELEASE_FILE}; a ReleaseImage object may require {image.top.digest}",
            )
        if not wish.origin.policy.verify_signature and not own.verify_signature:
            return bundle
        texts, notices = wish.origin.policy.keys, bundle.notices
        if not texts and signature_key:
            texts = await self._origins.keys(wish.cluster, signature_key)
            notices = (*notices, "the key of the signature comes from the release itself: it proves no publisher")
        if not texts:
            raise InvalidRelease(
                "a signature is required, and nothing says by which key",
                subject=bundle.origin,
                field="spec.signatureKey",
                remedy="set spec.signatureKey of the ReleaseImage, or HOPLINE_RELEASE_KEYS",
            )
        keys = _usable(texts, bundle.origin)
        names = require_signature(bundle.origin, await look(), image.digests, keys)
        return bundle.model_copy(update={"signed_by": names, "notices": notices})


def _usable(texts: tuple[str, ...], subject: str) -> tuple[SigningKey, ...]:
    try:
        return read_keys(texts, field="spec.signatureKey")
    except InvalidInput as error:
        raise _refused(error, subject) from None


def _refused(error: InvalidInput, subject: str) -> InvalidRelease:
    return InvalidRelease(error.message, subject=subject, field=error.field, value=error.value, remedy=error.remedy)


def _own_words(bundle: RawBundle) -> tuple[ReleasePolicy, str]:
    """What the release says of itself, and its key. A text that does not parse is refused by who parses it."""
    spec = _spec(bundle.files, bundle.origin)
    policy = ReleasePolicy(
        digest=str(spec.get("digest") or ""),
        verify_signature=spec.get("verifySignature") is True,
        allow_cache_fallback=spec.get("allowCacheFallback") is True,
    )
    return policy, str(spec.get("signatureKey") or "")


def _spec(files: Mapping[str, str], origin: str) -> Mapping[str, Any]:
    try:
        documents = load_documents(files.get(RELEASE_FILE, ""), f"{origin}!{RELEASE_FILE}")
    except InvalidDocument:
        return {}
    spec = documents[0].document.get("spec") if documents else None
    return spec if isinstance(spec, Mapping) else {}


def _changed(wish: _Wish, reference: ImageReference, found: str) -> InvalidRelease:
    return InvalidRelease(
        f"the release image of {wish.version} has changed since the plan was made",
        subject=str(reference),
        field="digest",
        value=f"{found}, planned {wish.digest}",
        remedy="push the planned image under the tag again, or abort and plan anew",
    )


def _gravest(wish: _Wish, faults: list[HoplineError]) -> HoplineError:
    """What registries that answered say is final; else it may pass. Every candidate's reason is kept."""
    reasons = "; ".join(_reason(fault) for fault in faults)
    first = next((fault for fault in faults if isinstance(fault, InvalidRelease)), faults[0])
    name = wish.version or str(wish.origin.references[0])
    if isinstance(first, InvalidRelease):
        return first
    if any(isinstance(fault, NotFound) for fault in faults):
        return InvalidRelease(
            f"there is no release image of {name}",
            subject=str(wish.origin.references[0]),
            field="digest" if wish.is_pinned else "tag",
            value=reasons,
            remedy=f"push it there: {wish.origin.references[0]}",
            phase=ReleasePhase.MANIFEST_MISSING,
        )
    if len(faults) == 1:
        return first
    wait = max((fault.retry_after for fault in faults if isinstance(fault, Transient)), default=0.0)
    message = f"no registry gives the release image of {name} just now"
    return Transient(message, subject=f"release {name}", value=reasons, remedy=first.remedy, retry_after=wait)


def _reason(fault: HoplineError) -> str:
    value = f" ({fault.value})" if fault.value else ""
    return f"{fault.subject}: {fault.message}{value}"
