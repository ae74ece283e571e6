"""deploy/examples/ci/upgrade.sh as a CI job runs it: an empty home, no kubeconfig, every exit code."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from hooked_clusters import Gate, HookedClusters, applying
from hopline.domain.resources import BKE_CLUSTER
from hopline.domain.status import RunState
from hopline.sim.script import ALWAYS, Failure, Verb
from small_lab import FINAL, RC2, RC3, SmallLab, build_lab
from upgrade_lab import end_run

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "examples" / "ci" / "upgrade.sh"
PROGRAMS = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


class Job:
    """The shell of a CI job: nothing but a PATH, an empty home, and where Temporal is."""

    def __init__(self, lab: SmallLab, folder: Path, temporal: dict[str, str]) -> None:
        self.lab = lab
        self.home = folder / "home"
        self.home.mkdir()
        self.reports = folder / "reports"
        self.environment = {
            "PATH": PROGRAMS,
            "HOME": str(self.home),
            "HOPLINE_TASK_QUEUE": lab.task_queue,
            "UPGRADE_REPORTS": str(self.reports),
            **temporal,
        }

    async def run(self, *command: str, **more: str) -> Ended:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=self.environment | more,
            cwd=self.home,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())

    async def upgrade(self, version: str, **more: str) -> Ended:
        key = self.lab.cluster
        return await self.run(str(SCRIPT), key.name, key.kube_namespace, version, **more)

    def report(self, name: str) -> dict[str, Any]:
        loaded = json.loads((self.reports / f"{name}.json").read_text())
        assert isinstance(loaded, dict)
        return loaded


@pytest_asyncio.fixture
async def job(temporal_client: Client, temporal_address: str, task_queue: str, tmp_path: Path) -> AsyncIterator[Job]:
    lab = build_lab(temporal_client, task_queue, tmp_path / "small")
    yield Job(lab, tmp_path, {"TEMPORAL_ADDRESS": temporal_address})
    await end_run(lab)
    await lab.clusters.aclose()


async def test_0_done_with_nothing_but_a_temporal_address(job: Job) -> None:
    async with job.lab.worker():
        ended = await job.upgrade(FINAL)
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[-1] == f"== done: {job.lab.cluster} is at {FINAL}"
    assert "hop 2 of 2 started" in ended.err
    assert [hop["to"] for hop in job.report("plan")["hops"]] == [RC3, FINAL]
    assert job.report("upgrade")["state"] == "Done"
    assert not list(job.home.iterdir())


async def test_hopline_upgrade_needs_only_a_profile(job: Job, tmp_path: Path) -> None:
    profile = tmp_path / "temporal.toml"
    profile.write_text(f'[profile.ci]\naddress = "{job.environment.pop("TEMPORAL_ADDRESS")}"\n')
    key = job.lab.cluster
    async with job.lab.worker():
        ended = await job.run(
            "hopline", "upgrade", key.name, "-n", key.kube_namespace, "--to", RC3, "--wait",
            TEMPORAL_CONFIG_FILE=str(profile), TEMPORAL_PROFILE="ci",
        )  # fmt: skip
    assert (ended.code, ended.err) == (0, "")
    assert job.lab.end_state(await job.lab.version()) == (RC3, "Ready")
    assert not list(job.home.iterdir())


async def test_1_failed_gives_back_and_the_next_job_succeeds(job: Job) -> None:
    script = job.lab.clusters.script
    fault = script.fail_request(
        Failure.REJECTED, verb=Verb.APPLY, cluster=job.lab.cluster, name="left", times=ALWAYS, text="quota exceeded"
    )
    async with job.lab.worker():
        ended = await job.upgrade(RC3)
        assert ended.code == 1
        assert "quota exceeded" in ended.err
        assert "run this job again" in ended.err
        assert job.report("upgrade")["state"] == "Failed"
        assert "hopline.dev/taken-by" not in await job.lab.annotations()
        script.clear(fault)
        assert (await job.upgrade(RC3)).code == 0


async def test_3_refused_by_the_path_or_a_check(job: Job) -> None:
    async with job.lab.worker():
        ended = await job.upgrade("v99.01")
        assert ended.code == 3
        assert "v99.01" in ended.err and "nothing has changed" in ended.err
        assert job.report("plan")["error"]["reason"]
        await job.lab.patch(BKE_CLUSTER, {"spec": {"pause": True}})
        ended = await job.upgrade(RC3)
        assert ended.code == 3
        assert "the cluster is paused" in ended.err
        assert job.report("upgrade")["error"]["field"] == "spec.pause"
    assert job.lab.end_state(await job.lab.version())[0] == RC2


async def test_4_joins_a_run_that_is_held_for_a_person(job: Job) -> None:
    script = job.lab.clusters.script
    script.fail_request(Failure.REJECTED, verb=Verb.APPLY, cluster=job.lab.cluster, name="left", times=1, text="no")
    async with job.lab.worker():
        handle = await job.lab.start(RC3)
        await job.lab.until(RunState.HELD)
        ended = await job.upgrade(RC3)
        assert ended.code == 4
        place = f"{job.lab.cluster.name} -n {job.lab.cluster.kube_namespace}"
        assert f"hopline retry {place}" in ended.err
        assert job.report("upgrade")["state"] == "Held"
        retry = await job.run("hopline", "retry", *place.split())
        assert retry.code == 0, retry.err
        await handle.result()
        assert (await job.upgrade(RC3)).code == 0


async def test_5_not_over_in_time_and_the_next_job_waits_on(job: Job) -> None:
    gate = Gate(applying("left"))
    async with job.lab.worker(clusters=HookedClusters(job.lab.clusters, before=gate)):  # type: ignore[arg-type]
        ended = await job.upgrade(RC3, UPGRADE_TIMEOUT="2s")
        assert ended.code == 5
        assert "not over after 2s; the upgrade goes on" in ended.err
        assert job.report("upgrade")["state"] == "Running"
        gate.open()
        assert (await job.upgrade(RC3)).code == 0


async def test_usage_and_an_unreachable_service_have_their_codes(job: Job) -> None:
    assert (await job.run(str(SCRIPT), "east")).code == 2
    ended = await job.upgrade(RC3, TEMPORAL_ADDRESS="127.0.0.1:1")
    assert ended.code == 1
    assert "127.0.0.1:1" in ended.err
