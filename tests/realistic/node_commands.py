"""How the programs of a control-plane node are called, as their static pods call them (openfuyao-nodes.md §2.9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from controlplane.binaries import Program
from realistic.certificates import KeyPair

ETCD_CLIENT, ETCD_PEER, ETCD_HEALTH = 2379, 2380, 2381
API_SERVER, CONTROLLER_MANAGER, SCHEDULER = 6443, 10257, 10259
PORTS = (ETCD_CLIENT, ETCD_PEER, ETCD_HEALTH, API_SERVER, CONTROLLER_MANAGER, SCHEDULER)


@dataclass(frozen=True)
class Trust:
    """Certificates that the nodes of a cluster share, and the one of the node itself."""

    authority: Path
    etcd_authority: Path
    etcd_client: KeyPair
    node: KeyPair
    etcd_node: KeyPair
    service_accounts: Path
    """The key that signs tokens of service accounts."""


@dataclass(frozen=True)
class ControlPlaneNode:
    """One machine: its name, its loopback address, and the files that its programs are given."""

    name: str
    address: str
    data_dir: Path
    trust: Trust
    members: Sequence[tuple[str, str]]
    """Name and address of every etcd member."""
    token_file: Path
    controller_manager: Path
    """Kubeconfig that leads to the API server of this node: a newer one must not meet an older server elsewhere."""
    scheduler: Path

    def arguments(self, program: Program) -> list[str]:
        """Everything after the program's path."""
        return {
            Program.ETCD: self._etcd,
            Program.API_SERVER: self._api_server,
            Program.CONTROLLER_MANAGER: self._controller_manager,
            Program.SCHEDULER: self._scheduler,
        }[program]()

    def health(self, program: Program) -> str:
        """The address that answers 200 once the program serves."""
        return {
            Program.ETCD: f"http://{self.address}:{ETCD_HEALTH}/health",
            Program.API_SERVER: f"https://{self.address}:{API_SERVER}/readyz",
            Program.CONTROLLER_MANAGER: f"https://{self.address}:{CONTROLLER_MANAGER}/healthz",
            Program.SCHEDULER: f"https://{self.address}:{SCHEDULER}/healthz",
        }[program]

    @property
    def etcd_endpoint(self) -> str:
        """Where its etcd serves clients."""
        return f"https://{self.address}:{ETCD_CLIENT}"

    def _etcd(self) -> list[str]:
        """`new` is not looked at once there are data: a member that starts again is the one that it was."""
        client, peer = self.etcd_endpoint, f"https://{self.address}:{ETCD_PEER}"
        pair, authority = self.trust.etcd_node, self.trust.etcd_authority
        return [
            f"--name={self.name}",
            f"--data-dir={self.data_dir / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--listen-metrics-urls=http://{self.address}:{ETCD_HEALTH}",
            "--initial-cluster=" + ",".join(f"{name}=https://{address}:{ETCD_PEER}" for name, address in self.members),
            "--initial-cluster-state=new",
            *(f"--{side}cert-file={pair.certificate}" for side in ("", "peer-")),
            *(f"--{side}key-file={pair.key}" for side in ("", "peer-")),
            *(f"--{side}trusted-ca-file={authority}" for side in ("", "peer-")),
            *(f"--{side}client-cert-auth" for side in ("", "peer-")),
            "--log-level=warn",
        ]

    def _api_server(self) -> list[str]:
        key = self.trust.service_accounts
        return [
            "--etcd-servers=" + ",".join(f"https://{address}:{ETCD_CLIENT}" for _, address in self.members),
            f"--etcd-cafile={self.trust.etcd_authority}",
            f"--etcd-certfile={self.trust.etcd_client.certificate}",
            f"--etcd-keyfile={self.trust.etcd_client.key}",
            f"--bind-address={self.address}",
            f"--advertise-address={self.address}",
            f"--secure-port={API_SERVER}",
            *self._serving(),
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.token_file}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--profiling=false",
        ]

    def _controller_manager(self) -> list[str]:
        return [
            f"--kubeconfig={self.controller_manager}",
            f"--service-account-private-key-file={self.trust.service_accounts}",
            f"--root-ca-file={self.trust.authority}",
            f"--bind-address={self.address}",
            f"--secure-port={CONTROLLER_MANAGER}",
            *self._serving(),
            "--leader-elect=true",
            "--node-monitor-period=5s",
            "--node-monitor-grace-period=20s",
            "--profiling=false",
        ]

    def _scheduler(self) -> list[str]:
        return [
            f"--kubeconfig={self.scheduler}",
            f"--bind-address={self.address}",
            f"--secure-port={SCHEDULER}",
            *self._serving(),
            "--leader-elect=true",
            "--profiling=false",
        ]

    def _serving(self) -> list[str]:
        return [f"--tls-cert-file={self.trust.node.certificate}", f"--tls-private-key-file={self.trust.node.key}"]
