"""What is waited for on the real API server: jobs, pods that crash, and kinds that are made anew meanwhile."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import pytest

from apply_process import read_component
from controlplane.control_plane import ControlPlane, NodeShape
from hopline.domain.errors import NotFound
from hopline.domain.resources import CUSTOM_RESOURCE_DEFINITION, Document, Kind, ObjectRef
from hopline.operations.manifest_rollout import RolloutObservation, observe_rollout, wait_for_change
from hopline.operations.manifests import apply_documents
from hopline.ports import ClusterClient
from looking import PATIENCE, until_enough

pytestmark = pytest.mark.controlplane

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec:
  activeDeadlineSeconds: SECONDS
  template:
    metadata: {annotations: {hopline.dev/test-rollout: "ROLLOUT", hopline.dev/test-delay: 1s}}
    spec: {restartPolicy: Never, containers: [{name: c, image: "registry.example.test/migrate:2"}]}
"""

CRASHING = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {hopline.dev/test-rollout: fail}}
    spec: {containers: [{name: c, image: "registry.example.test/web:2"}]}
"""

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.NAMESPACE.example.test}
spec:
  group: NAMESPACE.example.test
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


@pytest.fixture(scope="module", autouse=True)
def nodes(control_plane: ControlPlane) -> None:
    control_plane.create_nodes([NodeShape("waiting-1", "10.76.0.1", "v1.33.1")])


async def settled(client: ClusterClient, kube_namespace: str, text: str) -> list[RolloutObservation]:
    """Every observation until the component is ready or has failed."""
    objects = read_component(kube_namespace, text)
    seen = [await observe_rollout(client, objects)]
    async with asyncio.timeout(PATIENCE):
        while not seen[-1].ready and not seen[-1].failed:
            seen.append(await wait_for_change(client, objects, seen[-1], 30.0, quiet_seconds=0.5))
    return seen


async def test_a_job_is_waited_for_until_it_is_complete(client: ClusterClient, kube_namespace: str) -> None:
    text = JOB.replace("ROLLOUT", "slow").replace("SECONDS", "300")
    await apply_documents(client, read_component(kube_namespace, text))
    seen = await settled(client, kube_namespace, text)
    assert seen[-1].ready
    assert any("0 of 1 pods have succeeded" in one.waiting_for for one in seen[:-1])


async def test_a_job_that_fails_is_a_failure_at_once_and_not_at_the_deadline(
    client: ClusterClient, kube_namespace: str
) -> None:
    text = JOB.replace("ROLLOUT", "fail").replace("SECONDS", "1")
    await apply_documents(client, read_component(kube_namespace, text))
    seen = await settled(client, kube_namespace, text)
    assert f"Job {kube_namespace}/migrate" in seen[-1].failed
    assert "DeadlineExceeded" in seen[-1].failed


async def test_a_pod_that_crashes_is_named_within_seconds(
    control_plane: ControlPlane, client: ClusterClient, kube_namespace: str
) -> None:
    installed = CRASHING.replace("test-rollout: fail", "test-rollout: slow")
    control_plane.kubectl("apply", "-n", kube_namespace, "-f", "-", stdin=installed)
    objects = read_component(kube_namespace, CRASHING)
    await apply_documents(client, objects)
    seen = RolloutObservation(ready=False)
    async with asyncio.timeout(PATIENCE):
        while "CrashLoopBackOff" not in seen.waiting_for:
            seen = await wait_for_change(client, objects, seen, 60.0, quiet_seconds=60.0)
    assert seen.urgent
    assert f"Deployment {kube_namespace}/web: pod web-" in seen.waiting_for
    assert "CrashLoopBackOff: container c" in seen.waiting_for


async def test_a_watch_outlives_a_kind_that_is_deleted_and_made_anew(
    control_plane: ControlPlane, client: ClusterClient, kube_namespace: str
) -> None:
    await apply_documents(client, read_component(kube_namespace, DEFINITION))
    assert (await settled(client, kube_namespace, DEFINITION))[-1].ready
    kind = await client.resolve(f"{kube_namespace}.example.test/v1", "Gadget")
    await client.create(gadget(kube_namespace, "first"), kind=kind)
    names: set[str] = set()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as beside:
        async for change in client.watch(kind, kube_namespace=kube_namespace):
            fresh = {document["metadata"]["name"] for document in change.documents} - names
            names |= fresh
            if "first" in fresh:
                beside.create_task(made_anew(control_plane, client, kube_namespace, kind))
            if "second" in names:
                break
    assert names == {"first", "second"}


def gadget(kube_namespace: str, name: str) -> Document:
    metadata = {"name": name, "namespace": kube_namespace}
    return {"apiVersion": f"{kube_namespace}.example.test/v1", "kind": "Gadget", "metadata": metadata}


async def made_anew(control_plane: ControlPlane, client: ClusterClient, kube_namespace: str, kind: Kind) -> None:
    """The kind goes away; it comes again only when the watch has been told that nobody serves it."""
    mark = control_plane.audit_mark()
    await client.delete(ObjectRef(kind=CUSTOM_RESOURCE_DEFINITION, name=f"gadgets.{kube_namespace}.example.test"))

    async def answered() -> bool:
        asked = control_plane.audit_events(mark)
        return any(event.resource == "gadgets" and event.code == HTTPStatus.NOT_FOUND for event in asked)

    await until_enough(answered, bool)
    await apply_documents(client, read_component(kube_namespace, DEFINITION))
    assert (await settled(client, kube_namespace, DEFINITION))[-1].ready
    await made_when_served(client, gadget(kube_namespace, "second"), kind)


async def made_when_served(client: ClusterClient, document: Document, kind: Kind) -> None:
    """An API server may answer 404 for a moment after it has called a definition established."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.create(document, kind=kind)
            except NotFound:
                await asyncio.sleep(0.1)
            else:
                return
