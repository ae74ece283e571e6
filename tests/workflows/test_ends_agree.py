"""Design §8: state, history, events, the workflow's end and the exit code say one and the same thing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from temporalio.client import WorkflowExecutionStatus

from hopline.domain.errors import HoplineError
from hopline.domain.resources import ANNOTATION_HANDLED, BKE_CLUSTER, CLUSTER_VERSION
from hopline.domain.status import UpgradeStatus
from hopline.sim.script import ALWAYS, Failure, Verb
from small_lab import FINAL, RC2, RC3, SmallLab
from starter.follow import follow
from workflows.messages import AbortRequest, OnFailure

pytestmark = pytest.mark.slow


class Silent:
    """Shows nothing."""

    def show(self, status: UpgradeStatus) -> None:
        del status

    def silence(self, error: HoplineError) -> None:
        del error


@dataclass(frozen=True)
class Expected:
    """What all of them have to say."""

    exit_code: int
    error_type: str
    handled: str
    phase: str
    ready: str
    health: str
    history: tuple[str, ...]
    event: str
    current: str = RC2


async def nothing(lab: SmallLab) -> None:
    del lab


async def pause(lab: SmallLab) -> None:
    await lab.patch(BKE_CLUSTER, {"spec": {"pause": True}})


async def reject(lab: SmallLab) -> None:
    script = lab.clusters.script
    script.fail_request(Failure.REJECTED, verb=Verb.APPLY, cluster=lab.cluster, name="left", times=ALWAYS)


ENDS = {
    "done": (
        nothing,
        OnFailure.HOLD,
        Expected(0, "Done", "Done", "Ready", "True", "Healthy", ("Succeeded", "Succeeded"), "HopSucceeded", FINAL),
    ),
    "refused": (
        pause,
        OnFailure.HOLD,
        Expected(3, "Refused", "Refused", "PreCheckFailed", "False", "Healthy", (), "UpgradeRefused"),
    ),
    "failed": (
        reject,
        OnFailure.FAIL,
        Expected(1, "HopFailed", "Failed", "Failed", "False", "UpgradeFailed", ("Failed",), "UpgradeHopFailed"),
    ),
    "aborted": (
        reject,
        OnFailure.HOLD,
        Expected(1, "Aborted", "Aborted", "Failed", "False", "UpgradeFailed", ("Failed",), "UpgradeAborted"),
    ),
}


@pytest.mark.parametrize("name", ENDS)
async def test_every_witness_of_an_end_agrees(small: SmallLab, name: str) -> None:
    prepare: Callable[[SmallLab], Awaitable[None]]
    prepare, on_failure, expected = ENDS[name]
    await prepare(small)
    generation = (await small.patch(CLUSTER_VERSION, {"spec": {"desiredVersion": FINAL}}))["metadata"]["generation"]
    async with small.worker():
        await small.start(FINAL, on_failure=on_failure)
        waiting = asyncio.create_task(follow(small.requests, small.cluster, Silent()))
        if name == "aborted":
            ending = await waiting
            assert ending.code == 4
            await small.requests.abort(small.cluster, AbortRequest())
            waiting = asyncio.create_task(follow(small.requests, small.cluster, Silent()))
        end = await small.end()
        ending = await waiting
        status = await small.status()
    assert (ending.code, end.type) == (expected.exit_code, expected.error_type)
    closed = WorkflowExecutionStatus.COMPLETED if name == "done" else WorkflowExecutionStatus.FAILED
    assert await small.close_status() is closed
    assert status.state.value == expected.handled
    version, bke = await small.version(), await small.bke()
    assert version["metadata"]["annotations"][ANNOTATION_HANDLED] == f"{generation}/{expected.handled}"
    assert small.end_state(version) == (expected.current, expected.phase)
    conditions = {one["type"]: one["status"] for one in version["status"]["conditions"]}
    failing = "True" if expected.handled in ("Failed", "Aborted") else "False"
    assert conditions == {"Ready": expected.ready, "Progressing": "False", "Failing": failing}
    assert tuple(one["status"] for one in version["status"].get("upgradeHistory", [])) == expected.history
    assert all(one["startedAt"] <= one["completedAt"] for one in version["status"].get("upgradeHistory", []))
    assert bke["status"]["clusterHealthState"] == expected.health
    ends = {"HopSucceeded", "UpgradeRefused", "UpgradeHopFailed", "UpgradeAborted"}
    assert {event["reason"] for event in await small.events()} & ends == {expected.event}
    assert bke["status"].get("openFuyaoVersion") == expected.current
    assert RC3 in {FINAL, RC3}
