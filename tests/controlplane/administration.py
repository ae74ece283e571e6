"""An API server as its administrator sees it: kubectl, and what every test does with it."""

from __future__ import annotations

import json
import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from controlplane.nodes import NOT_READY_TAINT, NodeShape, node_object
from controlplane.processes import ManagedProcess, wait_until
from controlplane.programs import ADMIN

KUBECTL_TIMEOUT_SECONDS = 120.0


class KubectlFailed(Exception):
    """kubectl ended with an error; the message holds the command and what it wrote to standard error."""


class Administered(ABC):
    """What has a kubeconfig for each of its users; `admin` may always do everything."""

    @property
    @abstractmethod
    def kubectl_program(self) -> str:
        """Absolute path of kubectl."""

    @property
    @abstractmethod
    def data_dir(self) -> Path:
        """Folder of data, kubeconfigs and logs (`<program>.log`)."""

    @abstractmethod
    def kubeconfig_for(self, user: str) -> Path:
        """Kubeconfig of one of the users that this was made with."""

    @abstractmethod
    def serving(self) -> ManagedProcess:
        """An API server that runs; what is waited for here fails with its log."""

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator."""
        return self.kubeconfig_for(ADMIN)

    def kubectl(self, *arguments: str, stdin: str = "", user: str = ADMIN) -> str:
        """Runs kubectl and returns its standard output; raises KubectlFailed with its standard error."""
        command = [
            self.kubectl_program,
            f"--kubeconfig={self.kubeconfig_for(user)}",
            f"--cache-dir={self.data_dir / 'kubectl-cache'}",
            *arguments,
        ]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=KUBECTL_TIMEOUT_SECONDS,
            env=os.environ | {"KUBERC": "off"},
        )
        if done.returncode:
            raise KubectlFailed(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """`kubectl get … -o json`, parsed."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def apply(self, *objects: Mapping[str, Any], field_manager: str = "test", subresource: str = "") -> None:
        """Applies objects by server-side apply: all but their status, or with `subresource="status"` nothing else."""
        document = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        options = [f"--field-manager={field_manager}", *([f"--subresource={subresource}"] if subresource else [])]
        self.kubectl("apply", "--server-side", *options, "-f", "-", stdin=json.dumps(document))

    def install_crds(self, folder: Path) -> None:
        """Applies every CustomResourceDefinition of a folder and waits until the server serves them."""
        files = sorted(folder.glob("*.yaml"))
        if files:
            arguments = [f"--filename={file}" for file in files]
            self.kubectl("apply", "--server-side", "--field-manager=test", *arguments)
            self.kubectl("wait", "--for=condition=Established", "--timeout=30s", *arguments)

    def create_nodes(self, nodes: Iterable[NodeShape]) -> None:
        """Creates nodes that kwok plays, and waits until they are Ready and take pods."""
        objects = [node_object(node) for node in nodes]
        self.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        names = {item["metadata"]["name"] for item in objects}
        wait_until(lambda: names <= self._schedulable_nodes(), self.serving(), "running new nodes")

    def _schedulable_nodes(self) -> set[str]:
        """Names of the Ready nodes that have lost the not-ready taint too, which happens a little later."""
        return {
            node["metadata"]["name"]
            for node in self.get("nodes")["items"]
            if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
            and not any(taint["key"] == NOT_READY_TAINT for taint in node["spec"].get("taints", []))
        }
