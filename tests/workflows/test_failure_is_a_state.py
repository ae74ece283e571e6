"""Design §2.5: transient faults are retried inside the deadline, permanent ones hold, and a person decides."""

from __future__ import annotations

from typing import Any

import pytest

from hooked_clusters import Gate, HookedClusters, applying
from hopline.domain.resources import (
    ANNOTATION_RETRY,
    ANNOTATION_TAKEN_BY,
    ANNOTATION_UPGRADE_READY,
    BKE_CLUSTER,
    Document,
)
from hopline.domain.status import RunState, StepState
from hopline.sim.script import ALWAYS, Failure, Verb
from small_lab import FINAL, GRAPH, RC2, RC3, SmallLab, SmallLabFactory, strategy
from workflows.messages import OnFailure, RetryRequest

pytestmark = pytest.mark.slow


def reject(lab: SmallLab, component: str, times: int = 1) -> int:
    """The API server of the cluster refuses the object of a component."""
    text = f"admission webhook denied {component}"
    script = lab.clusters.script
    return script.fail_request(
        Failure.REJECTED, verb=Verb.APPLY, cluster=lab.cluster, name=component, times=times, text=text
    )


async def test_a_transient_fault_is_retried_and_never_held(small: SmallLab) -> None:
    script = small.clusters.script
    fault = script.fail_request(Failure.TRANSIENT, verb=Verb.APPLY, cluster=small.cluster, name="left", times=3)
    async with small.worker():
        await (await small.start(RC3)).result()
        status = await small.status()
    assert script.hits(fault) == 3
    assert status.component("left").attempt == 1
    assert not await small.events("UpgradeHeld")
    assert not await small.events("ComponentUpgradeFailed")


async def test_a_refusal_that_lasts_is_told_while_it_is_tried_again(small: SmallLab) -> None:
    """A webhook without endpoints, an overloaded API server: the cluster answers, but does not take the object yet."""
    script = small.clusters.script

    def refuse(text: str) -> int:
        return script.fail_request(
            Failure.TRANSIENT, verb=Verb.APPLY, cluster=small.cluster, name="left", times=ALWAYS, text=text
        )

    async with small.worker():
        fault = refuse("failed calling webhook guard: no endpoints available")
        handle = await small.start(RC3)
        await small.until_status(
            lambda seen: bool(seen.components) and "no endpoints available" in seen.component("left").message
        )
        script.clear(fault)
        fault = refuse("too many requests")
        status = await small.until_status(lambda seen: "too many requests" in seen.component("left").message)
        assert status.component("left").state is StepState.RUNNING
        script.clear(fault)
        await handle.result()
    assert not await small.events("UpgradeHeld")
    assert [len(small.applied(name)) for name in GRAPH] == [1, 1, 1, 1]


async def test_a_permanent_fault_holds_and_a_retry_goes_on_exactly_there(small: SmallLab) -> None:
    reject(small, "left", times=2)
    async with small.worker():
        handle = await small.start(FINAL)
        status = await small.until(RunState.HELD)
        states = {component.name: component.state.value for component in status.components}
        assert states == {"base": "done", "left": "failed", "right": "done", "top": "pending"}
        assert status.failure is not None
        assert (status.failure.component, status.failure.attempt) == ("left", 1)
        assert "admission webhook denied left" in status.failure.error
        place = f"{small.cluster.name} -n {small.cluster.kube_namespace}"
        assert status.next_commands == (f"hopline retry {place}", f"hopline abort {place}")
        await self_consistent_hold(small, attempt=1)

        await small.requests.retry(small.cluster, RetryRequest())
        status = await small.held_again(status)
        assert status.failure is not None
        assert status.failure.attempt == 2
        await self_consistent_hold(small, attempt=2)

        await small.requests.retry(small.cluster, RetryRequest())
        await small.until_status(lambda seen: seen.state is not RunState.HELD)
        assert (await handle.result()).hops == 2
    asked = await small.activity_ids(handle.first_execution_run_id or "")
    calls = [one.removesuffix("/1") for one in asked if one.startswith(f"{RC3}/")]
    assert calls == [f"{RC3}/{name}" for name in ("base/apply", "left/apply", "right/apply")] + [
        f"{RC3}/left/apply/2",
        f"{RC3}/left/apply/3",
        f"{RC3}/top/apply",
    ]
    assert [len(small.applied(name)) for name in GRAPH] == [2, 2, 2, 2]
    assert len(await small.events("UpgradeHeld")) == 2
    assert len(await small.events("UpgradeResumed")) == 2
    assert not (await small.bke())["status"]["declarativeUpgrade"].get("lastFailure")
    assert not (await small.bke())["status"]["declarativeUpgrade"].get("lastError")


