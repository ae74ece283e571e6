"""The command of a kubeconfig's `exec` section, which prints credentials (client.authentication.k8s.io)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hopline.kube.errors import clean

PLUGIN_SECONDS = 30.0
_MARGIN_SECONDS = 60.0


class PluginFailed(Exception):
    """The command failed; the message has no credentials in it."""


@dataclass(frozen=True)
class PluginAnswer:
    """What the command printed; `expires_at` is a Unix time a minute before the end, 0 when there is none."""

    token: str = field(repr=False)
    client_certificate: str = field(repr=False)
    client_key: str = field(repr=False)
    expires_at: float


async def run_plugin(section: Mapping[str, Any]) -> PluginAnswer:
    """Runs the command and reads what it prints. Raises PluginFailed."""
    command = [str(section["command"]), *(str(argument) for argument in section.get("args") or ())]
    request = {"apiVersion": section["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    added = {str(entry["name"]): str(entry["value"]) for entry in section.get("env") or ()}
    environment = os.environ | added | {"KUBERNETES_EXEC_INFO": json.dumps(request)}
    pipe = asyncio.subprocess.PIPE
    nothing = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=nothing, stdout=pipe, stderr=pipe
        )
    except OSError as problem:
        raise PluginFailed(f"{command[0]} cannot be started: {problem.strerror}") from None
    try:
        async with asyncio.timeout(PLUGIN_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        raise PluginFailed(f"{command[0]} did not end within {PLUGIN_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise PluginFailed(f"{command[0]} ended with {process.returncode}: {clean(errors.decode(errors='replace'))}")
    return _read(command[0], output)


def _read(command: str, output: bytes) -> PluginAnswer:
    try:
        status = json.loads(output)["status"]
        expiry = status.get("expirationTimestamp")
        answer = PluginAnswer(
            token=str(status.get("token") or ""),
            client_certificate=str(status.get("clientCertificateData") or ""),
            client_key=str(status.get("clientKeyData") or ""),
            expires_at=datetime.fromisoformat(str(expiry)).timestamp() - _MARGIN_SECONDS if expiry else 0.0,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PluginFailed(f"{command} did not print an ExecCredential") from None
    if not answer.token and not (answer.client_certificate and answer.client_key):
        raise PluginFailed(f"{command} printed neither a token nor a certificate with its key")
    return answer
