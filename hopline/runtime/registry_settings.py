"""Settings of the worker about registries; files are read when the worker starts."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from hopline.domain.errors import InvalidInput
from hopline.domain.release_origin import RegistryDefaults
from hopline.runtime.proxy_settings import proxies_of


class RegistrySettings(BaseModel):
    """How releases are fetched when no directory of releases is set.

    Attributes:
        cache: folder of what was fetched, by digest; several workers may share it.
        cache_bytes, cache_seconds: how large it may become, and how long something stays unused; 0: without bound.
        ca: file of PEM certificates that are trusted beside the machine's own.
        auth: file with logins, as container tools write it (`config.json`).
        keys: file of PEM public keys; one of them must have signed every release.
        plain_http: talk to registries without TLS.
        hosts: that the registry of an offline cluster may send us to.
    """

    model_config = ConfigDict(frozen=True)

    cache: Path
    cache_bytes: int = 0
    cache_seconds: float = 0
    ca: Path | None = None
    auth: Path | None = None
    keys: Path | None = None
    plain_http: bool = False
    hosts: tuple[str, ...] = ()

    def read(self) -> RegistryDefaults:
        """The files behind the settings. InvalidInput names a file that cannot be read."""
        keys = _text("HOPLINE_RELEASE_KEYS", self.keys)
        return RegistryDefaults(
            plain_http=self.plain_http,
            ca=_text("HOPLINE_REGISTRY_CA", self.ca),
            auth=_text("HOPLINE_REGISTRY_AUTH", self.auth),
            keys=(keys,) if keys else (),
            hosts=self.hosts,
            proxies=proxies_of(),
        )


def _text(variable: str, file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise InvalidInput(
            f"the setting {variable} names a file that cannot be read: {reason}",
            subject="environment",
            field=variable,
            value=str(file),
            remedy="correct the name, or make it readable for this process",
        ) from None
