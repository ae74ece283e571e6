"""Design §2.8: a wish becomes a run once; what a person ended is never started again at night.

Where nothing must happen, a newer wish comes afterwards: what the watcher has asked for until then is the proof. That
newer wish may be asked for twice: the run before it is still open for a moment after its last word.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from hopline.domain.resources import (
    ANNOTATION_HANDLED,
    ANNOTATION_RETRY,
    BKE_CLUSTER,
    CLUSTER_VERSION,
    RELEASE_IMAGE,
    UPGRADE_PATH,
    ObjectRef,
)
from hopline.domain.status import RunState
from hopline.sim.script import Failure, Verb
from small_lab import CATALOGUE_NAME, FINAL, GRAPH, RC2, RC3, SmallLab
from starter.requests import Requests
from starter.watcher import Watcher
from workflows.messages import AbortRequest, Acceptance, OnFailure, UpgradeInput

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Noting(Requests):
    """Notes every wish that the watcher hands over."""

    asked: list[str] = field(default_factory=list)

    async def set_desired_version(
        self, wish: UpgradeInput, *, update_id: str = "", patience: timedelta = timedelta(seconds=60)
    ) -> Acceptance:
        self.asked.append(wish.desired_version)
        return await super().set_desired_version(wish, update_id=update_id, patience=patience)


@asynccontextmanager
async def watching(lab: SmallLab) -> AsyncIterator[list[str]]:
    """A watcher in this process, and a worker; the wishes that it has handed over."""
    requests = Noting(lab.client, lab.task_queue)
    task = asyncio.create_task(Watcher(lab.clusters.management, requests).run())
    try:
        async with lab.worker():
            yield requests.asked
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def desire(lab: SmallLab, version: str) -> int:
    """What the guide types; the new generation."""
    found = await lab.patch(CLUSTER_VERSION, {"spec": {"desiredVersion": version}})
    return int(found["metadata"]["generation"])


async def handled(lab: SmallLab, mark: str) -> None:
    """Wait for the mark of a run's end."""
    await lab.until_version(lambda one: one["metadata"].get("annotations", {}).get(ANNOTATION_HANDLED) == mark)


async def touch(lab: SmallLab) -> None:
    """Change both objects in ways that no refusal names."""
    for kind in (CLUSTER_VERSION, BKE_CLUSTER):
        await lab.annotate(kind, {"example.test/touched": "yes"})


def reject(lab: SmallLab, times: int = 1) -> None:
    script = lab.clusters.script
    script.fail_request(Failure.REJECTED, verb=Verb.APPLY, cluster=lab.cluster, name="left", times=times)


async def test_a_patched_cluster_version_becomes_one_run_and_is_marked(small: SmallLab) -> None:
    async with watching(small) as asked:
        generation = await desire(small, RC3)
        await handled(small, f"{generation}/Done")
        await touch(small)
        generation = await desire(small, FINAL)
        await handled(small, f"{generation}/Done")
    assert asked[0] == RC3
    assert set(asked[1:]) == {FINAL}
    assert small.end_state(await small.version()) == (FINAL, "Ready")
    assert [len(small.applied(name)) for name in GRAPH] == [2, 2, 2, 2]


async def test_what_a_person_aborted_is_not_started_again(small: SmallLab) -> None:
    reject(small)
    async with watching(small) as asked:
        generation = await desire(small, FINAL)
        await small.until_version(lambda one: one["status"]["phase"] == "Failed")
        await small.requests.abort(small.cluster, AbortRequest(reason="not tonight"))
        await handled(small, f"{generation}/Aborted")
        await touch(small)
        await small.edit_catalogue(lambda paths: paths[0].update(notes="changed"))
    async with watching(small) as asked_by_another:
        await touch(small)
        generation = await desire(small, RC3)
        await handled(small, f"{generation}/Done")
    assert asked == [FINAL]
    assert set(asked_by_another) == {RC3}


async def test_a_failed_wish_starts_again_only_for_the_retry_annotation(small: SmallLab) -> None:
    reject(small)
    generation = await desire(small, FINAL)
    async with small.worker():
        await small.start(FINAL, on_failure=OnFailure.FAIL)
        assert (await small.end()).type == "HopFailed"
        await handled(small, f"{generation}/Failed")
    async with watching(small) as asked:
        await touch(small)
        await small.annotate(BKE_CLUSTER, {ANNOTATION_RETRY: ""})
        await handled(small, f"{generation}/Done")
        assert asked == [FINAL]


