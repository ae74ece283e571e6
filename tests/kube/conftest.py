"""Fixtures of the tests that talk to a scripted API server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hopline.kube.client import KubeClusterClient, connect
from hopline.kube.credentials import CredentialSource, KubeconfigText
from kube.fake_api_server import ORIGIN, Connect, FakeApiServer, running


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with running() as started:
        yield started


@pytest.fixture
async def client(server: FakeApiServer) -> AsyncIterator[KubeClusterClient]:
    connected = await connect(KubeconfigText(server.kubeconfig(token="first"), ORIGIN))
    yield connected
    await connected.aclose()


@pytest.fixture
async def connected() -> AsyncIterator[Connect]:
    """`connect`, with every client closed at the end."""
    clients: list[KubeClusterClient] = []

    async def make(source: CredentialSource) -> KubeClusterClient:
        clients.append(await connect(source))
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()
