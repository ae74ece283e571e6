"""One blob on its way into one repository: begun, broken off, taken up again, ended by its digest."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from urllib.parse import quote, urljoin

from hopline.domain.errors import NotFound, PortError, Rejected, Transient
from hopline.domain.image_references import ImageReference
from hopline.oci.client import MAX_RESUMES
from hopline.oci.layout import corrupt
from hopline.oci.manifests import Descriptor
from hopline.oci.transport import Answer, Body, Transport
from hopline.oci.upload_notes import UploadNote, UploadNotes
from hopline.oci.upload_source import UploadSource

SMALL = 1024 * 1024
"""Bytes; a blob up to here travels with the request that ends its upload."""
PAUSE_SECONDS = 0.2
"""Before a registry is asked again that still writes what an earlier transfer brought; longer each time."""

_OK, _CREATED, _ACCEPTED, _NO_CONTENT, _UNSATISFIABLE = 200, 201, 202, 204, 416
TAKEN = frozenset({_OK, _CREATED, _ACCEPTED, _NO_CONTENT})
_END = re.compile(r"(?:bytes=)?0-(\d+)")
_BYTES = "application/octet-stream"


class UploadSession:
    """One blob for one repository."""

    def __init__(
        self,
        transport: Transport,
        reference: ImageReference,
        descriptor: Descriptor,
        source: UploadSource,
        notes: UploadNotes,
    ) -> None:
        self._transport = transport
        self._reference = reference
        self._descriptor = descriptor
        self._source = source
        self._notes = notes
        self._blob = f"{reference.host}/{reference.repository}@{descriptor.digest}"
        self._place = ""
        """Where the registry wants the next bytes; empty when no upload is open."""
        self._offset = 0
        self._resumed = False
        """Bytes came in more than one request, so that the registry may have put them together wrongly."""

    async def run(self) -> int:
        """Bring it; returns the bytes that an earlier process has brought. Raises as `RegistryWriter.upload` does."""
        kept = await self._take_up() if self._is_large else 0
        for attempt in range(1, MAX_RESUMES + 1):
            begun = bool(self._place)
            try:
                if not begun:
                    await self._begin()
                    begun = True
                await self._bring()
                await self._note(None)
                return kept
            except (NotFound, Rejected) as fault:
                # The registry has forgotten the upload, does not let it go on, or has put it together wrongly.
                final = isinstance(fault, Rejected) and not self._resumed
                if attempt == MAX_RESUMES or not begun or final:
                    raise
                await self.cancel()
                self._place, self._offset, self._resumed, kept = "", 0, False, 0
        raise AssertionError("the last attempt returns or raises")

    async def cancel(self) -> None:
        """Tell the registry that nothing more comes, and forget the place. Uploads that nobody ends are swept by it."""
        await self._note(None)
        try:
            async with self._ask("DELETE", self._place):
                return
        except PortError:
            return

    @property
    def _is_large(self) -> bool:
        return self._descriptor.size > SMALL

    async def _take_up(self) -> int:
        """Go on with what an earlier process has begun, if the registry still has it; returns how much that is."""
        note = await asyncio.to_thread(self._notes.find, self._blob)
        if note is None:
            return 0
        self._place = note.place
        try:
            known = await self._look()
        except PortError:
            # Where the registry is out of reach, the next request says so, and the note stays for another attempt.
            known = False
        # An upload that was taken up often and never got on is one that this registry cannot go on with.
        times = note.times + 1 if note.offset == self._offset else 1
        if known and times > MAX_RESUMES:
            await self.cancel()
        if not known or not self._offset or times > MAX_RESUMES:
            self._place, self._offset = "", 0
            return 0
        self._resumed = True
        await self._note(UploadNote(blob=self._blob, place=self._place, offset=self._offset, times=times))
        return self._offset

    async def _begin(self) -> None:
        path = f"/v2/{self._reference.repository}/blobs/uploads/"
        async with self._ask("POST", path, {"Content-Length": "0"}) as answer:
            place = answer.headers.get("Location", "")
        if not place:
            remedy = "check the registry"
            raise Transient("the registry names no place for the upload", subject=self._subject, remedy=remedy)
        self._place = urljoin(path, place)
        if self._is_large:
            await self._note(UploadNote(blob=self._blob, place=self._place))

    async def _bring(self) -> None:
        """All bytes that are missing, and the end of the upload."""
        whole = b""
        if self._is_large:
            await asyncio.to_thread(self._source.skip_to, self._offset)
            await self._send()
        else:
            whole = await asyncio.to_thread(self._source.whole)
        if (real := self._source.digest()) != self._descriptor.digest:
            await self.cancel()
            raise corrupt(self._source.path, "digest", real)
        mark = "&" if "?" in self._place else "?"
        place = f"{self._place}{mark}digest={quote(self._descriptor.digest, safe='')}"
        headers = {"Content-Type": _BYTES, "Content-Length": str(len(whole))}
        async with self._ask("PUT", place, headers, body=lambda: whole):
            return

    async def _send(self) -> None:
        """What is missing, in as few requests as the connection allows."""
        for attempt in range(1, MAX_RESUMES + 1):
            if self._offset == self._descriptor.size:
                return
            try:
                if await self._stream():
                    return
                await asyncio.sleep(PAUSE_SECONDS * attempt)
            except Transient:
                if attempt == MAX_RESUMES:
                    raise
            self._resumed = True
            if not await self._look():
                break
        remedy = "check the registry and proxies on the way"
        raise Rejected("the registry does not go on with the upload", subject=self._subject, remedy=remedy)

    async def _stream(self) -> bool:
        """One request with everything that is missing; False when the registry has another amount than we think."""
        size, start = self._descriptor.size, self._offset
        headers = {"Content-Type": _BYTES, "Content-Length": str(size - start)}
        if start:
            headers["Content-Range"] = f"{start}-{size - 1}"

        def rest() -> AsyncIterator[bytes]:
            return self._source.parts(start)

        taken = TAKEN | {_UNSATISFIABLE}
        async with self._ask("PATCH", self._place, headers, body=rest, accepted=taken) as answer:
            if answer.status == _UNSATISFIABLE:
                return False
            self._move_to(answer)
            self._offset = size
            return True

    async def _look(self) -> bool:
        """Ask what has come. False when the answer is none that an upload can go on from."""
        async with self._ask("GET", self._place) as answer:
            end = _END.fullmatch(answer.headers.get("Range", "").strip())
            if end is None:
                return False
            self._move_to(answer)
            # "0-0" is what registries say of nothing at all.
            last = int(end.group(1))
            self._offset = last + 1 if last else 0
            return self._offset <= self._descriptor.size

    def _move_to(self, answer: Answer) -> None:
        """Each answer may name another place; a relative one is meant from the last."""
        self._place = urljoin(self._place, answer.headers.get("Location", ""))

    async def _note(self, note: UploadNote | None) -> None:
        if note is not None:
            await asyncio.to_thread(self._notes.keep, note)
        elif self._is_large:
            await asyncio.to_thread(self._notes.drop, self._blob)

    @property
    def _subject(self) -> str:
        return f"blob {self._descriptor.digest} for {self._reference.host}/{self._reference.repository}"

    def _ask(
        self,
        method: str,
        place: str,
        headers: dict[str, str] | None = None,
        *,
        body: Body | None = None,
        accepted: frozenset[int] = TAKEN,
    ) -> AbstractAsyncContextManager[Answer]:
        scope = f"repository:{self._reference.repository}:pull,push"
        return self._transport.ask(
            method, place, subject=self._subject, scope=scope, headers=headers, accepted=accepted, body=body
        )
