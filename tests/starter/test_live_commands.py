"""The commands as processes, as a person or CI runs them, against a stand-in for the workflows."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.worker import Worker

from hopline.domain.wire import ClusterKey
from hopline.runtime.settings import child_environment
from hopline.sim.scenarios import create_scenario
from starter.dev_server import free_port
from starter.requests import Requests, wish_for
from starter_stub import DONE, ENDLESS, FAILED, HELD, REFUSED_VERSION, STUBS
from workflows.messages import AbortRequest

EXAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "examples"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one document on standard output."""
        loaded = json.loads(self.out)
        assert isinstance(loaded, dict)
        return loaded


@dataclass(frozen=True)
class Terminal:
    """Runs commands for one cluster of its own."""

    environment: dict[str, str]
    requests: Requests
    name: str

    @property
    def cluster(self) -> ClusterKey:
        return ClusterKey(kube_namespace="test", name=self.name)

    async def start(self, command: str, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "starter",
            command,
            self.name,
            "-n",
            "test",
            *arguments,
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def __call__(self, command: str, *arguments: str) -> Result:
        process = await self.start(command, *arguments)
        out, err = await process.communicate()
        assert process.returncode is not None
        return Result(process.returncode, out.decode(), err.decode())


@pytest_asyncio.fixture
async def hopline(temporal_client: Client, temporal_address: str, task_queue: str) -> AsyncIterator[Terminal]:
    environment = child_environment({"TEMPORAL_ADDRESS": temporal_address, "HOPLINE_TASK_QUEUE": task_queue})
    async with Worker(temporal_client, task_queue=task_queue, workflows=STUBS):
        yield Terminal(environment, Requests(temporal_client, task_queue), f"c{uuid4().hex[:10]}")


async def test_upgrade_returns_when_it_is_accepted(hopline: Terminal) -> None:
    result = await hopline("upgrade", "--to", ENDLESS)
    assert (result.code, result.err) == (0, "")
    assert f"{hopline.cluster} accepted {ENDLESS} (1 hop, plan 7c1f3a9e)" in result.out
    assert f"workflow cluster-upgrade/{hopline.cluster}" in result.out
    again = await hopline("upgrade", "--to", ENDLESS, "-o", "json")
    assert again.code == 0
    assert again.document["workflowId"] == f"cluster-upgrade/{hopline.cluster}"
    assert again.document["version"] == ENDLESS
    other = await hopline("upgrade", "--to", DONE)
    assert other.code == 3
    assert f"an upgrade to {ENDLESS} is running" in other.err
    await hopline.requests.abort(hopline.cluster, AbortRequest())


async def test_wait_tells_events_line_by_line_and_the_result_last(hopline: Terminal) -> None:
    result = await hopline("upgrade", "--to", DONE, "--wait")
    assert result.code == 0
    lines = result.out.splitlines()
    assert "accepted" in lines[0]
    assert "hop 1 of 1 started: v-old -> v-done" in lines[1]
    assert any("provider v2 done" in line for line in lines)
    assert f" done: {DONE} after " in lines[-1]
    assert "\x1b" not in result.out


@pytest.mark.parametrize(
    ("version", "code", "told"),
    [
        (REFUSED_VERSION, 3, "refused: the cluster is paused"),
        (FAILED, 1, "FAILED"),
        (HELD, 4, "provider failed, attempt 1: disk full"),
    ],
)
async def test_the_exit_code_says_how_it_ended(hopline: Terminal, version: str, code: int, told: str) -> None:
    result = await hopline("upgrade", "--to", version, "--wait")
    assert result.code == code
    assert told in result.err


@pytest.mark.parametrize(("version", "code", "state"), [(DONE, 0, "Done"), (FAILED, 1, "Failed"), (HELD, 4, "Held")])
async def test_json_is_one_status_document(hopline: Terminal, version: str, code: int, state: str) -> None:
    result = await hopline("upgrade", "--to", version, "--wait", "-o", "json")
    assert result.code == code
    assert result.document["state"] == state
    assert result.document["cluster"] == {"namespace": "test", "name": hopline.name}
    status = await hopline("status", "-o", "json")
    assert status.document == result.document


async def test_a_refusal_is_one_document_too(hopline: Terminal) -> None:
    result = await hopline("upgrade", "--to", REFUSED_VERSION, "-o", "json")
    assert result.code == 3
    assert result.document["error"]["field"] == "spec.pause"
    assert result.err.startswith("refused: the cluster is paused\n  BKECluster east/east, spec.pause is true\n")


async def test_the_timeout_ends_the_waiting(hopline: Terminal) -> None:
    result = await hopline("upgrade", "--to", ENDLESS, "--wait", "--timeout", "1s")
    assert result.code == 5
    assert f"the upgrade goes on. Look at it: hopline status {hopline.name} -n test" in " ".join(result.err.split())
    assert (await hopline("abort", "--reason", "enough")).out == "aborted: enough\n"


async def test_ctrl_c_ends_the_waiting_and_not_the_upgrade(hopline: Terminal) -> None:
    process = await hopline.start("upgrade", "--to", ENDLESS, "--wait")
    assert process.stdout is not None
    assert b"accepted" in await process.stdout.readline()
    assert b"started" in await process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == 130
    assert "stopped waiting; the upgrade goes on" in err.decode()
    assert "Traceback" not in err.decode()
    description = await hopline.requests.describe(hopline.cluster)
    assert description is not None
    assert description.close_time is None
    await hopline.requests.abort(hopline.cluster, AbortRequest())


async def test_retry_goes_on_with_a_held_run(hopline: Terminal) -> None:
    assert (await hopline("upgrade", "--to", HELD, "--wait")).code == 4
    retried = await hopline("retry", "-o", "json")
    assert (retried.code, retried.document["state"]) == (0, "Running")
    assert (await hopline("upgrade", "--to", HELD, "--wait")).code in (0, 4)


async def test_retry_without_a_run_fails_with_a_remedy(hopline: Terminal) -> None:
    result = await hopline("retry")
    assert result.code == 1
    assert "nothing to retry" in result.err
    assert f"remedy: hopline status {hopline.name} -n test" in result.err


async def test_status_without_a_run_looks_at_the_cluster(hopline: Terminal) -> None:
    result = await hopline("status")
    assert result.code == 0
    assert "no upgrade runs" in result.out


async def test_plan_and_versions_are_answered_by_a_worker(hopline: Terminal) -> None:
    assert "nothing to do" in (await hopline("plan", "--to", DONE)).out
    blocked = await hopline("plan", "--to", FAILED)
    assert blocked.code == 3
    assert "Not startable: 1 blocks." in blocked.out
    refused = await hopline("plan", "--to", REFUSED_VERSION, "-o", "json")
    assert (refused.code, refused.document["error"]["reason"]) == (3, "ClusterNotReady")
    versions = await hopline("versions", "-o", "json")
    assert versions.document == {
        "from": "v-old",
        "versions": [{"version": "v-done", "hops": 1, "deprecated": False}],
        "reason": "",
        "message": "",
    }


@pytest.mark.parametrize("command", [("status",), ("upgrade", "--to", DONE), ("plan", "--to", DONE), ("retry",)])
async def test_without_a_worker_nothing_hangs(
    temporal_client: Client, temporal_address: str, task_queue: str, command: tuple[str, ...]
) -> None:
    environment = child_environment({"TEMPORAL_ADDRESS": temporal_address, "HOPLINE_TASK_QUEUE": task_queue})
    terminal = Terminal(environment, Requests(temporal_client, task_queue), "nobody")
    result = await terminal(*command)
    assert result.code == 1
    assert f"no worker polls the task queue\n  Temporal, task queue is {task_queue}\n" in result.err
    assert "remedy: start one with hopline-worker" in result.err


async def test_without_a_worker_status_tells_what_the_service_remembers(
    temporal_client: Client, temporal_address: str, task_queue: str
) -> None:
    environment = child_environment({"TEMPORAL_ADDRESS": temporal_address, "HOPLINE_TASK_QUEUE": task_queue})
    terminal = Terminal(environment, Requests(temporal_client, task_queue), f"c{uuid4().hex[:10]}")
    async with Worker(temporal_client, task_queue=task_queue, workflows=STUBS):
        await terminal.requests.set_desired_version(wish_for(terminal.cluster, ENDLESS))
        await terminal.requests.status(terminal.cluster)
    result = await terminal("status")
    assert (result.code, result.err) == (0, "")
    note, remembered, headline, said = result.out.splitlines()
    assert ", so this may be old; start one with hopline-worker" in note
    assert remembered == f"Temporal remembers cluster-upgrade/{terminal.cluster}: running, phase Running, hop 1/1"
    assert headline.startswith(f"{terminal.cluster}  ")
    assert " RUNNING" in headline
    assert said == f"  last said: {terminal.cluster} is running"
    answer = await terminal("status", "-o", "json")
    assert answer.code == 0
    assert (answer.document["state"], answer.document["workflowId"]) == (
        "Running",
        f"cluster-upgrade/{terminal.cluster}",
    )
    assert "may be old" in answer.err


async def test_without_a_worker_a_run_that_was_terminated_is_not_shown_as_running(
    temporal_client: Client, temporal_address: str, task_queue: str
) -> None:
    environment = child_environment({"TEMPORAL_ADDRESS": temporal_address, "HOPLINE_TASK_QUEUE": task_queue})
    terminal = Terminal(environment, Requests(temporal_client, task_queue), f"c{uuid4().hex[:10]}")
    async with Worker(temporal_client, task_queue=task_queue, workflows=STUBS):
        await terminal.requests.set_desired_version(wish_for(terminal.cluster, ENDLESS))
        await terminal.requests.status(terminal.cluster)
    await temporal_client.get_workflow_handle(f"cluster-upgrade/{terminal.cluster}").terminate()
    answer = await terminal("status", "-o", "json")
    assert (answer.code, answer.document["state"]) == (0, "Unknown")
    assert "terminated" in answer.err


async def test_without_a_worker_and_a_run_the_objects_of_the_cluster_answer(
    temporal_client: Client, temporal_address: str, task_queue: str, tmp_path: Path
) -> None:
    simulation = tmp_path / "east.db"
    key = create_scenario(simulation, examples=EXAMPLES)
    environment = {"TEMPORAL_ADDRESS": temporal_address, "HOPLINE_TASK_QUEUE": task_queue}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "starter", "status", key.name, "-n", key.kube_namespace),
        env=child_environment(environment | {"HOPLINE_SIMULATION": str(simulation)}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (process.returncode, err.decode()) == (0, "")
    assert ", so this may be old; start one with hopline-worker" in out.decode()
    assert "the cluster's objects say: version v26.06-rc.2, Healthy" in out.decode()
    assert "no upgrade runs; recorded version v26.06-rc.2" in out.decode()


async def test_without_a_service_the_address_is_named(temporal_client: Client) -> None:
    address = f"127.0.0.1:{free_port()}"
    terminal = Terminal(child_environment({"TEMPORAL_ADDRESS": address}), Requests(temporal_client, "q"), "east")
    result = await terminal("status", "-o", "json")
    assert result.code == 1
    assert result.document["error"]["value"] == address
    assert "temporal server start-dev" in result.document["error"]["remedy"]


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_200_short_processes_end_without_a_crash(hopline: Terminal) -> None:
    """The SDK's threads crash 2 to 10 % of interpreters on their way out; ours leave before (temporal.md §0.8)."""
    assert (await hopline("upgrade", "--to", ENDLESS)).code == 0
    codes: list[int] = []
    for _ in range(200 // 4):
        results = await asyncio.gather(*(hopline("status") for _ in range(4)))
        codes += [result.code for result in results]
    await hopline.requests.abort(hopline.cluster, AbortRequest())
    assert codes == [0] * 200
