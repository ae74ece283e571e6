"""Authorization for one registry: basic credentials, or short-lived tokens of the server that it names."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import urlencode, urlsplit

from hopline.domain.release_origin import RegistryAccess
from hopline.oci.challenges import Challenge
from hopline.oci.faults import transient

MARGIN_SECONDS = 5.0
"""A token that ends within this time is not used any more."""
LEAST_LIFE_SECONDS = 60.0
"""The life of a token whose server does not say (distribution's token specification)."""


class Fetch(Protocol):
    """GET of an absolute address without any authorization but the one in `headers`; body of a 200."""

    async def __call__(self, url: str, headers: Mapping[str, str], subject: str) -> bytes: ...


def basic(access: RegistryAccess) -> str:
    """The header value of basic authentication."""
    pair = f"{access.username}:{access.password.get_secret_value()}"
    return "Basic " + b64encode(pair.encode()).decode()


class Tokens:
    """What to send in `Authorization`, by scope. Learns from challenges."""

    def __init__(
        self, host: str, access: RegistryAccess, fetch: Fetch, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._host = host
        self._access = access
        self._fetch = fetch
        self._clock = clock
        self._known: dict[str, tuple[str, float]] = {}
        self._is_basic = False
        self._asking = asyncio.Lock()

    def header(self, scope: str) -> str:
        """The value for a request in this scope; empty when nobody has asked for one yet, or it has run out."""
        if self._is_basic:
            return basic(self._access)
        value, ends = self._known.get(scope, ("", 0.0))
        return value if value and self._clock() < ends else ""

    async def answer(self, challenges: tuple[Challenge, ...], scope: str, sent: str) -> bool:
        """Sign in as the registry asks. False when there is nothing that could be tried.

        Args:
            sent: the header of the request that was turned away; requests side by side share one token.

        Raises Transient when the token server does not give one.
        """
        async with self._asking:
            return self.header(scope) not in ("", sent) or await self._sign_in(challenges, scope)

    async def _sign_in(self, challenges: tuple[Challenge, ...], scope: str) -> bool:
        bearer = next((found for found in challenges if found.scheme == "bearer" and "realm" in found.parameters), None)
        if bearer is not None:
            self._known[scope] = await self._token(bearer.parameters, scope)
            return True
        if any(found.scheme == "basic" for found in challenges) and self._access.username and not self._is_basic:
            self._is_basic = True
            return True
        return False

    async def _token(self, parameters: Mapping[str, str], scope: str) -> tuple[str, float]:
        realm = parameters["realm"]
        subject = f"token server {realm} of {self._host}"
        scheme = urlsplit(realm).scheme
        if scheme not in ("http", "https") or (scheme == "http" and not self._access.plain_http):
            message = "the registry sends us to a token server without TLS"
            raise transient(subject, message, realm, "correct the registry's realm, or use --plain-http")
        # The registry's own words win, because some name further scopes; else the one that the request needs.
        scopes = parameters.get("scope", "").split() or [scope]
        query = [("scope", wanted) for wanted in scopes]
        if service := parameters.get("service"):
            query.insert(0, ("service", service))
        headers = {"Authorization": basic(self._access)} if self._access.username else {}
        url = realm + ("&" if urlsplit(realm).query else "?") + urlencode(query)
        asked = self._clock()
        answer = _mapping(await self._fetch(url, headers, subject))
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise transient(subject, "the token server gave no token", "", "check the credentials and the server")
        life = answer.get("expires_in")
        seconds = float(life) if isinstance(life, int | float) and life > 0 else LEAST_LIFE_SECONDS
        return f"Bearer {token}", asked + max(seconds - MARGIN_SECONDS, seconds / 2)


def _mapping(body: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
