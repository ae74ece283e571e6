"""What the plan says about a push of node agents before anything is touched."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from hopline.domain.agent_push import AgentState, architecture_of, read_state, short
from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.errors import PortError, Transient
from hopline.domain.plan import Finding, Severity
from hopline.operations import agent_scripts as scripts
from hopline.ports import AgentBinaries, AgentBinary, NodeShells

MAX_LOOKS = 16
"""Nodes that are signed in on side by side."""

MAX_NODES = 500
"""Nodes that a plan looks at; a plan is one payload, and the push itself looks at every node."""

MAX_NAMED = 10


class AgentReview:
    """Signs in on nodes and looks; changes nothing, on no node and in no cluster."""

    def __init__(self, shells: NodeShells, binaries: AgentBinaries, binary: str, unit: str) -> None:
        self._shells = shells
        self._binaries = binaries
        self._binary = binary
        self._unit = unit

    async def findings(self, facts: ClusterFacts, nodes: Sequence[NodeFacts], version: str) -> tuple[Finding, ...]:
        """By cause: what is wrong with many nodes is one finding that names them."""
        gate = asyncio.Semaphore(MAX_LOOKS)

        async def one(node: NodeFacts) -> AgentState | Finding | str:
            async with gate:
                return await self._seen(facts, node)

        asked = nodes[:MAX_NODES]
        seen = list(zip(asked, await asyncio.gather(*(one(node) for node in asked)), strict=True))
        found = list(dict.fromkeys(one for _, one in seen if isinstance(one, Finding)))
        if new := [f"{node.display_name} ({one})" for node, one in seen if isinstance(one, str)]:
            message = f"host keys that nobody knows yet are recorded at the first push: {_named(new)}"
            found.append(Finding(severity=Severity.INFO, object=facts.subject, field="host key", message=message))
        states = [(node, one) for node, one in seen if isinstance(one, AgentState)]
        found.extend(_cut_off(facts, states))
        found.extend(await self._of_binaries(facts, states, version))
        if len(nodes) > MAX_NODES:
            message = f"{len(nodes) - MAX_NODES} nodes were not signed in on; their turn finds what is wrong there"
            found.append(Finding(severity=Severity.INFO, object=facts.subject, field="BKENode", message=message))
        return tuple(found)

    async def _seen(self, facts: ClusterFacts, node: NodeFacts) -> AgentState | Finding | str:
        """What the node shows, what is in the way, or a host key that is not recorded yet: then nobody signs in."""
        try:
            if fingerprint := await self._shells.unrecorded_key(facts.key, node):
                return fingerprint
            async with self._shells.open(facts.key, node) as shell:
                answer = await shell.run(scripts.LOOK, self._binary, self._unit)
            state = read_state(answer.output)
            if state.machine:
                return state
            raise Transient(f"the node could not be looked at: {answer.error}", subject=f"node {node.display_name}")
        except PortError as error:
            return _trouble(node, error)

    async def _of_binaries(
        self, facts: ClusterFacts, states: Sequence[tuple[NodeFacts, AgentState]], version: str
    ) -> list[Finding]:
        """Whether there is an agent for every kind of machine, and what vouches for it."""
        found: list[Finding] = []
        kinds: dict[str, NodeFacts] = {}
        for node, state in states:
            try:
                kinds.setdefault(architecture_of(state.machine, node), node)
            except PortError as error:
                found.append(_trouble(node, error))
        for architecture in sorted(kinds):
            try:
                found.extend(_of_binary(facts, await self._binaries.look(facts, version, architecture)))
            except PortError as error:
                found.append(_trouble(kinds[architecture], error))
        return found


def _cut_off(facts: ClusterFacts, states: Sequence[tuple[NodeFacts, AgentState]]) -> Iterable[Finding]:
    names = [f"{node.display_name} ({short(state.pending)} before)" for node, state in states if state.pending]
    if names:
        message = f"a push of the agent was cut off on {_named(names)}: it is ended, or undone, first"
        yield Finding(severity=Severity.WARNS, object=facts.subject, field="BKENode", message=message)


def _of_binary(facts: ClusterFacts, binary: AgentBinary) -> Iterable[Finding]:
    if not binary.vouched:
        yield Finding(
            severity=Severity.WARNS,
            object=facts.subject,
            field="spec.clusterConfig.cluster.httpRepo",
            message=f"nothing vouches for the bytes of {binary.origin}: there is no .sha256 beside it",
            remedy=f"put one there: sha256sum {binary.origin.rpartition('/')[2]}",
        )


def _trouble(node: NodeFacts, error: PortError) -> Finding:
    """What is no fault of the one node reads the same for all of them, so that it is told once."""
    shared = bool(error.subject) and not error.subject.startswith("node ")
    value = f" ({error.value})" if error.value else ""
    return Finding(
        severity=Severity.BLOCKS,
        object=error.subject if shared else f"node {node.display_name}",
        field=error.field,
        message=f"{error.message}{value}" if shared else f"{node.display_name}: {error.message}{value}",
        remedy=error.remedy,
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}"
