"""Pytest plugin: one real Temporal dev server for the whole run (temporal.md §1.2).

Tests keep apart by task queues and workflow ids of their own. A test that kills or restarts a server starts its own one
with `starter.dev_server`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from absent_parts import absent
from hopline.domain.errors import InvalidInput
from starter.dev_server import dev_server, server_binary
from worker.search_attributes import ensure_search_attributes


@pytest_asyncio.fixture(scope="session")
async def temporal_address() -> AsyncIterator[str]:
    """`host:port` of a server with Hopline's search attributes; skips, or fails in CI, where there is no program."""
    try:
        server_binary()
    except InvalidInput as error:
        absent(error)
    async with dev_server() as server:
        client = await Client.connect(server.address)
        assert await ensure_search_attributes(client)
        yield server.address


@pytest_asyncio.fixture(scope="session")
async def temporal_client(temporal_address: str) -> Client:
    """A client with the pydantic converter, as every process of Hopline uses it."""
    return await Client.connect(temporal_address, data_converter=pydantic_data_converter)


@pytest.fixture
def task_queue() -> str:
    """A task queue that no other test polls."""
    return f"test-{uuid4().hex[:12]}"
