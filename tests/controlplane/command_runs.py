"""One Command on one node: picked up, run, suspended or deleted as the real agent does (openfuyao-nodes.md §1.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

from controlplane.agent_script import AgentScript, Outcome, Step
from controlplane.node_effects import NodeEffects
from controlplane.processes import ProcessFailed
from controlplane.rest import Refused, Rest

FINALIZER = "command.bkeagent.bocloud.com/finalizers"
DEFAULT_DEADLINE_SECONDS = 600
NOT_FOUND, CONFLICT = 404, 409
_POLL_SECONDS = 0.05


class CommandRun:
    """What one agent knows of one Command. Lives in memory only: a new agent begins from the Command's status."""

    def __init__(self, node: str, ip: str, management: Rest, effects: NodeEffects, script: AgentScript) -> None:
        self._node = node
        self._key = f"{node}/{ip}" if ip else node
        self._management = management
        self._effects = effects
        self._script = script
        self._generation = 0
        self._stopping = asyncio.Event()

    def notice(self, command: dict[str, Any], running: asyncio.TaskGroup) -> None:
        """Acts on one observation of the Command: begins, stops after the present sub-command, or does nothing."""
        metadata = command["metadata"]
        if metadata.get("deletionTimestamp"):
            self._stopping.set()
            if FINALIZER in metadata.get("finalizers", []):
                running.create_task(_unless_gone(self._remove_finalizer(command)))
            return
        entry = (command.get("status") or {}).get(self._key, {})
        if entry.get("phase") == "Completed" or metadata["generation"] <= self._generation:
            return
        self._generation = metadata["generation"]
        # Whatever ran for an older generation ends after its present sub-command, and its flag stays set for it alone.
        self._stopping.set()
        self._stopping = asyncio.Event()
        if command["spec"].get("suspend"):
            running.create_task(_unless_gone(self._publish(command, entry | {"phase": "Suspend"})))
        elif command["spec"].get("commands"):
            running.create_task(_unless_gone(self._run(command, entry, self._stopping)))

    async def _run(self, command: dict[str, Any], entry: dict[str, Any], stopping: asyncio.Event) -> None:
        await self._add_finalizer(command)
        spec = command["spec"]
        conditions: list[dict[str, Any]] = list(entry.get("conditions") or [])
        status = {"phase": "Running", "status": "Unknown", "succeeded": -1, "failed": -1, "lastStartTime": _now()}
        await self._publish(command, status | {"conditions": conditions})
        deadline = asyncio.get_running_loop().time() + (spec.get("activeDeadlineSecond") or DEFAULT_DEADLINE_SECONDS)
        for sub_command in spec["commands"]:
            if stopping.is_set():
                return
            if any(c["id"] == sub_command["id"] and c["phase"] == "Completed" for c in conditions):
                continue
            conditions = [c for c in conditions if c["id"] != sub_command["id"]]
            condition = await self._attempts(command, sub_command, deadline)
            if condition is None:
                break
            conditions.append(condition)
            # Conditions alone: a Command that was suspended meanwhile keeps its phase.
            await self._publish(command, {"conditions": conditions})
            if condition["phase"] == "Failed":
                break
        if not stopping.is_set():
            await self._finish(command, status | {"conditions": conditions})

    async def _attempts(
        self, command: dict[str, Any], sub_command: dict[str, Any], deadline: float
    ) -> dict[str, Any] | None:
        """The condition of one sub-command after its last attempt; none when the deadline allowed no attempt."""
        condition: dict[str, Any] | None = None
        failures: list[str] = []
        started = _now()
        for attempt in range(1, command["spec"].get("backoffLimit", 0) + 2):
            if asyncio.get_running_loop().time() > deadline:
                break
            if attempt > 1:
                await asyncio.sleep(sub_command.get("backoffDelay", 0) * self._script.backoff_scale)
            output, failure = await self._attempt(command["metadata"]["name"], sub_command)
            condition = {"id": sub_command["id"], "lastStartTime": started, "count": attempt}
            if not failure:
                return condition | {"status": "True", "phase": "Completed", "stdOut": output, "stdErr": failures}
            failures = [*failures, failure]
            phase = "Skip" if sub_command.get("backoffIgnore") else "Failed"
            condition |= {"status": "False", "phase": phase, "stdOut": [], "stdErr": failures}
        return condition

    async def _attempt(self, name: str, sub_command: dict[str, Any]) -> tuple[list[str], str]:
        """Standard output and the error text, empty on success. Like a plugin, it is never interrupted."""
        arguments = tuple(sub_command["command"])
        if sub_command["type"] == "Shell":
            return await self._effects.run_line(self._node, " ".join(arguments))
        if sub_command["type"] != "BuiltIn":
            return [], ""
        step = _step(arguments)
        if step is None:
            return [], f"Instruction not found: {' '.join(arguments)}"
        execution = self._script.begin(self._node, name, step, arguments)
        await asyncio.sleep(self._script.seconds(self._node, step))
        while self._script.is_held(self._node, step):  # noqa: ASYNC110 - a test's thread releases it
            await asyncio.sleep(_POLL_SECONDS)
        failure = f"{step.value} failed on {self._node}, as the test asked"
        if not self._script.takes_failure(self._node, step):
            try:
                await self._effects.carry_out(step, self._node, arguments)
                failure = ""
            except (Refused, KeyError, ProcessFailed) as error:
                failure = f"{step.value} on {self._node}: {error!r}"
        self._script.end(execution, Outcome.FAILED if failure else Outcome.SUCCEEDED)
        if failure:
            return [], failure
        return (["pong", self._node] if step is Step.PING else []), ""

    async def _finish(self, command: dict[str, Any], status: dict[str, Any]) -> None:
        """The final computation of openfuyao-nodes.md §1.3."""
        conditions = status["conditions"]
        failed = sum(condition["status"] == "False" for condition in conditions)
        status |= {"succeeded": len(conditions) - failed, "failed": failed, "completionTime": _now()}
        if conditions and conditions[-1]["phase"] == "Failed":
            status |= {"phase": "Failed", "status": "False"}
        elif len(conditions) < len(command["spec"]["commands"]):
            status |= {"phase": "Running", "status": "Unknown"}
        else:
            status |= {"phase": "Completed", "status": "True"}
        await self._publish(command, status)
        if (ttl := command["spec"].get("ttlSecondsAfterFinished")) and status["phase"] == "Completed":
            await asyncio.sleep(ttl)
            await self._collect(command)

    async def _collect(self, command: dict[str, Any]) -> None:
        """Deletes a Command whose time is over, unless an entry of any node is not a success."""
        present = await self._management.get(_path(command))
        if all(entry.get("status") == "True" for entry in present["status"].values()):
            await self._management.request("DELETE", _path(command))

    async def _publish(self, command: dict[str, Any], entry: dict[str, Any]) -> None:
        """Merges fields into the node's entry; like the real agent's encoder, it leaves zeroes out."""
        fields = {name: value if value != 0 else None for name, value in entry.items()}
        body = {"metadata": {"uid": command["metadata"]["uid"]}, "status": {self._key: fields}}
        await self._management.patch(f"{_path(command)}/status", body)

    async def _add_finalizer(self, command: dict[str, Any]) -> None:
        await self._edit_finalizers(command, lambda present: present if FINALIZER in present else [*present, FINALIZER])

    async def _remove_finalizer(self, command: dict[str, Any]) -> None:
        await self._edit_finalizers(command, lambda present: [name for name in present if name != FINALIZER])

    async def _edit_finalizers(self, command: dict[str, Any], edit: Callable[[list[str]], list[str]]) -> None:
        while True:
            metadata = (await self._management.get(_path(command)))["metadata"]
            present = metadata.get("finalizers", [])
            if edit(present) == present:
                return
            known = {name: metadata[name] for name in ("uid", "resourceVersion")}
            try:
                await self._management.patch(_path(command), {"metadata": {**known, "finalizers": edit(present)}})
            except Refused as error:
                if error.code != CONFLICT:
                    raise
            else:
                return


async def _unless_gone(work: Coroutine[Any, Any, None]) -> None:
    """Ends in silence when the Command is gone, or another one has its name."""
    try:
        await work
    except Refused as error:
        if error.code not in (NOT_FOUND, CONFLICT):
            raise


def _step(arguments: Sequence[str]) -> Step | None:
    """The step of a built-in sub-command, by its plugin (any case) and, for Kubeadm, its phase (exact case)."""
    plugin = arguments[0].lower() if arguments else ""
    phase = next((argument.removeprefix("phase=") for argument in arguments if argument.startswith("phase=")), "")
    for step in Step:
        if (plugin == "kubeadm" and step.value == phase) or plugin == step.value.lower():
            return step
    return None


def _path(command: dict[str, Any]) -> str:
    metadata = command["metadata"]
    return f"/apis/bkeagent.bocloud.com/v1beta1/namespaces/{metadata['namespace']}/commands/{metadata['name']}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
