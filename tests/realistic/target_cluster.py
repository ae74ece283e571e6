"""A cluster of three real control-plane nodes on loopback, behind a balancer: what the realistic upgrade upgrades."""

from __future__ import annotations

import base64
import json
import resource
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from controlplane.administration import Administered
from controlplane.binaries import Program
from controlplane.processes import ManagedProcess, ProcessFailed, ProcessFamily, answers, wait_until
from controlplane.programs import CONTROLLER_MANAGER, KWOK, SCHEDULER, kwok_command, write_kubeconfig, write_tokens
from hopline.domain.wire import ClusterKey
from realistic import balancer
from realistic.addresses import free_network
from realistic.certificates import Authority
from realistic.node_commands import API_SERVER, PORTS, ControlPlaneNode, Trust
from realistic.programs import RealisticPrograms

NODES = ("m1", "m2", "m3")
GRACE_SECONDS = 30.0
"""How long a program has to end by itself; an API server with open watches would take up to a minute."""

_KUBERNETES = (Program.API_SERVER, Program.CONTROLLER_MANAGER, Program.SCHEDULER)
_SERVING_SECONDS = 300.0
_COMMAND_SECONDS = 60.0
_ETCDCTL_SECONDS = 30
"""Its own five and two would be short on a machine that does other things."""

_CERTIFICATES = "certificates"


