"""How each program of the control plane is called, and the files it is given."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.binaries import Binaries, Program

_HERE = Path(__file__).resolve().parent
ADMIN = "admin"
CONTROLLER_MANAGER = "controller-manager"
SCHEDULER = "scheduler"
KWOK = "kwok"
READINESS = "readiness"
SUPERUSERS = (ADMIN, CONTROLLER_MANAGER, SCHEDULER, KWOK, READINESS)
_LEVEL_OF_WRITES = "- level: Request\n"
_SUPERUSER_GROUP = "system:masters"


@dataclass(frozen=True)
class Ports:
    """Loopback ports of one control plane."""

    api_server: int
    etcd_client: int
    etcd_peer: int


class Installation:
    """The files of one control plane (tokens, certificates, kubeconfigs) and each program's command line.

    With `audit_responses` the audit log holds what a write has made of its object too.
    """

    def __init__(
        self,
        binaries: Binaries,
        folder: Path,
        ports: Ports,
        users: Mapping[str, Sequence[str]],
        *,
        audit_responses: bool = False,
    ) -> None:
        self._binaries = binaries
        self._folder = folder
        self._ports = ports
        self._tokens = write_tokens(self._token_file, users)
        self.certificates.mkdir()
        policy = (_HERE / "audit-policy.yaml").read_text()
        level = "RequestResponse" if audit_responses else "Request"
        self._audit_policy.write_text(policy.replace(_LEVEL_OF_WRITES, f"- level: {level}\n"))

    @property
    def certificates(self) -> Path:
        """Where the API server writes its self-signed certificate and key."""
        return self._folder / "certificates"

    @property
    def certificate(self) -> Path:
        """The API server's certificate with its authority; exists once the server has started."""
        return self.certificates / "apiserver.crt"

    @property
    def audit_log(self) -> Path:
        """The audit log, one JSON document a line."""
        return self._folder / "audit.log"

    @property
    def server(self) -> str:
        """Address of the API server."""
        return f"https://127.0.0.1:{self._ports.api_server}"

    @property
    def etcd_address(self) -> str:
        """Address of etcd's client port."""
        return f"http://127.0.0.1:{self._ports.etcd_client}"

    def token(self, user: str) -> str:
        """The bearer token of a user; raises KeyError for one that this control plane was not started with."""
        return self._tokens[user]

    def kubeconfig(self, user: str, token: str | None = None) -> Path:
        """The kubeconfig of a user of the token file, or of any name with a token of its own; written once."""
        path = self._folder / f"kubeconfig-{user.replace(':', '-')}"
        if path.exists() and token is None:
            return path
        return write_kubeconfig(path, self.server, self.certificate.read_bytes(), user, token or self.token(user))

    def etcd(self) -> list[str]:
        """Without fsync: a crash of the machine would lose the data, a crash of a program does not."""
        peer = f"http://127.0.0.1:{self._ports.etcd_peer}"
        return [
            self._binaries.path(Program.ETCD),
            f"--data-dir={self._folder / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={self.etcd_address}",
            f"--advertise-client-urls={self.etcd_address}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        ]

    def api_server(self) -> list[str]:
        """With RBAC and the audit log. The serving key signs service account tokens too: it is the one key at hand."""
        key = self.certificates / "apiserver.key"
        return [
            self._binaries.path(Program.API_SERVER),
            f"--etcd-servers={self.etcd_address}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._ports.api_server}",
            f"--cert-dir={self.certificates}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self._token_file}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--audit-policy-file={self._audit_policy}",
            f"--audit-log-path={self.audit_log}",
            "--profiling=false",
        ]

    def controller_manager(self) -> list[str]:
        """All controllers, the node lifecycle one included: it takes the not-ready taint off new nodes."""
        return [
            self._binaries.path(Program.CONTROLLER_MANAGER),
            f"--kubeconfig={self.kubeconfig(CONTROLLER_MANAGER)}",
            f"--service-account-private-key-file={self.certificates / 'apiserver.key'}",
            f"--root-ca-file={self.certificate}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ]

    def scheduler(self) -> list[str]:
        """The default scheduler."""
        return [
            self._binaries.path(Program.SCHEDULER),
            f"--kubeconfig={self.kubeconfig(SCHEDULER)}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ]

    def kwok(self) -> list[str]:
        """Plays the kubelets of all nodes by the stages of this folder, node leases included."""
        return kwok_command(self._binaries.path(Program.KWOK), self.kubeconfig(KWOK))

    @property
    def _audit_policy(self) -> Path:
        return self._folder / "audit-policy.yaml"

    @property
    def _token_file(self) -> Path:
        return self._folder / "tokens.csv"


def write_tokens(file: Path, users: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """A token file for API servers, with the superusers and further users with their groups; returns user → token."""
    groups = dict.fromkeys(SUPERUSERS, (_SUPERUSER_GROUP,)) | {name: tuple(of) for name, of in users.items()}
    tokens = {name: secrets.token_hex(16) for name in groups}
    rows = (f'{tokens[name]},{name},{name},"{",".join(of)}"' for name, of in groups.items())
    file.write_text("\n".join(rows) + "\n")
    return tokens


def write_kubeconfig(path: Path, server: str, authority: bytes, user: str, token: str) -> Path:
    """A kubeconfig in JSON, which is YAML too, that only this user of the machine can read."""
    data = base64.b64encode(authority).decode()
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority-data": data}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
    }
    unfinished = path.with_suffix(".partial")
    unfinished.write_text(json.dumps(document, indent=2))
    unfinished.chmod(0o600)
    return unfinished.rename(path)


def kwok_command(program: str, kubeconfig: Path) -> list[str]:
    """Plays the kubelets of all nodes by the stages of this folder, node leases included."""
    stages = sorted((_HERE / "stages").glob("*.yaml"))
    return [
        program,
        f"--kubeconfig={kubeconfig}",
        *(f"--config={stage}" for stage in stages),
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        "--node-port=0",
    ]
