"""The installation of a node agent in a rollout: what has to be over before, and waiting for it.

An agent that restarts gives up what it carries out, and takes up again whatever failed before (openfuyao-nodes.md
§1.6), so nothing may be unfinished on its node, and what failed long ago has to be gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hopline.domain.cluster import NodeFacts
from hopline.domain.wire import ClusterKey
from hopline.operations.node_watch import NodeObservation, NodePhase
from hopline.operations.nodes import clear_node
from hopline.ports import ClusterClient, InstallPhase, NodeAgentInstaller, tell_nobody

ASK_AGAIN_SECONDS = 0.5


async def begin(management: ClusterClient, cluster: ClusterKey, node: NodeFacts) -> None:
    """Raises Blocked while a Command holds the node; it is named."""
    await clear_node(management, cluster, node)


async def watch(
    installer: NodeAgentInstaller,
    cluster: ClusterKey,
    node: NodeFacts,
    version: str,
    window_seconds: float,
    tell: Callable[[str], None] = tell_nobody,
) -> NodeObservation:
    """Return when the agent is installed or has failed, else when the time is over.

    One that is pushed is pushed within this call, however long that takes.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + window_seconds
    while True:
        state = await installer.install(cluster, node.ip, version, tell=tell)
        if state.phase is InstallPhase.DONE:
            told = f": {state.message}" if state.message else ""
            message = f"agent {version} is installed{told}"
            return NodeObservation(phase=NodePhase.DONE, message=message, command_over=True)
        if state.phase is InstallPhase.FAILED:
            message = f"the installation of agent {version} failed: {state.message}"
            return NodeObservation(phase=NodePhase.FAILED, message=message)
        if loop.time() >= deadline:
            told = f": {state.message}" if state.message else ""
            return NodeObservation(message=f"agent {version} is being installed{told}")
        await asyncio.sleep(min(ASK_AGAIN_SECONDS, max(deadline - loop.time(), 0.0)))