class TargetCluster(Administered):
    """Three nodes, each with etcd, API server, controller manager and scheduler of the older set; kwok plays kubelets.

    The controllers of a node speak to the API server of their node; everybody else goes through the balancer.
    """

    def __init__(self, programs: RealisticPrograms) -> None:
        self._programs = programs
        self._family = ProcessFamily("realistic")
        *nodes, self._front = free_network(len(NODES) + 1, PORTS)
        self._tokens = write_tokens(self._family.data_dir / "tokens.csv", {})
        self._authority = Authority(self._family.data_dir / _CERTIFICATES)
        self._etcd_authority = Authority(self._family.data_dir / "etcd-certificates")
        self._etcd_client = self._etcd_authority.issue("client")
        self.nodes = self._made(dict(zip(NODES, nodes, strict=True)))
        self._versions: dict[tuple[Program, str], str] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def kubectl_program(self) -> str:
        """kubectl of the newer set."""
        return self._programs.newer.binaries.path(Program.KUBECTL)

    @property
    def data_dir(self) -> Path:
        """Folder of data, kubeconfigs and logs (`<program>-<node>.log`)."""
        return self._family.data_dir

    @property
    def front(self) -> tuple[str, int]:
        """Host and port of the balancer."""
        return self._front, API_SERVER

    @property
    def process_ids(self) -> dict[str, int]:
        """The running programs by name, `<program>-<node>`."""
        return self._family.process_ids

    @property
    def memory_mib(self) -> float:
        """What its processes have in memory now, shared pages counted in each."""
        pages = (int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in self.process_ids.values())
        return sum(pages) * resource.getpagesize() / 2**20

    def etcd_secret(self, cluster: ClusterKey) -> dict[str, Any]:
        """The Secret with which a worker asks the members of a cluster how they are."""
        pair = self._etcd_client
        files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": self._etcd_authority.certificate}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{cluster.name}-etcd-healthcheck-client", "namespace": cluster.kube_namespace},
            "data": {key: base64.b64encode(file.read_bytes()).decode() for key, file in files.items()},
        }

    def kubeconfig_for(self, user: str) -> Path:
        """Leads through the balancer."""
        return self._kubeconfig(user, self._front)

    def serving(self) -> ManagedProcess:
        """The API server of the first node."""
        return self._family.find(_process_name(Program.API_SERVER, NODES[0]))

    def start(self) -> None:
        """Starts the older set on every node, and returns when all of it serves."""
        older = self._programs.older
        for programs in ((Program.ETCD,), (Program.API_SERVER,), _KUBERNETES[1:]):
            for program in programs:
                for node in self.nodes.values():
                    self._launch(program, node, older.version(program))
            for program in programs:
                for node in self.nodes.values():
                    self._until_it_serves(program, node)
        backends = [f"{node.address}:{API_SERVER}" for node in self.nodes.values()]
        command = [sys.executable, balancer.__file__, f"{self._front}:{API_SERVER}", *backends]
        process = self._family.start("balancer", command)
        wait_until(lambda: self._answers(f"https://{self._front}:{API_SERVER}/readyz"), process, "serving")
        kwok = self._programs.newer.binaries.path(Program.KWOK)
        self._family.start("kwok", kwok_command(kwok, self.kubeconfig_for(KWOK)))

    def stop(self) -> None:
        """Ends every process, the API servers before etcd, and deletes the data; calling it again does nothing."""
        for name in list(self.process_ids):
            if not name.startswith(Program.ETCD.value):
                self._family.stop(self._family.find(name))
        self._family.close()

    def version(self, program: Program, node: str) -> str:
        """Which version of a program was started last on a node."""
        return self._versions[program, node]

    def replace(self, program: Program, name: str, version: str) -> None:
        """Ends a program of a node, within its grace or by force, starts another version, and waits until it serves."""
        if self.version(program, name) == version:
            return
        self._family.stop(self._family.find(_process_name(program, name)), GRACE_SECONDS)
        self._launch(program, self.nodes[name], version)
        self._until_it_serves(program, self.nodes[name])

    def take_snapshot(self, name: str, file: Path) -> dict[str, Any]:
        """Saves what the member of a node has, and returns what etcdutl says of the file."""
        file.parent.mkdir(exist_ok=True)
        self._etcdctl(name, "snapshot", "save", str(file))
        status: dict[str, Any] = json.loads(
            _output([self._programs.etcdutl, "snapshot", "status", str(file), "--write-out=json"])
        )
        return status

    def etcd_status(self, name: str) -> dict[str, Any]:
        """What the member of a node says of itself: `version`, `leader` and `raftTerm` among it."""
        (answer,) = json.loads(self._etcdctl(name, "endpoint", "status", "--write-out=json"))
        status: dict[str, Any] = answer["Status"]
        return status

    def etcd_version(self, name: str) -> str:
        """What the member of a node says that it is, with a `v`."""
        return f"v{self.etcd_status(name)['version']}"

    def api_server_version(self, name: str) -> str:
        """What the API server of a node says that it is."""
        kubeconfig = self._kubeconfig(CONTROLLER_MANAGER, self.nodes[name].address)
        told = _output([self.kubectl_program, f"--kubeconfig={kubeconfig}", "get", "--raw", "/version"])
        return str(json.loads(told)["gitVersion"])

    def _etcdctl(self, name: str, *arguments: str) -> str:
        client = self._etcd_client
        return _output(
            [
                self._programs.etcdctl,
                f"--endpoints={self.nodes[name].etcd_endpoint}",
                f"--cacert={self._etcd_authority.certificate}",
                f"--cert={client.certificate}",
                f"--key={client.key}",
                f"--dial-timeout={_ETCDCTL_SECONDS}s",
                f"--command-timeout={_ETCDCTL_SECONDS}s",
                *arguments,
            ]
        )

    def _launch(self, program: Program, node: ControlPlaneNode, version: str) -> None:
        command = [self._programs.path(program, version), *node.arguments(program)]
        self._family.start(_process_name(program, node.name), command)
        self._versions[program, node.name] = version

    def _until_it_serves(self, program: Program, node: ControlPlaneNode) -> None:
        process = self._family.find(_process_name(program, node.name))
        wait_until(lambda: self._answers(node.health(program)), process, "serving", _SERVING_SECONDS)

    def _answers(self, url: str) -> bool:
        return answers(url, context=ssl.create_default_context(cafile=str(self._authority.certificate)))

    def _made(self, addresses: dict[str, str]) -> dict[str, ControlPlaneNode]:
        service_accounts = self._authority.issue("service-accounts").key
        return {name: self._node(name, addresses, service_accounts) for name in addresses}

    def _node(self, name: str, addresses: dict[str, str], service_accounts: Path) -> ControlPlaneNode:
        address = addresses[name]
        trust = Trust(
            authority=self._authority.certificate,
            etcd_authority=self._etcd_authority.certificate,
            etcd_client=self._etcd_client,
            node=self._authority.issue(name, [address, self._front]),
            # Whoever connects on loopback comes from 127.0.0.1, and members look where their peers come from.
            etcd_node=self._etcd_authority.issue(name, [address, "127.0.0.1"]),
            service_accounts=service_accounts,
        )
        folder = self.data_dir / name
        folder.mkdir()
        return ControlPlaneNode(
            name,
            address,
            folder,
            trust,
            members=tuple(addresses.items()),
            token_file=self.data_dir / "tokens.csv",
            controller_manager=self._kubeconfig(CONTROLLER_MANAGER, address),
            scheduler=self._kubeconfig(SCHEDULER, address),
        )

    def _kubeconfig(self, user: str, address: str) -> Path:
        path = self.data_dir / f"kubeconfig-{user}-{address}"
        if path.exists():
            return path
        authority = self._authority.certificate.read_bytes()
        return write_kubeconfig(path, f"https://{address}:{API_SERVER}", authority, user, self._tokens[user])


def _process_name(program: Program, node: str) -> str:
    return f"{program.value}-{node}"


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMMAND_SECONDS)
    if done.returncode:
        raise ProcessFailed(f"{Path(command[0]).name} {' '.join(command[-3:])}: {done.stderr.strip()}")
    return done.stdout
