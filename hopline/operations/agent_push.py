"""The node agent pushed over a shell: upload, check, replace, restart, ask; put back what was there when it is deaf.

Every call starts from what the node shows, so one that was cut off anywhere is gone on with by the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hopline.domain.agent_push import (
    AGENT_BINARY,
    AGENT_UNIT,
    AgentState,
    Move,
    architecture_of,
    next_move,
    read_state,
    short,
)
from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.errors import Transient
from hopline.domain.plan import Finding
from hopline.domain.wire import ClusterKey
from hopline.operations import agent_scripts as scripts
from hopline.operations.agent_ping import ping
from hopline.operations.agent_review import AgentReview
from hopline.operations.reading import read_cluster
from hopline.ports import (
    AgentBinaries,
    AgentBinary,
    ClusterClient,
    InstallPhase,
    InstallState,
    NodeShell,
    NodeShells,
    ShellAnswer,
    tell_nobody,
)

PIECE_BYTES = 256 * 1024
SILENCE_SECONDS = 60.0
"""An upload that moves nothing for so long is given up."""

RESTART_SECONDS = 120.0
"""What systemd may take to stop the old agent (90 s by default) and to start the new one."""

PING_SECONDS = 300.0
"""What an agent may take to answer (openfuyao-nodes.md §1.8)."""

NO_SPACE, HELD = 28, 31
"""Exit codes of the scripts."""


class PushFailed(Exception):
    """The agent of a node could not be raised; a sentence."""


@dataclass(frozen=True)
class AgentPlace:
    """Where an agent lives on its node, and how long it may take to answer."""

    binary: str = AGENT_BINARY
    unit: str = AGENT_UNIT
    ping_seconds: float = PING_SECONDS


class PushedAgents:
    """Implements `hopline.ports.NodeAgentInstaller`.

    Attributes:
        shells, binaries: the ways onto the nodes, and where agents come from.
    """

    def __init__(
        self,
        management: ClusterClient,
        shells: NodeShells,
        binaries: AgentBinaries,
        place: AgentPlace = AgentPlace(),
    ) -> None:
        self._management = management
        self.shells = shells
        self.binaries = binaries
        self._place = place
        self._review = AgentReview(shells, binaries, place.binary, place.unit)

    async def review(self, facts: ClusterFacts, nodes: Sequence[NodeFacts], version: str) -> tuple[Finding, ...]:
        """What is in the way, as it looks now; changes nothing."""
        return await self._review.findings(facts, nodes, version)

    async def install(
        self, cluster: ClusterKey, node_ip: str, version: str, *, tell: Callable[[str], None] = tell_nobody
    ) -> InstallState:
        """Bring the agent of one node to a version, within this call. Raises PortError when the way is cut off."""
        facts = await read_cluster(self._management, cluster)
        node = next((one for one in facts.nodes if one.ip == node_ip), None)
        if node is None:
            return InstallState(phase=InstallPhase.FAILED, message=f"cluster {cluster} has no node {node_ip}")
        tell(f"sign in on {node.display_name}")
        async with self.shells.open(cluster, node) as shell:
            push = _Push(self._management, facts, node, shell, self._place, tell)
            state = await push.look()
            tell(f"fetch agent {version}")
            binary = await self.binaries.fetch(facts, version, architecture_of(state.machine, node))
            try:
                message = await push.bring(state, binary)
            except PushFailed as failure:
                return InstallState(phase=InstallPhase.FAILED, message=str(failure))
        return InstallState(phase=InstallPhase.DONE, message=message)


class _Push:
    """One node."""

    def __init__(
        self,
        management: ClusterClient,
        facts: ClusterFacts,
        node: NodeFacts,
        shell: NodeShell,
        place: AgentPlace,
        tell: Callable[[str], None],
    ) -> None:
        self._management = management
        self._facts = facts
        self._node = node
        self._shell = shell
        self._place = place
        self._tell = tell

    async def look(self) -> AgentState:
        """What the node shows. Raises Transient when it cannot be asked."""
        answer = await self._shell.run(scripts.LOOK, self._place.binary, self._place.unit)
        state = read_state(answer.output)
        if answer.code or not state.machine:
            raise Transient(
                f"the node could not be looked at: {answer.error or f'exit code {answer.code}'}",
                subject=f"node {self._node.display_name}",
                remedy="see whether sh, sha256sum, df and awk work there",
            )
        return state

    async def bring(self, state: AgentState, binary: AgentBinary) -> str:
        """From `state` to the agent that answers; what was done. Raises PushFailed after what was there is back."""
        if state.pending:
            done = "an interrupted push was ended"
        else:
            done = f"{short(state.installed)} was replaced" if state.installed != binary.sha256 else "it was there"
        move = next_move(state, binary.sha256)
        try:
            if move is Move.UPLOAD:
                await self._upload(binary)
                move = Move.REPLACE
            if move is Move.REPLACE:
                self._tell(f"replace {short(state.installed)} by {short(binary.sha256)}")
                await self._run("the binary could not be replaced", scripts.REPLACE, binary.sha256)
            if move is not Move.ASK:
                await self._restart()
            await self._prove(binary.sha256, restarts=move is Move.ASK)
        except PushFailed as failure:
            raise await self._put_back(failure, binary.sha256) from None
        await self._run("the push could not be ended", scripts.CONFIRM)
        return f"agent {short(binary.sha256)} answers; {done}"

    async def _upload(self, binary: AgentBinary) -> None:
        assert binary.path is not None
        self._tell(f"upload {binary.size} bytes")
        answer = await self._shell.run(
            scripts.UPLOAD,
            self._place.binary,
            binary.sha256,
            str(binary.size),
            data=self._pieces(binary.path, binary.size),
            timeout_seconds=SILENCE_SECONDS,
        )
        if answer.code == NO_SPACE or "No space left" in answer.error:
            raise PushFailed(f"there is no room beside {self._place.binary}: {_told(answer)}")
        if answer.code:
            raise PushFailed(f"the upload did not arrive whole: {_told(answer)}")

    async def _pieces(self, path: Path, size: int) -> AsyncIterator[bytes]:
        sent = 0
        with await asyncio.to_thread(path.open, "rb") as file:
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                yield piece
                sent += len(piece)
                self._tell(f"uploaded {sent} of {size} bytes")

    async def _restart(self) -> None:
        self._tell(f"restart {self._place.unit}")
        what = f"{self._place.unit} could not be restarted"
        await self._run(what, scripts.RESTART, self._place.unit, timeout_seconds=RESTART_SECONDS)

    async def _prove(self, target: str, *, restarts: bool) -> None:
        """The binary is the one that runs, and it answers. Raises PushFailed."""
        state = await self.look()
        if state.installed != target:
            raise PushFailed(f"the node shows {short(state.installed)} in place of {short(target)}")
        if state.running and state.running != target:
            raise PushFailed(f"{self._place.unit} runs {short(state.running)} and not the binary {short(target)}")
        self._tell("wait for the answer to a Ping")
        silence = await ping(self._management, self._facts, self._node, self._place.ping_seconds)
        if silence and restarts:
            await self._restart()
            silence = await ping(self._management, self._facts, self._node, self._place.ping_seconds)
        if silence:
            raise PushFailed(f"the agent {short(target)} does not answer: {silence}")

    async def _put_back(self, failure: PushFailed, target: str) -> PushFailed:
        """Restore what was there before the push; the failure with what came of it."""
        state = await self.look()
        if not state.pending:
            kept = "nothing was changed" if state.installed != target else "there is no older one to go back to"
            return PushFailed(f"{failure}; {kept}")
        self._tell(f"put {short(state.pending)} back")
        answer = await self._shell.run(
            scripts.RESTORE, self._place.binary, self._place.unit, target, timeout_seconds=RESTART_SECONDS
        )
        if answer.code:
            return PushFailed(
                f"{failure}; and the old agent {short(state.pending)} could not be put back: {_told(answer)}; "
                f"it is {self._place.binary}.bak.hopline on the node"
            )
        after = await self.look()
        if state.pending == "-":
            return PushFailed(f"{failure}; no agent was there before, and the new one was taken away")
        return PushFailed(
            f"{failure}; the old agent {short(after.installed)} is back, and {self._place.unit} was restarted "
            f"({after.active or 'state unknown'})"
        )

    async def _run(
        self, what: str, script: str, *arguments: str, timeout_seconds: float = SILENCE_SECONDS
    ) -> ShellAnswer:
        answer = await self._shell.run(script, self._place.binary, *arguments, timeout_seconds=timeout_seconds)
        if answer.code == HELD:
            raise Transient(_told(answer), subject=f"node {self._node.display_name}", remedy="it is tried again")
        if answer.code:
            raise PushFailed(f"{what}: {_told(answer)}")
        return answer


def _told(answer: ShellAnswer) -> str:
    return answer.error or f"exit code {answer.code}"
