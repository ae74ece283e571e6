"""The proxies that this machine's environment names; read where an access to registries is put together."""

from __future__ import annotations

import os
from collections.abc import Mapping

from hopline.domain.proxies import Proxies, checked_proxy


def proxies_of(environment: Mapping[str, str] | None = None) -> Proxies:
    """HTTPS_PROXY, HTTP_PROXY and NO_PROXY, in either case. InvalidInput when a proxy's address cannot be used."""
    values = os.environ if environment is None else environment

    def value(name: str) -> str:
        return (values.get(name) or values.get(name.lower()) or "").strip()

    return Proxies(
        http=checked_proxy("HTTP_PROXY", value("HTTP_PROXY")),
        https=checked_proxy("HTTPS_PROXY", value("HTTPS_PROXY")),
        none=value("NO_PROXY"),
    )
