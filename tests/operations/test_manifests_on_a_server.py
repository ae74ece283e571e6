"""Manifest components on the real API server: what only it can show about dry runs, ownership and rollouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from builders_domain import component, release, sample_facts
from controlplane.control_plane import ControlPlane, NodeShape
from hopline.domain.errors import ComponentFailed
from hopline.domain.observation import Presence
from hopline.domain.resources import CONFIG_MAP, DEPLOYMENT, ObjectRef
from hopline.operations.component_objects import ComponentObjects, read_objects
from hopline.operations.manifest_rollout import RolloutObservation, observe_rollout, wait_for_change
from hopline.operations.manifests import apply_documents, look
from hopline.ports import ClusterClient

MakeObjects = Callable[..., ComponentObjects]

WEB = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: web}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: fast}
---
apiVersion: v1
kind: Secret
metadata: {name: token}
stringData: {token: secret}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: web}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: web}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: web}
subjects:
  - {kind: ServiceAccount, name: web}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports:
    - {port: 80, targetPort: 8080}
    - {port: 53, protocol: UDP, name: dns}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: registry.example.test/web:2
          ports: [{containerPort: 8080}]
          resources: {requests: {cpu: 1000m, memory: 1Gi}, limits: {cpu: "2"}}
          env: [{name: EMPTY, value: ""}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  minReplicas: 2
  maxReplicas: 4
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
""".replace("ports:\n    - {port: 80,", "ports:\n    - {port: 80, name: http,")

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.NAMESPACE.example.test}
spec:
  group: NAMESPACE.example.test
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {size: {type: integer, default: 3}}}}
---
apiVersion: NAMESPACE.example.test/v1
kind: Gadget
metadata: {name: one, namespace: NAMESPACE-new}
spec: {}
---
apiVersion: v1
kind: Namespace
metadata: {name: NAMESPACE-new}
"""


@pytest.fixture(scope="module", autouse=True)
def nodes(control_plane: ControlPlane) -> None:
    control_plane.create_nodes([NodeShape(f"manifests-{number}", f"10.78.0.{number}", "v1.33.1") for number in (1, 2)])


@pytest.fixture
def make(kube_namespace: str) -> MakeObjects:
    def objects(text: str = WEB, version: str = "v2", **yaml: Any) -> ComponentObjects:
        declared = component("web", version, yaml={"namespace": kube_namespace, **yaml})
        files = {f"web@{version}": text.replace("NAMESPACE", kube_namespace)}
        return read_objects(release("v26.06", declared, manifests=files), declared, sample_facts())

    return objects


async def settle(client: ClusterClient, objects: ComponentObjects) -> RolloutObservation:
    """Wait as the activities do."""
    seen = await observe_rollout(client, objects)
    while not seen.ready and not seen.failed:
        seen = await wait_for_change(client, objects, seen, 30.0, quiet_seconds=0.5)
    return seen


def kubectl_apply(control_plane: ControlPlane, kube_namespace: str, text: str = WEB) -> None:
    """Somebody installed the component by hand, with client-side apply."""
    control_plane.kubectl("apply", "-n", kube_namespace, "-f", "-", stdin=text)


async def test_a_second_apply_writes_nothing(
    control_plane: ControlPlane, client: ClusterClient, make: MakeObjects, kube_namespace: str
) -> None:
    kubectl_apply(control_plane, kube_namespace, WEB.replace("web:2", "web:1"))
    objects = make()
    first = await apply_documents(client, objects)
    assert f"Deployment {kube_namespace}/web" in first.changed
    assert (await settle(client, objects)).ready
    versions = control_plane.get("all,cm,sa,role,rolebinding,secret", "-n", kube_namespace)["items"]
    mark = control_plane.audit_mark()
    second = await apply_documents(client, objects)
    assert (second.changed, second.unchanged, second.notes) == ((), 8, ())
    assert (await look(client, objects)).presence is Presence.PRESENT
    written = [
        event
        for event in control_plane.audit_events(since=mark)
        if event.is_write and not event.is_dry_run and event.kube_namespace == kube_namespace
    ]
    assert [event for event in written if event.uri.find("fieldManager=bke") >= 0] == []
    after = control_plane.get("all,cm,sa,role,rolebinding,secret", "-n", kube_namespace)["items"]
    assert {i["metadata"]["uid"]: i["metadata"]["resourceVersion"] for i in versions} == {
        i["metadata"]["uid"]: i["metadata"]["resourceVersion"] for i in after
    }


async def test_fields_of_kubectl_are_taken_and_the_scaled_replicas_stay(
    control_plane: ControlPlane, client: ClusterClient, make: MakeObjects, kube_namespace: str
) -> None:
    kubectl_apply(control_plane, kube_namespace, WEB.replace("web:2", "web:1").replace("fast", "slow"))
    patch = '{"metadata":{"managedFields":[{}]}}'
    control_plane.kubectl("patch", "configmap", "settings", "-n", kube_namespace, "--type=merge", "-p", patch)
    scale = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": kube_namespace}}
    await client.apply({**scale, "spec": {"replicas": 3}}, kind=DEPLOYMENT, field_manager="scaler", force=True)
    outcome = await apply_documents(client, make())
    live = await client.get(ObjectRef(kind=DEPLOYMENT, name="web", kube_namespace=kube_namespace))
    assert live["spec"]["replicas"] == 3
    assert live["spec"]["template"]["spec"]["containers"][0]["image"].endswith("web:2")
    told = "\n".join(outcome.notes)
    assert f"Deployment {kube_namespace}/web: left with scaler: .spec.replicas" in told
    assert 'taken over from kubectl-client-side-apply: .spec.template.spec.containers[name="web"].image' in told
    assert f"ConfigMap {kube_namespace}/settings: taken over from before-first-apply: .data.mode" in told
    assert (await apply_documents(client, make())).changed == ()


async def test_an_image_of_another_manager_blocks_with_its_name(
    client: ClusterClient, make: MakeObjects, kube_namespace: str
) -> None:
    await apply_documents(client, make(WEB.partition("---\napiVersion: apps")[0]))
    document = next(d for d in make().documents if d["kind"] == "Deployment")
    document["metadata"]["namespace"] = kube_namespace
    document["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.test/web:own"
    await client.apply(document, kind=DEPLOYMENT, field_manager="argocd")
    with pytest.raises(ComponentFailed) as caught:
        await apply_documents(client, make())
    assert "belong to argocd" in caught.value.message
    assert caught.value.field == '.spec.template.spec.containers[name="web"].image'


async def test_a_component_may_bring_kind_namespace_and_object_at_once(
    client: ClusterClient, make: MakeObjects, kube_namespace: str
) -> None:
    outcome = await apply_documents(client, make(CRD))
    assert len(outcome.changed) == 3
    assert outcome.changed[2] == f"Gadget {kube_namespace}-new/one"
    assert (await observe_rollout(client, make(CRD))).ready
    assert (await apply_documents(client, make(CRD))).changed == ()


async def test_a_mistake_in_one_object_stops_the_component_before_its_first_write(
    client: ClusterClient, make: MakeObjects, kube_namespace: str
) -> None:
    settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {mode: fast}\n"
    broken = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 99999}]}\n"
    with pytest.raises(ComponentFailed) as caught:
        await apply_documents(client, make(settings + broken))
    assert "nothing was written" in caught.value.message
    assert "spec.ports[0].port" in str(caught.value)
    ref = ObjectRef(kind=CONFIG_MAP, name="settings", kube_namespace=kube_namespace)
    with pytest.raises(Exception, match="not found"):
        await client.get(ref)


async def test_a_misspelt_field_stops_the_component(client: ClusterClient, make: MakeObjects) -> None:
    with pytest.raises(ComponentFailed, match="datta"):
        await apply_documents(
            client, make("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndatta: {mode: fast}\n")
        )


async def test_replace_makes_a_new_object_where_a_change_is_impossible(
    client: ClusterClient, make: MakeObjects, kube_namespace: str
) -> None:
    job = """
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: "registry.example.test/c:1"}]}
"""
    await apply_documents(client, make(job, applyStrategy="Replace"))
    changed = job.replace("c:1", "c:2")
    with pytest.raises(ComponentFailed, match="immutable"):
        await apply_documents(client, make(changed))
    outcome = await apply_documents(client, make(changed, applyStrategy="Replace"))
    assert outcome.changed == (f"Job {kube_namespace}/once",)
    assert "immutable" in outcome.notes[0]
    assert (await apply_documents(client, make(changed, applyStrategy="Replace"))).changed == ()


async def test_requests_of_a_component_that_is_there(
    control_plane: ControlPlane, client: ClusterClient, make: MakeObjects, kube_namespace: str
) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {mode: fast}\n"
    await apply_documents(client, make(text))
    mark = control_plane.audit_mark()
    await apply_documents(client, make(text))
    asked = [e.verb for e in control_plane.audit_events(since=mark) if e.kube_namespace == kube_namespace]
    assert asked == ["get", "patch"]


WORKLOADS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: deployment}
spec:
  replicas: 2
  selector: {matchLabels: {app: deployment}}
  template:
    metadata: {labels: {app: deployment}}
    spec: {containers: [{name: c, image: "registry.example.test/c:IMAGE"}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: stateful}
spec:
  replicas: 2
  serviceName: stateful
  selector: {matchLabels: {app: stateful}}
  template:
    metadata: {labels: {app: stateful}}
    spec: {containers: [{name: c, image: "registry.example.test/c:IMAGE"}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: daemon}
spec:
  selector: {matchLabels: {app: daemon}}
  template:
    metadata: {labels: {app: daemon}}
    spec: {containers: [{name: c, image: "registry.example.test/c:IMAGE"}]}
"""


