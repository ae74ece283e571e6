"""Credentials for registries, as Secrets and files of container tools hold them."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from hopline.domain.errors import InvalidInput

DOCKER_CONFIG = ".dockerconfigjson"


def secret_text(secret: Mapping[str, Any], key: str) -> str:
    """One value of a Secret as text; empty when there is none. InvalidInput when it is no text."""
    data = secret.get("data")
    encoded = data.get(key) if isinstance(data, Mapping) else None
    if encoded is None:
        plain = secret.get("stringData")
        return str(plain.get(key, "")) if isinstance(plain, Mapping) else ""
    try:
        return b64decode(str(encoded), validate=True).decode()
    except (binascii.Error, ValueError):
        metadata = secret.get("metadata") or {}
        raise InvalidInput(
            "a value of the Secret is no text in base64",
            subject=f"Secret {metadata.get('namespace', '')}/{metadata.get('name', '')}",
            field=f"data[{key}]",
            remedy="create it with kubectl create secret",
        ) from None


def docker_login(text: str, host: str, *, subject: str) -> tuple[str, str]:
    """User and password for a host, from `config.json` of container tools; two empty texts when it names none.

    Raises:
        InvalidInput: it is no such file; or it leaves the password to a program, which is not asked.
    """
    try:
        document = json.loads(text)
        auths = document.get("auths") or {}
        entries = {_host(name): entry for name, entry in auths.items()}
    except (ValueError, AttributeError):
        raise InvalidInput(
            "this is no configuration of a container tool",
            subject=subject,
            field="auths",
            remedy='write {"auths": {"HOST[:PORT]": {"auth": "…"}}}, as docker login and skopeo login do',
        ) from None
    entry = entries.get(host.lower())
    if not isinstance(entry, Mapping):
        return "", ""
    if entry.get("username"):
        return str(entry["username"]), str(entry.get("password") or "")
    try:
        user, _, password = b64decode(str(entry.get("auth") or "")).decode().partition(":")
    except (binascii.Error, ValueError):
        user = password = ""
    if not user:
        raise InvalidInput(
            "the login of the registry is not in the file itself",
            subject=subject,
            field=f"auths[{host}].auth",
            remedy="log in without a credential helper, or write user and password there",
        )
    return user, password


def _host(name: str) -> str:
    """Some tools write an address where others write a host."""
    return name.removeprefix("https://").removeprefix("http://").partition("/")[0].lower()
