"""A registry that does as it is told, for what real ones do in the wild: plain HTTP on loopback, requests recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from artifacts import Artifact, digest_of

Handler = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@dataclass
class ScriptedRegistry:
    """Serves what was pushed. `before` sees every request first, and may answer it.

    Attributes:
        requests: method and path of each request, in order.
        authorizations: the header of each request, empty where there was none.
        content_type: of manifests; None sends none.
    """

    host: str = ""
    requests: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    manifests: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    referrers: dict[str, bytes] = field(default_factory=dict)
    content_type: str | None = "application/vnd.oci.image.manifest.v1+json"
    headers: Mapping[str, str] = field(default_factory=dict)
    before: Handler | None = None

    def push(self, tag: str, image: Artifact) -> str:
        """Hold an image under a tag; returns its digest."""
        self.blobs |= image.blobs
        self.manifests |= {**image.manifests, image.digest: image.body, tag: image.body}
        return image.digest

    def count(self, part: str) -> int:
        """Requests whose path contains a text."""
        return sum(part in request for request in self.requests)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        self.requests.append(f"{request.method} {request.path}")
        self.authorizations.append(request.headers.get("Authorization", ""))
        if self.before is not None and (told := await self.before(request)) is not None:
            return told
        _, _, rest = request.path.partition("/v2/")
        for kind, held in (("manifests", self.manifests), ("blobs", self.blobs), ("referrers", self.referrers)):
            if f"/{kind}/" in rest:
                content = held.get(rest.partition(f"/{kind}/")[2])
                return self._found(kind, content) if content is not None else missing()
        return missing()

    def _found(self, kind: str, content: bytes) -> web.Response:
        headers = dict(self.headers)
        if kind == "manifests":
            headers["Docker-Content-Digest"] = digest_of(content)
        answer = web.Response(body=content, headers=headers)
        if kind == "manifests" and self.content_type is not None:
            answer.headers["Content-Type"] = self.content_type
        elif kind == "manifests":
            # Without the header aiohttp would write one of its own.
            answer.headers["Content-Type"] = ""
        return answer


def missing() -> web.Response:
    """The answer of a registry that does not have it."""
    return web.json_response({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}, status=404)


@asynccontextmanager
async def serving(registry: ScriptedRegistry) -> AsyncIterator[ScriptedRegistry]:
    """On a free port, until the block ends."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", registry.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    registry.host = f"127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield registry
    finally:
        await runner.cleanup()
