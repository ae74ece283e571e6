"""The connection to the Temporal service."""

from __future__ import annotations

import asyncio
import os
import socket

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from hopline.domain.errors import Transient
from hopline.runtime.settings import Settings
from hopline.runtime.telemetry import SILENT, Telemetry

CONNECT_TIMEOUT = 10.0
"""Seconds until a person is told that nothing answers."""


async def connect(settings: Settings, *, role: str, telemetry: Telemetry = SILENT) -> Client:
    """A client with the pydantic converter and the telemetry of this process.

    Args:
        role: what this process is; the web UI shows it as the identity of whoever did something.

    Raises:
        Transient: nothing answers at the address, or it refuses these credentials; names address and remedy.
    """
    target = settings.temporal
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            return await Client.connect(
                target.address,
                namespace=target.temporal_namespace,
                api_key=target.api_key.get_secret_value() if target.api_key else None,
                tls=target.tls,
                rpc_metadata=target.metadata,
                data_converter=pydantic_data_converter,
                interceptors=telemetry.interceptors,
                runtime=telemetry.runtime,
                identity=f"{role} {os.getpid()}@{socket.gethostname()}",
            )
    except (RuntimeError, RPCError, TimeoutError) as error:
        raise Transient(
            f"no Temporal service answers ({str(error) or 'timeout'})",
            subject="Temporal",
            field="address",
            value=target.address,
            remedy="start one (temporal server start-dev), or set TEMPORAL_ADDRESS or TEMPORAL_PROFILE",
        ) from error
