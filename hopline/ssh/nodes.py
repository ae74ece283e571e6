"""Connections to nodes, one per piece of work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncssh

from hopline.domain.agent_push import HostKeyPolicy
from hopline.domain.cluster import NodeFacts
from hopline.domain.wire import ClusterKey
from hopline.ports import ClusterClient
from hopline.ssh.access import Credentials, NodeAddress, SecretName, read_address, read_credentials
from hopline.ssh.faults import mapped
from hopline.ssh.host_keys import HostKeys, Trusted
from hopline.ssh.shell import SshShell

# At "info" the library tells of every connection and command; a node's trouble is told by our own errors.
logging.getLogger("asyncssh").setLevel(logging.WARNING)


@dataclass(frozen=True)
class Patience:
    """Seconds. A node that has gone silent is noticed after `alive` times `alive_count`."""

    connect: float = 10.0
    sign_in: float = 20.0
    alive: float = 5.0
    alive_count: int = 3


class SshNodes:
    """Implements `hopline.ports.NodeShells`.

    Args:
        secret: where credentials are; read for every connection, because they rotate.
    """

    def __init__(
        self,
        management: ClusterClient,
        secret: SecretName,
        policy: HostKeyPolicy = HostKeyPolicy.STRICT,
        patience: Patience = Patience(),
    ) -> None:
        self._management = management
        self._secret = secret
        self._patience = patience
        self._host_keys = HostKeys(management, policy, patience.connect)

    @asynccontextmanager
    async def open(self, cluster: ClusterKey, node: NodeFacts) -> AsyncIterator[SshShell]:
        """A connection that is closed at the end, with whatever still runs in it."""
        credentials, address = await self._way(cluster, node)
        trusted = await self._host_keys.trusted(cluster, node, address, credentials)
        key = await asyncio.to_thread(credentials.key)
        with mapped(address.shown, trusted.source, address.username):
            connection = await self._connect(address, credentials, trusted, key)
        try:
            yield SshShell(connection, address, credentials)
        finally:
            connection.abort()
            await connection.wait_closed()

    async def unrecorded_key(self, cluster: ClusterKey, node: NodeFacts) -> str:
        """The fingerprint of a host key that the next `open` would record; empty: the node is known."""
        credentials, address = await self._way(cluster, node)
        return await self._host_keys.unrecorded(cluster, node, address, credentials)

    async def _way(self, cluster: ClusterKey, node: NodeFacts) -> tuple[Credentials, NodeAddress]:
        credentials = await read_credentials(self._management, self._secret.of(cluster))
        return credentials, await read_address(self._management, cluster, node, credentials)

    async def _connect(
        self, address: NodeAddress, credentials: Credentials, trusted: Trusted, key: asyncssh.SSHKey | None
    ) -> asyncssh.SSHClientConnection:
        """Nothing of this machine's own SSH counts: no configuration, no agent, no keys, no known hosts."""
        password = credentials.password.get_secret_value()
        methods = [*(["publickey"] if key else []), *(["password", "keyboard-interactive"] if password else [])]
        return await asyncssh.connect(
            address.host,
            address.port,
            config=None,
            known_hosts=(list(trusted.keys), list(trusted.authorities), list(trusted.revoked)),
            username=address.username,
            client_keys=[key] if key else None,
            password=password or None,
            preferred_auth=methods,
            agent_path=None,
            gss_auth=False,
            gss_kex=False,
            connect_timeout=self._patience.connect,
            login_timeout=self._patience.sign_in,
            keepalive_interval=self._patience.alive,
            keepalive_count_max=self._patience.alive_count,
        )
