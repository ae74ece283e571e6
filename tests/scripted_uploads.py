"""A scripted registry that takes uploads, and breaks off, forgets or refuses where it is told to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from artifacts import digest_of
from scripted_registry import ScriptedRegistry


@dataclass
class UploadRegistry(ScriptedRegistry):
    """Holds what was brought to it, in one repository.

    Attributes:
        break_after: bytes of a transfer after which its connection is dropped, once for each entry.
        forget: uploads that are forgotten before they end.
        behind: transfers that go on from another byte than ours are told so with 416, this often without any reason.
        location: what is said of an upload, from its path; None says nothing.
        ranges: what is said of an upload that holds so many bytes; empty says nothing.
        is_stateful: the address of an upload holds its state, and only the last one is accepted but for questions.
    """

    uploads: dict[str, bytearray] = field(default_factory=dict)
    break_after: list[int] = field(default_factory=list)
    forget: int = 0
    behind: int = 0
    location: Callable[[str], str | None] = lambda path: path
    ranges: Callable[[int], str] = lambda count: f"0-{max(count - 1, 0)}"
    is_stateful: bool = False
    offsets: list[int] = field(default_factory=list)
    """Where each transfer began."""
    received: int = 0
    """Bytes of all transfers."""
    begun: int = 0
    """Uploads so far."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        if "/blobs/uploads/" not in request.path and request.method in ("GET", "HEAD"):
            return await super().answer(request)
        self.requests.append(f"{request.method} {request.path}")
        self.authorizations.append(request.headers.get("Authorization", ""))
        if self.before is not None and (told := await self.before(request)) is not None:
            return told
        if request.method == "PUT" and "/manifests/" in request.path:
            body = await request.read()
            self.manifests |= {digest_of(body): body, request.path.rpartition("/")[2]: body}
            return web.Response(status=201)
        return await self._upload(request)

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        name = request.path.rpartition("/")[2]
        if request.method == "POST":
            name = str(self.begun)
            self.begun += 1
            self.uploads[name] = bytearray()
            return web.Response(status=202, headers=self._place(f"{request.path}{name}", self.uploads[name]))
        held = self.uploads.get(name)
        if held is None or (request.method == "PUT" and self.forget > 0):
            self.forget -= 1
            return web.json_response({"errors": [{"code": "BLOB_UPLOAD_UNKNOWN"}]}, status=404)
        if request.method == "DELETE":
            del self.uploads[name]
            return web.Response(status=204)
        if request.method != "GET" and self.is_stateful and request.query.get("state") != str(len(held)):
            return web.Response(status=416)
        if request.method == "PATCH":
            if self.behind > 0:
                self.behind -= 1
                return web.Response(status=416)
            await self._transfer(request, held)
        if request.method == "PUT":
            held += await request.read()
            if digest_of(held) != request.query["digest"]:
                return web.json_response({"errors": [{"code": "DIGEST_INVALID"}]}, status=400)
            self.blobs[digest_of(held)] = bytes(held)
            return web.Response(status=201)
        return web.Response(status=204 if request.method != "PATCH" else 202, headers=self._place(request.path, held))

    def _place(self, path: str, held: bytearray) -> dict[str, str]:
        found = {}
        if location := self.location(path):
            found["Location"] = f"{location}?state={len(held)}" if self.is_stateful else location
        if said := self.ranges(len(held)):
            found["Range"] = said
        return found

    async def _transfer(self, request: web.Request, held: bytearray) -> None:
        start = int(request.headers.get("Content-Range", "0-").partition("-")[0])
        self.offsets.append(start)
        assert start == len(held)
        limit = self.break_after.pop(0) if self.break_after else 0
        async for part in request.content.iter_any():
            held += part
            self.received += len(part)
            if limit and len(held) >= limit:
                assert request.transport
                request.transport.close()
                raise ConnectionResetError
