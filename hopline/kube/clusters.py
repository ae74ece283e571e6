"""The API servers of one management cluster: its own, and those of the clusters that it upgrades."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from dataclasses import dataclass

from hopline.domain.errors import ClusterNotReady, NotFound
from hopline.domain.resources import (
    DEFAULT_FIELD_MANAGER,
    KUBECONFIG_SECRET_KEY,
    KUBECONFIG_SECRET_SUFFIX,
    SECRET,
    ObjectRef,
)
from hopline.domain.wire import ClusterKey
from hopline.kube.client import KubeClusterClient, connect
from hopline.kube.etcd_probe import GatewayEtcdProbe
from hopline.kube.kubeconfig import Endpoint, Origin, parse_kubeconfig, read_kubeconfig
from hopline.ports import ClusterClient, EtcdProbe, NodeAgentInstaller

LOOK_AGAIN_SECONDS = 60.0
"""How long a kubeconfig Secret is trusted without a look; its client looks when it is refused or gets no answer."""


class SecretKubeconfig:
    """The kubeconfig that the management cluster keeps of a cluster (openfuyao-api.md §2)."""

    def __init__(self, management: ClusterClient, cluster: ClusterKey) -> None:
        name = f"{cluster.name}{KUBECONFIG_SECRET_SUFFIX}"
        self._management = management
        self._ref = ObjectRef(kind=SECRET, name=name, kube_namespace=cluster.kube_namespace)
        self._read_version: tuple[str, str] = ("", "")
        self._endpoint: Endpoint | None = None

    @property
    def origin(self) -> Origin:
        """Names the Secret; its content may name neither files of this machine nor commands."""
        where = f"-n {self._ref.kube_namespace}"
        remedy = (
            f"write a kubeconfig with certificates or a token of its own into it: kubectl create secret generic "
            f"{self._ref.name} {where} --from-file={KUBECONFIG_SECRET_KEY}=FILE --dry-run=client -o yaml | "
            f"kubectl apply -f -"
        )
        return Origin(str(self._ref), f"data.{KUBECONFIG_SECRET_KEY}", remedy)

    async def load(self) -> Endpoint:
        """Reads the Secret; parses it only when it has changed. Raises NotFound when there is none."""
        secret = await self._management.get(self._ref)
        metadata = secret["metadata"]
        version = (str(metadata.get("uid")), str(metadata.get("resourceVersion")))
        if self._endpoint is None or version != self._read_version:
            content = (secret.get("data") or {}).get(KUBECONFIG_SECRET_KEY)
            if not content:
                raise self.origin.refusal("the Secret holds no kubeconfig")
            document = await asyncio.to_thread(parse_kubeconfig, self._decoded(str(content)), self.origin)
            self._endpoint, self._read_version = read_kubeconfig(document, self.origin), version
        return self._endpoint

    def _decoded(self, content: str) -> str:
        try:
            return base64.b64decode(content).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise self.origin.refusal("the kubeconfig is not a text") from None


@dataclass
class _Target:
    """A cluster that was reached before. `looked_at` is on the monotonic clock."""

    source: SecretKubeconfig
    client: KubeClusterClient
    looked_at: float

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.looked_at < LOOK_AGAIN_SECONDS


class KubeClusters:
    """Implements `hopline.ports.Clusters`. Owns the management client and every client that it makes."""

    def __init__(
        self,
        management: KubeClusterClient,
        *,
        management_cluster: ClusterKey | None = None,
        field_manager: str = DEFAULT_FIELD_MANAGER,
        agents: NodeAgentInstaller | None = None,
    ) -> None:
        """`management_cluster` is the BKECluster that stands for the management cluster, if it has one."""
        self._management = management
        self._agents = agents
        self._management_cluster = management_cluster
        self._field_manager = field_manager
        self._targets: dict[ClusterKey, _Target] = {}
        self._looking: dict[ClusterKey, asyncio.Lock] = {}
        self._without_since = float("-inf")
        self._etcd = GatewayEtcdProbe(management)

    @property
    def management(self) -> KubeClusterClient:
        """Holds BKECluster, ClusterVersion, UpgradePath, ReleaseImage, BKENode and Command."""
        return self._management

    @property
    def agents(self) -> NodeAgentInstaller | None:
        """None: this worker cannot install node agents."""
        return self._agents

    @property
    def etcd(self) -> EtcdProbe:
        """Through etcd's JSON gateway on the nodes, with certificates from Secrets of the management cluster."""
        return self._etcd

    async def target(self, cluster: ClusterKey) -> ClusterClient:
        """The cluster that is upgraded: through its kubeconfig Secret, or the management cluster itself.

        The Secret is looked at again every minute, and by the client itself when the API server refuses or does not
        answer. Raises ClusterNotReady when there is no usable kubeconfig, Transient when it cannot be read just now.
        """
        async with self._looking.setdefault(cluster, asyncio.Lock()):
            known = self._targets.get(cluster)
            if known is not None and known.is_fresh:
                return known.client
            if cluster == self._management_cluster and time.monotonic() - self._without_since < LOOK_AGAIN_SECONDS:
                return self._management
            source = known.source if known else SecretKubeconfig(self._management, cluster)
            try:
                if known is None:
                    client = await connect(source, field_manager=self._field_manager)
                    self._targets[cluster] = _Target(source, client, time.monotonic())
                    return client
                await known.client.connection.replace(await source.load())
            except NotFound:
                await self._forget(cluster)
                return self._without_secret(cluster, source.origin)
            known.looked_at = time.monotonic()
            return known.client

    def look_again(self, cluster: ClusterKey) -> None:
        """The next `target` reads the Secret; another address or other credentials replace the connection."""
        self._without_since = float("-inf") if cluster == self._management_cluster else self._without_since
        known = self._targets.get(cluster)
        if known is not None:
            known.looked_at = float("-inf")

    async def aclose(self) -> None:
        """Give back every connection."""
        clients = [target.client for target in self._targets.values()]
        self._targets.clear()
        for client in (*clients, self._management):
            await client.aclose()

    def _without_secret(self, cluster: ClusterKey, origin: Origin) -> ClusterClient:
        if cluster == self._management_cluster:
            self._without_since = time.monotonic()
            return self._management
        raise ClusterNotReady(
            "there is no kubeconfig of the cluster",
            subject=origin.subject,
            field=origin.field,
            remedy=f"{origin.remedy}; or, for the management cluster itself, set HOPLINE_MANAGEMENT_CLUSTER={cluster}",
        )

    async def _forget(self, cluster: ClusterKey) -> None:
        known = self._targets.pop(cluster, None)
        if known is not None:
            await known.client.aclose()
