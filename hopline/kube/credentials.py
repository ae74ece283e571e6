"""Where a connection gets its address and credentials from, again and again: files and tokens rotate."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from hopline.kube.kubeconfig import Endpoint, Origin, bearer, parse_kubeconfig, read_kubeconfig
from hopline.kube.plugin import PluginFailed, run_plugin

SERVICE_ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class CredentialSource(Protocol):
    """Gives the endpoint as it is now; asked at the start, after a 401, and when credentials run out."""

    @property
    def origin(self) -> Origin:
        """For messages."""
        ...

    async def load(self) -> Endpoint:
        """Raises ClusterNotReady when it is not usable, PortError when it cannot be read just now."""
        ...


@dataclass(frozen=True)
class KubeconfigFile:
    """A kubeconfig on this machine. Relative paths inside start at its folder."""

    path: Path
    context: str = ""

    @property
    def origin(self) -> Origin:
        """Names the file."""
        remedy = f"correct the file; kubectl --kubeconfig {self.path} cluster-info shows whether it works"
        return Origin(f"kubeconfig {self.path}", "", remedy, self.path.absolute().parent)

    async def load(self) -> Endpoint:
        """Reads the file, and runs the command to sign in if it names one."""
        try:
            endpoint = await asyncio.to_thread(self._read)
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "not a text"
            raise self.origin.refusal(f"the kubeconfig cannot be read: {reason}") from None
        return await _signed_in(endpoint, self.origin)

    def _read(self) -> Endpoint:
        return read_kubeconfig(parse_kubeconfig(self.path.read_text(), self.origin), self.origin, context=self.context)


@dataclass(frozen=True)
class KubeconfigText:
    """A kubeconfig as text or as a document; it may name neither files nor commands."""

    content: str | Mapping[str, object]
    origin: Origin

    async def load(self) -> Endpoint:
        """Reads the text again; it cannot have changed."""
        document = parse_kubeconfig(self.content, self.origin) if isinstance(self.content, str) else self.content
        return read_kubeconfig(document, self.origin)


@dataclass(frozen=True)
class InCluster:
    """The service account of this pod. Its token is a file that the kubelet replaces about every hour."""

    folder: Path = SERVICE_ACCOUNT_FOLDER
    environment: Mapping[str, str] | None = None

    @property
    def origin(self) -> Origin:
        """Names the mounted folder."""
        remedy = "run in a pod with a mounted service account, or set HOPLINE_KUBECONFIG to a kubeconfig file"
        return Origin(f"service account {self.folder}", "", remedy, self.folder)

    async def load(self) -> Endpoint:
        """Reads address and CA."""
        environment = os.environ if self.environment is None else self.environment
        host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise self.origin.refusal("this process does not run in a pod", "KUBERNETES_SERVICE_HOST")
        token = self.folder / "token"
        try:
            ca = await asyncio.to_thread((self.folder / "ca.crt").read_text)
            await asyncio.to_thread(token.read_text)
        except OSError as problem:
            raise self.origin.refusal(f"{problem.filename} cannot be read: {problem.strerror}") from None
        return Endpoint(server=f"https://{f'[{host}]' if ':' in host else host}:{port}", ca=ca, token_file=token)


async def _signed_in(endpoint: Endpoint, origin: Origin) -> Endpoint:
    """The endpoint with the credentials that its command prints."""
    if endpoint.plugin is None:
        return endpoint
    try:
        answer = await run_plugin(endpoint.plugin)
    except PluginFailed as problem:
        raise origin.refusal(f"the command to sign in failed: {problem}", "exec") from None
    return replace(
        endpoint,
        authorization=bearer(answer.token) if answer.token else "",
        client_certificate=answer.client_certificate or endpoint.client_certificate,
        client_key=answer.client_key or endpoint.client_key,
        expires_at=answer.expires_at,
    )


def default_source(kubeconfig: Path | None) -> CredentialSource:
    """The file, else the account of this pod."""
    return InCluster() if kubeconfig is None else KubeconfigFile(kubeconfig)
