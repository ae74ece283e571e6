"""What a kubeconfig says about its current context, checked, so that a refusal names the field.

Read by hand and not by the client library, which keeps the keys of every kubeconfig in temporary files for the life of
the process, and whose messages name neither the Secret nor the remedy.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hopline.documents.loading import load_documents
from hopline.domain.errors import ClusterNotReady, InvalidDocument

_LEGACY_USER_FIELDS = ("auth-provider", "as", "as-groups", "as-uid", "as-user-extra")


@dataclass(frozen=True)
class Endpoint:
    """Where an API server is and how to prove who we are. Texts are PEM; secrets stay out of `repr`."""

    server: str
    ca: str = field(default="", repr=False)
    verify: bool = True
    tls_server_name: str = ""
    proxy: str = ""
    client_certificate: str = field(default="", repr=False)
    client_key: str = field(default="", repr=False)
    authorization: str = field(default="", repr=False)
    """Value of the header; empty when `token_file` or the client certificate says who we are."""
    token_file: Path | None = None
    plugin: Mapping[str, Any] | None = field(default=None, repr=False)
    """An `exec` section: the command that makes credentials."""
    expires_at: float = 0.0
    """Unix time from which the credentials are to be read again; 0: they do not say."""


@dataclass(frozen=True)
class Origin:
    """Where a kubeconfig came from.

    Attributes:
        subject: for messages: `Secret ns/name` or `kubeconfig /path`.
        field: for messages: the key of the Secret; empty for a file.
        remedy: what mends a broken one.
        folder: relative paths inside start here; None forbids files and commands: a Secret that a tenant can write must
            neither read the worker's files nor run programs in it.
    """

    subject: str
    field: str
    remedy: str
    folder: Path | None = None

    def refusal(self, message: str, where: str = "") -> ClusterNotReady:
        """The error for something in this kubeconfig; `where` is a path inside it."""
        place = f"{self.field}: {where}" if self.field and where else self.field or where
        return ClusterNotReady(message, subject=self.subject, field=place, remedy=self.remedy)


def parse_kubeconfig(text: str, origin: Origin) -> object:
    """The document in a text. Raises ClusterNotReady, without a word of the text: it is full of secrets."""
    try:
        documents = load_documents(text, origin.subject)
    except InvalidDocument as problem:
        line = problem.subject.rpartition(":")[2]
        raise origin.refusal(f"the kubeconfig is not YAML that can be read: see line {line}") from None
    if len(documents) != 1:
        raise origin.refusal("the kubeconfig is empty" if not documents else "the kubeconfig is not one document")
    return documents[0].document


def read_kubeconfig(document: object, origin: Origin, *, context: str = "") -> Endpoint:
    """The endpoint of the current context, or of the named one. Raises ClusterNotReady."""
    if not isinstance(document, Mapping):
        raise origin.refusal("the kubeconfig is not a mapping")
    name = context or _text(document, "current-context", origin, "current-context")
    if not name:
        raise origin.refusal("the kubeconfig has no current context", "current-context")
    chosen = _named(document, "contexts", "context", name, origin)
    cluster_name = _text(chosen, "cluster", origin, f"contexts[{name}].context.cluster")
    user_name = _text(chosen, "user", origin, f"contexts[{name}].context.user")
    reader = _Reader(origin)
    cluster = _named(document, "clusters", "cluster", cluster_name, origin)
    user = _named(document, "users", "user", user_name, origin) if user_name else {}
    where = f"clusters[{cluster_name}].cluster"
    certificate, key = reader.client_certificate(user, f"users[{user_name}].user")
    return Endpoint(
        server=_server(cluster, origin, where),
        ca=reader.pem(cluster, "certificate-authority", where),
        verify=not cluster.get("insecure-skip-tls-verify", False),
        tls_server_name=_text(cluster, "tls-server-name", origin, where),
        proxy=_proxy(cluster, origin, where),
        client_certificate=certificate,
        client_key=key,
        **reader.identity(user, f"users[{user_name}].user"),
    )


def bearer(token: str) -> str:
    """The header's value; line breaks, which editors and shells add, are not part of a token."""
    return f"Bearer {''.join(token.split())}"


