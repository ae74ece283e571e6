"""What is asked of a registry: manifests, blobs, and what refers to a manifest (the distribution API, version 2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import urljoin

from hopline.domain.errors import InvalidRelease, NotFound, Transient
from hopline.domain.image_references import ImageReference
from hopline.domain.release_origin import RegistryAccess
from hopline.oci import faults
from hopline.oci.manifests import ACCEPTED, OCI_INDEX, Descriptor, Manifest, digest_of, read_manifest
from hopline.oci.transport import Answer, Patience, Transport, read_at_most

MAX_MANIFEST_BYTES = 4 * 1024 * 1024
"""What registries themselves accept."""
MAX_REFERRER_PAGES = 20
MAX_RESUMES = 5
"""A transfer that breaks off goes on where it stopped, as long as each attempt brings something."""

_OK, _PARTIAL, _UNSATISFIABLE = 200, 206, 416
_NEXT = re.compile(r'<([^>]*)>\s*;[^,]*\brel\s*=\s*"?next\b')
_RANGE = re.compile(r"bytes\s+(\d+)-")


class Sink(Protocol):
    """Where the bytes of a blob go."""

    @property
    def size(self) -> int:
        """Bytes that are there."""
        ...

    async def write(self, part: bytes) -> None:
        """Add bytes."""
        ...

    async def restart(self) -> None:
        """Forget everything."""
        ...

    async def digest(self) -> str:
        """Of everything that is there."""
        ...


class _Memory:
    """A small blob."""

    def __init__(self) -> None:
        self.content = bytearray()

    @property
    def size(self) -> int:
        return len(self.content)

    async def write(self, part: bytes) -> None:
        self.content += part

    async def restart(self) -> None:
        self.content.clear()

    async def digest(self) -> str:
        return digest_of(self.content)


class RegistryClient:
    """One registry. Nothing here is kept between calls but connections and tokens."""

    def __init__(self, host: str, access: RegistryAccess, patience: Patience | None = None) -> None:
        self._transport = Transport(host, access, patience or Patience())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Drop every connection."""
        await self._transport.aclose()

    async def answers_tls(self) -> bool:
        """False when the registry answers something else than TLS."""
        return await self._transport.answers_tls()

    async def manifest(self, reference: ImageReference) -> Manifest:
        """What a tag or digest names: a manifest or an index.

        Raises:
            NotFound: the registry does not have it.
            Transient: no answer, not let in, or an answer that is no manifest.
            InvalidRelease: a manifest that is too large, or of a kind without digests.
        """
        subject = str(reference)
        path = f"/v2/{reference.repository}/manifests/{reference.target}"
        body, headers = await self._document(path, reference, subject, {"Accept": ACCEPTED})
        if len(body) > MAX_MANIFEST_BYTES:
            raise InvalidRelease(
                "the manifest of the image is too large",
                subject=subject,
                field="size",
                value=f"over {MAX_MANIFEST_BYTES} bytes",
                remedy="push it with fewer layers",
            )
        if faults.is_web_page(headers, body):
            raise faults.web_page(subject, _OK)
        if reference.digest and digest_of(body) != reference.digest:
            raise _not_what_was_asked(subject, digest_of(body))
        found = read_manifest(subject, body)
        if found is None:
            raise faults.transient(
                subject, "what the registry sent is no manifest", f"{len(body)} bytes", "check the registry"
            )
        said = headers.get("Docker-Content-Digest", "")
        if said.startswith("sha256:") and said != found.digest:
            raise _not_what_was_asked(subject, f"{found.digest}, announced as {said}")
        return found

    async def blob(self, reference: ImageReference, descriptor: Descriptor) -> bytes:
        """The bytes of one small blob, which have its digest. Its size must be checked by the caller.

        Raises NotFound, or Transient when the registry sends something else or stops before the end.
        """
        got = _Memory()
        await self.blob_into(reference, descriptor, got)
        return bytes(got.content)

    async def blob_into(self, reference: ImageReference, descriptor: Descriptor, sink: Sink) -> None:
        """Bring one blob into a sink, from where the sink stopped. Raises as `blob` does."""
        broken = None
        for _ in range(MAX_RESUMES):
            before = sink.size
            if before == descriptor.size:
                break
            try:
                await self._more(reference, descriptor, sink)
            except Transient as error:
                broken = error
                if sink.size <= before:
                    break
            if sink.size >= descriptor.size:
                break
        if broken is not None and sink.size < descriptor.size:
            raise broken
        subject = f"blob {descriptor.digest} of {reference}"
        if sink.size != descriptor.size:
            value = f"{sink.size} of {descriptor.size} bytes"
            raise faults.transient(subject, "the registry sends a blob of another size", value, "check the registry")
        if (real := await sink.digest()) != descriptor.digest:
            await sink.restart()
            raise _not_what_was_asked(subject, real)

    async def referrers(self, reference: ImageReference, digest: str) -> tuple[Descriptor, ...]:
        """Manifests that say that they belong to `digest`.

        Asks the referrers API, and the tag `sha256-<hex>` of registries that do not have it.
        """
        subject = f"referrers of {digest} at {reference.host}/{reference.repository}"
        path = f"/v2/{reference.repository}/referrers/{digest}"
        found: list[Descriptor] = []
        try:
            for _ in range(MAX_REFERRER_PAGES):
                body, headers = await self._document(path, reference, subject, {"Accept": OCI_INDEX})
                found += _index(subject, headers, body).manifests
                link = _NEXT.search(headers.get("Link", ""))
                if link is None:
                    break
                path = urljoin(path, link.group(1))
        except NotFound:
            try:
                found = list((await self.manifest(reference.at(digest.replace(":", "-")))).manifests)
            except NotFound:
                return ()
        return tuple(found)

    async def _document(
        self, path: str, reference: ImageReference, subject: str, headers: Mapping[str, str]
    ) -> tuple[bytes, Mapping[str, str]]:
        async with self._transport.get(path, subject=subject, scope=_scope(reference), headers=headers) as answer:
            return await read_at_most(answer.content, MAX_MANIFEST_BYTES), answer.headers

    async def _more(self, reference: ImageReference, descriptor: Descriptor, sink: Sink) -> None:
        """Add to the sink what one request brings; never more than one read above the size."""
        subject = f"blob {descriptor.digest} of {reference}"
        headers = {"Range": f"bytes={sink.size}-"} if sink.size else {}
        async with self._transport.get(
            f"/v2/{reference.repository}/blobs/{descriptor.digest}",
            subject=subject,
            scope=_scope(reference),
            headers=headers,
            accepted=frozenset({_OK, _PARTIAL, _UNSATISFIABLE}),
        ) as answer:
            if _is_page(answer):
                raise faults.web_page(subject, answer.status)
            if not _goes_on(answer, sink.size):
                await sink.restart()
                if answer.status != _OK:
                    return
            while sink.size <= descriptor.size and (part := await answer.content.readany()):
                await sink.write(part)


def _goes_on(answer: Answer, offset: int) -> bool:
    """Whether the answer starts at `offset`; 200 starts anew, and some registries answer 206 with another range."""
    if answer.status != _PARTIAL:
        return answer.status == _OK and offset == 0
    start = _RANGE.match(answer.headers.get("Content-Range", ""))
    return start is not None and int(start.group(1)) == offset


def _is_page(answer: Answer) -> bool:
    return answer.headers.get("Content-Type", "").lower().startswith("text/html")


def _index(subject: str, headers: Mapping[str, str], body: bytes) -> Manifest:
    found = None if faults.is_web_page(headers, body) else read_manifest(subject, body)
    if found is None:
        raise faults.transient(subject, "what the registry sent is no index", f"{len(body)} bytes", "check it")
    return found


def _scope(reference: ImageReference) -> str:
    return f"repository:{reference.repository}:pull"


def _not_what_was_asked(subject: str, value: str) -> Transient:
    """Damage on the way or in the registry's storage: it says nothing about the image."""
    remedy = "check the registry's storage and proxies on the way; it is asked again"
    return faults.transient(subject, "the registry sent something else than it was asked for", value, remedy)
