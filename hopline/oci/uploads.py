"""What is brought to a registry: blobs in one stream each, manifests by digest and by tag (the distribution API).

Everything may be said again: what is there is not sent, an upload that breaks off goes on where the registry stopped,
and nothing can be seen of a blob before all of its bytes have come and have its digest.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlencode

from hopline.domain.errors import NotFound, PortError
from hopline.domain.image_references import ImageReference, is_digest
from hopline.domain.release_origin import RegistryAccess
from hopline.oci.client import RegistryClient
from hopline.oci.manifests import ACCEPTED, Descriptor, Manifest
from hopline.oci.transport import Patience
from hopline.oci.upload_notes import NoNotes, UploadNotes
from hopline.oci.upload_sessions import TAKEN, UploadSession
from hopline.oci.upload_source import Moved, UploadSource

UPLOAD_PATIENCE = Patience(silence=300.0)
"""A registry may read a large blob once more before it says that it has it."""

_CREATED = 201
_NO_NOTES = NoNotes()


def _unheard(count: int) -> None:
    """Nobody listens."""


async def speaks_tls(host: str) -> bool:
    """Whether a registry answers TLS. One that does not answer at all counts as one that would: the next request says
    what is wrong."""
    async with RegistryClient(host, RegistryAccess(verify_tls=False)) as client:
        return await client.answers_tls()


class RegistryWriter(RegistryClient):
    """One registry that takes uploads."""

    async def has_blob(self, reference: ImageReference, descriptor: Descriptor) -> bool:
        """Whether the repository has it, whole. Raises Transient when the registry gives no usable answer."""
        path = f"/v2/{reference.repository}/blobs/{descriptor.digest}"
        try:
            async with self._transport.ask(
                "HEAD", path, subject=_blob(reference, descriptor), scope=_scope(reference)
            ) as answer:
                return answer.headers.get("Content-Length") in (None, str(descriptor.size))
        except NotFound:
            return False

    async def named(self, reference: ImageReference) -> str:
        """The digest of what a tag or digest names there; empty when it names nothing. Raises Transient."""
        path = f"/v2/{reference.repository}/manifests/{reference.target}"
        try:
            async with self._transport.ask(
                "HEAD", path, subject=str(reference), scope=_scope(reference), headers={"Accept": ACCEPTED}
            ) as answer:
                said = answer.headers.get("Docker-Content-Digest", "")
        except NotFound:
            return ""
        return said if is_digest(said) else (await self.manifest(reference)).digest

    async def mount(self, reference: ImageReference, descriptor: Descriptor, repository: str) -> bool:
        """Take a blob over from another repository of the registry. False when the registry wants its bytes."""
        query = urlencode({"mount": descriptor.digest, "from": repository})
        async with self._transport.ask(
            "POST",
            f"/v2/{reference.repository}/blobs/uploads/?{query}",
            subject=_blob(reference, descriptor),
            scope=_scope(reference),
            headers={"Content-Length": "0"},
            accepted=TAKEN,
        ) as answer:
            status, place = answer.status, answer.headers.get("Location", "")
        if status == _CREATED:
            return True
        await self._cancel(reference, descriptor, place)
        return False

    async def upload(
        self,
        reference: ImageReference,
        descriptor: Descriptor,
        file: Path,
        moved: Moved = _unheard,
        notes: UploadNotes = _NO_NOTES,
    ) -> int:
        """Bring a blob; goes on with an upload that `notes` know of. Returns the bytes of it that had come before.

        Raises:
            InvalidDocument: the file does not have the bytes that the descriptor says; nothing of it is left there.
            NotFound, Rejected: the registry does not take it.
            Transient: no usable answer; an upload that is under way is in the notes.
        """
        source = await asyncio.to_thread(UploadSource, file, descriptor.size, moved)
        try:
            return await UploadSession(self._transport, reference, descriptor, source, notes).run()
        finally:
            await asyncio.to_thread(source.close)

    async def put_manifest(self, reference: ImageReference, manifest: Manifest) -> str:
        """Bring a manifest under the target of the reference. Raises as `upload` does.

        Returns the subject that the registry has registered it for; empty where it knows no referrers.
        """
        async with self._transport.ask(
            "PUT",
            f"/v2/{reference.repository}/manifests/{reference.target}",
            subject=str(reference),
            scope=_scope(reference),
            headers={"Content-Type": manifest.media_type},
            accepted=TAKEN,
            body=lambda: manifest.body,
        ) as answer:
            return answer.headers.get("OCI-Subject", "")

    async def _cancel(self, reference: ImageReference, descriptor: Descriptor, place: str) -> None:
        """Tell the registry that nothing comes of an upload that it has begun by itself."""
        if not place:
            return
        try:
            async with self._transport.ask(
                "DELETE", place, subject=_blob(reference, descriptor), scope=_scope(reference), accepted=TAKEN
            ):
                return
        except PortError:
            return


def _scope(reference: ImageReference) -> str:
    return f"repository:{reference.repository}:pull,push"


def _blob(reference: ImageReference, descriptor: Descriptor) -> str:
    return f"blob {descriptor.digest} for {reference.host}/{reference.repository}"
