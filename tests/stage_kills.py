"""Moments at which a worker dies in a node's turn, and the process that stops at them until it is killed.

    python -m stage_kills ADDRESS FOLDER

For each moment there is a simulation and a task queue of its own. The process works on all of them; in each, the call
that the moment names is held for ever, before or after its effect, and a line tells that it came there. Then the test
kills the process: nothing of it can tidy up.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from hooked_clusters import Call, Gate, HookedClusters
from hopline.domain.release import InlineHandler
from hopline.domain.resources import ANNOTATION_TAKEN_BY
from hopline.operations.nodes import STATE_READY, STATE_UPGRADING
from hopline.sim import open_simulation
from rollout_lab import rollout_worker

NODE = "w1"
WORKER, CONTAINERD = InlineHandler.WORKER, InlineHandler.CONTAINERD


@dataclass(frozen=True)
class Moment:
    """One call of the first node's turn; `after`: its effect has happened."""

    name: str
    handler: InlineHandler
    fits: Callable[[Call], bool]
    after: bool

    @property
    def title(self) -> str:
        """For a folder, a task queue and a test."""
        return f"{self.name}-{'after' if self.after else 'before'}"


def _marks(state: str) -> Callable[[Call], bool]:
    return lambda call: call.subject.startswith("BKENode ") and call.body.get("status", {}).get("state") == state


def _cordons(call: Call) -> bool:
    return call.subject == f"Node {NODE}" and call.body.get("spec", {}).get("unschedulable") is True


def _uncordons(call: Call) -> bool:
    taken: Any = call.body.get("metadata", {}).get("annotations", {})
    return call.subject == f"Node {NODE}" and taken.get(ANNOTATION_TAKEN_BY, "") is None


def _commands(verb: str, word: str) -> Callable[[Call], bool]:
    return lambda call: call.verb == verb and call.subject.startswith("Command ") and word in call.subject


_WRITES: tuple[tuple[str, InlineHandler, Callable[[Call], bool]], ...] = (
    ("cordon", WORKER, _cordons),
    ("state-upgrading", WORKER, _marks(STATE_UPGRADING)),
    ("eviction", WORKER, lambda call: call.verb == "evict"),
    ("command", WORKER, _commands("create", "upgrade-node")),
    ("uncordon", WORKER, _uncordons),
    ("state-ready", WORKER, _marks(STATE_READY)),
    ("reset", CONTAINERD, _commands("create", "reset")),
    ("redeploy", CONTAINERD, _commands("create", "redeploy")),
    ("deletion", CONTAINERD, _commands("delete", "redeploy")),
)
MOMENTS = {
    moment.title: moment
    for name, handler, fits in _WRITES
    for after in (False, True)
    for moment in [Moment(name, handler, fits, after)]
}
STAGES = ("waiting", "gate")
"""Stages without a write: the agent has not taken the Command up; the node is not well yet after it."""


async def main(address: str, folder: Path) -> None:
    """Work until killed."""
    client = await Client.connect(address, data_converter=pydantic_data_converter)
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as telling:
        for title, queue in json.loads((folder / "queues.json").read_text()).items():
            clusters = HookedClusters(open_simulation(folder / f"{title}.db"))
            if moment := MOMENTS.get(title):
                gate = Gate(moment.fits)
                clusters.after, clusters.before = (gate, None) if moment.after else (None, gate)
                telling.create_task(_tell(title, gate))
            await stack.enter_async_context(rollout_worker(client, queue, clusters, unsandboxed=True))
        await asyncio.Event().wait()


async def _tell(title: str, gate: Gate) -> None:
    await gate.reached(600)
    print(title, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
