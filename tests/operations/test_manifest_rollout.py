"""Waiting for a component by watch: what is told, when it returns, and what it costs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hopline.domain.errors import Forbidden, Transient
from hopline.domain.resources import DEPLOYMENT, POD, Document, ObjectRef
from hopline.operations.health_checks import check_health
from hopline.operations.manifest_rollout import RolloutObservation, observe_rollout, wait_for_change
from hopline.operations.manifests import apply_documents
from hopline.operations.rollout_judgement import Source, judge, selector_text
from hopline.sim.script import Failure, Verb
from manifest_lab import Lab, simulated_lab  # noqa: F401

NOTHING_KNOWN = RolloutObservation(ready=False)

DEPLOY = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      containers:
        - {name: web, image: "registry/web:2"}
"""

WEB = DEPLOY.replace("NAME", "web")
TWO = WEB + "---" + DEPLOY.replace("NAME", "api")

PODS_OF_WEB = {
    "enabled": True,
    "checks": [{"type": "PodReady", "podReady": {"namespace": "web", "labelSelector": "app=web", "minReady": 2}}],
}


async def apply(lab: Lab, text: str, **yaml: Any) -> Any:
    """Write the component, installed or not; its objects."""
    objects = lab.objects(text, **yaml)
    await lab.install(text)
    await apply_documents(lab.client, objects)
    return objects


