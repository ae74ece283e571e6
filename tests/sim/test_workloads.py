"""Deployments, DaemonSets, StatefulSets, Jobs and Services behave as their controllers would, by timers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hopline.domain.errors import NotFound
from hopline.domain.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    DAEMON_SET,
    DEPLOYMENT,
    ENDPOINTS,
    JOB,
    NODE,
    POD,
    STATEFUL_SET,
    Document,
    Kind,
    ObjectRef,
)

SERVICE = Kind(api_version="v1", kind="Service")
HOME = "default"


def workload(kind: Kind, image: str, **spec: object) -> Document:
    labels = {"app": "web"}
    container = {"name": "web", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "web", "namespace": HOME},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


class Web:
    """One workload of the target cluster."""

    def __init__(self, world: Any, client: Any, kind: Kind) -> None:
        self.world, self.client, self.kind = world, client, kind
        self.ref = ObjectRef(kind=kind, name="web", kube_namespace=HOME)

    async def apply(self, image: str, **spec: object) -> Document:
        document = workload(self.kind, image, **spec)
        return await self.client.apply(document, kind=self.kind, field_manager="bke", force=True)

    async def status(self) -> Document:
        return dict((await self.client.get(self.ref))["status"])

    async def pods(self) -> list[Document]:
        return list((await self.client.list(POD, kube_namespace=HOME, labels="app=web")).items)

    async def images(self) -> list[str]:
        return sorted(pod["spec"]["containers"][0]["image"] for pod in await self.pods())


@pytest.fixture
async def web(world):
    async def made(kind: Kind) -> Web:
        return Web(world, await world.target(), kind)

    return made


def conditions(status: Document) -> dict[str, tuple[str, str]]:
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in status["conditions"]}


async def test_a_deployment_is_ready_at_once_when_nothing_takes_time(web) -> None:
    deployment = await web(DEPLOYMENT)
    made = await deployment.apply("web:1", replicas=2)
    assert "status" not in made
    status = await deployment.status()
    assert conditions(status) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    del status["conditions"]
    counts = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    assert status == {"observedGeneration": 1, **counts}


async def test_a_deployment_replaces_its_pods_one_after_the_other(web, world) -> None:
    deployment = await web(DEPLOYMENT)
    await deployment.apply("web:1", replicas=4)
    old = {pod["metadata"]["uid"] for pod in await deployment.pods()}
    world.clusters.script.rollout_seconds(8.0)
    await deployment.apply("web:2", replicas=4)
    status = await deployment.status()
    assert (status["observedGeneration"], status.get("updatedReplicas"), status["replicas"]) == (2, None, 4)
    assert conditions(status)["Progressing"] == ("True", "ReplicaSetUpdated")
    for seconds, updated in ((2, 1), (2, 2), (2, 3), (2, 4)):
        world.clock.advance(seconds)
        assert (await deployment.status())["updatedReplicas"] == updated
    assert conditions(await deployment.status())["Progressing"] == ("True", "NewReplicaSetAvailable")
    assert await deployment.images() == ["web:2"] * 4
    assert old.isdisjoint(pod["metadata"]["uid"] for pod in await deployment.pods())


async def test_a_rollout_goes_on_while_every_process_is_dead(web, world) -> None:
    deployment = await web(DEPLOYMENT)
    await deployment.apply("web:1")
    world.clusters.script.rollout_seconds(8.0)
    await deployment.apply("web:2")
    await world.reopen()
    world.clock.advance(100)
    deployment.client = await world.target()
    status = await deployment.status()
    assert status["updatedReplicas"] == 1
    progressing = next(entry for entry in status["conditions"] if entry["type"] == "Progressing")
    assert progressing["status"] == "True"
    (pod,) = await deployment.pods()
    assert pod["status"]["startTime"] == "2027-01-15T08:00:08Z"


async def test_a_change_of_replicas_replaces_nothing(web, world) -> None:
    deployment = await web(DEPLOYMENT)
    await deployment.apply("web:1", replicas=3)
    before = {pod["metadata"]["uid"] for pod in await deployment.pods()}
    world.clusters.script.rollout_seconds(8.0)
    await deployment.apply("web:1", replicas=5)
    assert (await deployment.status())["readyReplicas"] == 5
    await deployment.apply("web:1", replicas=2)
    left = {pod["metadata"]["uid"] for pod in await deployment.pods()}
    assert len(left) == 2
    assert left < before


async def test_slow_is_only_what_was_named(web, world) -> None:
    world.clusters.script.rollout_seconds(8.0)
    world.clusters.script.rollout_seconds(1.0, kind="Deployment", kube_namespace=HOME, name="web")
    deployment, daemon_set = await web(DEPLOYMENT), await web(DAEMON_SET)
    await deployment.apply("web:1")
    await daemon_set.apply("web:1")
    world.clock.advance(1)
    assert (await deployment.status())["readyReplicas"] == 1
    assert (await daemon_set.status())["numberReady"] < 8
    world.clock.advance(7)
    assert (await daemon_set.status())["numberReady"] == 8


async def test_a_daemon_set_has_a_pod_on_every_node(web, world) -> None:
    daemon_set = await web(DAEMON_SET)
    await daemon_set.apply("web:1")
    assert await daemon_set.status() == {
        "observedGeneration": 1,
        "currentNumberScheduled": 8,
        "desiredNumberScheduled": 8,
        "numberMisscheduled": 0,
        "numberReady": 8,
        "updatedNumberScheduled": 8,
        "numberAvailable": 8,
    }
    nodes = {pod["spec"]["nodeName"] for pod in await daemon_set.pods()}
    assert nodes == {"m1", "m2", "m3", "w1", "w2", "w3", "w4", "w5"}
    await daemon_set.client.delete(ObjectRef(kind=NODE, name="w5"))
    assert (await daemon_set.status())["desiredNumberScheduled"] == 7


async def test_a_daemon_set_that_replaces_on_delete_waits_for_it(web, world) -> None:
    daemon_set = await web(DAEMON_SET)
    strategy = {"type": "OnDelete"}
    await daemon_set.apply("web:1", updateStrategy=strategy)
    await daemon_set.apply("web:2", updateStrategy=strategy)
    status = await daemon_set.status()
    assert (status["observedGeneration"], status.get("updatedNumberScheduled")) == (2, None)
    pod = (await daemon_set.pods())[0]
    metadata = pod["metadata"]
    await daemon_set.client.delete(ObjectRef(kind=POD, name=metadata["name"], kube_namespace=HOME))
    assert (await daemon_set.status())["updatedNumberScheduled"] == 1
    assert (await daemon_set.images()).count("web:2") == 1


async def test_a_stateful_set_honours_its_partition(web) -> None:
    stateful_set = await web(STATEFUL_SET)
    await stateful_set.apply("web:1", replicas=3, serviceName="web")
    old = await stateful_set.status()
    assert old["currentRevision"] == old["updateRevision"]
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    await stateful_set.apply("web:2", replicas=3, serviceName="web", updateStrategy=strategy)
    status = await stateful_set.status()
    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (3, 3, 1)
    assert status["currentRevision"] == old["currentRevision"] != status["updateRevision"]
    newest = next(pod for pod in await stateful_set.pods() if pod["spec"]["containers"][0]["image"] == "web:2")
    assert newest["metadata"]["name"] == "web-2"


async def test_a_pod_that_is_deleted_comes_back_with_another_uid(web) -> None:
    deployment = await web(DEPLOYMENT)
    await deployment.apply("web:1")
    (old,) = await deployment.pods()
    ref = ObjectRef(kind=POD, name=old["metadata"]["name"], kube_namespace=HOME)
    await deployment.client.delete(ref)
    (new,) = await deployment.pods()
    assert new["metadata"]["uid"] != old["metadata"]["uid"]


async def test_pods_go_with_their_workload(web) -> None:
    deployment = await web(DEPLOYMENT)
    await deployment.apply("web:1", replicas=2)
    await deployment.client.delete(deployment.ref)
    assert await deployment.pods() == []


async def test_a_rollout_that_never_gets_ready_stops_at_its_first_new_pod(web, world) -> None:
    deployment = await web(DEPLOYMENT)
    await deployment.apply("web:1", replicas=3, progressDeadlineSeconds=60)
    fault = world.clusters.script.never_ready("Deployment", "web", text="ImagePullBackOff")
    await deployment.apply("web:2", replicas=3, progressDeadlineSeconds=60)
    status = await deployment.status()
    assert (status["updatedReplicas"], status["readyReplicas"], status["unavailableReplicas"]) == (1, 2, 1)
    stuck = next(pod for pod in await deployment.pods() if pod["status"]["phase"] == "Pending")
    assert stuck["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "ImagePullBackOff"}}
    world.clock.advance(60)
    status = await deployment.status()
    assert conditions(status)["Progressing"] == ("False", "ProgressDeadlineExceeded")
    assert world.clusters.script.hits(fault) == 1


async def test_a_stuck_rollout_goes_on_when_its_cause_is_gone(web, world) -> None:
    deployment = await web(DEPLOYMENT)
    await deployment.apply("web:1", replicas=3)
    fault = world.clusters.script.never_ready("Deployment", "web")
    await deployment.apply("web:2", replicas=3)
    assert (await deployment.status())["updatedReplicas"] == 1
    world.clusters.script.clear(fault)
    status = await deployment.status()
    assert (status["updatedReplicas"], status["readyReplicas"]) == (3, 3)
    assert conditions(status)["Progressing"] == ("True", "NewReplicaSetAvailable")


async def test_a_service_leads_to_ready_pods_only(web, world) -> None:
    deployment = await web(DEPLOYMENT)
    await deployment.apply("web:1", replicas=2)
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": HOME},
        "spec": {"selector": {"app": "web"}, "ports": ports},
    }
    await deployment.client.create(service, kind=SERVICE)
    endpoints = ObjectRef(kind=ENDPOINTS, name="web", kube_namespace=HOME)
    (subset,) = (await deployment.client.get(endpoints))["subsets"]
    assert len(subset["addresses"]) == 2
    assert subset["ports"] == [{"port": 8080, "protocol": "TCP", "name": "http"}]
    world.clusters.script.never_ready("Deployment", "web")
    await deployment.apply("web:2", replicas=2)
    (subset,) = (await deployment.client.get(endpoints))["subsets"]
    assert len(subset["addresses"]) == 1
    await deployment.client.delete(deployment.ref)
    assert (await deployment.client.get(endpoints))["subsets"] == []


def job() -> Document:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job:1"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "migrate", "namespace": HOME},
        "spec": {"template": template, "backoffLimit": 2},
    }


async def test_a_job_completes_after_its_time(world) -> None:
    client = await world.target()
    world.clusters.script.job_seconds(30.0)
    await client.create(job(), kind=JOB)
    ref = ObjectRef(kind=JOB, name="migrate", kube_namespace=HOME)
    assert (await client.get(ref))["status"] == {"active": 1, "startTime": "2027-01-15T08:00:00Z"}
    world.clock.advance(30)
    status = (await client.get(ref))["status"]
    assert (status["succeeded"], status["completionTime"]) == (1, "2027-01-15T08:00:30Z")
    assert conditions(status)["Complete"] == ("True", "CompletionsReached")


async def test_a_job_fails_as_scripted(world) -> None:
    client = await world.target()
    world.clusters.script.never_ready("Job", "migrate", text="no route to the database")
    await client.create(job(), kind=JOB)
    status = (await client.get(ObjectRef(kind=JOB, name="migrate", kube_namespace=HOME)))["status"]
    assert conditions(status)["Failed"] == ("True", "BackoffLimitExceeded")
    assert "succeeded" not in status


async def test_a_definition_is_served_as_soon_as_it_is_there(world) -> None:
    client = await world.target()
    with pytest.raises(NotFound):
        await client.resolve("example.test/v1", "Widget")
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.test"},
        "spec": {
            "group": "example.test",
            "scope": "Cluster",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}},
                {"name": "v0", "served": False, "storage": False},
            ],
        },
    }
    await client.apply(definition, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="bke")
    ref = ObjectRef(kind=CUSTOM_RESOURCE_DEFINITION, name="widgets.example.test")
    status = (await client.get(ref))["status"]
    assert conditions(status)["Established"][0] == "True"
    widget = await client.resolve("example.test/v1", "Widget")
    assert widget.namespaced is False
    with pytest.raises(NotFound):
        await client.resolve("example.test/v0", "Widget")
    made = copy.deepcopy({"apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": "one"}, "status": {}})
    assert "status" not in await client.create(made, kind=widget)
    await client.delete(ref)
    with pytest.raises(NotFound):
        await client.resolve("example.test/v1", "Widget")
