"""Which workloads answer for the webhooks of a component, and that these are waited for."""

from __future__ import annotations

import pytest

from hopline.domain.errors import Transient
from hopline.domain.resources import Document
from hopline.operations import webhook_servers
from hopline.operations.webhook_servers import servers_of, wait_for_servers
from manifest_lab import Lab, simulated_lab  # noqa: F401


def service(name: str = "guard", kube_namespace: str = "web", **selector: str) -> Document:
    return {"kind": "Service", "metadata": {"name": name, "namespace": kube_namespace}, "spec": {"selector": selector}}


def workload(name: str = "guard", kind: str = "Deployment", kube_namespace: str = "web", **spec: object) -> Document:
    labels = {"app": name, "tier": "back"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": kube_namespace},
        "spec": {"template": {"metadata": {"labels": labels}}, **spec},
    }


def webhook(name: str = "guard", kube_namespace: str = "web", kind: str = "ValidatingWebhookConfiguration") -> Document:
    client = {"service": {"name": name, "namespace": kube_namespace}}
    return {"kind": kind, "webhooks": [{"name": "w", "clientConfig": client}]}


def names(guard: Document, *documents: Document) -> list[str]:
    return [f"{one['kind']} {one['metadata']['name']}" for one in servers_of([guard], documents)]


@pytest.mark.parametrize("kind", ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"])
def test_the_workload_behind_the_service_of_a_webhook(kind: str) -> None:
    found = names(webhook(kind=kind), service(app="guard"), workload(), workload("other"))
    assert found == ["Deployment guard"]


def test_every_kind_of_workload_counts() -> None:
    assert names(webhook(), service(tier="back"), workload(kind="DaemonSet"), workload("two", kind="StatefulSet")) == [
        "DaemonSet guard",
        "StatefulSet two",
    ]


@pytest.mark.parametrize(
    ("guard", "documents"),
    [
        pytest.param(webhook(), [service(app="guard"), workload(replicas=0)], id="scaled to nothing"),
        pytest.param(webhook(), [service(app="guard"), workload(kube_namespace="else")], id="another namespace"),
        pytest.param(webhook("not-ours"), [service(app="guard"), workload()], id="a server of somebody else"),
        pytest.param(webhook(), [service(), workload()], id="a service without a selector"),
        pytest.param({"kind": "ConfigMap"}, [service(app="guard"), workload()], id="no webhook"),
        pytest.param(
            {"kind": "ValidatingWebhookConfiguration", "webhooks": [{"clientConfig": {"url": "https://x"}}]},
            [service(app="guard"), workload()],
            id="a webhook outside",
        ),
    ],
)
def test_nobody_is_waited_for(guard: Document, documents: list[Document]) -> None:
    assert names(guard, *documents) == []


TEXT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: guard}
spec:
  replicas: 1
  selector: {matchLabels: {app: guard}}
  template:
    metadata: {labels: {app: guard}}
    spec: {containers: [{name: c, image: "registry/guard:1"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: other}
spec:
  replicas: 1
  selector: {matchLabels: {app: other}}
  template:
    metadata: {labels: {app: other}}
    spec: {containers: [{name: c, image: "registry/other:1"}]}
"""


async def test_only_the_server_is_waited_for(lab: Lab) -> None:
    lab.script.never_ready("Deployment", "other")
    await lab.install(TEXT)
    objects = lab.objects(TEXT)
    await wait_for_servers(lab.client, objects, objects.placed_documents[:1])


async def test_what_keeps_the_server_is_told_at_once(lab: Lab) -> None:
    lab.script.never_ready("Deployment", "guard", text="ImagePullBackOff")
    await lab.install(TEXT)
    objects = lab.objects(TEXT)
    with pytest.raises(
        Transient, match=r"a webhook waits for its server: Deployment web/guard: pod .*ImagePullBackOff"
    ):
        await wait_for_servers(lab.client, objects, objects.placed_documents[:1])


async def test_a_server_that_is_only_slow_is_the_next_attempts(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_servers, "STEP_SECONDS", 0.1)
    lab.script.rollout_seconds(3600)
    await lab.install(TEXT)
    objects = lab.objects(TEXT)
    with pytest.raises(Transient, match="a webhook waits for its server: Deployment web/guard"):
        await wait_for_servers(lab.client, objects, objects.placed_documents[:1])
