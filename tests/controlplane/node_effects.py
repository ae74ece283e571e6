"""What a finished node step changes in the target cluster, as the API shows it (openfuyao-nodes.md §2.3 to 2.6)."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from controlplane.agent_script import Step
from controlplane.rest import Refused, Rest
from controlplane.static_pods import KUBERNETES_PODS, StaticPod, image_tag, static_pod_object

_PODS = "/api/v1/namespaces/kube-system/pods"
_POLL_SECONDS = 0.05
_AGENT_FOLDER, _ETCD_FOLDER = "/etc/openFuyao/bkeagent", "/var/lib/openFuyao/etcd"


class NodeEffects:
    """Carries out steps. Versions come from the arguments that the agent knows, else from the BKECluster."""

    def __init__(self, management: Rest, target: Rest) -> None:
        self._management = management
        self._target = target
        self._disks = TemporaryDirectory(prefix="hopline-nodes-")

    async def carry_out(self, step: Step, node: str, arguments: Sequence[str]) -> None:
        """Changes the node's objects; a second time with the same arguments changes nothing."""
        given = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        if given.get("backUpEtcd") == "true":
            await self._take_snapshot(node)
        if step is Step.UPGRADE_ETCD:
            version = given.get("etcdVersion") or await self._declared(given, "etcdVersion")
            await self._replace_static_pod(StaticPod.ETCD, node, version)
        elif step is Step.UPGRADE_CONTROL_PLANE:
            version = await self._declared(given, "kubernetesVersion")
            for component in KUBERNETES_PODS:
                await self._replace_static_pod(component, node, version)
            await self._report(node, kubeletVersion=version)
        elif step is Step.UPGRADE_WORKER:
            await self._report(node, kubeletVersion=await self._declared(given, "kubernetesVersion"))
        elif step is Step.ENVIRONMENT and "runtime" in given.get("scope", ""):
            version = given.get("containerdVersion") or await self._declared(given, "containerdVersion")
            await self._report(node, containerRuntimeVersion=f"containerd://{image_tag(version)}")

    async def run_line(self, node: str, line: str) -> tuple[list[str], str]:
        """Runs a shell line as the agent of a node does, with the node's folder in the place of the agent's.

        Standard output as one piece, and why it failed.
        """
        folder = self._folder(node)
        for place in (_AGENT_FOLDER, _ETCD_FOLDER):
            line = line.replace(place, str(folder))
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", line, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        output, errors = await process.communicate()
        return [output.decode()], errors.decode() if process.returncode else ""

    def _folder(self, node: str) -> Path:
        """What stands for the disk of a node."""
        folder = Path(self._disks.name, node)
        folder.mkdir(exist_ok=True)
        return folder

    async def _take_snapshot(self, node: str) -> None:
        """Where there is a real etcd, a snapshot of it; else a file that is sealed as one is."""
        folder = self._folder(node) / "etcd-backup"
        folder.mkdir(exist_ok=True)
        content = secrets.token_bytes(4096)
        file = folder / f"backup-{datetime.now(UTC):%y%m%d%H%M}.db"
        file.write_bytes(content + hashlib.sha256(content).digest())

    async def _replace_program(self, component: StaticPod, node: str, version: str) -> None:
        """Where there are real programs, the one of a static pod; returns when the new one serves."""

    async def _declared(self, given: dict[str, str], field: str) -> str:
        """A version of the BKECluster that the argument `bkeConfig=<kube namespace>:<name>` names."""
        kube_namespace, _, name = given["bkeConfig"].partition(":")
        path = f"/apis/bke.bocloud.com/v1beta1/namespaces/{kube_namespace}/bkeclusters/{name}"
        cluster: Any = await self._management.get(path)
        return str(cluster["spec"]["clusterConfig"]["cluster"][field])

    async def _report(self, node: str, **node_info: str) -> None:
        await self._target.patch(f"/api/v1/nodes/{node}/status", {"status": {"nodeInfo": node_info}})

    async def _replace_static_pod(self, component: StaticPod, node: str, version: str) -> None:
        """The kubelet deletes the mirror pod of the old manifest and shows one of the new; over when that one runs."""
        path = f"{_PODS}/{component.pod_name(node)}"
        repository = ""
        try:
            image = (await self._target.get(path))["spec"]["containers"][0]["image"]
            repository, _, tag = image.rpartition(":")
            if tag == image_tag(version):
                return
            await self._replace_program(component, node, version)
            await self._target.request("DELETE", path, {"gracePeriodSeconds": 0})
        except Refused as error:
            if error.code != 404:
                raise
        created = await self._create(static_pod_object(component, node, version, repository))
        while created["status"]["phase"] != "Running":
            await asyncio.sleep(_POLL_SECONDS)
            created = await self._target.get(path)

    async def _create(self, pod: dict[str, Any]) -> Any:
        """Creates a pod once the one before it is gone."""
        while True:
            try:
                return await self._target.request("POST", _PODS, pod)
            except Refused as error:
                if error.code != 409:
                    raise
                await asyncio.sleep(_POLL_SECONDS)
