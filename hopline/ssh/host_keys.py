"""Is the machine that answers the node that we mean? Keys come from the Secret, or from what was recorded before.

- `strict`: `known_hosts` of the Secret has to name the node.
- `accept-new`: a node that it does not name is taken as it first answers, before anybody signs in there, and recorded
  in a ConfigMap that is created once and never changed. Another key later is refused.

What the Secret says of a node wins over a record; there is no way to switch the check off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import asyncssh

from hopline.domain.agent_push import HostKeyPolicy, known_host_name
from hopline.domain.cluster import NodeFacts
from hopline.domain.errors import AlreadyExists, NotFound, Rejected
from hopline.domain.resources import BKE_NODE, CONFIG_MAP, LABEL_CLUSTER_NAME, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.ports import ClusterClient
from hopline.ssh.access import DEFAULT_PORT, KNOWN_HOSTS, Credentials, NodeAddress
from hopline.ssh.faults import mapped

RECORD_KEY = "known_hosts"


@dataclass(frozen=True)
class Trusted:
    """The keys that count for one node; `source` says who vouches for them."""

    keys: tuple[asyncssh.SSHKey, ...] = ()
    authorities: tuple[asyncssh.SSHKey, ...] = ()
    revoked: tuple[asyncssh.SSHKey, ...] = ()
    source: str = ""

    @property
    def known(self) -> bool:
        """Somebody vouches for something."""
        return bool(self.keys or self.authorities)


class HostKeys:
    """Finds the keys of a node, and records new ones where that is allowed."""

    def __init__(self, management: ClusterClient, policy: HostKeyPolicy, connect_seconds: float) -> None:
        self._management = management
        self._policy = policy
        self._connect_seconds = connect_seconds

    async def trusted(
        self, cluster: ClusterKey, node: NodeFacts, address: NodeAddress, credentials: Credentials
    ) -> Trusted:
        """The keys to insist on; a new node is recorded first, where the policy says so.

        Raises Rejected when nobody vouches for the node.
        """
        found = await self._known(cluster, address, credentials)
        if found.known:
            return found
        if self._policy is HostKeyPolicy.STRICT:
            raise await self._unknown(node, address, credentials)
        await self._record(cluster, node, address)
        return await self._known(cluster, address, credentials)

    async def unrecorded(
        self, cluster: ClusterKey, node: NodeFacts, address: NodeAddress, credentials: Credentials
    ) -> str:
        """The fingerprint that `trusted` would record now; empty when the node is known. Raises as `trusted`."""
        if (await self._known(cluster, address, credentials)).known:
            return ""
        if self._policy is HostKeyPolicy.STRICT:
            raise await self._unknown(node, address, credentials)
        return (await self._offered(address)).get_fingerprint()

    async def _known(self, cluster: ClusterKey, address: NodeAddress, credentials: Credentials) -> Trusted:
        # In a thread: for a thousand nodes these are a thousand keys to parse.
        subject = f"{credentials.subject} data[{KNOWN_HOSTS}]"
        found = await asyncio.to_thread(_matching, credentials.known_hosts, address, subject)
        if found.known or self._policy is HostKeyPolicy.STRICT:
            return found
        ref = _record_ref(cluster, address)
        try:
            record = await self._management.get(ref)
        except NotFound:
            return found
        text = str((record.get("data") or {}).get(RECORD_KEY) or "")
        recorded = _matching(text, address, f"{ref} data[{RECORD_KEY}]")
        return Trusted(recorded.keys, recorded.authorities, found.revoked + recorded.revoked, str(ref))

    async def _record(self, cluster: ClusterKey, node: NodeFacts, address: NodeAddress) -> None:
        """Whoever creates the record first has decided; everybody reads it afterwards."""
        key = await self._offered(address)
        place = address.host if address.port == DEFAULT_PORT else f"[{address.host}]:{address.port}"
        public = key.export_public_key().decode().split()
        ref = _record_ref(cluster, address)
        owner = {"apiVersion": BKE_NODE.api_version, "kind": BKE_NODE.kind, "name": node.name, "uid": address.uid}
        try:
            await self._management.create(
                {
                    "apiVersion": CONFIG_MAP.api_version,
                    "kind": CONFIG_MAP.kind,
                    "metadata": {
                        "name": ref.name,
                        "namespace": ref.kube_namespace,
                        "labels": {LABEL_CLUSTER_NAME: cluster.name},
                        # A node that is made anew under the same name is another one, and its record goes with it.
                        "ownerReferences": [owner],
                    },
                    "immutable": True,
                    "data": {RECORD_KEY: f"{place} {public[0]} {public[1]}\n"},
                },
                kind=CONFIG_MAP,
            )
        except AlreadyExists:
            return

    async def _offered(self, address: NodeAddress) -> asyncssh.SSHKey:
        """The key that the node answers with, without signing in."""
        with mapped(address.shown):
            async with asyncio.timeout(self._connect_seconds):
                key = await asyncssh.get_server_host_key(address.host, address.port, config=None)
        if key is None:
            raise Rejected("the node has shown no host key", subject=f"node {address.shown}", remedy="look at its sshd")
        return key

    async def _unknown(self, node: NodeFacts, address: NodeAddress, credentials: Credentials) -> Rejected:
        key = await self._offered(address)
        port = "" if address.port == DEFAULT_PORT else f"-p {address.port} "
        return Rejected(
            "nobody vouches for the host key of the node",
            subject=f"node {node.display_name} at {address.shown}",
            field="host key",
            value=f"{key.algorithm.decode()} {key.get_fingerprint()}",
            remedy="compare it on the node itself (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then add what "
            f"ssh-keyscan {port}{address.host} prints to data[{KNOWN_HOSTS}] of {credentials.subject}; or set "
            "HOPLINE_AGENT_SSH_HOST_KEYS=accept-new",
        )


def _matching(text: str, address: NodeAddress, subject: str) -> Trusted:
    if not text.strip():
        return Trusted()
    try:
        known = asyncssh.import_known_hosts(text)
        port = None if address.port == DEFAULT_PORT else address.port
        keys, authorities, *_ = known.match(address.host, address.host, port)
    except (ValueError, asyncssh.Error) as error:
        raise Rejected(
            f"the known hosts cannot be read: {error}",
            subject=subject,
            remedy="write lines as ssh-keyscan prints them",
        ) from None
    return Trusted(tuple(keys), tuple(authorities), tuple(_revoked(text)), subject)


def _revoked(text: str) -> Iterator[asyncssh.SSHKey]:
    """Keys that are revoked count for no node, whichever the line names: the library forgets those of a node that
    nothing else is known of."""
    for line in text.splitlines():
        marker, _, rest = line.strip().partition(" ")
        if marker == "@revoked":
            with suppress(asyncssh.KeyImportError):
                yield asyncssh.import_public_key(rest.strip().partition(" ")[2])


def _record_ref(cluster: ClusterKey, address: NodeAddress) -> ObjectRef:
    name = known_host_name(cluster.name, address.host)
    return ObjectRef(kind=CONFIG_MAP, name=name, kube_namespace=cluster.kube_namespace)
