"""Where one release comes from, and what it must prove: read from objects, or given on a command line."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import SecretStr

from hopline.domain.image_references import ImageReference
from hopline.domain.proxies import NO_PROXIES, Proxies

_NO_PASSWORD = SecretStr("")


@dataclass(frozen=True)
class RegistryAccess:
    """How to talk to a registry. TLS is verified unless somebody said otherwise.

    Attributes:
        ca: PEM certificates that are trusted beside the machine's own.
        username, password: for basic authentication, and for the token server that a registry names.
        source: who gave the credentials, for messages.
        proxies: of this machine.
        hosts: the only ones that are spoken to, a redirect or a token server included; empty: any.
    """

    plain_http: bool = False
    verify_tls: bool = True
    ca: str = ""
    username: str = ""
    password: SecretStr = _NO_PASSWORD
    source: str = ""
    proxies: Proxies = NO_PROXIES
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReleasePolicy:
    """What a release must prove. A bundle's own words can only add to it.

    Attributes:
        digest: of the index or of the platform's manifest; empty: any.
        verify_signature: a signature by one of `keys` must cover the index or the platform's manifest.
        keys: public keys as PEM.
        allow_cache_fallback: the last bytes seen count while the registry is out of reach.
    """

    digest: str = ""
    verify_signature: bool = False
    keys: tuple[str, ...] = ()
    allow_cache_fallback: bool = False


@dataclass(frozen=True)
class ReleaseOrigin:
    """Where to look, in this order, and by which rules.

    Attributes:
        notice: something that a person should know, such as that the public repository is asked.
    """

    references: tuple[ImageReference, ...]
    access: RegistryAccess = field(default_factory=RegistryAccess)
    policy: ReleasePolicy = ReleasePolicy()
    notice: str = ""


@dataclass(frozen=True)
class RegistryDefaults:
    """What the settings of a worker say about every registry.

    Attributes:
        auth: text of a `config.json` with logins.
        keys: PEM; one of them must have signed every release.
        hosts: that the registry of an offline cluster may send us to.
    """

    plain_http: bool = False
    ca: str = ""
    auth: str = field(default="", repr=False)
    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    proxies: Proxies = NO_PROXIES
