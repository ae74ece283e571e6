"""Records the histories that `tests/workflows/test_replay.py` replays: real runs on the simulator, one file each.

    PYTHONPATH=.:tests .venv/bin/python tests/record_histories.py [scenario ...]

A released workflow may still have runs of these shapes in flight. So a change of a workflow that breaks the replay is
put behind `workflow.patched` and the recorded files stay; new files are recorded for the new shape. Only what was never
released may be recorded anew.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.contrib.pydantic import pydantic_data_converter

from hopline.domain.status import RunState
from hopline.sim.script import Failure, Verb
from small_lab import FINAL, RC3, SmallLab, build_lab, build_sample
from starter.dev_server import dev_server
from worker.search_attributes import ensure_search_attributes
from workflows.identifiers import rollout_workflow_id
from workflows.messages import AbortRequest, Question, RetryRequest

HISTORIES = Path(__file__).parent / "workflows" / "histories"
TASK_QUEUE = "recorded"
LINE = ",\n"
"""One event a line."""


async def two_hops(lab: SmallLab) -> list[tuple[str, str]]:
    """From the first version to the last one, and a plan asked for before."""
    await lab.requests.inspect(lab.cluster, Question.PLAN, FINAL)
    handle = await lab.start(FINAL)
    await handle.result()
    first = await lab.client.get_workflow_handle(lab.handle.id, run_id=handle.first_execution_run_id).fetch_history()
    last = first.events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return [(lab.handle.id, handle.first_execution_run_id or ""), (lab.handle.id, last)]


async def held_and_retried(lab: SmallLab) -> list[tuple[str, str]]:
    """A component is refused once; a person retries."""
    _reject(lab)
    handle = await lab.start(RC3)
    await lab.until(RunState.HELD)
    await lab.requests.retry(lab.cluster, RetryRequest(reason="repaired"))
    await handle.result()
    return [(lab.handle.id, "")]


async def aborted(lab: SmallLab) -> list[tuple[str, str]]:
    """A held hop is aborted."""
    _reject(lab)
    await lab.start(RC3)
    await lab.until(RunState.HELD)
    await lab.requests.abort(lab.cluster, AbortRequest(reason="not tonight"))
    await lab.end()
    return [(lab.handle.id, "")]


async def nodes(lab: SmallLab) -> list[tuple[str, str]]:
    """A hop with every node-level component; a worker node fails twice, and a person retries."""
    lab.clusters.script.fail_command("kubelet did not start", node="w1", phase="UpgradeWorker", times=2)
    handle = await lab.start(RC3)
    await lab.until(RunState.HELD)
    failed = rollout_workflow_id(lab.cluster, RC3, "kubernetes-worker", "workers")
    failed_run = (await lab.client.get_workflow_handle(failed).describe()).run_id
    await lab.requests.retry(lab.cluster, RetryRequest())
    await handle.result()
    masters = rollout_workflow_id(lab.cluster, RC3, "kubernetes-master", "control-plane")
    return [(lab.handle.id, ""), (failed, failed_run), (failed, ""), (masters, "")]


async def etcd(lab: SmallLab) -> list[tuple[str, str]]:
    """The members of etcd, one after the other, behind a snapshot of one of them."""
    await (await lab.start(FINAL)).result()
    return [(rollout_workflow_id(lab.cluster, FINAL, "etcd", "control-plane"), "")]


def _reject(lab: SmallLab) -> None:
    script = lab.clusters.script
    script.fail_request(Failure.REJECTED, verb=Verb.APPLY, cluster=lab.cluster, name="left", text="webhook says no")


Scenario = Callable[[SmallLab], Awaitable[list[tuple[str, str]]]]
SCENARIOS: dict[str, tuple[Scenario, Callable[..., SmallLab]]] = {
    "two-hops": (two_hops, build_lab),
    "held-and-retried": (held_and_retried, build_lab),
    "aborted": (aborted, build_lab),
    "nodes": (nodes, build_sample),
    "etcd": (etcd, partial(build_sample, nodes=(3, 1))),
}


async def record(name: str, client: Client, folder: Path) -> None:
    """Play a scenario and write its histories."""
    scenario, build = SCENARIOS[name]
    lab = build(client, f"{TASK_QUEUE}-{name}", folder / name)
    try:
        async with lab.worker():
            executions = await scenario(lab)
        for number, (workflow_id, run_id) in enumerate(executions, start=1):
            handle = client.get_workflow_handle(workflow_id, run_id=run_id or None)
            assert (await handle.describe()).status is not WorkflowExecutionStatus.RUNNING
            history = await handle.fetch_history()
            events = [json.dumps(_plain(event), sort_keys=True) for event in history.to_json_dict()["events"]]
            file = HISTORIES / f"{name}-{number}.json"
            file.write_text(f'{{"workflowId": {json.dumps(workflow_id)}, "events": [\n{LINE.join(events)}\n]}}\n')
            print(f"{file}: {len(history.events)} events")
    finally:
        await lab.clusters.aclose()


def _plain(value: Any) -> Any:
    """Without stack traces: they name places of the machine that recorded."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items() if key != "stackTrace"}
    return [_plain(part) for part in value] if isinstance(value, list) else value


async def main() -> None:
    """Record the scenarios that were named, or all of them."""
    HISTORIES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with dev_server() as server:
            client = await Client.connect(server.address, data_converter=pydantic_data_converter)
            assert await ensure_search_attributes(client)
            for name in sys.argv[1:] or SCENARIOS:
                await record(name, client, Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
    sys.stdout.flush()
    os._exit(0)
