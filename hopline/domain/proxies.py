"""Which proxy a request goes through: HTTPS_PROXY, HTTP_PROXY and NO_PROXY as container tools read them.

An entry of NO_PROXY is a host with everything below it (`example.test`), only what is below it (`.example.test`), an
address, a network (`10.0.0.0/8`), each of them with or without a port, or `*`. This machine itself is never asked
through a proxy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from hopline.domain.errors import InvalidInput

_PORTS = {"http": 80, "https": 443}
REMEDY = "write it as http://HOST:PORT or https://HOST:PORT"


@dataclass(frozen=True)
class Proxies:
    """What a machine is told about proxies; a proxy's address may hold a login.

    Attributes:
        http, https: address of the proxy for requests of that kind; empty: none.
        none: who is asked directly, with commas.
    """

    http: str = field(default="", repr=False)
    https: str = field(default="", repr=False)
    none: str = ""

    def proxy_for(self, url: str) -> str | None:
        """The address of the proxy for a request; None: it goes directly."""
        parts = urlsplit(url)
        proxy = {"http": self.http, "https": self.https}.get(parts.scheme, "")
        host, port = (parts.hostname or "").lower().rstrip("."), parts.port or _PORTS.get(parts.scheme, 0)
        if not proxy or _is_here(host) or any(_covers(entry, host, port) for entry in _entries(self.none)):
            return None
        return proxy


NO_PROXIES = Proxies()


def checked_proxy(variable: str, value: str) -> str:
    """The address of a proxy; one without a scheme is plain HTTP. InvalidInput when it cannot be used."""
    address = value if not value or "://" in value else f"http://{value}"
    try:
        parts = urlsplit(address)
        usable = not value or (parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0)
    except ValueError:
        usable = False
    if not usable:
        # The value is not shown: it may hold a login.
        raise InvalidInput("the proxy cannot be used", subject="environment", field=variable, remedy=REMEDY)
    return address


def _entries(text: str) -> list[str]:
    return [entry for entry in text.lower().replace(",", " ").split() if entry]


def _is_here(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def _covers(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ip_network(entry, strict=False)
        except ValueError:
            return False
    name, only = _split(entry)
    if only and only != port:
        return False
    own = _address(name)
    if own is not None or address is not None:
        return own == address
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _split(entry: str) -> tuple[str, int]:
    """An entry and its port, 0 when it has none; the colons of a bare IPv6 address are no port."""
    name, has_port, port = entry.rpartition(":")
    if has_port and port.isdigit() and (":" not in name or name.startswith("[")):
        return name, int(port)
    return entry, 0
