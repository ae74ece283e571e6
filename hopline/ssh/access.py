"""What a Secret says about signing in on nodes. Nothing else is a source of credentials.

A BKENode carries a password, too; an existing webhook encrypts it with a key of its own, so it is never read. Of a
BKENode only `spec.port` and `spec.username` count, where the Secret names no user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import asyncssh
from pydantic import BaseModel, ConfigDict, SecretStr

from hopline.domain.cluster import NodeFacts
from hopline.domain.errors import InvalidInput, NotFound, Rejected
from hopline.domain.registry_credentials import secret_text
from hopline.domain.resources import BKE_NODE, SECRET, Document, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.ports import ClusterClient

USERNAME, PRIVATE_KEY, PASSPHRASE = "username", "ssh-privatekey", "passphrase"
PASSWORD, SUDO_PASSWORD, KNOWN_HOSTS = "password", "sudo-password", "known_hosts"
DEFAULT_PORT = 22
ROOT = "root"


class Credentials(BaseModel):
    """How to sign in. The texts never leave this package."""

    model_config = ConfigDict(frozen=True)

    subject: str
    username: str = ""
    private_key: SecretStr = SecretStr("")
    passphrase: SecretStr = SecretStr("")
    password: SecretStr = SecretStr("")
    sudo_password: SecretStr = SecretStr("")
    known_hosts: str = ""

    def key(self) -> asyncssh.SSHKey | None:
        """The private key, unlocked; None when there is none. Blocks: it is made slow on purpose. Rejected when it
        cannot be read."""
        text = self.private_key.get_secret_value()
        if not text:
            return None
        try:
            # Keys are often pasted without their last line end, which the format asks for.
            return asyncssh.import_private_key(f"{text.strip()}\n", self.passphrase.get_secret_value() or None)
        except (asyncssh.KeyImportError, ValueError):
            locked = "with the passphrase of the Secret" if self.passphrase.get_secret_value() else "without passphrase"
            raise Rejected(
                f"the private key cannot be read {locked}",
                subject=self.subject,
                field=f"data[{PRIVATE_KEY}]",
                remedy=f"put an OpenSSH or PEM private key there, and its passphrase under {PASSPHRASE}; "
                "ssh-keygen -y -f FILE shows whether both fit",
            ) from None

    def struck(self, text: str) -> str:
        """`text` without anything that is secret here."""
        for secret in (self.password, self.sudo_password, self.passphrase):
            value = secret.get_secret_value()
            if value:
                text = text.replace(value, "***")
        return text


@dataclass(frozen=True)
class SecretName:
    """Which Secret: `NAMESPACE/NAME`, or a name that is looked for in the namespace of each cluster."""

    text: str

    def of(self, cluster: ClusterKey) -> ObjectRef:
        """The Secret for one cluster."""
        kube_namespace, _, name = self.text.rpartition("/")
        return ObjectRef(kind=SECRET, name=name, kube_namespace=kube_namespace or cluster.kube_namespace)


async def read_credentials(management: ClusterClient, ref: ObjectRef) -> Credentials:
    """Read anew each time: credentials rotate. NotFound when there is no such Secret, Rejected when it holds none."""
    remedy = (
        f"kubectl create secret generic {ref.name} -n {ref.kube_namespace} --from-literal={USERNAME}=USER "
        f"--from-file={PRIVATE_KEY}=FILE --from-file={KNOWN_HOSTS}=FILE"
    )
    try:
        secret = await management.get(ref)
    except NotFound:
        raise NotFound(
            "there is no Secret with credentials for SSH to the nodes", subject=str(ref), remedy=remedy
        ) from None
    try:
        found = _credentials(secret, str(ref))
    except InvalidInput as error:
        raise Rejected(error.message, subject=error.subject, field=error.field, remedy=error.remedy) from None
    if not (found.private_key.get_secret_value() or found.password.get_secret_value()):
        raise Rejected(
            "the Secret holds neither a private key nor a password",
            subject=str(ref),
            field=f"data[{PRIVATE_KEY}], data[{PASSWORD}]",
            remedy=remedy,
        )
    return found


def _credentials(secret: Document, subject: str) -> Credentials:
    def secretly(key: str) -> SecretStr:
        return SecretStr(secret_text(secret, key).rstrip("\r\n"))

    return Credentials(
        subject=subject,
        username=secret_text(secret, USERNAME).strip(),
        private_key=SecretStr(secret_text(secret, PRIVATE_KEY)),
        passphrase=secretly(PASSPHRASE),
        password=secretly(PASSWORD),
        sudo_password=secretly(SUDO_PASSWORD),
        known_hosts=secret_text(secret, KNOWN_HOSTS),
    )


class NodeAddress(BaseModel):
    """Where a node listens, and as whom we come."""

    model_config = ConfigDict(frozen=True)

    host: str
    port: int = DEFAULT_PORT
    username: str = ROOT
    uid: str = ""
    """Of the BKENode."""

    @property
    def shown(self) -> str:
        """For messages and for ssh-keyscan."""
        return self.host if self.port == DEFAULT_PORT else f"{self.host} port {self.port}"


async def read_address(
    management: ClusterClient, cluster: ClusterKey, node: NodeFacts, credentials: Credentials
) -> NodeAddress:
    """From the BKENode as it is now. Raises Rejected when its port is none."""
    ref = ObjectRef(kind=BKE_NODE, name=node.name, kube_namespace=cluster.kube_namespace)
    document = await management.get(ref)
    spec: Mapping[str, Any] = document.get("spec") or {}
    port = str(spec.get("port") or DEFAULT_PORT)
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise Rejected(
            "the port of the node is not usable", subject=str(ref), field="spec.port", value=port, remedy="correct it"
        )
    return NodeAddress(
        host=node.ip,
        port=int(port),
        username=credentials.username or str(spec.get("username") or "") or ROOT,
        uid=str(document["metadata"].get("uid") or ""),
    )