def pod_in_trouble(reason: str, labels: dict[str, str]) -> Document:
    container = {"name": "web", "image": "registry/web:2", "state": {"waiting": {"reason": reason}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stuck", "namespace": "web", "labels": labels},
        "status": {"containerStatuses": [container]},
    }


async def test_a_finished_rollout_is_ready_at_once(lab: Lab) -> None:
    objects = await apply(lab, TWO)
    assert await observe_rollout(lab.client, objects) == RolloutObservation(
        ready=True, detail="2 of 2 workloads are rolled out"
    )
    seen = await wait_for_change(lab.client, objects, NOTHING_KNOWN, 30.0)
    assert seen.ready


async def test_a_component_without_workloads_is_ready_without_a_request(lab: Lab) -> None:
    objects = lab.objects("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
    before = lab.client.requests.copy()
    assert (await observe_rollout(lab.client, objects)).ready
    assert (await wait_for_change(lab.client, objects, NOTHING_KNOWN, 30.0)).ready
    assert lab.spent(before) == {}


async def test_waiting_ends_when_the_pods_are_new(lab: Lab) -> None:
    lab.script.rollout_seconds(3600)
    objects = await apply(lab, WEB)
    first = await observe_rollout(lab.client, objects)
    assert not first.ready
    assert first.waiting_for.startswith("Deployment web/web: ")
    before = lab.client.requests.copy()
    waiting = asyncio.create_task(wait_for_change(lab.client, objects, first, 30.0))
    await asyncio.sleep(0)
    lab.ahead = 3600
    seen = await waiting
    assert seen.ready
    spent = lab.spent(before)
    assert set(spent) == {"watch"}, "a wait watches; it neither lists nor polls"
    assert spent["watch"] <= 2, "one watch for the workload, one for its pods"


async def test_a_wait_without_news_ends_in_time_and_says_what_it_sees(lab: Lab) -> None:
    lab.script.never_ready("Deployment", "web")
    objects = await apply(lab, WEB)
    known = await observe_rollout(lab.client, objects)
    seen = await wait_for_change(lab.client, objects, known, 0.2)
    assert seen == known


async def test_a_pod_that_cannot_start_is_told_with_its_reason(lab: Lab) -> None:
    lab.script.never_ready("Deployment", "web", text="ImagePullBackOff")
    objects = await apply(lab, WEB)
    seen = await wait_for_change(lab.client, objects, NOTHING_KNOWN, 30.0, quiet_seconds=20.0)
    assert seen.urgent
    assert "cannot start: ImagePullBackOff" in seen.waiting_for
    assert seen.waiting_for.startswith("Deployment web/web: pod ")


async def test_trouble_that_comes_later_ends_the_wait_at_once(lab: Lab) -> None:
    lab.script.rollout_seconds(3600)
    objects = await apply(lab, WEB)
    known = await observe_rollout(lab.client, objects)
    waiting = asyncio.create_task(wait_for_change(lab.client, objects, known, 60.0, quiet_seconds=50.0))
    await asyncio.sleep(0)
    lab.put(pod_in_trouble("CrashLoopBackOff", {"app": "web"}))
    assert "CrashLoopBackOff" in (await waiting).waiting_for


async def test_mere_counts_are_told_after_the_quiet_time_only(lab: Lab) -> None:
    lab.script.rollout_seconds(3600)
    objects = await apply(lab, WEB)
    other = RolloutObservation(ready=False, waiting_for="Deployment web/web: 0 of 9 pods are new")
    loop = asyncio.get_running_loop()
    began = loop.time()
    seen = await wait_for_change(lab.client, objects, other, 60.0, quiet_seconds=0.3)
    assert loop.time() - began >= 0.3
    assert seen.waiting_for != other.waiting_for


async def test_a_rollout_that_gave_up_is_failed(lab: Lab) -> None:
    lab.script.rollout_seconds(3600)
    objects = await apply(lab, WEB)
    ref = ObjectRef(kind=DEPLOYMENT, name="web", kube_namespace="web")
    live = await lab.client.get(ref)
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too late"}
    status = {"observedGeneration": live["metadata"]["generation"], "conditions": [late]}
    waiting = asyncio.create_task(wait_for_change(lab.client, objects, NOTHING_KNOWN, 60.0, quiet_seconds=50.0))
    await lab.client.patch(ref, {"status": status}, subresource="status")
    seen = await waiting
    assert seen.failed == "Deployment web/web: ProgressDeadlineExceeded: too late"
    assert not seen.ready


async def test_the_workload_in_trouble_is_told_before_one_that_is_only_slow(lab: Lab) -> None:
    lab.script.rollout_seconds(3600)
    objects = await apply(lab, TWO)
    lab.put(pod_in_trouble("ImagePullBackOff", {"app": "api"}))
    assert (await observe_rollout(lab.client, objects)).waiting_for.startswith("Deployment web/api: pod stuck")


async def test_a_workload_that_is_gone_is_told(lab: Lab) -> None:
    seen = await observe_rollout(lab.client, lab.objects(WEB))
    assert (seen.ready, seen.waiting_for) == (False, "Deployment web/web: it does not exist")


@pytest.mark.parametrize("failure", [Failure.TRANSIENT, Failure.FORBIDDEN])
async def test_one_look_reports_a_server_that_does_not_answer(lab: Lab, failure: Failure) -> None:
    objects = await apply(lab, WEB)
    lab.script.fail_request(failure, verb=Verb.GET)
    with pytest.raises((Transient, Forbidden)):
        await observe_rollout(lab.client, objects)


async def test_a_wait_survives_a_server_that_is_away(lab: Lab) -> None:
    objects = await apply(lab, WEB)
    away = lab.script.unreachable(None)
    waiting = asyncio.create_task(wait_for_change(lab.client, objects, NOTHING_KNOWN, 30.0))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    lab.script.clear(away)
    assert (await waiting).ready


async def test_a_wait_says_so_when_the_server_never_answered(lab: Lab) -> None:
    objects = await apply(lab, WEB)
    lab.script.unreachable(None)
    seen = await wait_for_change(lab.client, objects, NOTHING_KNOWN, 0.2)
    assert (seen.ready, seen.waiting_for) == (False, "the API server of the cluster, which does not answer")


async def test_a_watch_that_is_forbidden_ends_the_wait(lab: Lab) -> None:
    objects = await apply(lab, WEB)
    lab.script.fail_request(Failure.FORBIDDEN, verb=Verb.WATCH, times=-1)
    with pytest.raises(Forbidden):
        await wait_for_change(lab.client, objects, NOTHING_KNOWN, 30.0)


async def test_a_wait_leaves_no_watch_behind(lab: Lab) -> None:
    objects = await apply(lab, TWO)
    await wait_for_change(lab.client, objects, NOTHING_KNOWN, 30.0)
    assert not [task for task in asyncio.all_tasks() if "_follow" in repr(task.get_coro())]


class TestHealth:
    """Documented health checks come after the rollout, and are waited for by watch too (openfuyao-api.md §7.6)."""

    async def test_they_pass_when_their_pods_are_ready(self, lab: Lab) -> None:
        objects = await apply(lab, WEB, healthCheck=PODS_OF_WEB)
        assert (await observe_rollout(lab.client, objects)).ready
        assert (await check_health(lab.client, objects.health)).passed

    async def test_what_is_missing_is_told_and_waited_for(self, lab: Lab) -> None:
        endpoint = {"type": "EndpointReady", "endpointReady": {"namespace": "web", "serviceName": "web", "port": 80}}
        objects = await apply(lab, WEB, healthCheck={"enabled": True, "checks": [endpoint]})
        told = "Endpoints web/web does not exist"
        known = await observe_rollout(lab.client, objects)
        assert known.waiting_for == f"health check: {told}"
        assert (await check_health(lab.client, objects.health)).message == f"health check: {told}"
        waiting = asyncio.create_task(wait_for_change(lab.client, objects, known, 60.0))
        await asyncio.sleep(0)
        subsets = [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]
        metadata = {"name": "web", "namespace": "web"}
        lab.put({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets})
        assert (await waiting).ready

    async def test_no_worker_runs_a_shell_command_of_a_release(self, lab: Lab) -> None:
        checks = [{"type": "Custom", "custom": {"command": "exit 1"}}]
        objects = await apply(lab, WEB, healthCheck={"enabled": True, "checks": checks})
        assert (await observe_rollout(lab.client, objects)).ready

    async def test_disabled_checks_are_not_looked_at(self, lab: Lab) -> None:
        objects = await apply(lab, WEB, healthCheck={**PODS_OF_WEB, "enabled": False})
        before = lab.client.requests.copy()
        assert (await check_health(lab.client, objects.health)).passed
        assert lab.spent(before) == {}


def test_pods_are_looked_at_only_while_a_workload_is_not_ready(lab: Lab) -> None:
    objects = lab.objects(WEB)
    workloads = judge(objects, {}).needs
    assert workloads == (Source(DEPLOYMENT, "web", name="web"),)
    live: Document = {**objects.documents[0], "status": {"observedGeneration": 0}}
    pending = judge(objects, {workloads[0]: {"web": live}})
    assert pending.needs[1:] == (Source(POD, "web", labels="app=web"),)
    live = {**live, "status": {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}}
    assert judge(objects, {workloads[0]: {"web": live}}).needs == workloads


def test_a_job_that_removes_itself_is_done_when_it_is_gone(lab: Lab) -> None:
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {ttlSecondsAfterFinished: 5}\n"
    objects = lab.objects(job)
    needs = judge(objects, {}).needs
    assert judge(objects, {needs[0]: {}}).observation.ready
    plain = lab.objects(job.replace("ttlSecondsAfterFinished: 5", "parallelism: 1"))
    assert judge(plain, {needs[0]: {}}).observation.waiting_for == "Job web/j: it does not exist"


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "t", "operator": "In", "values": ["x", "y"]}]}, "t in (x,y)"),
        ({"matchExpressions": [{"key": "t", "operator": "NotIn", "values": ["x"]}]}, "t notin (x)"),
        ({"matchExpressions": [{"key": "t", "operator": "Exists"}, {"key": "u", "operator": "DoesNotExist"}]}, "t,!u"),
        ({}, ""),
    ],
)
def test_selectors_as_text(selector: Document, text: str) -> None:
    assert selector_text(selector) == text