async def test_a_rollout_is_over_when_every_pod_is_new(
    control_plane: ControlPlane, client: ClusterClient, make: MakeObjects, kube_namespace: str
) -> None:
    kubectl_apply(control_plane, kube_namespace, WORKLOADS.replace("IMAGE", "1"))
    assert (await settle(client, make(WORKLOADS.replace("IMAGE", "1")))).ready
    objects = make(WORKLOADS.replace("IMAGE", "2"))
    assert len((await apply_documents(client, objects)).changed) == 3
    assert not (await observe_rollout(client, objects)).ready
    assert (await settle(client, objects)).ready
    pods = control_plane.get("pods", "-n", kube_namespace)["items"]
    images = [pod["spec"]["containers"][0]["image"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    assert len(images) >= 6
    assert set(images) == {"registry.example.test/c:2"}


async def test_a_pod_that_cannot_start_is_named_within_seconds(
    control_plane: ControlPlane, client: ClusterClient, make: MakeObjects, kube_namespace: str
) -> None:
    deployment = WORKLOADS.partition("---")[0].replace("IMAGE", "1")
    kubectl_apply(control_plane, kube_namespace, deployment)
    stuck = deployment.replace(
        "metadata: {labels:", 'metadata: {annotations: {hopline.dev/test-rollout: "pull-error"}, labels:'
    )
    objects = make(stuck)
    await apply_documents(client, objects)
    seen = await wait_for_change(client, objects, RolloutObservation(ready=False), 60.0, quiet_seconds=60.0)
    assert seen.urgent
    assert seen.waiting_for.startswith(f"Deployment {kube_namespace}/deployment: pod deployment-")
    assert "ImagePullBackOff: container c, image registry.example.test/c:1" in seen.waiting_for
    again = await wait_for_change(client, objects, seen, 1.0)
    assert again.waiting_for == seen.waiting_for
