"""A proxy as the HTTP library takes it: its login apart from its address, which the library shows in its errors."""

from __future__ import annotations

from typing import TypedDict
from urllib.parse import unquote, urlsplit

import aiohttp

from hopline.domain.proxies import Proxies


class ProxyOptions(TypedDict, total=False):
    """Keyword arguments of a request."""

    proxy: str
    proxy_auth: aiohttp.BasicAuth


def proxy_options(proxies: Proxies, url: str) -> ProxyOptions:
    """For a request to `url`; empty when it goes directly."""
    address = proxies.proxy_for(url)
    if address is None:
        return {}
    parts = urlsplit(address)
    place = parts.netloc.rpartition("@")[2]
    options: ProxyOptions = {"proxy": parts._replace(netloc=place).geturl()}
    if parts.username is not None:
        options["proxy_auth"] = aiohttp.BasicAuth(unquote(parts.username), unquote(parts.password or ""))
    return options
