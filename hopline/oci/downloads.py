"""Files from a web server: whole or not at all, and going on where the last attempt stopped.

What has come is kept beside the target as `<name>.part`, with the server's mark for exactly that content (a strong
ETag, else the time of its last change) in `<name>.part.json`. An attempt goes on only while the mark still holds;
a server that answers with anything else than the rest makes it start anew. The target appears by one rename.
Nothing here sleeps: whoever asks decides when to ask again.
"""

from __future__ import annotations

import json
import os
import re
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self
from urllib.parse import urljoin, urlsplit

import aiohttp

from hopline.domain.errors import Forbidden, HoplineError, InvalidDocument, InvalidInput, NotFound, Transient, bounded
from hopline.domain.release_origin import RegistryAccess
from hopline.oci.faults import is_web_page, retry_after
from hopline.oci.layout import unwritable
from hopline.oci.proxying import proxy_options
from hopline.oci.tokens import basic
from hopline.oci.transport import MAX_REDIRECTS, Patience, origin_of, tls_context, without_query

_OK, _PARTIAL, _UNSATISFIABLE, _TOO_MANY = 200, 206, 416, 429
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_GONE = frozenset({404, 410})
_NOT_LET_IN = frozenset({401, 403})
_RANGE = re.compile(r"bytes\s+(\d+)-(?:\d+)/(\d+|\*)")
_TOTAL = re.compile(r"bytes\s+\*/(\d+)")
_CHUNK = 256 * 1024
_HEAD = 512

Progress = Callable[[int, int], None]
"""Bytes that are here, and bytes in all; 0 while nobody knows."""
Check = Callable[[Path], None]
"""Looks at the whole file before it takes its place; what it raises ends the download, and nothing is kept."""


def _silent(here: int, total: int) -> None:
    """Nobody listens."""


def _anything(file: Path) -> None:
    """Nobody looks."""


class Downloader:
    """Downloads over one session. Credentials go to the host of the address alone, redirects to others without them."""

    def __init__(self, access: RegistryAccess, patience: Patience | None = None) -> None:
        self._access = access
        limits = patience or Patience()
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=None, sock_connect=limits.connect, sock_read=limits.silence
        )
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls_context(self._access)),
            timeout=self._timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity", "User-Agent": "hopline"},
            auto_decompress=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def download(
        self,
        url: str,
        target: Path,
        *,
        limit: int = 0,
        check: Check = _anything,
        progress: Progress = _silent,
        pages: bool = False,
    ) -> None:
        """Bring a file; what is at `target` is replaced once all of it is here and checked.

        Args:
            limit: bytes that it may have; 0: any number.
            pages: a web page is what is wanted, such as the listing of a folder.

        Raises:
            InvalidInput: no address of a web server.
            Permanent: the folder cannot be written.
            NotFound, Forbidden: the server does not have it, or does not let us in.
            InvalidDocument: a web page, or more than `limit` bytes.
            Transient: no answer, or one that broke off; what has come is kept for the next attempt.
        """
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise InvalidInput(
                "this is no address of a web server",
                subject="download",
                field="URL",
                value=url,
                remedy="write https://…",
            )
        part = _Part(target, without_query(url))
        try:
            await self._attempt(url, part, limit, progress, pages)
            part.finish(check)
        except (TimeoutError, aiohttp.ClientError, ssl.SSLError, ConnectionError) as error:
            raise _unreachable(without_query(url), error) from None
        except OSError as error:
            raise unwritable(target, error) from None

    async def _attempt(self, url: str, part: _Part, limit: int, progress: Progress, pages: bool) -> None:
        offset, mark = part.kept()
        headers = {"Range": f"bytes={offset}-", "If-Range": mark} if offset else {}
        response = await self._followed(url, headers)
        async with response:
            if response.status == _UNSATISFIABLE and offset and _whole(response.headers) == offset:
                return
            _require_content(part.url, response.status, response.headers)
            start = _start(response.status, response.headers)
            if start not in (0, offset):
                part.discard()
                raise _broken(part.url, "the server answers with another part", str(start))
            here = start
            total = _total(response.status, response.headers)
            with part.opened(start, _mark(response.headers)) as file:
                async for chunk in response.content.iter_chunked(_CHUNK):
                    if here == 0 and not pages and is_web_page(response.headers, chunk[:_HEAD]):
                        part.discard()
                        raise _web_page(part.url)
                    here += len(chunk)
                    if limit and here > limit:
                        part.discard()
                        raise _too_large(part.url, limit)
                    file.write(chunk)
                    progress(here, total)
                file.flush()
                os.fsync(file.fileno())
            if total and here != total:
                raise _broken(part.url, "the file is not complete", f"{here} of {total} bytes")

    async def _followed(self, url: str, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        assert self._session is not None
        first, secure = origin_of(url), urlsplit(url).scheme == "https"
        for _ in range(MAX_REDIRECTS + 1):
            mine = {"Authorization": basic(self._access)} if self._access.username and origin_of(url) == first else {}
            response = await self._session.get(
                url, headers={**headers, **mine}, allow_redirects=False, **proxy_options(self._access.proxies, url)
            )
            if response.status not in _REDIRECTS or "Location" not in response.headers:
                return response
            response.release()
            url = urljoin(url, response.headers["Location"])
            if urlsplit(url).scheme not in ("http", "https") or (secure and urlsplit(url).scheme == "http"):
                raise _broken(without_query(url), "the server redirects to a place without TLS", without_query(url))
        raise _broken(without_query(url), "the server redirects in circles", without_query(url))


class _Part:
    """What has come of a file, beside its place."""

    def __init__(self, target: Path, url: str) -> None:
        self.url = url
        self._target = target
        self._file = target.with_name(f"{target.name}.part")
        self._note = target.with_name(f"{target.name}.part.json")

    def kept(self) -> tuple[int, str]:
        """How many bytes are here, and the mark of the content that they belong to; 0 when nobody can say."""
        try:
            note = json.loads(self._note.read_bytes())
            size = self._file.stat().st_size
        except (OSError, ValueError):
            return 0, ""
        if not isinstance(note, dict) or note.get("url") != self.url or not isinstance(note.get("mark"), str):
            return 0, ""
        return (size, note["mark"]) if note["mark"] else (0, "")

    def opened(self, start: int, mark: str) -> BinaryIO:
        """The file to write from `start` on."""
        self._target.parent.mkdir(parents=True, exist_ok=True)
        if start == 0:
            self._note.unlink(missing_ok=True)
            self._file.write_bytes(b"")
            self._note.write_text(json.dumps({"url": self.url, "mark": mark}))
        return self._file.open("ab")

    def finish(self, check: Check) -> None:
        """All of it is here."""
        try:
            check(self._file)
        except HoplineError:
            self.discard()
            raise
        self._file.replace(self._target)
        self._note.unlink(missing_ok=True)

    def discard(self) -> None:
        """It is not what was asked for."""
        self._file.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)


