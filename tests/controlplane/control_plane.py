"""A real Kubernetes control plane on loopback, without root: etcd, API server, controllers, scheduler, and kwok."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from controlplane.administration import Administered, KubectlFailed
from controlplane.audit import AuditEvent, parse_audit_log
from controlplane.binaries import Binaries, Program, find_binaries
from controlplane.nodes import NodeShape
from controlplane.processes import ManagedProcess, ProcessFailed, ProcessFamily, answers, free_ports, wait_until
from controlplane.programs import READINESS, Installation, Ports


class ControlPlane(Administered):
    """One control plane. Several can run at once, each with its own ports and data; all is gone after `stop`.

    `users` maps further user names to their groups; `admin` may always do everything. RBAC decides about all others.
    `audit_responses` keeps in the audit log what each write has made of its object.
    """

    def __init__(
        self,
        binaries: Binaries | None = None,
        users: Mapping[str, Sequence[str]] | None = None,
        *,
        audit_responses: bool = False,
    ) -> None:
        self._binaries = binaries or find_binaries()
        self._family = ProcessFamily("controlplane")
        self._installation = Installation(
            self._binaries, self._family.data_dir, Ports(*free_ports(3)), users or {}, audit_responses=audit_responses
        )
        self._api_server: ManagedProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def kubectl_program(self) -> str:
        """Absolute path of kubectl."""
        return self._binaries.path(Program.KUBECTL)

    @property
    def server(self) -> str:
        """Address of the API server, `https://127.0.0.1:<port>`."""
        return self._installation.server

    @property
    def process_ids(self) -> dict[str, int]:
        """The running programs by name."""
        return self._family.process_ids

    @property
    def data_dir(self) -> Path:
        """Folder of data, kubeconfigs and logs (`<program>.log`)."""
        return self._family.data_dir

    def kubeconfig_for(self, user: str) -> Path:
        """Kubeconfig of one of the users that this control plane was made with."""
        return self._installation.kubeconfig(user)

    def kubeconfig_for_service_account(self, kube_namespace: str, name: str) -> Path:
        """Kubeconfig of an existing service account, with a token of its own for a day."""
        token = self.kubectl("create", "token", name, "-n", kube_namespace, "--duration=24h").strip()
        return self._installation.kubeconfig(f"system:serviceaccount:{kube_namespace}:{name}", token)

    def serving(self) -> ManagedProcess:
        """The API server."""
        assert self._api_server, "the API server is not running"
        return self._api_server

    def start(self, with_controllers: bool = True) -> None:
        """Starts everything and returns when Deployments can be made; after a failure nothing is left running."""
        try:
            etcd = self._family.start("etcd", self._installation.etcd())
            wait_until(lambda: answers(f"{self._installation.etcd_address}/health"), etcd, "healthy")
            self.start_apiserver()
            if with_controllers:
                self._start_controllers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends every process, the API server before etcd, and deletes the data; calling it again does nothing."""
        self._family.close()

    def start_apiserver(self) -> None:
        """Starts the API server on its port and waits until it is ready."""
        self._api_server = self._family.start("kube-apiserver", self._installation.api_server())
        wait_until(self._is_ready, self._api_server, "ready")

    def kill_apiserver(self) -> None:
        """Ends the API server at once, as kill -9 does; etcd keeps its data."""
        if self._api_server:
            self._family.stop(self._api_server)
            self._api_server = None

    def restart_apiserver(self) -> None:
        """Kills the API server and starts it again on the same port."""
        self.kill_apiserver()
        self.start_apiserver()

    def audit_mark(self) -> int:
        """The present end of the audit log, to be given to `audit_events`."""
        return self._installation.audit_log.stat().st_size

    def audit_events(self, since: int = 0, user: str | None = None) -> list[AuditEvent]:
        """Finished requests after a mark, of one user or of all; those of controllers and kwok are never kept."""
        with self._installation.audit_log.open("rb") as log:
            log.seek(since)
            events = parse_audit_log(line.decode() for line in log)
        return [event for event in events if user is None or event.user == user]

    def _start_controllers(self) -> None:
        installation = self._installation
        manager = self._family.start("kube-controller-manager", installation.controller_manager())
        self._family.start("kube-scheduler", installation.scheduler())
        self._family.start("kwok", installation.kwok())
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_until(lambda: self._answers_as_admin(account), manager, "making service accounts")

    def _is_ready(self) -> bool:
        return self._installation.certificate.exists() and self._answers_as_admin("/readyz")

    def _answers_as_admin(self, path: str) -> bool:
        try:
            context = ssl.create_default_context(cafile=str(self._installation.certificate))
        except ssl.SSLError:
            # The server is still writing the file.
            return False
        return answers(self.server + path, self._installation.token(READINESS), context)


__all__ = ["ControlPlane", "KubectlFailed", "NodeShape", "ProcessFailed"]
