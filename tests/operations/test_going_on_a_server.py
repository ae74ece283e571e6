"""On the real API server: what is known to change is all that changes, and only our own leftovers go."""

from __future__ import annotations

from typing import Any

from builders_domain import component, release, sample_facts
from controlplane.control_plane import ControlPlane
from hopline.domain.coming_changes import may_change
from hopline.domain.release import Release
from hopline.domain.resources import CONFIG_MAP
from hopline.operations.component_objects import ComponentObjects, place_objects, read_objects
from hopline.operations.dry_run import DryRun
from hopline.operations.live_objects import read_live
from hopline.operations.manifests import apply_documents
from hopline.operations.pruning import Succession, prune
from hopline.ports import ClusterClient

OBJECTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web, tier: a}}
data: {mode: fast, more: x}
---
apiVersion: v1
kind: Secret
metadata: {name: token, labels: {app: web}}
data: {token: c2VjcmV0}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web, tier: a}
  ports:
    - {port: 80, targetPort: 8080, name: http}
    - {port: 53, protocol: UDP, name: dns}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {a: b}}
    spec:
      containers:
        - name: web
          image: registry.example.test/web:2
          ports: [{containerPort: 8080}]
          resources: {requests: {cpu: 100m, memory: 1Gi}}
          env: [{name: A, value: b}, {name: B, value: c}]
      tolerations: [{operator: Exists}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: web}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [get, list]}
"""

CHANGES = [
    ("mode: fast, more: x", "mode: slow, more: x"),
    ("mode: fast, more: x", "mode: fast"),
    ("app: web, tier: a}}\ndata", "app: web}}\ndata"),
    ("    - {port: 53, protocol: UDP, name: dns}\n", ""),
    ("targetPort: 8080", "targetPort: 8081"),
    ("selector: {app: web, tier: a}", "selector: {app: web}"),
    ("{name: A, value: b}, ", ""),
    ("name: B, value: c", "name: B, value: d"),
    (", annotations: {a: b}", ""),
    ("      tolerations: [{operator: Exists}]\n", ""),
    ("verbs: [get, list]", "verbs: [get]"),
    ("memory: 1Gi", "memory: 2Gi"),
    ("replicas: 0", "replicas: 1"),
    ("c2VjcmV0", "b3RoZXI="),
]


def bundle(text: str, version: str, kube_namespace: str) -> Release:
    spec: dict[str, Any] = {"namespace": kube_namespace, "prune": True, "pruneLabelSelector": {"app": "web"}}
    return release(version, component("web", version, yaml=spec), manifests={f"web@{version}": text})


def objects(text: str, kube_namespace: str, version: str = "v1") -> ComponentObjects:
    made = bundle(text, version, kube_namespace)
    return read_objects(made, made.components[0], sample_facts())


async def test_what_is_there_is_no_change_and_every_change_is_seen(client: ClusterClient, kube_namespace: str) -> None:
    wanted = objects(OBJECTS, kube_namespace)
    targets, _ = await place_objects(client, wanted)
    for target in targets:
        await client.apply(target.document, kind=target.ref.kind, field_manager="bke")
    live = await read_live(client, targets)
    seen = {str(target.ref): may_change(live[target.ref] or {}, target.document, "bke") for target in targets}
    assert not any(seen.values()), seen
    for old, new in CHANGES:
        assert old in OBJECTS
        targets, _ = await place_objects(client, objects(OBJECTS.replace(old, new), kube_namespace))
        live = await read_live(client, targets)
        dry_run = DryRun(client, live, "bke")
        really = {str(target.ref) for target in targets if (await dry_run.intent(target)).writes}
        suspected = {str(one.ref) for one in targets if may_change(live[one.ref] or {}, one.document, "bke")}
        assert len(really) == 1, (old, really)
        assert suspected == really, (old, new)


async def test_only_what_we_alone_have_applied_is_pruned(
    control_plane: ControlPlane, client: ClusterClient, kube_namespace: str
) -> None:
    mine = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, labels: {app: web}}\ndata: {a: b}\n"
    names = ("gone", "shared", "foreign", "kept")
    before = "---\n".join(mine.replace("NAME", name) for name in names)
    claim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, labels: {app: web}}\n"
    claim += "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
    await apply_documents(client, objects(before + claim, kube_namespace))
    shared = mine.replace("NAME", "shared")
    control_plane.kubectl("apply", "--server-side", "-n", kube_namespace, "-f", "-", stdin=shared)
    control_plane.kubectl("delete", "configmap", "foreign", "-n", kube_namespace)
    control_plane.kubectl("apply", "-n", kube_namespace, "-f", "-", stdin=mine.replace("NAME", "foreign"))
    after = bundle(mine.replace("NAME", "kept"), "v2", kube_namespace)
    succession = Succession(bundle(before + claim, "v1", kube_namespace), after, after.components[0], sample_facts())
    told = {str(orphan) for orphan in await prune(client, succession, "bke")}
    place = kube_namespace
    assert told == {
        f"ConfigMap {place}/gone deleted",
        f"ConfigMap {place}/shared left alone: kubectl applies it too",
        f"ConfigMap {place}/foreign left alone: bke has not applied it",
        f"PersistentVolumeClaim {place}/data left alone: a PersistentVolumeClaim is never pruned",
    }
    listed = await client.list(CONFIG_MAP, kube_namespace=kube_namespace, labels="app=web")
    assert {item["metadata"]["name"] for item in listed.items} == {"shared", "foreign", "kept"}
