"""One controller: a run is refused, or held, while another one works on its objects, and goes on when that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hooked_clusters import Call, Gate, HookedClusters, applying
from hopline.domain.cluster import FAILED_BIT
from hopline.domain.errors import OtherController
from hopline.domain.other_controllers import PLATFORM_CONTROLLER, ForeignProvider
from hopline.domain.plan import Action, Severity
from hopline.domain.resources import BKE_NODE, Document
from hopline.domain.status import RunState
from hopline.operations import one_controller
from hopline.sim.journal import EffectType
from hopline.sim.script import ALWAYS, Failure, Verb
from looking import PATIENCE
from small_lab import FINAL, RC2, RC3, SmallLab, SmallLabFactory
from starter.requests import Requests
from upgrade_lab import LabFactory, UpgradeLab
from workflows import activity_options
from workflows.messages import Question, RetryRequest, UpgradeInput

pytestmark = pytest.mark.slow

STOP = "kubectl scale deployment bke-controller-manager --replicas=0 -n cluster-system"
NAME = "Deployment cluster-system/bke-controller-manager"


@pytest.fixture(autouse=True)
def _looks_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_controller, "FRESH_SECONDS", 0.0)


def appear(lab: UpgradeLab, replicas: int = 1) -> None:
    """The existing controller comes, or with no replicas is stopped."""
    lab.clusters.put(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": PLATFORM_CONTROLLER.name, "namespace": PLATFORM_CONTROLLER.kube_namespace},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "bke"}},
                "template": {
                    "metadata": {"labels": {"app": "bke"}},
                    "spec": {"containers": [{"name": "manager", "image": "registry.test/bke:v1"}]},
                },
            },
        }
    )


async def stop(lab: UpgradeLab) -> None:
    """What the message says."""
    await lab.clusters.management.patch(PLATFORM_CONTROLLER, {"spec": {"replicas": 0}})


def requests_of(lab: UpgradeLab) -> Requests:
    return Requests(lab.client, lab.task_queue)


async def test_a_start_is_refused_by_name_and_accepted_when_it_is_stopped(small: SmallLab) -> None:
    appear(small)
    async with small.worker():
        await small.start(FINAL)
        end = await small.end()
        assert end.type == "Refused"
        assert NAME in end.message and STOP in end.message
        assert {one.subject.split()[0] for one in small.writes()} <= {"ClusterVersion", "BKECluster", "Event"}
        assert small.end_state(await small.version())[0] == RC2
        plan = (await small.requests.inspect(small.cluster, Question.PLAN, FINAL)).plan
        assert plan is not None and len(plan.hops) == 2
        assert [(one.object, one.remedy) for one in plan.blocking] == [(NAME, STOP)]
        await stop(small)
        await (await small.start(FINAL)).result()
    assert small.end_state(await small.version()) == (FINAL, "Ready")


async def test_in_mid_run_the_next_effect_is_held_until_it_is_gone(small: SmallLab) -> None:
    gate = Gate(applying("base"))
    async with small.worker(clusters=HookedClusters(small.clusters, before=gate)):
        handle = await small.start(RC3)
        await gate.reached()
        appear(small)
        gate.open()
        held = await small.held()
        assert [one.name for one in held.components if one.state.value == "done"] == ["base"]
        assert held.failure is not None
        assert NAME in held.failure.error and STOP in held.failure.error
        assert held.failure.remedy == STOP, held.failure
        assert small.applied("left") == small.applied("right") == []
        failure = (await small.until_record(lambda one: one["status"]["clusterStatus"] == "UpgradeFailed"))["status"]
        assert NAME in failure["declarativeUpgrade"]["lastFailure"]["error"]
        await small.requests.retry(small.cluster, RetryRequest())
        assert (await small.held_again(held)).failure is not None
        await stop(small)
        await small.requests.retry(small.cluster, RetryRequest())
        await handle.result()
    assert [len(small.applied(name)) for name in ("base", "left", "right", "top")] == [1, 1, 1, 1]


async def test_before_the_next_hop_it_holds_and_nothing_of_that_hop_is_written(small: SmallLab) -> None:
    async def at_the_end_of_the_first_hop(call: Call) -> None:
        if call.verb == "apply" and call.subject.endswith("/top") and not small.applied("top"):
            appear(small)

    hooks = HookedClusters(small.clusters, before=at_the_end_of_the_first_hop)
    async with small.worker(clusters=hooks):
        handle = await small.start(FINAL)
        held = await small.held()
        assert held.failure is None and held.reason == "OtherController"
        assert NAME in held.message and STOP in held.message
        await stop(small)
        await small.requests.retry(small.cluster, RetryRequest())
        await handle.result()
    assert small.end_state(await small.version()) == (FINAL, "Ready")


async def test_a_node_whose_turn_had_not_come_is_not_called_failed(
    make_sample: Callable[..., Any],
) -> None:
    lab: SmallLab = await make_sample(nodes=(1, 2))
    made: list[str] = []

    async def after_the_first_command(call: Call) -> None:
        if call.verb == "create" and call.subject.startswith("Command "):
            made.append(call.subject)
            appear(lab)

    hooks = HookedClusters(lab.clusters, after=after_the_first_command)
    async with lab.worker(clusters=hooks):
        handle = await lab.start(RC3)
        held = await lab.held()
        assert held.failure is not None
        assert NAME in held.failure.error and STOP in held.failure.error
        begun = len(made)
        nodes = (await lab.clusters.management.list(BKE_NODE, kube_namespace="east")).items
        assert not [one for one in nodes if one["status"]["stateCode"] & FAILED_BIT]
        assert {one["status"]["state"] for one in nodes} == {"Ready"}
        hooks.after = None
        await stop(lab)
        await lab.requests.retry(lab.cluster, RetryRequest())
        await handle.result()
    assert len(made) == begun


async def test_the_guard_tells_of_it_while_nothing_is_written(small: SmallLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity_options, "FIRST_LOOK", timedelta(milliseconds=200))
    monkeypatch.setattr(activity_options, "LONGEST_LOOK", timedelta(milliseconds=200))
    gate = Gate(applying("base"))
    hooks = HookedClusters(small.clusters, before=gate)
    async with small.worker(clusters=hooks):
        await small.start(RC3)
        await gate.reached()
        appear(small)
        assert NAME in await told_by_the_guard(small, 1)
        await stop(small)
        await two_looks(hooks)
        assert len(await small.events("OtherController")) == 1
        appear(small)
        assert STOP in await told_by_the_guard(small, 2)
        assert (await small.status()).state is RunState.RUNNING


async def two_looks(hooks: HookedClusters) -> None:
    """The guard looks at the controller twice: the first of them may have begun before."""
    seen = len(looks_of(hooks))
    async with asyncio.timeout(PATIENCE):
        while True:
            if len(looks_of(hooks)) >= seen + 3:
                return
            await asyncio.sleep(0.1)


def looks_of(hooks: HookedClusters) -> list[Call]:
    return [call for call in hooks.calls if call.verb == "get" and call.subject == NAME]


async def told_by_the_guard(lab: SmallLab, times: int) -> str:
    """The newest of so many events: one for each time that it came."""
    async with asyncio.timeout(PATIENCE):
        while True:
            events = await lab.events("OtherController")
            if sum(int(event.get("count") or 1) for event in events) >= times:
                return str(events[-1]["message"])
            await asyncio.sleep(0.1)


async def test_what_cannot_be_written_is_refused_before_the_first_write(small: SmallLab) -> None:
    denial = 'admission webhook "vbkecluster.kb.io" denied the request: customExtra.containerd is missing'
    script = small.clusters.script
    fault = script.fail_request(Failure.REJECTED, verb=Verb.DRY_RUN, kind="BKECluster", times=ALWAYS, text=denial)
    async with small.worker():
        await small.start(FINAL)
        end = await small.end()
        assert end.type == "Refused"
        assert denial in end.message and f"BKECluster {small.cluster}" in end.message
        assert not small.writes("ReleaseImage")
        script.clear(fault)
        await (await small.start(FINAL)).result()


# A release that brings that controller itself.


@pytest.fixture
async def foreign(make_lab: LabFactory) -> UpgradeLab:
    """The management cluster of the examples, whose stopped controller is not ours."""
    lab = await make_lab(nodes=(1, 1), self_managed=True)
    lab.changes = {"own_images": None}
    await stop(lab)
    return lab


async def controller_of(lab: UpgradeLab) -> tuple[int, str]:
    found: Document = await lab.clusters.management.get(PLATFORM_CONTROLLER)
    (container,) = found["spec"]["template"]["spec"]["containers"]
    return found["spec"]["replicas"], container["image"].rpartition(":")[2]


async def doubts_about_provider(lab: UpgradeLab) -> list[str]:
    """What a plan to the version that is there says about it."""
    plan = (await requests_of(lab).inspect(lab.cluster, Question.PLAN, FINAL)).plan
    assert plan is not None and not plan.hops
    return [one.message for one in plan.findings if "provider" in one.message]


async def test_a_foreign_provider_blocks(foreign: UpgradeLab) -> None:
    async with foreign.worker():
        plan = (await requests_of(foreign).inspect(foreign.cluster, Question.PLAN, FINAL)).plan
        assert plan is not None
        assert [one.object for one in plan.blocking] == [
            "ReleaseImage release-v26.06-rc.3",
            "ReleaseImage release-v26.06",
        ]
        assert all("provider" in one.field and "HOPLINE_OWN_IMAGES" in one.remedy for one in plan.blocking)
        await foreign.start(FINAL)
        refused = await foreign.failure()
    assert refused.type == "Refused"
    assert "cluster-api-provider-bke:v26.06-rc.3" in refused.message
    assert await controller_of(foreign) == (0, "v26.06-rc.2")


async def test_a_foreign_provider_is_skipped_on_request(foreign: UpgradeLab) -> None:
    foreign.changes |= {"foreign_provider": ForeignProvider.SKIP}
    async with foreign.worker():
        plan = (await requests_of(foreign).inspect(foreign.cluster, Question.PLAN, FINAL)).plan
        assert plan is not None and not plan.blocking
        assert [one.severity for one in plan.findings if "provider" in one.field] == [Severity.WARNS] * 2
        assert [hop.component("provider").action for hop in plan.hops] == [Action.SKIP] * 2
        assert "brings another controller" in plan.hops[0].component("provider").reason
        await foreign.start(FINAL)
        await foreign.until(RunState.DONE)
        assert not await doubts_about_provider(foreign)
    assert await controller_of(foreign) == (0, "v26.06-rc.2")
    completed = (await foreign.bke())["status"]["declarativeUpgrade"]["completed"]
    assert "provider" not in {one["name"] for one in completed}


async def test_a_foreign_provider_is_applied_without_pods_on_request(foreign: UpgradeLab) -> None:
    foreign.changes |= {"foreign_provider": ForeignProvider.SCALE_TO_ZERO}
    async with foreign.worker():
        await foreign.start(FINAL)
        await foreign.until(RunState.DONE)
        assert not await doubts_about_provider(foreign)
    assert await controller_of(foreign) == (0, "v26.06")


async def test_in_a_workload_cluster_it_is_upgraded_like_any_other_component(make_lab: LabFactory) -> None:
    lab = await make_lab(nodes=(1, 1))
    lab.changes = {"own_images": None}
    async with lab.worker():
        await lab.start(RC3)
        await lab.until(RunState.DONE)
    target = await lab.clusters.target(lab.cluster)
    found = await target.get(PLATFORM_CONTROLLER)
    assert found["spec"]["replicas"] == 2
    assert found["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":v26.06-rc.3")


# A worker that only observes.


async def test_an_observing_worker_plans_and_refuses_and_writes_nothing(small: SmallLab) -> None:
    small.changes = {"observe": True}
    appear(small)
    async with small.worker():
        plan = (await small.requests.inspect(small.cluster, Question.PLAN, FINAL)).plan
        assert plan is not None and len(plan.hops) == 2
        assert (await small.requests.inspect(small.cluster, Question.STATUS)).status is not None
        assert (await small.requests.inspect(small.cluster, Question.VERSIONS)).versions is not None
        with pytest.raises(OtherController) as caught:
            await small.requests.set_desired_version(wish(small))
        assert "only observes" in caught.value.message and NAME in caught.value.message
        assert "--observe" in caught.value.remedy
        assert (await small.end()).type == "Refused"
    assert small.clusters.journal(EffectType.WRITE) == []


async def test_a_run_that_meets_an_observing_worker_is_held(make_small: SmallLabFactory) -> None:
    lab = await make_small()
    gate = Gate(applying("base"))
    async with lab.worker(clusters=HookedClusters(lab.clusters, before=gate)):
        handle = await lab.start(RC3)
        await gate.reached()
        await lab.handle.describe()
    gate.open()
    lab.changes = {"observe": True}
    async with lab.worker():
        held = await lab.held()
        assert held.failure is not None and "only observes" in held.failure.error
    lab.changes = {}
    async with lab.worker():
        await lab.requests.retry(lab.cluster, RetryRequest())
        await handle.result()


def wish(lab: SmallLab) -> Any:
    return UpgradeInput(cluster=lab.cluster, desired_version=FINAL)
