"""Requests to one API server: time limits, credentials that rotate, and streams.

Uses the client library for the transport only; raw JSON goes in and out, because objects of unknown kinds pass
through, and models of the library would drop fields that they do not know.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import ssl
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from weakref import WeakSet

import aiohttp
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from hopline.domain.errors import HoplineError, Transient
from hopline.kube.credentials import CredentialSource
from hopline.kube.errors import unreachable
from hopline.kube.kubeconfig import Endpoint, bearer

CONNECT_SECONDS = 3.0
TOTAL_SECONDS = 10.0
STREAM_SILENCE_SECONDS = 75.0
_TOKEN_AGE_SECONDS = 60.0
_RENEWAL_SECONDS = 5.0
_PAUSE_AFTER_REFUSAL_SECONDS = 2.0
_PAUSE_AFTER_LOSS_SECONDS = 30.0
_REPLACEMENT_SECONDS = 30.0
_UNAUTHORIZED = 401
_FAILING = frozenset({502, 503, 504})

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """One request. `path` is quoted already, `subject` is the object for messages."""

    method: str
    path: str
    subject: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    content_type: str = "application/json"
    accept: str = "application/json"

    def url(self, server: str) -> str:
        """The whole address."""
        return f"{server}{self.path}?{urlencode(self.query, quote_via=quote)}" if self.query else f"{server}{self.path}"


@dataclass(frozen=True)
class Response:
    """What came back, of whatever code."""

    code: int
    headers: Mapping[str, str]
    body: bytes


class Stream:
    """An open response that goes on and on. Close it."""

    def __init__(self, response: aiohttp.ClientResponse, on_break: Callable[[BaseException], Transient]) -> None:
        self._response = response
        self._on_break = on_break

    async def lines(self) -> AsyncIterator[bytes]:
        """Lines without their ends, of any length. Raises Transient when the connection breaks or is silent."""
        rest = b""
        try:
            async for chunk in self._response.content.iter_any():
                *lines, last = chunk.split(b"\n")
                if lines:
                    yield rest + lines[0]
                    for line in lines[1:]:
                        yield line
                    rest = last
                else:
                    rest += last
        except (TimeoutError, aiohttp.ClientError, OSError) as problem:
            raise self._on_break(problem) from None

    def close(self) -> None:
        """Drops the connection, and ends `lines` if someone is reading them."""
        self._response.close()


class Connection:
    """One API server, with credentials that are read again when they run out or are refused."""

    def __init__(self, source: CredentialSource, endpoint: Endpoint, transport: ApiClient) -> None:
        """Use `Connection.open`."""
        self._source = source
        self._endpoint = endpoint
        self._transport = transport
        self._streams: WeakSet[Stream] = WeakSet()
        self._renewing = asyncio.Lock()
        self._renewed_at = -math.inf
        self._generation = 0
        self._token, self._token_read_at = "", -math.inf
        self._lost_at = -math.inf
        self._was_lost = False
        self._closed = False

    @classmethod
    async def open(cls, source: CredentialSource) -> Connection:
        """Reads the credentials; sends nothing yet. Raises ClusterNotReady when they are not usable."""
        endpoint = await source.load()
        return cls(source, endpoint, await _transport(endpoint, source))

    @property
    def server(self) -> str:
        """Address of the API server."""
        return self._endpoint.server

    @property
    def generation(self) -> int:
        """Counts the endpoints; with another one, what was learnt from the API server may be wrong."""
        return self._generation

    @property
    def is_settling(self) -> bool:
        """The API server was away within the last 30 s: one that has just started knows no roles and answers 403."""
        return time.monotonic() - self._lost_at < _REPLACEMENT_SECONDS

    async def send(self, request: Request) -> Response:
        """One answer within 10 s, of whatever code; after a 401 the credentials are read again. Raises Transient."""
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
                answer, generation = await self._call(request, limits)
                response = Response(answer.status, answer.headers, await answer.read())
                await self._note(response.code, generation)
        except (TimeoutError, aiohttp.ClientError, OSError) as problem:
            raise self._lost(problem, request) from None
        return response

    async def stream(self, request: Request) -> Stream | Response:
        """An open stream, or the refusal. Raises Transient."""
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                limits = aiohttp.ClientTimeout(
                    total=None, sock_connect=CONNECT_SECONDS, sock_read=STREAM_SILENCE_SECONDS
                )
                answer, generation = await self._call(request, limits)
                if answer.status < 400:
                    return self._opened(answer, request)
                response = Response(answer.status, answer.headers, await answer.read())
                await self._note(response.code, generation)
        except (TimeoutError, aiohttp.ClientError, OSError) as problem:
            raise self._lost(problem, request) from None
        return response

    async def replace(self, endpoint: Endpoint) -> None:
        """Goes on with another endpoint; requests on their way to the old one fail as Transient."""
        async with self._renewing:
            await self._replace(endpoint)

    async def aclose(self) -> None:
        """Closes every connection."""
        self._closed = True
        self._close_streams()
        await self._transport.rest_client.close()

    async def _call(self, request: Request, limits: aiohttp.ClientTimeout) -> tuple[aiohttp.ClientResponse, int]:
        if 0.0 < self._endpoint.expires_at < time.time():
            await self._renew(self._generation, _PAUSE_AFTER_REFUSAL_SECONDS)
        elif self._was_lost:
            # The address may have changed. Looked up now, because the request that was lost had no time left.
            self._was_lost = False
            await self._renew(self._generation, _PAUSE_AFTER_LOSS_SECONDS)
        headers = {"Accept": request.accept, "Content-Type": request.content_type, "User-Agent": "hopline"}
        if authorization := await self._authorization():
            headers["Authorization"] = authorization
        if self._closed:
            raise Transient("the connection was closed", subject=request.subject, value=self.server)
        generation = self._generation
        answer = await self._transport.call_api(
            request.method, request.url(self.server), headers, body=request.body, _request_timeout=limits
        )
        return answer.response, generation

    async def _authorization(self) -> str:
        file = self._endpoint.token_file
        if file is None:
            return self._endpoint.authorization
        if not self._token or time.monotonic() - self._token_read_at > _TOKEN_AGE_SECONDS:
            try:
                self._token = await asyncio.to_thread(file.read_text)
            except OSError as problem:
                # The kubelet replaces the file by way of a link: a gap is possible, and the old token is still good.
                logger.warning("token file %s cannot be read: %s", file, problem.strerror)
            self._token_read_at = time.monotonic()
        return bearer(self._token) if self._token else ""

    async def _note(self, code: int, generation: int) -> None:
        """Learns from the code of an answer."""
        if code == _UNAUTHORIZED:
            self._token_read_at = -math.inf
            await self._renew(generation, _PAUSE_AFTER_REFUSAL_SECONDS)
        elif code in _FAILING:
            self._lost_at = time.monotonic()

    def _opened(self, answer: aiohttp.ClientResponse, request: Request) -> Stream:
        stream = Stream(answer, lambda problem: self._broken(problem, request))
        self._streams.add(stream)
        return stream

    def _close_streams(self) -> None:
        """The library does not wake the reader of a stream when it closes the session: it would wait for ever."""
        for stream in self._streams:
            stream.close()
        self._streams = WeakSet()

    def _lost(self, problem: BaseException, request: Request) -> Transient:
        self._was_lost = True
        self._lost_at = time.monotonic()
        return unreachable(problem, request.subject, self.server)

    def _broken(self, problem: BaseException, request: Request) -> Transient:
        """A stream that was silent for too long says nothing about the API server; one that broke off does."""
        if not isinstance(problem, TimeoutError):
            self._lost_at = time.monotonic()
        return unreachable(problem, request.subject, self.server)

    async def _renew(self, generation: int, pause: float) -> None:
        """Reads the credentials again, unless another request did so within `pause` seconds."""
        async with self._renewing:
            if generation != self._generation or time.monotonic() - self._renewed_at < pause:
                return
            self._renewed_at = time.monotonic()
            try:
                async with asyncio.timeout(_RENEWAL_SECONDS):
                    await self._replace(await self._source.load())
            except (HoplineError, TimeoutError) as problem:
                logger.warning("credentials for %s cannot be read again: %s", self.server, problem)

    async def _replace(self, endpoint: Endpoint) -> None:
        if endpoint == self._endpoint or self._closed:
            return
        old, fresh = self._transport, await _transport(endpoint, self._source)
        self._endpoint, self._transport = endpoint, fresh
        self._token = ""
        self._generation += 1
        self._close_streams()
        await old.rest_client.close()


async def _transport(endpoint: Endpoint, source: CredentialSource) -> ApiClient:
    proxy = endpoint.proxy or _proxy(endpoint.server)
    if proxy and not proxy.startswith(("http://", "https://")):
        raise source.origin.refusal(f"the proxy of the environment is not an http:// or https:// one: {proxy}")
    try:
        return await asyncio.to_thread(_build, endpoint, proxy)
    except (ssl.SSLError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or "no certificate in it"
        where = "certificate-authority-data or client-certificate-data"
        raise source.origin.refusal(f"certificates or key cannot be used: {reason}", where) from None


def _build(endpoint: Endpoint, proxy: str) -> ApiClient:
    """A client of the library for one endpoint. The key touches the disk only while the library reads it."""
    if "ENCRYPTED" in endpoint.client_key:
        raise ValueError("encrypted key")  # OpenSSL would ask for the password on the terminal.
    configuration = Configuration(
        host=endpoint.server,
        ca_cert_data=endpoint.ca or None,
        verify_ssl=endpoint.verify,
        tls_server_name=endpoint.tls_server_name or None,
        proxy=proxy or None,
        connection_pool_maxsize=0,  # Every watch holds a connection; a pool that is full would look like an outage.
        client_session_kwargs={"trust_env": False},  # It would send logins of ~/.netrc to API servers.
    )
    configuration.disable_strict_ssl_verification = True  # Private CAs are often looser than RFC 5280; Go accepts them.
    if not endpoint.client_certificate:
        return ApiClient(configuration)
    with TemporaryDirectory(prefix="hopline-") as folder:
        certificate, key = Path(folder, "certificate"), Path(folder, "key")
        certificate.write_text(endpoint.client_certificate)
        key.write_text(endpoint.client_key)
        configuration.cert_file, configuration.key_file = str(certificate), str(key)
        return ApiClient(configuration)


def _proxy(server: str) -> str:
    """The environment's proxy for an address; never for loopback, as with Go's clients."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if is_loopback or urllib.request.proxy_bypass(host):
        return ""
    return urllib.request.getproxies().get(parts.scheme, "")
