"""kill -9 at every stage of a node, before and after each write: nothing stays cordoned, no Command comes twice."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client

from hopline.domain.node_strategy import DrainPolicy, DrainRules
from hopline.domain.resources import COMMAND, NODE, ObjectRef
from hopline.runtime.settings import child_environment
from hopline.sim.journal import EffectType
from rollout_lab import Handle, RolloutLab
from stage_kills import CONTAINERD, MOMENTS, STAGES, WORKER

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[1]
PATIENCE = 240.0
SECONDS = 500
DEVICES = "example.com/gpu"


@pytest.mark.timeout(600)
async def test_a_killed_worker_leaves_nothing_behind_whatever_it_was_about_to_do(
    temporal_client: Client, temporal_address: str, tmp_path: Path
) -> None:
    labs = {title: await made(temporal_client, tmp_path, title) for title in (*MOMENTS, *STAGES)}
    queues = {title: lab.task_queue for title, lab in labs.items()}
    (tmp_path / "queues.json").write_text(json.dumps(queues))
    handles = {title: await started(title, lab) for title, lab in labs.items()}
    await killed_where_told(temporal_address, tmp_path, labs, handles)
    assert (await labs["waiting"].cordoned(), await labs["gate"].cordoned()) == ({"w1"}, {"w1"})
    labs["waiting"].script.clear_all()
    await offer(labs["gate"], "2")
    wrong: dict[str, list[str]] = {}
    for title, lab in labs.items():
        async with lab.worker(unsandboxed=True):
            async with asyncio.timeout(PATIENCE):
                result = await handles[title].result()
        found = [] if sorted(result.upgraded) == ["w1", "w2"] else [f"upgraded {result.upgraded}"]
        wrong[title] = found + await what_is_wrong(title, lab)
        await lab.clusters.aclose()
    assert {title: found for title, found in wrong.items() if found} == {}


async def made(client: Client, folder: Path, title: str) -> RolloutLab:
    """A small cluster with pods that have to go, ready for one moment."""
    lab = RolloutLab(client, f"killed-{title}-{uuid4()}", folder / f"{title}.db", nodes=(1, 2))
    await lab.declare()
    await lab.raise_api_servers()
    await lab.deploy(4)
    if title == "waiting":
        lab.script.agent_down("198.18.0.2")
    if title == "gate":
        await offer(lab, "2")
    return lab


async def offer(lab: RolloutLab, count: str) -> None:
    """Devices of the first node."""
    status = {"status": {"allocatable": {DEVICES: count}}}
    await (await lab.clusters.target(lab.key)).patch(ObjectRef(kind=NODE, name="w1"), status, subresource="status")


async def started(title: str, lab: RolloutLab) -> Handle:
    handler = MOMENTS[title].handler if title in MOMENTS else WORKER
    # They go on one after the other: the last one has stood still for as long as all the others took.
    drain = DrainRules(policy=DrainPolicy.WAIT, timeout_seconds=SECONDS)
    return await lab.start(handler, drain=drain, seconds=SECONDS)


async def killed_where_told(
    address: str, folder: Path, labs: dict[str, RolloutLab], handles: dict[str, Handle]
) -> None:
    """A process works on all of them until each has come to its moment; then it is killed."""
    environment = child_environment({"PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "stage_kills", address, str(folder)), env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        waiting = set(MOMENTS)
        async with asyncio.timeout(PATIENCE):
            await lacking_devices(labs["gate"])
            while waiting:
                line = (await process.stdout.readline()).decode().strip()
                assert line, f"it has ended before it came to {sorted(waiting)}"
                waiting.discard(line)
            for title, words in (("waiting", "no agent has begun"), ("gate", f"offers 1 of 2 {DEVICES}")):
                await labs[title].until_progress(handles[title], lambda seen, words=words: words in seen.message)  # type: ignore[misc]
    finally:
        process.kill()
        await process.wait()


async def lacking_devices(lab: RolloutLab) -> None:
    """The node loses a device once it is cordoned: its gate will wait for it."""

    async def cordoned() -> set[str]:
        return await lab.cordoned()

    await lab.until(cordoned, lambda names: "w1" in names, PATIENCE)
    await offer(lab, "1")


async def what_is_wrong(title: str, lab: RolloutLab) -> list[str]:
    """Everything that must not be after the end of a run."""
    told: list[str] = []
    if cordoned := await lab.cordoned():
        told.append(f"cordoned: {cordoned}")
    steps = 2 if title in MOMENTS and MOMENTS[title].handler is CONTAINERD else 1
    if (runs := Counter(lab.runs())) != {"w1": steps, "w2": steps}:
        told.append(f"instructions: {dict(runs)}")
    if lab.clusters.journal(EffectType.VIOLATION):
        told.append("two Commands at once on one node")
    states = {name: state for name, (state, _) in (await lab.states()).items()}
    if {states["w1"], states["w2"]} != {"Ready"}:
        told.append(f"states: {states}")
    names = [one.subject for one in lab.clusters.journal(EffectType.WRITE) if one.verb == "create"]
    made = [name for name in names if name.startswith("Command ")]
    if len(made) != 2 * steps:
        told.append(f"Commands: {made}")
    left = (await lab.clusters.management.list(COMMAND, kube_namespace=lab.key.kube_namespace)).items
    if steps == 2 and left:
        told.append(f"left: {[one['metadata']['name'] for one in left]}")
    return told
