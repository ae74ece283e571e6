"""Options about registries and file servers, each for all of them or for one host: `--ca FILE`, `--ca HOST=FILE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from hopline.domain.errors import InvalidInput
from hopline.domain.registry_credentials import docker_login
from hopline.domain.release_origin import RegistryAccess
from hopline.runtime.proxy_settings import proxies_of

EVERY = "*"
"""Stands for every host."""


@dataclass(frozen=True)
class AccessOptions:
    """What the command line says.

    Attributes:
        cas: `FILE` or `HOST=FILE`.
        insecure, plain_http: hosts, or `*`.
        auth_file: logins of all hosts.
    """

    cas: Sequence[str] = ()
    insecure: Sequence[str] = ()
    plain_http: Sequence[str] = ()
    auth_file: Path | None = None

    def read(self) -> Access:
        """The files behind the options. InvalidInput for one that cannot be read."""
        certificates: dict[str, str] = {}
        for option in self.cas:
            host, has_host, file = option.rpartition("=")
            key = host.lower() if has_host else EVERY
            certificates[key] = f"{certificates.get(key, '')}\n{_text(Path(file), '--ca')}".strip()
        logins = _text(self.auth_file, "--auth-file") if self.auth_file else ""
        return Access(certificates, _hosts(self.insecure), _hosts(self.plain_http), logins, str(self.auth_file or ""))


@dataclass(frozen=True)
class Access:
    """How to talk to each host."""

    certificates: Mapping[str, str]
    insecure: frozenset[str]
    plain_http: frozenset[str]
    logins: str
    logins_file: str

    def to(self, host: str) -> RegistryAccess:
        """For one host, as in a reference or an address. InvalidInput when its login cannot be used."""
        user = password = ""
        if self.logins:
            user, password = docker_login(self.logins, host, subject=self.logins_file)
        texts = (self.certificates.get(EVERY, ""), self.certificates.get(host.lower(), ""))
        return RegistryAccess(
            plain_http=bool({EVERY, host.lower()} & self.plain_http),
            verify_tls=not {EVERY, host.lower()} & self.insecure,
            ca="\n".join(text for text in texts if text),
            username=user,
            password=SecretStr(password),
            proxies=proxies_of(),
            source=self.logins_file if user else "",
        )


def _hosts(given: Sequence[str]) -> frozenset[str]:
    return frozenset(host.lower() for host in given)


def _text(file: Path, option: str) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(
            "a file cannot be read as text", subject="option", field=option, value=str(file), remedy="name another one"
        ) from None
