"""Requests through a proxy: a small real one on loopback, which sees what goes through."""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from artifacts import titled
from hopline.domain.errors import Transient
from hopline.domain.image_references import parse_reference
from hopline.domain.proxies import Proxies
from hopline.domain.release_origin import RegistryAccess
from hopline.oci.client import RegistryClient
from hopline.oci.transport import Patience
from scripted_registry import ScriptedRegistry, serving

HOST = "registry.example.test"
"""Nobody resolves it: a request reaches it by the proxy, or not at all."""


@dataclass
class Proxy:
    """Forwards plain requests, and connects for encrypted ones, to one place whatever host they name."""

    place: tuple[str, int]
    login: str = ""
    seen: list[str] = field(default_factory=list)
    address: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, _, rest = head.partition("\r\n")
        self.seen.append(first)
        if self.login and f"basic {b64encode(self.login.encode()).decode()}".lower() not in head.lower():
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        method, url, version = first.split()
        path = "/" + url.partition("://")[2].partition("/")[2]
        near_reader, near_writer = await asyncio.open_connection(*self.place)
        near_writer.write(f"{method} {path} {version}\r\nConnection: close\r\n{rest}".encode())
        with contextlib.suppress(OSError):
            while data := await near_reader.read(65536):
                writer.write(data)
        near_writer.close()
        writer.close()


@asynccontextmanager
async def proxy_to(registry: ScriptedRegistry, login: str = "") -> AsyncIterator[Proxy]:
    name, _, port = registry.host.partition(":")
    made = Proxy((name, int(port)), login)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield made


async def pull(access: RegistryAccess) -> Any:
    async with RegistryClient(HOST, access, Patience(connect=2.0, silence=5.0)) as client:
        return await client.manifest(parse_reference(f"{HOST}/a:v1"))


async def test_a_registry_is_reached_through_the_proxy_and_its_login_stays_there() -> None:
    async with serving(ScriptedRegistry()) as registry, proxy_to(registry, "me:secret") as proxy:
        digest = registry.push("v1", titled())
        access = RegistryAccess(plain_http=True, proxies=Proxies(http=f"http://me:secret@{proxy.address}"))
        assert (await pull(access)).digest == digest
        assert proxy.seen == [f"GET http://{HOST}/v2/a/manifests/v1 HTTP/1.1"]
        assert not [value for value in registry.authorizations if value]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_does_not_let_us_in_is_named_without_its_login(scheme: str) -> None:
    async with serving(ScriptedRegistry()) as registry, proxy_to(registry, "me:other") as proxy:
        address = f"http://me:secret@{proxy.address}"
        access = RegistryAccess(plain_http=scheme == "http", proxies=Proxies(http=address, https=address))
        with pytest.raises(Transient) as caught:
            await pull(access)
        assert "secret" not in str(caught.value)
        assert "407" in str(caught.value)
        assert proxy.seen[0].split()[0] == ("GET" if scheme == "http" else "CONNECT")


async def test_a_proxy_that_is_away_is_named() -> None:
    access = RegistryAccess(proxies=Proxies(https="http://me:secret@127.0.0.1:9"))
    with pytest.raises(Transient, match=r"127\.0\.0\.1:9") as caught:
        await pull(access)
    assert "secret" not in str(caught.value)


async def test_who_is_in_no_proxy_is_asked_directly(tmp_path: Path) -> None:
    async with serving(ScriptedRegistry()) as registry, proxy_to(registry) as proxy:
        access = RegistryAccess(plain_http=True, proxies=Proxies(http=f"http://{proxy.address}", none=".example.test"))
        with pytest.raises(Transient, match="cannot be reached"):
            await pull(access)
        assert proxy.seen == []