def _mark(headers: Mapping[str, str]) -> str:
    """What tells this content from any other one; a weak ETag does not."""
    tag = headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")


def _start(status: int, headers: Mapping[str, str]) -> int:
    if status != _PARTIAL:
        return 0
    found = _RANGE.match(headers.get("Content-Range", ""))
    return int(found.group(1)) if found else -1


def _total(status: int, headers: Mapping[str, str]) -> int:
    """Bytes of the whole file; 0 when the server does not say."""
    if status == _PARTIAL:
        found = _RANGE.match(headers.get("Content-Range", ""))
        return int(found.group(2)) if found and found.group(2) != "*" else 0
    length = headers.get("Content-Length", "")
    return int(length) if length.isdigit() else 0


def _whole(headers: Mapping[str, str]) -> int:
    found = _TOTAL.match(headers.get("Content-Range", ""))
    return int(found.group(1)) if found else -1


def _require_content(url: str, status: int, headers: Mapping[str, str]) -> None:
    if status in (_OK, _PARTIAL):
        return
    if status in _GONE:
        raise NotFound(
            "the server does not have the file", subject=url, value=str(status), remedy="correct the address"
        )
    if status in _NOT_LET_IN:
        raise Forbidden("the server does not let us in", subject=url, value=str(status), remedy="give --auth-file")
    wait = retry_after(headers) if status >= 500 or status == _TOO_MANY else 0.0
    raise _broken(url, "the server has a fault", str(status), wait)


def _broken(url: str, message: str, value: str, wait: float = 0.0) -> Transient:
    return Transient(message, subject=url, value=value, remedy="try again; what has come is kept", retry_after=wait)


def _web_page(url: str) -> InvalidDocument:
    return InvalidDocument(
        "what answers is a web page, not the file", subject=url, remedy="check the address and proxies on the way"
    )


def _too_large(url: str, limit: int) -> InvalidDocument:
    return InvalidDocument(
        "the file is larger than such a file can be",
        subject=url,
        field="size",
        value=f"over {limit} bytes",
        remedy="check the address",
    )


def _unreachable(url: str, error: BaseException) -> HoplineError:
    words = bounded(" ".join(str(error).split()) or type(error).__name__, 200)
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        remedy = "give its authority with --ca, or --insecure where nobody can listen"
        return Transient("the server's TLS certificate is not accepted", subject=url, value=words, remedy=remedy)
    message = "the server is silent" if isinstance(error, TimeoutError) else "the server cannot be reached"
    return _broken(url, message, words)