async def self_consistent_hold(lab: SmallLab, *, attempt: int) -> None:
    """ClusterVersion, BKECluster and events all say that `left` holds the hop."""

    def held(bke: Document) -> bool:
        failure = bke["status"].get("declarativeUpgrade", {}).get("lastFailure") or {}
        return bke["status"]["clusterStatus"] == "UpgradeFailed" and failure.get("attempt") == attempt

    bke = await lab.until_record(held)
    version = await lab.until_version(lambda one: one["status"]["phase"] == "Failed")
    conditions = {one["type"]: one for one in version["status"]["conditions"]}
    assert {name: one["status"] for name, one in conditions.items()} == {
        "Ready": "False",
        "Progressing": "False",
        "Failing": "True",
    }
    assert "hopline retry" in conditions["Failing"]["message"]
    failure = bke["status"]["declarativeUpgrade"]["lastFailure"]
    assert (failure["name"], failure["version"], failure["attempt"]) == ("left", RC3, attempt)
    assert failure["failedAt"]
    assert "admission webhook denied left" in failure["error"]
    assert bke["status"]["declarativeUpgrade"]["lastError"].startswith("left: ")
    assert bke["status"]["clusterComponentStatuses"]["left"]["phase"] == "Failed"
    assert bke["status"]["clusterHealthState"] == "UpgradeFailed"
    completed = {entry["name"] for entry in bke["status"]["declarativeUpgrade"]["completed"]}
    assert completed == {"base", "right"}
    # Events are the last writes of a publication.
    await lab.until_seen(lambda: _warnings(lab), lambda seen: seen == {"ComponentUpgradeFailed", "UpgradeHeld"})


async def _warnings(lab: SmallLab) -> set[str]:
    return {event["reason"] for event in await lab.events() if event["type"] == "Warning"}


async def test_a_retry_that_comes_while_the_hold_is_being_told_is_not_lost(small: SmallLab) -> None:
    reject(small, "left")
    gate = Gate(
        lambda call: call.subresource == "status" and call.body["status"].get("clusterStatus") == "UpgradeFailed"
    )
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        handle = await small.start(RC3)
        await gate.reached()
        assert (await small.status()).state is RunState.HELD
        await small.requests.retry(small.cluster, RetryRequest())
        gate.open()
        await handle.result()
    assert len(small.applied("left")) == 1


async def test_on_failure_fail_ends_the_run_and_gives_back(small: SmallLab) -> None:
    reject(small, "left")
    async with small.worker():
        await small.start(FINAL, on_failure=OnFailure.FAIL)
        end = await small.end()
        status = await small.status()
    assert end.type == "HopFailed"
    assert "left failed" in end.message
    assert status.state is RunState.FAILED
    assert not status.next_commands
    version, bke = await small.version(), await small.bke()
    assert small.end_state(version) == (RC2, "Failed")
    assert [(e["from"], e["to"], e["status"]) for e in version["status"]["upgradeHistory"]] == [(RC2, RC3, "Failed")]
    assert bke["status"]["declarativeUpgrade"]["lastFailure"]["name"] == "left"
    assert not {ANNOTATION_UPGRADE_READY, ANNOTATION_TAKEN_BY} & set(await small.annotations())
    assert not await small.events("UpgradeHeld")
    assert len(await small.events("UpgradeHopFailed")) == 1


INDEPENDENT = {"a": (), "b": (), "c": ("b",), "d": ("a",)}


@pytest.mark.parametrize(
    ("policy", "states"),
    [
        ("FailFast", {"a": "failed", "b": "done", "c": "pending", "d": "pending"}),
        ("Continue", {"a": "failed", "b": "done", "c": "done", "d": "pending"}),
    ],
)
async def test_failure_policy_says_what_goes_on_beside_a_failure(
    make_small: SmallLabFactory, policy: str, states: dict[str, str]
) -> None:
    lab = await make_small(INDEPENDENT, prepare=strategy("a", failurePolicy=policy))
    reject(lab, "a")
    async with lab.worker():
        handle = await lab.start(RC3)
        status = await lab.until(RunState.HELD)
        assert {component.name: component.state.value for component in status.components} == states
        await lab.requests.retry(lab.cluster, RetryRequest())
        await handle.result()
    assert [len(lab.applied(name)) for name in INDEPENDENT] == [1, 1, 1, 1]


async def test_a_deadline_holds_with_what_it_waited_for(make_small: SmallLabFactory) -> None:
    lab = await make_small({"base": (), "left": ("base",)}, roll_out=True, prepare=strategy("left", timeout="2s"))
    fault = lab.clusters.script.never_ready("Deployment", "left")
    async with lab.worker():
        handle = await lab.start(RC3)
        status = await lab.until(RunState.HELD)
        assert status.failure is not None
        assert "not rolled out within 2 s, still waiting for" in status.failure.error
        assert "left" in status.failure.error
        assert "ImagePullBackOff" in status.failure.error
        lab.clusters.script.clear(fault)
        await lab.requests.retry(lab.cluster, RetryRequest())
        await handle.result()
    assert len(lab.applied("base")) == 1


