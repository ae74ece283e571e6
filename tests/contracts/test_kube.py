"""The real API server keeps every promise of the port, through our client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from controlplane.control_plane import ControlPlane

pytest.register_assert_rewrite(
    "contracts.cluster_client",
    "contracts.cluster_client_apply",
    "contracts.cluster_client_evict",
    "contracts.cluster_client_watch",
)

from contracts.cluster_client_apply import ApplyContract  # noqa: E402
from contracts.cluster_client_evict import EvictContract  # noqa: E402
from contracts.cluster_client_watch import WatchContract  # noqa: E402
from hopline.kube.client import connect  # noqa: E402
from hopline.kube.credentials import KubeconfigFile  # noqa: E402
from hopline.ports import ClusterClient  # noqa: E402


class TestKubeClusterClient(ApplyContract, WatchContract, EvictContract):
    @pytest.fixture
    async def client(self, control_plane: ControlPlane) -> AsyncIterator[ClusterClient]:
        client = await connect(KubeconfigFile(control_plane.kubeconfig))
        assert isinstance(client, ClusterClient)
        yield client
        await client.aclose()
