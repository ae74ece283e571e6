"""What a careful operator does on the real API server: take over, wait for servers, name what refuses for now."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apply_process import read_component, start_apply
from controlplane.control_plane import ControlPlane, NodeShape
from hopline.domain.errors import Transient
from hopline.domain.observation import Presence
from hopline.domain.resources import CONFIG_MAP, SERVICE, VALIDATING_WEBHOOKS, Document, ObjectRef
from hopline.operations.manifest_rollout import RolloutObservation, observe_rollout, wait_for_change
from hopline.operations.manifests import apply_documents, look
from hopline.ports import ClusterClient
from looking import PATIENCE

pytestmark = pytest.mark.controlplane

SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: MODE, gone: "yes"}
"""

ROLLOUT = ", annotations: {hopline.dev/test-rollout: ROLLOUT}"
"""Left out: the pods are ready at once."""

GUARDED = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: fast}
---
apiVersion: v1
kind: Service
metadata: {name: guard}
spec: {selector: {app: guard}, ports: [{port: 443, targetPort: 8443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: guard}
spec:
  replicas: 1
  selector: {matchLabels: {app: guard}}
  template:
    metadata: {labels: {app: guard}, annotations: {hopline.dev/test-rollout: ROLLOUT}}
    spec: {containers: [{name: c, image: "registry.example.test/guard:1"}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard-NAMESPACE}
webhooks:
  - name: guard.NAMESPACE.example.test
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Fail
    timeoutSeconds: 1
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
    clientConfig: {service: {name: guard, namespace: NAMESPACE, path: /}}
"""

FORBIDDEN_PODS = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: one}
spec:
  selector: {matchLabels: {app: one}}
  template:
    metadata: {labels: {app: one}}
    spec: {hostNetwork: true, containers: [{name: c, image: "registry.example.test/c:2"}]}
---
"""


@pytest.fixture(scope="module", autouse=True)
def nodes(control_plane: ControlPlane) -> None:
    control_plane.create_nodes([NodeShape(f"careful-{number}", f"10.77.0.{number}", "v1.33.1") for number in (1, 2)])


def managers(document: Document) -> set[tuple[str, str]]:
    return {(entry["manager"], entry["operation"]) for entry in document["metadata"]["managedFields"]}


def config_map(kube_namespace: str, name: str = "settings") -> ObjectRef:
    return ObjectRef(kind=CONFIG_MAP, name=name, kube_namespace=kube_namespace)


async def test_fields_of_a_client_side_apply_become_ours_once(
    control_plane: ControlPlane, client: ClusterClient, kube_namespace: str
) -> None:
    control_plane.kubectl("apply", "-n", kube_namespace, "-f", "-", stdin=SETTINGS.replace("MODE", "fast"))
    objects = read_component(kube_namespace, SETTINGS.replace(', gone: "yes"', "").replace("MODE", "fast"))
    sighting = await look(client, objects)
    assert (sighting.presence, sighting.detail) == (
        Presence.ABSENT,
        f"ConfigMap {kube_namespace}/settings differs in .data.gone",
    )
    outcome = await apply_documents(client, objects)
    assert outcome.notes == (
        f"ConfigMap {kube_namespace}/settings: all fields of an earlier kubectl apply (client-side) are ours now, "
        "and what it no longer has is removed: .data.gone",
    )
    live = await client.get(config_map(kube_namespace))
    assert (live["data"], managers(live)) == ({"mode": "fast"}, {("bke", "Apply")})
    assert "annotations" not in live["metadata"]
    mark = control_plane.audit_mark()
    assert (await apply_documents(client, objects)).changed == ()
    assert [event for event in control_plane.audit_events(mark) if event.is_write and not event.is_dry_run] == []


async def test_an_equal_object_of_a_client_side_apply_is_there(
    control_plane: ControlPlane, client: ClusterClient, kube_namespace: str
) -> None:
    text = SETTINGS.replace("MODE", "fast")
    control_plane.kubectl("apply", "-n", kube_namespace, "-f", "-", stdin=text)
    assert (await look(client, read_component(kube_namespace, text))).presence is Presence.PRESENT


async def test_a_webhook_is_written_when_its_server_is_ready(
    control_plane: ControlPlane, client: ClusterClient, kube_namespace: str
) -> None:
    installed = GUARDED.split("---")[2].replace(ROLLOUT, "")
    control_plane.kubectl("apply", "-n", kube_namespace, "-f", "-", stdin=installed)
    stuck = read_component(kube_namespace, GUARDED.replace("ROLLOUT", "pull-error"))
    with pytest.raises(Transient) as caught:
        await apply_documents(client, stuck)
    assert "a webhook waits for its server: Deployment" in caught.value.message
    assert "ImagePullBackOff" in caught.value.message
    name = f"guard-{kube_namespace}"
    listed = control_plane.get("validatingwebhookconfigurations")["items"]
    assert name not in {one["metadata"]["name"] for one in listed}
    outcome = await apply_documents(client, read_component(kube_namespace, GUARDED.replace(ROLLOUT, "")))
    assert outcome.changed[-1] == f"ValidatingWebhookConfiguration {name}"
    await client.delete(ObjectRef(kind=VALIDATING_WEBHOOKS, name=name))


async def test_a_webhook_without_a_server_refuses_for_now(
    control_plane: ControlPlane, client: ClusterClient, kube_namespace: str
) -> None:
    """The server of somebody else's webhook is away: the write is tried again, and the message says who refuses."""
    webhook = GUARDED.split("---")[3].replace("NAMESPACE", kube_namespace)
    control_plane.kubectl("apply", "--server-side", "-f", "-", stdin=webhook)
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await apply_documents(
                        client, read_component(kube_namespace, SETTINGS.replace("MODE", "fast"), "v1")
                    )
                except Transient as error:
                    caught = error
                    break
                control_plane.kubectl("delete", "configmap", "settings", "-n", kube_namespace)
        assert f"guard.{kube_namespace}.example.test" in caught.message
        assert "see that the service behind webhook" in caught.remedy
    finally:
        await client.delete(ObjectRef(kind=VALIDATING_WEBHOOKS, name=f"guard-{kube_namespace}"))


async def test_pods_that_admission_refuses_are_told_within_seconds(
    control_plane: ControlPlane, client: ClusterClient, kube_namespace: str
) -> None:
    """Neither a DaemonSet, a StatefulSet nor a Job has a condition for it: only events tell."""
    control_plane.kubectl("label", "namespace", kube_namespace, "pod-security.kubernetes.io/enforce=baseline")
    daemon = FORBIDDEN_PODS.partition("---")[0]
    stateful = daemon.replace("DaemonSet", "StatefulSet").replace(
        "spec:\n  selector", "spec:\n  serviceName: one\n  selector"
    )
    for text in (daemon, stateful.replace("name: one", "name: two", 1)):
        control_plane.kubectl(
            "apply", "--server-side", "--field-manager=bke", "-n", kube_namespace, "-f", "-", stdin=text
        )
        objects = read_component(kube_namespace, text)
        seen = await wait_for_change(client, objects, RolloutObservation(ready=False), 60.0, quiet_seconds=60.0)
        assert seen.urgent
        assert "pods cannot be made: " in seen.waiting_for
        assert "violates PodSecurity" in seen.waiting_for
        again = await wait_for_change(client, objects, seen, 2.0, quiet_seconds=60.0)
        assert again.waiting_for == seen.waiting_for, "each refused pod has another name; the sentence stays"


async def test_a_pod_that_fits_nowhere_is_told_within_seconds(
    control_plane: ControlPlane, client: ClusterClient, kube_namespace: str
) -> None:
    text = GUARDED.split("---")[2].replace(ROLLOUT, "")
    nowhere = text.replace("spec: {containers", "spec: {nodeSelector: {example.test/no: such}, containers")
    control_plane.kubectl(
        "apply", "--server-side", "--field-manager=bke", "-n", kube_namespace, "-f", "-", stdin=nowhere
    )
    seen = await wait_for_change(
        client, read_component(kube_namespace, nowhere), RolloutObservation(ready=False), 60.0, quiet_seconds=60.0
    )
    assert (seen.urgent, "Unschedulable: " in seen.waiting_for) == (True, True), seen


async def test_an_aggregated_api_without_a_server_is_told_within_seconds(
    client: ClusterClient, kube_namespace: str
) -> None:
    text = """
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.NAMESPACE.example.test}
spec:
  group: NAMESPACE.example.test
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 15
  insecureSkipTLSVerify: true
  service: {name: nobody, namespace: NAMESPACE}
"""
    objects = read_component(kube_namespace, text)
    try:
        await apply_documents(client, objects)
        seen = await wait_for_change(client, objects, RolloutObservation(ready=False), 60.0, quiet_seconds=60.0)
        assert (seen.urgent, "ServiceNotFound" in seen.waiting_for) == (True, True), seen
    finally:
        kind = await client.resolve("apiregistration.k8s.io/v1", "APIService")
        await client.delete(ObjectRef(kind=kind, name=f"v1.{kube_namespace}.example.test"))


async def test_a_definition_whose_names_are_taken_fails_at_once(client: ClusterClient, kube_namespace: str) -> None:
    def definition(plural: str) -> str:
        return f"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.NAMESPACE.example.test}}
spec:
  group: NAMESPACE.example.test
  scope: Namespaced
  names: {{kind: Gadget, plural: {plural}}}
  versions:
    - {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}
"""

    first, second = (read_component(kube_namespace, definition(plural)) for plural in ("gadgets", "gimmicks"))
    await apply_documents(client, first)
    assert (await wait_for_change(client, first, RolloutObservation(ready=False), 60.0, quiet_seconds=60.0)).ready
    await apply_documents(client, second)
    seen = await wait_for_change(client, second, RolloutObservation(ready=False), 60.0, quiet_seconds=60.0)
    assert "Conflict" in seen.failed


REPLACED = """
apiVersion: v1
kind: ConfigMap
metadata: {name: first}
data: {version: "VERSION"}
---
apiVersion: v1
kind: Service
metadata: {name: second, annotations: {version: "VERSION"}, finalizers: [example.test/hold]}
spec: {selector: {app: x}, ports: [{port: 80}]}
"""


@pytest.mark.slow
async def test_a_process_killed_between_two_objects_is_gone_on_with_exactly_there(
    control_plane: ControlPlane, client: ClusterClient, kube_namespace: str, tmp_path: Path
) -> None:
    """The second object is held by a finalizer, so that the process dies after the first one was replaced."""
    await apply_documents(client, read_component(kube_namespace, REPLACED.replace("VERSION", "1")))
    new = REPLACED.replace("VERSION", "2").replace(", finalizers: [example.test/hold]", "")
    second = ObjectRef(kind=SERVICE, name="second", kube_namespace=kube_namespace)
    mark = control_plane.audit_mark()
    file = tmp_path / "new.yaml"
    file.write_text(new)
    killed = start_apply(control_plane.kubeconfig, kube_namespace, file, "Replace")
    async with asyncio.timeout(PATIENCE):
        async for change in client.watch(SERVICE, kube_namespace=kube_namespace, name="second"):
            if "deletionTimestamp" in change.documents[0]["metadata"]:
                break
    killed.kill()
    killed.wait()
    first = await client.get(config_map(kube_namespace, "first"))
    assert first["data"] == {"version": "2"}
    await client.patch(second, {"metadata": {"finalizers": None}})
    outcome = await apply_documents(client, read_component(kube_namespace, new, applyStrategy="Replace"))
    assert (outcome.changed, outcome.unchanged) == ((f"Service {kube_namespace}/second",), 1)
    assert (await client.get(config_map(kube_namespace, "first")))["metadata"] == first["metadata"]
    written = [
        (event.verb, event.resource)
        for event in control_plane.audit_events(mark)
        if event.is_write
        and not event.is_dry_run
        and event.kube_namespace == kube_namespace
        and "fieldManager=bke" in event.uri
    ]
    assert sorted(written) == [("patch", "configmaps"), ("patch", "services"), ("patch", "services")], written
    assert (await observe_rollout(client, read_component(kube_namespace, new))).ready
