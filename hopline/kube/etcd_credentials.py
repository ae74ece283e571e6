"""The certificates with which etcd is asked: Secrets beside the BKECluster, as the platform's installer keeps them.

The installer stores every certificate of a cluster as `<cluster>-<certificate>` with the keys `tls.crt` and `tls.key`:
`etcd` is the authority, `etcd-healthcheck-client` the client that liveness probes use, `apiserver-etcd-client` that of
the API servers. A Secret that carries its own authority as `ca.crt` needs no `etcd` beside it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hopline.domain.errors import ClusterNotReady, NotFound
from hopline.domain.resources import SECRET, Document, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.ports import ClusterClient

AUTHORITY_SUFFIX = "-etcd"
CLIENT_SUFFIXES = ("-etcd-healthcheck-client", "-apiserver-etcd-client")
"""In the order in which they are tried; the first one can do less."""

CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"


@dataclass(frozen=True)
class EtcdCredentials:
    """PEM texts; secrets stay out of `repr`. `subject` is the Secret with the client certificate, for messages."""

    subject: str
    authority: str = field(repr=False)
    certificate: str = field(repr=False)
    key: str = field(repr=False)

    def refusal(self, message: str) -> ClusterNotReady:
        """The error for credentials that cannot be used."""
        kube_namespace, _, name = self.subject.removeprefix("Secret ").partition("/")
        return ClusterNotReady(
            message,
            subject=self.subject,
            field=f"data[{CERTIFICATE}], data[{KEY}] and the authority",
            remedy=f"renew them: kubectl -n {kube_namespace} create secret generic {name} --from-file={CERTIFICATE} "
            f"--from-file={KEY} --from-file={AUTHORITY} --dry-run=client -o yaml | kubectl apply -f -",
        )


async def read_credentials(management: ClusterClient, cluster: ClusterKey) -> EtcdCredentials:
    """The first client certificate that is there. Raises ClusterNotReady, naming the Secrets, and what `get` raises."""
    for suffix in CLIENT_SUFFIXES:
        found = await _secret(management, cluster, suffix)
        if found is None:
            continue
        authority = _text(found, AUTHORITY) or _text(await _secret(management, cluster, AUTHORITY_SUFFIX), CERTIFICATE)
        credentials = EtcdCredentials(
            subject=f"Secret {cluster.kube_namespace}/{cluster.name}{suffix}",
            authority=authority,
            certificate=_text(found, CERTIFICATE),
            key=_text(found, KEY),
        )
        missing = [
            name
            for name, text in ((CERTIFICATE, credentials.certificate), (KEY, credentials.key), (AUTHORITY, authority))
            if not text
        ]
        if missing:
            raise credentials.refusal(f"etcd cannot be asked: the Secret holds no PEM text as {' and '.join(missing)}")
        return credentials
    raise ClusterNotReady(
        "etcd cannot be asked: there is no client certificate for it",
        subject=f"Secret {cluster.kube_namespace}/{cluster.name}{CLIENT_SUFFIXES[0]}",
        field=f"data[{CERTIFICATE}]",
        value="no such Secret",
        remedy=f"on an etcd node: kubectl -n {cluster.kube_namespace} create secret generic "
        f"{cluster.name}{CLIENT_SUFFIXES[0]} --from-file={CERTIFICATE}=healthcheck-client.crt "
        f"--from-file={KEY}=healthcheck-client.key --from-file={AUTHORITY}=ca.crt (/etc/kubernetes/pki/etcd)",
    )


async def tls_context(credentials: EtcdCredentials) -> ssl.SSLContext:
    """Trusts the authority of the Secret alone, and shows the client certificate. Raises ClusterNotReady."""
    try:
        return await asyncio.to_thread(_context, credentials)
    except (ssl.SSLError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or "no certificate in it"
        raise credentials.refusal(f"etcd cannot be asked: certificates or key cannot be used: {reason}") from None


def _context(credentials: EtcdCredentials) -> ssl.SSLContext:
    """The key touches the disk only while OpenSSL reads it."""
    if "ENCRYPTED" in credentials.key:
        raise ValueError("encrypted key")  # OpenSSL would ask for the password on the terminal.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=credentials.authority)
    with TemporaryDirectory(prefix="hopline-") as folder:
        certificate, key = Path(folder, "certificate"), Path(folder, "key")
        certificate.write_text(credentials.certificate)
        key.write_text(credentials.key)
        context.load_cert_chain(certificate, key)
    return context


async def _secret(management: ClusterClient, cluster: ClusterKey, suffix: str) -> Document | None:
    ref = ObjectRef(kind=SECRET, name=f"{cluster.name}{suffix}", kube_namespace=cluster.kube_namespace)
    try:
        return await management.get(ref)
    except NotFound:
        return None


def _text(secret: Document | None, key: str) -> str:
    content = ((secret or {}).get("data") or {}).get(key) or ""
    try:
        return base64.b64decode(str(content)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
