"""What a rollout shows of its nodes: counts, those in hand, those that failed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from hopline.domain.errors import bounded
    from hopline.domain.name_lists import NameList, fitting
    from hopline.domain.node_status import MAX_NODES_SHOWN, NodeProgress, NodeStage, NodeStatus
    from workflows.messages import (
        MAX_PAGE_BYTES,
        NodePage,
        NodePageRequest,
        PoolProgress,
        RolloutInput,
        RolloutResult,
    )
    from workflows.node_turn import NodeTurn
    from workflows.pool_reporter import PoolReporter

MAX_TOLD = 3
"""Nodes whose messages stand in one line."""

MAX_MESSAGE = 300

MAX_SHOWN_BYTES = 16_000
"""Of one pool, in a status that has two of them and more beside."""

MAX_NAMES = 50
"""Nodes in hand, and failed ones, that stand in the counts by name."""


class RolloutBoard:
    """The nodes of one rollout, as they are shown.

    Attributes:
        total: nodes of the pool.
        away: why the rollout waits for the cluster; empty: it does not.
    """

    def __init__(self, rollout: RolloutInput) -> None:
        self._rollout = rollout
        self._reporter = PoolReporter(rollout.parent_id)
        self._turns: dict[str, NodeTurn] = {}
        self._since: dict[str, datetime] = {}
        self._failed: dict[str, NodeStatus] = {}
        self._done: dict[str, None] = dict.fromkeys(rollout.done.kept())
        self._result = rollout.so_far
        self.total = 0
        self.away = ""
        self.note = ""
        for failed in rollout.so_far.failed:
            self._failed[failed.host] = self._status_of(failed.host, (), NodeStage.FAILED, failed.message)

    def take(self, turn: NodeTurn) -> None:
        """A node is in hand."""
        self._turns[turn.host] = turn
        self._since[turn.host] = workflow.now()

    def done(self, turn: NodeTurn, result: RolloutResult) -> None:
        """A node is at the target."""
        self._turns.pop(turn.host, None)
        self.found([turn.host])
        self.show(result)

    def found(self, names: Iterable[str]) -> None:
        """Nodes are at the target."""
        self._done.update(dict.fromkeys(names))

    def names(self) -> NameList:
        """The nodes at the target, for the next execution."""
        return NameList.of(self._done)

    def fail(self, turn: NodeTurn, message: str, result: RolloutResult) -> None:
        """A node has failed and left our hands."""
        self._turns.pop(turn.host, None)
        self._failed[turn.host] = self._status_of(turn.host, turn.node.roles, NodeStage.FAILED, message)
        self.show(result)

    def say(self, turn: NodeTurn, message: str) -> None:
        """What a node in hand waits for now."""
        if turn.message != message:
            self._since[turn.host] = workflow.now()
        turn.message = message
        self.show(self._result)

    def show(self, result: RolloutResult) -> None:
        """Tell the parent and the web UI."""
        self._result = result
        progress = self.progress()
        self._reporter.tell(progress)
        component, pool = self._rollout.component, self._rollout.pool
        count = f"{progress.nodes.done}/{progress.nodes.total} nodes"
        lines = [f"**{component.name} {component.version} on {pool.value}: {count}**"]
        lines.extend(f"{one.name} {one.state.value}: {one.message}" for one in progress.shown[:10])
        lines.extend(f"left out: {name}" for name in result.left_out[:10])
        workflow.set_current_details("\n\n".join(lines))

    def progress(self) -> PoolProgress:
        """How far the pool is."""
        result, shown = self._result, self._shown()
        nodes = NodeProgress(
            done=result.done,
            total=self.total,
            in_hand=tuple(self._turns)[:MAX_NAMES],
            failed=tuple(self._failed)[-MAX_NAMES:],
        )
        return PoolProgress(
            component=self._rollout.component.name,
            pool=self._rollout.pool,
            nodes=nodes,
            message=self.away or self.note or self._message(),
            shown=shown,
            away=self.away,
            snapshot=result.snapshot,
        )

    def page(self, request: NodePageRequest) -> NodePage:
        """Nodes by name, those behind `after`, at most `limit`."""
        known = {one.name: one for one in self._shown(None)}
        ahead = sorted(name for name in {*known, *self._done} if name > request.after)
        version = self._rollout.component.version
        page = fitting(
            (
                known.get(name) or self._status_of(name, (), NodeStage.DONE, f"at {version}")
                for name in ahead[: request.limit]
            ),
            MAX_PAGE_BYTES,
        )
        return NodePage(nodes=page, more=len(ahead) > len(page), total=self.total)

    async def finish(self) -> None:
        """Return when nothing is on its way to the parent any more."""
        await self._reporter.finish()

    def _message(self) -> str:
        turns = [turn for turn in self._turns.values() if turn.message]
        told = [one.message for one in self._failed.values()] if not turns else []
        if len(turns) == 1:
            told = [turns[0].message]
        elif turns:
            told = [f"{turn.host}: {turn.message}" for turn in turns[:MAX_TOLD]]
            told += [f"and {len(turns) - MAX_TOLD} more nodes"] if len(turns) > MAX_TOLD else []
        return "; ".join(told[: MAX_TOLD + 1])

    def _shown(self, limit: int | None = MAX_NODES_SHOWN) -> tuple[NodeStatus, ...]:
        turns = [self._status_of(host, turn.node.roles, turn.stage, turn.message) for host, turn in self._turns.items()]
        nodes = [*list(self._failed.values())[-(limit or len(self._failed)) :], *turns]
        return fitting(nodes[-limit:][::-1], MAX_SHOWN_BYTES)[::-1] if limit else tuple(nodes)

    def _status_of(self, host: str, roles: tuple[str, ...], stage: NodeStage, message: str) -> NodeStatus:
        return NodeStatus(
            name=host,
            roles=roles,
            component=self._rollout.component.name,
            state=stage,
            message=bounded(message, MAX_MESSAGE),
            since=self._since.get(host),
            attempt=self._rollout.attempt,
            wave=self._result.waves,
        )
