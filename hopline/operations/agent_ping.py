"""Asking one node agent whether it answers: the documented Ping Command (openfuyao-nodes.md §1.8)."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from hopline.domain.agent_push import PONG, is_ping_of, ping_document
from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.command_state import CommandPhase, CommandState, command_state
from hopline.domain.errors import AlreadyExists, Blocked, PortError
from hopline.domain.resources import COMMAND, LABEL_CLUSTER_NAME, Document
from hopline.operations.following import Followed, following, until
from hopline.operations.nodes import remove_command
from hopline.ports import ClusterClient

MAX_NAMES_TRIED = 100


async def ping(management: ClusterClient, facts: ClusterFacts, node: NodeFacts, seconds: float) -> str:
    """Why the agent did not answer within so many seconds; empty: it did. Leaves no Command behind.

    Raises what the client raises.
    """
    await remove_pings(management, facts, node)
    name = await _create(management, facts, node)
    try:
        return await _answer(management, facts, node, name, seconds)
    finally:
        # An unfinished Command holds its node, and an agent that comes back later would still take it up.
        with suppress(PortError):
            await asyncio.shield(remove_command(management, facts.key, name))


async def remove_pings(management: ClusterClient, facts: ClusterFacts, node: NodeFacts) -> None:
    """Delete what an interrupted attempt has left; an old answer says nothing about the agent of now."""
    labels = f"{LABEL_CLUSTER_NAME}={facts.key.name}"
    listing = await management.list(COMMAND, kube_namespace=facts.key.kube_namespace, labels=labels)
    for document in listing.items:
        if is_ping_of(document, node):
            await remove_command(management, facts.key, document["metadata"]["name"])


async def _create(management: ClusterClient, facts: ClusterFacts, node: NodeFacts) -> str:
    stamp = int(time.time())
    for second in range(stamp, stamp + MAX_NAMES_TRIED):
        name = f"ping--{second}"
        with suppress(AlreadyExists):
            await management.create(ping_document(facts, node, name), kind=COMMAND)
            return name
    raise Blocked(f"{MAX_NAMES_TRIED} names for a Ping are taken", subject=f"Command ping--{stamp}", remedy="wait")


async def _answer(management: ClusterClient, facts: ClusterFacts, node: NodeFacts, name: str, seconds: float) -> str:
    commands = Followed(management.watch(COMMAND, kube_namespace=facts.key.kube_namespace, name=name))
    over = (CommandPhase.SUCCEEDED, CommandPhase.FAILED, CommandPhase.SKIPPED)

    def look() -> tuple[CommandState, Document | None]:
        document = commands.get(name)
        return (command_state(document, node) if document else CommandState(phase=CommandPhase.ABSENT)), document

    async with following(commands) as changes:
        state, document = await until(changes, look, lambda seen: seen[0].phase in over, timeout_seconds=seconds)
    if state.phase is CommandPhase.SUCCEEDED:
        return "" if document and _says_pong(document) else "it has answered a Ping with something else than pong"
    if state.phase in over:
        return f"its Ping failed: {state.message}"
    began = "has begun a Ping and not ended it" if state.acknowledged else "has not taken up a Ping"
    return f"it {began} within {seconds:.0f} s"


def _says_pong(document: Document) -> bool:
    entries = (document.get("status") or {}).values()
    lines = [line for entry in entries for one in entry.get("conditions") or () for line in one.get("stdOut") or ()]
    return any(PONG in str(line).lower() for line in lines)
