"""Requests to one registry: time limits, redirects, and credentials that stay where they belong."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from urllib.parse import urljoin, urlsplit

import aiohttp

from hopline.domain.errors import InvalidInput
from hopline.domain.release_origin import RegistryAccess
from hopline.oci import faults
from hopline.oci.challenges import parse_challenges
from hopline.oci.proxying import proxy_options
from hopline.oci.tokens import Tokens

MAX_REDIRECTS = 5
MAX_ERROR_BODY = 64 * 1024
PARALLEL_REQUESTS = 8
READ_BUFFER = 1024 * 1024
"""Bytes; what is read at once is hashed and written at once."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_UNAUTHORIZED = 401
_LOOKS = ("GET", "HEAD")


@dataclass(frozen=True)
class Patience:
    """Seconds. A transfer may take as long as it likes, but not be silent."""

    connect: float = 5.0
    silence: float = 30.0


Body = Callable[[], AsyncIterator[bytes] | bytes]
"""Makes the body of a request anew whenever it has to be sent."""


@dataclass(frozen=True)
class Answer:
    """An open answer with one of the codes that were asked for."""

    status: int
    headers: Mapping[str, str]
    content: aiohttp.StreamReader


@dataclass(frozen=True)
class _Request:
    """What is sent, as often as it takes."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: Body | None = None

    def signed(self, authorization: str) -> _Request:
        """The same with this authorization and no other one."""
        kept = {name: value for name, value in self.headers.items() if name != "Authorization"}
        return replace(self, headers={**kept, "Authorization": authorization} if authorization else kept)


class Transport:
    """One registry, by host as in a reference."""

    def __init__(self, host: str, access: RegistryAccess, patience: Patience = Patience()) -> None:
        self._access = access
        self._base = f"{'http' if access.plain_http else 'https'}://{host}"
        self._host = host
        self._tokens = Tokens(host, access, self._fetch_token)
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=patience.connect, connect=None, sock_read=patience.silence
        )
        self._session: aiohttp.ClientSession | None = None

    async def aclose(self) -> None:
        """Drop every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def answers_tls(self) -> bool:
        """False when something answers that speaks no TLS; True when it does, and when nothing answers."""
        try:
            url = f"https://{self._host}/v2/"
            through = proxy_options(self._access.proxies, url)
            async with self._opened().get(url, allow_redirects=False, **through):
                return True
        except aiohttp.ClientConnectorSSLError as error:
            return "WRONG_VERSION_NUMBER" not in str(error) and "RECORD_LAYER_FAILURE" not in str(error)
        except (TimeoutError, aiohttp.ClientError, OSError):
            return True

    @asynccontextmanager
    async def get(
        self,
        path: str,
        *,
        subject: str,
        scope: str,
        headers: Mapping[str, str] | None = None,
        accepted: frozenset[int] = frozenset({200}),
    ) -> AsyncIterator[Answer]:
        """GET of a path, or of an absolute address on this host. Raises as `ask` does."""
        async with self.ask("GET", path, subject=subject, scope=scope, headers=headers, accepted=accepted) as answer:
            yield answer

    @asynccontextmanager
    async def ask(
        self,
        method: str,
        path: str,
        *,
        subject: str,
        scope: str,
        headers: Mapping[str, str] | None = None,
        accepted: frozenset[int] = frozenset({200}),
        body: Body | None = None,
    ) -> AsyncIterator[Answer]:
        """A request for a path, or for an absolute address. Signs in when it is asked to.

        Raises NotFound when the registry says that it is not there, Transient for everything else.
        """
        url = urljoin(self._base, path)
        try:
            response = await self._signed(_Request(method, url, headers or {}, body), scope, subject)
            async with response:
                if response.status not in accepted:
                    said = await _bounded_body(response)
                    judge = faults.refused if method in _LOOKS else faults.not_taken
                    raise judge(subject, response.status, response.headers, said, self._access)
                yield Answer(response.status, response.headers, response.content)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise faults.unreachable(subject, error, self._access) from None

    async def _signed(self, request: _Request, scope: str, subject: str) -> aiohttp.ClientResponse:
        # An upload may go on at another host of the registry's: what we are known by stays here.
        home = origin_of(request.url) == origin_of(self._base)
        if urlsplit(request.url).scheme != "https" and not self._access.plain_http:
            message = "the registry sends us to a place without TLS"
            raise faults.transient(subject, message, without_query(request.url), "correct its public address")
        sent = self._tokens.header(scope) if home else ""
        response = await self._followed(request.signed(sent), subject)
        if response.status != _UNAUTHORIZED or origin_of(str(response.url)) != origin_of(request.url) or not home:
            return response
        challenges = parse_challenges(response.headers.getall("WWW-Authenticate", []))
        if not await self._tokens.answer(challenges, scope, sent):
            return response
        response.close()
        return await self._followed(request.signed(self._tokens.header(scope)), subject)

    async def _followed(self, request: _Request, subject: str) -> aiohttp.ClientResponse:
        """Redirects are followed by hand: credentials never go to another host, nor from TLS to plain text."""
        url, first = request.url, origin_of(request.url)
        for _ in range(MAX_REDIRECTS + 1):
            self._require_named(url, subject)
            kept = request.headers if origin_of(url) == first else request.signed("").headers
            body = request.body() if request.body is not None else None
            response = await self._opened().request(
                request.method,
                url,
                headers=kept,
                data=body,
                allow_redirects=False,
                **proxy_options(self._access.proxies, url),
            )
            if response.status not in _REDIRECTS or "Location" not in response.headers:
                return response
            response.release()
            url = urljoin(url, response.headers["Location"])
            if urlsplit(url).scheme not in ("http", "https") or (
                urlsplit(url).scheme == "http" and not self._access.plain_http
            ):
                raise faults.transient(
                    subject, "the registry redirects to a place without TLS", without_query(url), "correct its storage"
                )
        raise faults.transient(subject, "the registry redirects in circles", without_query(url), "correct the registry")

    def _require_named(self, url: str, subject: str) -> None:
        """Offline no request leaves the hosts that somebody has named, whoever sends us elsewhere."""
        parts = urlsplit(url)
        named = {host.lower() for host in self._access.hosts}
        if named and not named & {parts.netloc.lower(), (parts.hostname or "").lower()}:
            raise faults.transient(
                subject,
                "the registry of an offline cluster sends us to a host that nobody has named",
                without_query(url),
                "if it belongs to the site, name it in HOPLINE_REGISTRY_HOSTS; else correct the registry",
            )

    async def _fetch_token(self, url: str, headers: Mapping[str, str], subject: str) -> bytes:
        response = await self._followed(_Request("GET", url, headers), subject)
        async with response:
            body = await _bounded_body(response)
            if response.status != 200:
                # Not being let in here is said of the registry's credentials as well; nothing here is "not there".
                if response.status == 404:
                    raise faults.transient(subject, "the token server does not exist", "404", "correct the realm")
                raise faults.refused(subject, response.status, response.headers, body, self._access)
            return body

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=tls_context(self._access), limit=PARALLEL_REQUESTS)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                read_bufsize=READ_BUFFER,
                # Cookies make some registries take us for a browser; encodings would change the bytes of a blob.
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept-Encoding": "identity", "User-Agent": "hopline"},
                auto_decompress=False,
            )
        return self._session


async def read_at_most(content: aiohttp.StreamReader, limit: int) -> bytes:
    """The whole body, or one byte more than `limit` of it."""
    parts, size = [], 0
    while size <= limit and (part := await content.readany()):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


async def _bounded_body(response: aiohttp.ClientResponse) -> bytes:
    return await read_at_most(response.content, MAX_ERROR_BODY)


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: where credentials belong."""
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or default


def without_query(url: str) -> str:
    """For messages: addresses of stores carry signatures in the query."""
    return urlsplit(url)._replace(query="", fragment="").geturl()


def tls_context(access: RegistryAccess) -> ssl.SSLContext:
    """What is trusted. InvalidInput when the authority's certificate cannot be read."""
    context = ssl.create_default_context()
    if access.ca:
        try:
            context.load_verify_locations(cadata=access.ca)
        except (ssl.SSLError, ValueError) as error:
            raise InvalidInput(
                "the authority's certificate cannot be read",
                subject="registry",
                field="CA",
                value=str(error),
                remedy="give PEM: -----BEGIN CERTIFICATE-----",
            ) from None
    if not access.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