async def test_the_retry_annotation_wakes_a_held_hop(small: SmallLab) -> None:
    reject(small)
    async with watching(small) as asked:
        generation = await desire(small, RC3)
        await small.until_version(lambda one: one["status"]["phase"] == "Failed")
        await small.annotate(BKE_CLUSTER, {ANNOTATION_RETRY: ""})
        await handled(small, f"{generation}/Done")
        assert asked == [RC3]
    assert ANNOTATION_RETRY not in await small.annotations()
    assert len(await small.events("UpgradeResumed")) == 1


async def test_a_refused_wish_is_looked_at_again_when_the_named_object_changes(small: SmallLab) -> None:
    await small.patch(BKE_CLUSTER, {"spec": {"pause": True}})
    async with watching(small) as asked:
        generation = await desire(small, RC3)
        await handled(small, f"{generation}/Refused")
        assert small.end_state(await small.version()) == (RC2, "PreCheckFailed")
        await touch(small)
        await small.patch(BKE_CLUSTER, {"spec": {"pause": False}})
        await handled(small, f"{generation}/Done")
        assert asked == [RC3, RC3]


async def test_a_wish_refused_by_the_catalogue_is_looked_at_again_when_the_catalogue_changes(small: SmallLab) -> None:
    await small.block(RC2, RC3)
    async with watching(small) as asked:
        generation = await desire(small, RC3)
        await handled(small, f"{generation}/Refused")
        await touch(small)
        await small.block(RC2, RC3, blocked=False)
        await handled(small, f"{generation}/Done")
        assert asked == [RC3, RC3]


async def test_a_newer_wish_in_mid_run_is_carried_out_after_it(small: SmallLab) -> None:
    """It is refused while another one is being carried out, never overwritten, and its turn comes."""
    reject(small)
    async with watching(small) as asked:
        await desire(small, RC3)
        await small.until_version(lambda one: one["status"]["phase"] == "Failed")
        generation = await desire(small, FINAL)
        await small.until_seen(lambda: _events(small), lambda found: len(found["items"]) == 1)
        await small.annotate(BKE_CLUSTER, {ANNOTATION_RETRY: ""})
        await handled(small, f"{generation}/Done")
    assert asked[0] == RC3
    assert set(asked[1:]) == {FINAL}
    assert (await small.version())["spec"]["desiredVersion"] == FINAL
    assert [entry["to"] for entry in (await small.version())["status"]["upgradeHistory"]] == [RC3, FINAL]


async def _events(lab: SmallLab) -> dict[str, list[object]]:
    return {"items": [*await lab.events("DesiredVersionRefused")]}


async def test_a_terminated_run_is_not_started_again_by_another_watcher(small: SmallLab) -> None:
    reject(small)
    async with watching(small):
        await desire(small, FINAL)
        await small.until_version(lambda one: one["status"]["phase"] == "Failed")
        await small.handle.terminate("a person ended it by hand")
    async with watching(small) as asked:
        await touch(small)
        generation = await desire(small, RC3)
        await handled(small, f"{generation}/Done")
        assert asked == [RC3]


async def test_a_wish_of_the_terminal_that_is_refused_leaves_no_mark(small: SmallLab) -> None:
    before = await small.version()
    await small.patch(BKE_CLUSTER, {"spec": {"pause": True}})
    async with small.worker():
        await small.start(FINAL)
        assert (await small.end()).type == "Refused"
        assert (await small.status()).state is RunState.REFUSED
    assert await small.version() == before


async def test_the_mark_is_not_written_for_a_wish_that_was_replaced_meanwhile(small: SmallLab) -> None:
    reject(small)
    async with small.worker():
        await small.start(RC3)
        await small.held()
        await desire(small, FINAL)
        await small.requests.abort(small.cluster, AbortRequest())
        assert (await small.end()).type == "Aborted"
    version = await small.version()
    assert ANNOTATION_HANDLED not in version["metadata"].get("annotations", {})
    assert version["spec"]["desiredVersion"] == FINAL


async def test_several_catalogues_refuse_until_one_is_left(small: SmallLab) -> None:
    management = small.clusters.management
    found = await management.get(ObjectRef(kind=UPGRADE_PATH, name=CATALOGUE_NAME))
    second = {**found, "metadata": {"name": "another"}}
    await management.create(second, kind=UPGRADE_PATH)
    async with watching(small) as asked:
        generation = await desire(small, RC3)
        await handled(small, f"{generation}/Refused")
        (event,) = await small.events("UpgradeRefused")
        assert "another, openfuyao-upgrade-paths" in event["message"]
        await management.delete(ObjectRef(kind=UPGRADE_PATH, name="another"))
        await handled(small, f"{generation}/Done")
        assert asked == [RC3, RC3]
    assert len(small.writes(RELEASE_IMAGE.kind, verb="create")) == 1
