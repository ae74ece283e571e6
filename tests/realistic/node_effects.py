"""What the node agent of a realistic cluster does: real programs are replaced before the API shows their new pods."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controlplane.binaries import Program
from controlplane.node_effects import NodeEffects
from controlplane.rest import Rest
from controlplane.static_pods import StaticPod
from realistic.target_cluster import TargetCluster


class RealNodeEffects(NodeEffects):
    """Carries out steps on the nodes of a realistic cluster; what etcdutl says of each snapshot is kept."""

    def __init__(self, cluster: TargetCluster, snapshots: list[dict[str, Any]], management: Rest, target: Rest) -> None:
        super().__init__(management, target)
        self._cluster = cluster
        self._snapshots = snapshots

    def _folder(self, node: str) -> Path:
        return self._cluster.nodes[node].data_dir

    async def _take_snapshot(self, node: str) -> None:
        """The documented name, in a folder of the node's own."""
        folder = self._folder(node) / "etcd-backup"
        file = folder / f"backup-{datetime.now(UTC):%y%m%d%H%M}.db"
        self._snapshots.append(await asyncio.to_thread(self._cluster.take_snapshot, node, file))

    async def _replace_program(self, component: StaticPod, node: str, version: str) -> None:
        await asyncio.to_thread(self._cluster.replace, Program(component.value), node, version)
