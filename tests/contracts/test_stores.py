"""Every Store keeps the promises of the port, on the real API server and on the simulator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.control_plane import ControlPlane

pytest.register_assert_rewrite("contracts.store")

from contracts.store import SecretStoreContract  # noqa: E402
from hopline.kube.client import connect  # noqa: E402
from hopline.kube.credentials import KubeconfigFile  # noqa: E402
from hopline.kube.secret_store import SecretStore  # noqa: E402
from hopline.ports import ClusterClient, Store  # noqa: E402
from hopline.sim.clusters import open_simulation  # noqa: E402


class TestSecretStoreOnTheSimulator(SecretStoreContract):
    @pytest.fixture
    async def client(self, tmp_path: Path) -> AsyncIterator[ClusterClient]:
        clusters = open_simulation(tmp_path / "sim.db")
        yield clusters.management
        await clusters.aclose()

    @pytest.fixture
    def store(self, client: ClusterClient) -> Store:
        return SecretStore(client)


class TestSecretStoreOnTheRealApiServer(SecretStoreContract):
    @pytest.fixture
    async def client(self, control_plane: ControlPlane) -> AsyncIterator[ClusterClient]:
        client = await connect(KubeconfigFile(control_plane.kubeconfig))
        yield client
        await client.aclose()

    @pytest.fixture
    def store(self, client: ClusterClient) -> Store:
        return SecretStore(client)