async def test_at_a_deadline_the_truth_is_read_once_more(make_small: SmallLabFactory) -> None:
    """The cluster is out of reach when the deadline passes, and well when it is back: nothing has failed."""
    lab = await make_small({"base": ()}, roll_out=True, prepare=strategy("base", timeout="5s"))
    script = lab.clusters.script
    stuck = script.never_ready("Deployment", "base")
    async with lab.worker():
        handle = await lab.start(RC3)
        await lab.until_status(lambda seen: bool(seen.components) and "base" in seen.component("base").message)
        away = script.unreachable(lab.cluster)
        script.clear(stuck)
        await last_look_is_failing(lab)
        assert (await lab.status()).component("base").state is StepState.RUNNING
        script.clear(away)
        await handle.result()
    assert not await lab.events("ComponentUpgradeFailed")


async def last_look_is_failing(lab: SmallLab) -> None:
    """Wait until the look after the deadline has failed at least once."""

    async def look() -> dict[str, Any]:
        description = await lab.handle.describe()
        pending = description.raw_description.pending_activities
        return {one.activity_id: one.attempt for one in pending if "/wait/" in one.activity_id}

    await lab.until_seen(look, lambda seen: any(attempt > 1 for attempt in seen.values()))


async def test_a_precheck_refuses_before_the_first_write_and_holds_at_the_second_hop(small: SmallLab) -> None:
    pause = {"spec": {"pause": True}}
    await small.patch(BKE_CLUSTER, pause)
    async with small.worker():
        await small.start(FINAL)
        end = await small.end()
    assert end.type == "Refused"
    assert "the cluster is paused" in end.message
    assert not small.writes("ReleaseImage")
    await small.patch(BKE_CLUSTER, {"spec": {"pause": False}})
    gate = Gate(applying("top"))
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        handle = await small.start(FINAL)
        await gate.reached()
        await small.patch(BKE_CLUSTER, pause)
        gate.open()
        status = await small.held_and_told()
        assert "the cluster is paused" in status.message
        assert small.end_state(await small.version()) == (RC3, "Failed")
        assert (await small.bke())["status"]["clusterHealthState"] == "Healthy"
        await small.patch(BKE_CLUSTER, {"spec": {"pause": False}})
        await small.requests.retry(small.cluster, RetryRequest())
        assert (await handle.result()).hops == 2


async def test_the_retry_annotation_is_removed_with_the_retry(small: SmallLab) -> None:
    reject(small, "left")
    async with small.worker():
        handle = await small.start(RC3)
        await small.until(RunState.HELD)
        await small.annotate(BKE_CLUSTER, {ANNOTATION_RETRY: ""})
        await small.requests.retry(small.cluster, RetryRequest(annotation=True))
        await handle.result()
    assert ANNOTATION_RETRY not in await small.annotations()


async def test_a_fault_that_never_ends_is_bounded_by_the_deadline(make_small: SmallLabFactory) -> None:
    lab = await make_small({"base": ()}, prepare=strategy("base", timeout="3s"))
    fault = lab.clusters.script.fail_request(
        Failure.TRANSIENT, verb=Verb.APPLY, cluster=lab.cluster, times=ALWAYS, text="connection refused"
    )
    async with lab.worker():
        handle = await lab.start(RC3)
        status = await lab.until(RunState.HELD)
        assert status.failure is not None
        assert "connection refused" in status.failure.error
        assert lab.clusters.script.hits(fault) > 1
        lab.clusters.script.clear(fault)
        await lab.requests.retry(lab.cluster, RetryRequest())
        await handle.result()


async def test_a_hop_whose_end_cannot_be_written_is_held_until_it_can(small: SmallLab) -> None:
    gate = Gate(applying("top"))
    script = small.clusters.script
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        handle = await small.start(RC3)
        await gate.reached()
        fault = script.fail_request(
            Failure.FORBIDDEN,
            verb=Verb.PATCH_STATUS,
            kind="ClusterVersion",
            times=ALWAYS,
            text="the role was taken away",
        )
        gate.open()
        status = await small.held()
        assert "the role was taken away" in status.message
        assert [hop.to_version for hop in status.finished_hops] == [RC3]
        script.clear(fault)
        await small.requests.retry(small.cluster, RetryRequest())
        await handle.result()
    version = await small.version()
    assert small.end_state(version) == (RC3, "Ready")
    assert version["metadata"]["annotations"]["hopline.dev/handled"].endswith("/Done")
    assert [entry["to"] for entry in version["status"]["upgradeHistory"]] == [RC3]
    assert [len(small.applied(name)) for name in GRAPH] == [1, 1, 1, 1]
    assert len(await small.events("HopSucceeded")) == 1


async def test_events_that_nobody_takes_hold_nothing(small: SmallLab) -> None:
    script = small.clusters.script
    fault = script.fail_request(Failure.FORBIDDEN, verb=Verb.CREATE, kind="Event", times=ALWAYS)
    async with small.worker():
        await (await small.start(RC3)).result()
    assert script.hits(fault)
    assert small.end_state(await small.version()) == (RC3, "Ready")
