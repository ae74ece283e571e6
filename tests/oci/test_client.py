"""What real registries do in the wild, played by a scripted one: tokens, redirects, ranges, lies and silence."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from pydantic import SecretStr

from artifacts import MANIFEST_TYPE, digest_of, indexed, of_layers, titled
from hopline.domain.errors import InvalidRelease, NotFound, Transient
from hopline.domain.image_references import ImageReference
from hopline.domain.release_origin import RegistryAccess
from hopline.oci.client import RegistryClient
from hopline.oci.manifests import Descriptor
from hopline.oci.transport import Patience
from scripted_registry import Handler, ScriptedRegistry, serving

NAME = "kubernetes/release-image"
BLOB = bytes(range(256)) * 2000
DESCRIPTOR = Descriptor(digest_of(BLOB), len(BLOB))
LOGIN = RegistryAccess(plain_http=True, username="me", password=SecretStr("secret"), source="Secret a/b")
ANONYMOUS = RegistryAccess(plain_http=True)
BASIC = "Basic " + b64encode(b"me:secret").decode()


@pytest.fixture
async def registry() -> AsyncIterator[ScriptedRegistry]:
    async with serving(ScriptedRegistry()) as running:
        running.push("v26.06", titled())
        running.blobs[DESCRIPTOR.digest] = BLOB
        yield running


@pytest.fixture
async def client(registry: ScriptedRegistry) -> AsyncIterator[RegistryClient]:
    async with RegistryClient(registry.host, ANONYMOUS) as found:
        yield found


def at(registry: ScriptedRegistry, tag: str = "v26.06") -> ImageReference:
    return ImageReference(registry.host, NAME, tag)


def only(part: str, handler: Callable[[web.Request], web.StreamResponse]) -> Handler:
    """`handler` for requests whose path contains a text."""

    async def before(request: web.Request) -> web.StreamResponse | None:
        return handler(request) if part in request.path else None

    return before


async def fault(client: RegistryClient, reference: ImageReference) -> Transient:
    with pytest.raises(Transient) as caught:
        await client.manifest(reference)
    assert caught.value.remedy
    return caught.value


# --- manifests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    [
        MANIFEST_TYPE,
        f"{MANIFEST_TYPE}; charset=utf-8",
        MANIFEST_TYPE.upper(),
        "application/json",
        "application/octet-stream",
        "text/plain",
        None,
    ],
)
async def test_content_types_in_every_spelling_or_none(
    registry: ScriptedRegistry, client: RegistryClient, content_type: str | None
) -> None:
    registry.content_type = content_type
    found = await client.manifest(at(registry))
    assert found.digest == titled().digest
    assert len(found.layers) == 3


async def test_an_index_is_told_from_a_manifest_by_what_it_holds(
    registry: ScriptedRegistry, client: RegistryClient
) -> None:
    registry.push("many", indexed({"linux/arm64": titled()}))
    assert (await client.manifest(at(registry, "many"))).is_index


async def test_a_tag_that_is_missing(registry: ScriptedRegistry, client: RegistryClient) -> None:
    with pytest.raises(NotFound) as caught:
        await client.manifest(at(registry, "v27.01"))
    assert "MANIFEST_UNKNOWN" in caught.value.value


@pytest.mark.parametrize("status", [200, 404, 502])
@pytest.mark.parametrize("content_type", ["text/html", "application/vnd.oci.image.manifest.v1+json"])
async def test_a_web_page_says_nothing_about_the_image(
    registry: ScriptedRegistry, client: RegistryClient, status: int, content_type: str
) -> None:
    page = b"\n<!DOCTYPE html><html><body>Sign in</body></html>"
    registry.before = only("", lambda _: web.Response(body=page, status=status, content_type=content_type))
    assert "web page" in (await fault(client, at(registry))).message


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b"{", b"\xff\xfe", b'{"errors": []}'])
async def test_what_is_no_manifest(registry: ScriptedRegistry, client: RegistryClient, body: bytes) -> None:
    registry.manifests["v26.06"] = body
    assert "no manifest" in (await fault(client, at(registry))).message


@pytest.mark.parametrize(
    ("status", "message"),
    [(401, "does not let us in"), (403, "does not let us in"), (429, "fewer requests"), (500, "fault"), (503, "fault")],
)
async def test_answers_that_may_pass(
    registry: ScriptedRegistry, client: RegistryClient, status: int, message: str
) -> None:
    answer = {"errors": [{"code": "DENIED", "message": "not today"}]}
    registry.before = only("", lambda _: web.json_response(answer, status=status, headers={"Retry-After": "7"}))
    error = await fault(client, at(registry))
    assert message in error.message
    assert error.value == f"{status} DENIED not today"
    assert error.retry_after == (0 if status < 429 else 7)


async def test_silence_ends(registry: ScriptedRegistry) -> None:
    async def silent(_: web.Request) -> None:
        await asyncio.sleep(60)

    registry.before = silent
    async with RegistryClient(registry.host, ANONYMOUS, Patience(silence=0.3)) as client:
        assert "silent" in (await fault(client, at(registry))).message


async def test_nobody_is_there() -> None:
    async with RegistryClient("127.0.0.1:1", ANONYMOUS) as client:
        assert "cannot be reached" in (await fault(client, ImageReference("127.0.0.1:1", NAME, "t"))).message


async def test_other_bytes_than_the_digest(registry: ScriptedRegistry, client: RegistryClient) -> None:
    registry.manifests[titled().digest] = of_layers([]).body
    error = await fault(client, at(registry).at(titled().digest))
    assert "something else" in error.message


async def test_a_manifest_without_digests_and_one_that_is_too_large(
    registry: ScriptedRegistry, client: RegistryClient
) -> None:
    registry.manifests["old"] = b'{"schemaVersion": 1, "fsLayers": []}'
    with pytest.raises(InvalidRelease, match="schemaVersion"):
        await client.manifest(at(registry, "old"))
    registry.manifests["large"] = b'{"layers": [' + b" " * 5_000_000 + b"]}"
    with pytest.raises(InvalidRelease, match="too large"):
        await client.manifest(at(registry, "large"))


@pytest.mark.parametrize(
    "entry",
    [
        "x",
        {"size": 1},
        {"digest": "sha512:ab", "size": 1},
        {"digest": "sha256:../../etc", "size": 1},
        {"digest": digest_of(b""), "size": -1},
        {"digest": digest_of(b""), "size": "1"},
        {"digest": digest_of(b""), "size": True},
    ],
)
async def test_descriptors_that_are_none(registry: ScriptedRegistry, client: RegistryClient, entry: object) -> None:
    image = of_layers([])
    body = image.body.replace(b'"layers": []', f'"layers": [{json.dumps(entry)}]'.encode())
    registry.manifests["odd"] = body
    with pytest.raises(InvalidRelease, match=r"layers\[0\]"):
        _ = (await client.manifest(at(registry, "odd"))).layers


# --- tokens --------------------------------------------------------------------------------------------------------


class TokenServer:
    """Bearer tokens with a life; a registry that wants them."""

    def __init__(self, registry: ScriptedRegistry, *, life: object = 300, field: str = "token") -> None:
        self.given: list[web.Request] = []
        self.valid: set[str] = set()
        self.life, self.field = life, field
        self.challenge = (
            f'Bearer realm="http://{registry.host}/token",service="registry, test",scope="repository:{NAME}:pull"'
        )
        registry.before = self.before

    async def before(self, request: web.Request) -> web.StreamResponse | None:
        if request.path == "/token":
            self.given.append(request)
            token = f"t{len(self.given)}"
            self.valid.add(f"Bearer {token}")
            return web.json_response({self.field: token, "expires_in": self.life})
        if request.headers.get("Authorization") in self.valid:
            return None
        return web.Response(status=401, headers={"WWW-Authenticate": self.challenge})


@pytest.mark.parametrize("field", ["token", "access_token"])
async def test_a_token_is_fetched_once_and_used_for_everything(registry: ScriptedRegistry, field: str) -> None:
    server = TokenServer(registry, field=field)
    async with RegistryClient(registry.host, LOGIN) as client:
        await client.manifest(at(registry))
        await asyncio.gather(*(client.blob(at(registry), DESCRIPTOR) for _ in range(5)))
    assert len(server.given) == 1
    (asked,) = server.given
    assert asked.headers["Authorization"] == BASIC
    assert dict(asked.query) == {"service": "registry, test", "scope": f"repository:{NAME}:pull"}
    sent = zip(registry.requests, registry.authorizations, strict=True)
    assert BASIC not in [header for path, header in sent if "/v2/" in path]


async def test_requests_side_by_side_share_one_token(registry: ScriptedRegistry) -> None:
    server = TokenServer(registry)
    async with RegistryClient(registry.host, LOGIN) as client:
        await asyncio.gather(*(client.manifest(at(registry)) for _ in range(6)))
    assert len(server.given) == 1


async def test_a_token_that_ends_too_soon_is_replaced(registry: ScriptedRegistry) -> None:
    server = TokenServer(registry)
    async with RegistryClient(registry.host, LOGIN) as client:
        await client.manifest(at(registry))
        server.valid.clear()
        await client.manifest(at(registry))
    assert len(server.given) == 2


async def test_many_scopes_are_asked_for_together(registry: ScriptedRegistry) -> None:
    server = TokenServer(registry)
    server.challenge = server.challenge[:-1] + ' repository:base:pull"'
    async with RegistryClient(registry.host, LOGIN) as client:
        await client.manifest(at(registry))
    assert server.given[0].query.getall("scope") == [f"repository:{NAME}:pull", "repository:base:pull"]


async def test_a_token_without_credentials(registry: ScriptedRegistry, client: RegistryClient) -> None:
    server = TokenServer(registry, life=None)
    await client.manifest(at(registry))
    assert "Authorization" not in server.given[0].headers


async def test_a_token_that_is_refused_is_no_endless_loop(registry: ScriptedRegistry) -> None:
    server = TokenServer(registry)
    server.valid = type("Nothing", (set,), {"__contains__": lambda self, _: False})()
    async with RegistryClient(registry.host, LOGIN) as client:
        error = await fault(client, at(registry))
    assert "does not let us in" in error.message
    assert "Secret a/b" in error.remedy
    assert len(server.given) == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (web.json_response({}), "gave no token"),
        (web.Response(text="<html>", content_type="text/html"), "gave no token"),
        (web.Response(status=401), "does not let us in"),
        (web.Response(status=404), "does not exist"),
        (web.Response(status=500), "has a fault"),
    ],
    ids=["nothing", "page", "401", "404", "500"],
)
async def test_a_token_server_that_gives_none(registry: ScriptedRegistry, answer: web.Response, message: str) -> None:
    server = TokenServer(registry)

    async def before(request: web.Request) -> web.StreamResponse | None:
        if request.path == "/token":
            return web.Response(body=answer.body, status=answer.status, content_type=answer.content_type)
        return await server.before(request)

    registry.before = before
    async with RegistryClient(registry.host, LOGIN) as client:
        error = await fault(client, at(registry))
    assert message in error.message
    assert "token server" in error.subject


async def test_basic_authentication(registry: ScriptedRegistry) -> None:
    async def before(request: web.Request) -> web.StreamResponse | None:
        if request.headers.get("Authorization") == BASIC:
            return None
        return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="r"'})

    registry.before = before
    async with RegistryClient(registry.host, LOGIN) as client:
        await client.manifest(at(registry))
        await client.blob(at(registry), DESCRIPTOR)
    assert registry.authorizations == ["", BASIC, BASIC]


# --- redirects -----------------------------------------------------------------------------------------------------


async def test_credentials_do_not_follow_a_redirect_to_another_host(registry: ScriptedRegistry) -> None:
    async def store(request: web.Request) -> web.StreamResponse:
        if "Authorization" in request.headers:
            return web.Response(status=400, text="only one authentication mechanism allowed")
        return web.Response(body=BLOB)

    async with serving(ScriptedRegistry(before=store)) as other:

        async def before(request: web.Request) -> web.StreamResponse | None:
            if request.headers.get("Authorization") != BASIC:
                return web.Response(status=401, headers={"WWW-Authenticate": "basic"})
            if "/blobs/" in request.path:
                return web.Response(status=307, headers={"Location": f"http://{other.host}/store?signature=s"})
            return None

        registry.before = before
        async with RegistryClient(registry.host, LOGIN) as client:
            assert await client.blob(at(registry), DESCRIPTOR) == BLOB
        assert other.authorizations == [""]


async def test_a_redirect_on_the_same_host_keeps_them(registry: ScriptedRegistry) -> None:
    async def before(request: web.Request) -> web.StreamResponse | None:
        if request.headers.get("Authorization") != BASIC:
            return web.Response(status=401, headers={"WWW-Authenticate": "Basic"})
        if request.path.startswith("/v2/") and "/blobs/" in request.path:
            return web.Response(status=302, headers={"Location": f"/moved{request.path}"})
        return None if request.path.startswith("/v2/") else web.Response(body=BLOB)

    registry.before = before
    async with RegistryClient(registry.host, LOGIN) as client:
        assert await client.blob(at(registry), DESCRIPTOR) == BLOB


async def test_redirects_in_circles(registry: ScriptedRegistry, client: RegistryClient) -> None:
    registry.before = only("", lambda r: web.Response(status=302, headers={"Location": f"{r.path}?secret=1"}))
    error = await fault(client, at(registry))
    assert "circles" in error.message
    assert "secret" not in str(error)


# --- blobs ---------------------------------------------------------------------------------------------------------


async def test_a_blob(registry: ScriptedRegistry, client: RegistryClient) -> None:
    assert await client.blob(at(registry), DESCRIPTOR) == BLOB


class Breaking:
    """Sends half of what is asked for and hangs up; then answers ranges in one of the ways of the wild."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.ranges: list[str] = []

    async def before(self, request: web.Request) -> web.StreamResponse | None:
        if "/blobs/" not in request.path:
            return None
        asked = request.headers.get("Range", "")
        self.ranges.append(asked)
        if len(self.ranges) == 1:
            return await self._half(request)
        offset = int(asked.removeprefix("bytes=").removesuffix("-") or 0)
        total = len(BLOB)
        if not asked or self.way == "200":
            return web.Response(body=BLOB)
        if self.way == "416":
            return web.Response(status=416)
        start = 0 if self.way == "elsewhere" else offset
        span = {} if self.way == "unsaid" else {"Content-Range": f"bytes {start}-{total - 1}/{total}"}
        return web.Response(status=206, body=BLOB[start:], headers=span)

    async def _half(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(BLOB))})
        await response.prepare(request)
        await response.write(BLOB[: len(BLOB) // 2])
        assert request.transport is not None
        request.transport.close()
        return response


@pytest.mark.parametrize("way", ["206", "200", "416", "elsewhere", "unsaid"])
async def test_a_transfer_that_breaks_off_goes_on(registry: ScriptedRegistry, client: RegistryClient, way: str) -> None:
    breaking = Breaking(way)
    registry.before = breaking.before
    assert await client.blob(at(registry), DESCRIPTOR) == BLOB
    assert breaking.ranges[0] == ""
    assert breaking.ranges[1].startswith("bytes=")
    assert len(breaking.ranges) == (2 if way in ("206", "200") else 3)


async def test_a_transfer_that_always_breaks_off(registry: ScriptedRegistry, client: RegistryClient) -> None:
    breaking = Breaking("206")

    async def always(request: web.Request) -> web.StreamResponse | None:
        breaking.ranges.clear()
        return await breaking.before(request)

    registry.before = always
    with pytest.raises(Transient):
        await client.blob(at(registry), DESCRIPTOR)
    assert registry.count("/blobs/") <= 5


@pytest.mark.parametrize("body", [BLOB[:-1], BLOB + b"x", BLOB * 2, b"y" + BLOB[1:], b""])
async def test_another_blob_than_was_asked_for(registry: ScriptedRegistry, client: RegistryClient, body: bytes) -> None:
    registry.blobs[DESCRIPTOR.digest] = body
    with pytest.raises(Transient) as caught:
        await client.blob(at(registry), DESCRIPTOR)
    assert DESCRIPTOR.digest in caught.value.subject


async def test_a_web_page_in_place_of_a_blob(registry: ScriptedRegistry, client: RegistryClient) -> None:
    registry.before = only("/blobs/", lambda _: web.Response(text="<html>", content_type="text/html"))
    with pytest.raises(Transient, match="web page"):
        await client.blob(at(registry), DESCRIPTOR)


# --- referrers -----------------------------------------------------------------------------------------------------


def referring(*digests: str) -> bytes:
    entries = ", ".join(f'{{"digest": "{digest}", "size": 1, "artifactType": "a/b"}}' for digest in digests)
    return f'{{"schemaVersion": 2, "manifests": [{entries}]}}'.encode()


async def test_referrers_by_the_api_over_pages(registry: ScriptedRegistry, client: RegistryClient) -> None:
    first, second = digest_of(b"1"), digest_of(b"2")

    async def before(request: web.Request) -> web.StreamResponse | None:
        if "/referrers/" not in request.path:
            return None
        if "page" in request.query:
            return web.Response(body=referring(second))
        link = f'<{request.path}?page=2>; rel="next"'
        return web.Response(body=referring(first), headers={"Link": link})

    registry.before = before
    found = await client.referrers(at(registry), DESCRIPTOR.digest)
    assert [entry.digest for entry in found] == [first, second]


async def test_referrers_by_tag_and_none(registry: ScriptedRegistry, client: RegistryClient) -> None:
    assert await client.referrers(at(registry), DESCRIPTOR.digest) == ()
    registry.manifests[DESCRIPTOR.digest.replace(":", "-")] = referring(digest_of(b"1"))
    found = await client.referrers(at(registry), DESCRIPTOR.digest)
    assert [(entry.digest, entry.artifact_type) for entry in found] == [(digest_of(b"1"), "a/b")]


async def test_referrers_that_cannot_be_looked_for(registry: ScriptedRegistry, client: RegistryClient) -> None:
    registry.before = only("/referrers/", lambda _: web.Response(status=503))
    with pytest.raises(Transient):
        await client.referrers(at(registry), DESCRIPTOR.digest)
