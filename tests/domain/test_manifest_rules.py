"""Rules for the objects of a component that need no cluster."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.builtin_kinds import BUILTIN_SCOPES
from hopline.domain.manifest_findings import Complaint, Component, identity
from hopline.domain.manifest_rules import guarding_webhooks, object_complaints
from hopline.domain.plan import Severity


def an_object(kind: str, api_version: str = "v1", **rest: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": "b"}, **rest}


def complaints(document: dict[str, Any]) -> list[Complaint]:
    return list(object_complaints(document, Component(), BUILTIN_SCOPES))


def containers(*variables: object) -> dict[str, Any]:
    return {"template": {"metadata": {}, "spec": {"containers": [{"name": "c", "env": list(variables)}]}}}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (
            an_object("StatefulSet", "apps/v1", spec={"updateStrategy": {"type": "OnDelete"}}),
            "spec.updateStrategy.type",
        ),
        (an_object("DaemonSet", "apps/v1", spec={"updateStrategy": {"type": "OnDelete"}}), "spec.updateStrategy.type"),
        (
            an_object("StatefulSet", "apps/v1", spec={"updateStrategy": {"rollingUpdate": {"partition": 2}}}),
            "spec.updateStrategy.rollingUpdate.partition",
        ),
        (an_object("Deployment", "apps/v1", spec={"paused": True}), "spec.paused"),
    ],
)
def test_workloads_whose_pods_stay_old_are_named(document: dict[str, Any], field: str) -> None:
    (complaint,) = complaints(document)
    assert (complaint.severity, complaint.field) == (Severity.WARNS, field)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (an_object("ConfigMap", data={"a": 1}), "data.a"),
        (an_object("Secret", stringData={"a": False}), "stringData.a"),
        (an_object("Deployment", "apps/v1", spec=containers({"name": "A", "value": 1.5})),
         "spec.template.spec.containers[0].env[0].value"),
        (an_object("Pod", spec={"initContainers": [{"env": [{}, {"value": True}]}]}),
         "spec.initContainers[0].env[1].value"),
        (an_object("CronJob", "batch/v1", spec={"jobTemplate": {"spec": containers({"value": 0})}}),
         "spec.jobTemplate.spec.template.spec.containers[0].env[0].value"),
        ({**an_object("Pod"), "metadata": {"name": "a", "namespace": "b", "labels": {"x": True}}}, "metadata.labels.x"),
    ],
)  # fmt: skip
def test_a_number_where_a_text_belongs_is_refused(document: dict[str, Any], field: str) -> None:
    (complaint,) = complaints(document)
    assert (complaint.severity, complaint.field) == (Severity.BLOCKS, field)
    assert complaint.remedy.startswith("put it in quotes")


def test_data_beyond_a_mebibyte_is_refused() -> None:
    assert complaints(an_object("ConfigMap", data={"a": "x" * 1024 * 1024})) == []
    (complaint,) = complaints(an_object("Secret", data={"a": "x" * 1024 * 1024, "b": "yy"}))
    assert (complaint.severity, complaint.field) == (Severity.BLOCKS, "data")


def webhook(**rest: Any) -> dict[str, Any]:
    hook = {
        "name": "w",
        "clientConfig": {"service": {"name": "a", "namespace": "b"}},
        "rules": [{"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods"]}],
        **rest,
    }
    return an_object("ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1", webhooks=[hook])


@pytest.mark.parametrize(
    ("hook", "guards"),
    [
        (webhook(), True),
        (webhook(rules=[{"apiGroups": ["*"], "operations": ["*"], "resources": ["*/*"]}]), True),
        (webhook(rules=[{"apiGroups": ["apps"], "operations": ["CREATE"], "resources": ["deployments"]}]), False),
        (webhook(rules=[{"apiGroups": [""], "operations": ["DELETE"], "resources": ["pods"]}]), False),
        (webhook(failurePolicy="Ignore"), False),
        (webhook(namespaceSelector={"matchLabels": {"x": "y"}}), False),
        (webhook(objectSelector={"matchLabels": {"x": "y"}}), False),
        (webhook(clientConfig={"service": {"name": "other", "namespace": "b"}}), False),
        (webhook(clientConfig={"url": "https://x"}), False),
    ],
)
def test_a_webhook_that_guards_its_own_server_is_named(hook: dict[str, Any], guards: bool) -> None:
    found = list(guarding_webhooks([an_object("Service"), hook]))
    assert [at for at, _ in found] == ([1] if guards else [])


def test_the_group_counts_for_identity_and_the_version_does_not() -> None:
    first = an_object("Ingress", "networking.k8s.io/v1")
    assert identity(first) == identity(an_object("Ingress", "networking.k8s.io/v1beta1"))
    assert identity(first) != identity(an_object("Ingress", "extensions/v1beta1"))
    assert identity({"kind": "X", "metadata": {"name": "a"}}, "b") == ("", "X", "b", "a")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "name", "env", "template", "data", "a"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(
    st.sampled_from(["Deployment", "CronJob", "Pod", "ConfigMap", "StatefulSet", "Secret"]),
    ANYTHING,
    ANYTHING,
    ANYTHING,
)
def test_no_document_breaks_a_rule(kind: str, metadata: object, spec: object, data: object) -> None:
    document: dict[str, Any] = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec, "data": data}
    for complaint in complaints(document):
        assert complaint.message
        assert complaint.remedy
    list(guarding_webhooks([{**document, "kind": "MutatingWebhookConfiguration", "webhooks": data}, document]))
