"""Worker processes on a simulated cluster, and the count of what they have done to it."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHandle

from hopline.domain.resources import DAEMON_SET, DEPLOYMENT
from hopline.domain.status import RunState
from hopline.runtime.settings import child_environment
from hopline.sim.journal import Effect, EffectType
from upgrade_lab import UpgradeLab
from workflows.messages import UpgradeResult

ROOT = Path(__file__).resolve().parent.parent


class WorkerProcesses:
    """`python -m worker` for one simulated cluster, one process at a time."""

    def __init__(self, lab: UpgradeLab, address: str, log: Path) -> None:
        settings = {
            "TEMPORAL_ADDRESS": address,
            "HOPLINE_SIMULATION": str(lab.file),
            "HOPLINE_RELEASES": str(lab.examples / "releases"),
            "HOPLINE_TASK_QUEUE": lab.task_queue,
        }
        self._environment = child_environment(settings)
        self._log = log.open("ab")
        self._process: asyncio.subprocess.Process

    async def start(self) -> None:
        """Returns at once: the worker polls a moment later."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "worker"), cwd=ROOT, env=self._environment, stdout=self._log, stderr=self._log
        )

    async def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        await self._process.wait()

    async def kill_and_start(self) -> None:
        """Another process in place of the present one."""
        await self.kill()
        await self.start()

    async def close(self) -> None:
        """No process is left."""
        await self.kill()
        self._log.close()


async def until(lab: UpgradeLab, condition: Callable[[], bool], seconds: float = 60) -> None:
    """Looks until the condition holds; shows the status of the run when it never does."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"never came there: {await lab.status()}, {effects(lab)[-3:]}")
        await asyncio.sleep(0.05)


async def done(lab: UpgradeLab, handle: WorkflowHandle[Any, UpgradeResult], seconds: float = 200) -> UpgradeResult:
    """The result of the run; shows its status when it is held or never ends."""
    waiting = asyncio.ensure_future(handle.result())
    try:
        async with asyncio.timeout(seconds):
            while not (await asyncio.wait([waiting], timeout=1))[0]:
                status = await lab.status()
                assert status.state is not RunState.HELD, status
    except TimeoutError:
        raise AssertionError(f"never ended: {await lab.status()}, {effects(lab)[-3:]}") from None
    finally:
        waiting.cancel()
    return waiting.result()


def effects(lab: UpgradeLab, *types: EffectType) -> list[Effect]:
    """What stands in the simulation's journal."""
    return lab.clusters.journal(*types)


def assert_every_effect_once(lab: UpgradeLab) -> None:
    """No instruction, installation or write of a workload came twice in a hop; there are two hops."""
    assert effects(lab, EffectType.VIOLATION) == []
    instructions = effects(lab, EffectType.COMMAND)
    assert {effect.outcome for effect in instructions} == {"done"}
    once = Counter((effect.node, effect.subject, effect.verb, effect.arguments) for effect in instructions)
    assert set(once.values()) == {1}
    work = Counter((effect.node, effect.verb, effect.arguments) for effect in instructions)
    assert set(work.values()) <= {1, 2}
    # Containerd is two Commands a node and kubernetes one, in both hops; etcd changes in the second one only, after a
    # snapshot and the line that proves it.
    assert len(instructions) == 5 * 3 + 5 * 3 + 2 + 3
    installed = Counter((effect.node, effect.arguments) for effect in effects(lab, EffectType.INSTALL))
    assert set(installed.values()) == {1}
    assert len(installed) == 5 * 2
    workloads = (DEPLOYMENT.kind, DAEMON_SET.kind)
    applied = Counter(
        effect.subject
        for effect in effects(lab, EffectType.WRITE)
        if effect.verb == "apply" and effect.subject.partition(" ")[0] in workloads
    )
    assert set(applied.values()) == {2}
    assert len(applied) == 4


def is_in_the_middle_of_a_batch(lab: UpgradeLab) -> bool:
    """An agent upgrades the control plane of a node."""
    return any(
        "phase=UpgradeControlPlane" in effect.arguments and effect.outcome == "running"
        for effect in effects(lab, EffectType.COMMAND)
    )
