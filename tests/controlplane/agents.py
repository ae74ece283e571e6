"""Simulated node agents: the documented Command API on a real API server (openfuyao-nodes.md §1.3 to 1.7).

They run in a thread of their own, so they go on whatever happens to the code under test. Unlike the real agent they do
not sleep a second before each status patch; all else that a client can see is the same, the missing lock included.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from controlplane.agent_script import AgentScript
from controlplane.command_runs import CommandRun
from controlplane.node_effects import NodeEffects
from controlplane.rest import Rest

_COMMANDS = "/apis/bkeagent.bocloud.com/v1beta1/namespaces/{}/commands"


@dataclass(frozen=True)
class AgentNode:
    """The machine that an agent runs on: its node name and its address."""

    name: str
    ip: str

    def is_meant(self, command: dict[str, Any]) -> bool:
        """Whether a Command names this node, or selects it by a label that is its name or its address."""
        spec = command["spec"]
        labels = (spec.get("nodeSelector") or {}).get("matchLabels") or {}
        return spec.get("nodeName") == self.name or any(labels.get(key) == key for key in (self.name, self.ip))


class NodeAgents:
    """One agent per node, for the Commands of one Kubernetes namespace.

    `kubeconfig` leads to the cluster with the Commands, `target` to the one with the nodes, if that is another;
    `effects` makes of requests to both what carries out their steps.
    """

    def __init__(
        self,
        kubeconfig: Path,
        kube_namespace: str,
        nodes: Iterable[AgentNode],
        script: AgentScript | None = None,
        target: Path | None = None,
        effects: Callable[[Rest, Rest], NodeEffects] = NodeEffects,
    ) -> None:
        self._make_effects = effects
        self.script = script or AgentScript()
        self._kube_namespace = kube_namespace
        self._kubeconfig, self._target = kubeconfig, target or kubeconfig
        self._nodes = list(nodes)
        self._runs: dict[tuple[str, str], CommandRun] = {}
        self._thread = threading.Thread(target=self._run_thread, name="node-agents", daemon=True)
        self._started = threading.Event()
        self._end: Callable[[], object]
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends all agents where they are, as pulling their plugs would; raises what broke an agent, if anything did."""
        if self._thread.is_alive():
            self._end()
            self._thread.join()
        if self._failure:
            raise self._failure

    def _run_thread(self) -> None:
        try:
            asyncio.run(self._follow())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - kept for the thread that stops the agents
            self._failure = error

    async def _follow(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task
        self._end = lambda: loop.call_soon_threadsafe(task.cancel)
        self._started.set()
        async with (
            Rest(self._kubeconfig) as management,
            Rest(self._target) as target,
            asyncio.TaskGroup() as running,
        ):
            effects = self._make_effects(management, target)
            async for command in management.follow(_COMMANDS.format(self._kube_namespace)):
                for node in self._nodes:
                    if node.is_meant(command):
                        self._take(node, command, management, effects, running)

    def _take(
        self,
        node: AgentNode,
        command: dict[str, Any],
        management: Rest,
        effects: NodeEffects,
        running: asyncio.TaskGroup,
    ) -> None:
        key = (node.name, command["metadata"]["uid"])
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = CommandRun(node.name, node.ip, management, effects, self.script)
        run.notice(command, running)