class _Reader:
    """Reads the fields of a kubeconfig that hold or name files."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    def pem(self, section: Mapping[str, Any], name: str, where: str) -> str:
        """`<name>-data`, decoded, else the content of the file that `<name>` names, else nothing."""
        data = _text(section, f"{name}-data", self._origin, f"{where}.{name}-data")
        if not data:
            path = _text(section, name, self._origin, f"{where}.{name}")
            return self._file(self._path(path, f"{where}.{name}"), f"{where}.{name}") if path else ""
        try:
            return base64.b64decode("".join(data.split()), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise self._origin.refusal("not the base64 of a PEM text", f"{where}.{name}-data") from None

    def client_certificate(self, user: Mapping[str, Any], where: str) -> tuple[str, str]:
        """Certificate and key: both or none."""
        certificate, key = self.pem(user, "client-certificate", where), self.pem(user, "client-key", where)
        if bool(certificate) != bool(key):
            raise self._origin.refusal(
                f"no client {'key' if certificate else 'certificate'} to go with the other", where
            )
        return certificate, key

    def identity(self, user: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Token, token file, user and password, or command: the first that is there, in kubectl's order."""
        for name in _LEGACY_USER_FIELDS:
            if user.get(name):
                raise self._origin.refusal("this way to sign in is not supported", f"{where}.{name}")
        if token_file := _text(user, "tokenFile", self._origin, f"{where}.tokenFile"):
            return {"token_file": self._path(token_file, f"{where}.tokenFile")}
        if token := _text(user, "token", self._origin, f"{where}.token"):
            return {"authorization": bearer(token)}
        if user.get("username") and user.get("password"):
            pair = base64.b64encode(f"{user['username']}:{user['password']}".encode()).decode()
            return {"authorization": f"Basic {pair}"}
        plugin = user.get("exec")
        if not plugin:
            return {}
        if self._origin.folder is None:
            raise self._origin.refusal("a kubeconfig from the cluster may not run commands", f"{where}.exec")
        if not isinstance(plugin, Mapping) or not plugin.get("command") or not plugin.get("apiVersion"):
            raise self._origin.refusal("the command to sign in needs command and apiVersion", f"{where}.exec")
        return {"plugin": dict(plugin)}

    def _path(self, path: str, where: str) -> Path:
        if self._origin.folder is None:
            raise self._origin.refusal("a kubeconfig from the cluster may not name files", where)
        return self._origin.folder / path

    def _file(self, path: Path, where: str) -> str:
        try:
            return path.read_text()
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "not a PEM text"
            raise self._origin.refusal(f"{path} cannot be read: {reason}", where) from None


def _named(document: Mapping[str, Any], lists: str, key: str, name: str, origin: Origin) -> Mapping[str, Any]:
    entries = document.get(lists)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and entry.get("name") == name:
            found = entry.get(key)
            return found if isinstance(found, Mapping) else {}
    raise origin.refusal(f"the kubeconfig has no {key} {name!r}", lists)


def _text(section: Mapping[str, Any], name: str, origin: Origin, where: str) -> str:
    value = section.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise origin.refusal("not a text", where)
    return value.strip()


def _server(cluster: Mapping[str, Any], origin: Origin, where: str) -> str:
    server = _text(cluster, "server", origin, f"{where}.server").rstrip("/")
    try:
        parts = urlsplit(server)
        usable = parts.scheme in {"https", "http"} and bool(parts.hostname) and not parts.username and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise origin.refusal("not an https:// or http:// address", f"{where}.server")
    return server


def _proxy(cluster: Mapping[str, Any], origin: Origin, where: str) -> str:
    proxy = _text(cluster, "proxy-url", origin, f"{where}.proxy-url")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise origin.refusal("only http:// and https:// proxies are supported", f"{where}.proxy-url")
    return proxy
