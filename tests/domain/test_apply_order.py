"""Objects are written in the order in which they need each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.apply_order import APPLY_CLASSES, apply_class, in_apply_order
from hopline.domain.resources import Document

API = {
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
    "Deployment": "apps/v1",
    "ClusterRole": "rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding": "rbac.authorization.k8s.io/v1",
    "APIService": "apiregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "FelixConfiguration": "crd.projectcalico.org/v1",
    "Job": "batch/v1",
}


def named(kind: str, name: str = "x") -> Document:
    return {"apiVersion": API.get(kind, "v1"), "kind": kind, "metadata": {"name": name}}


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("CustomResourceDefinition", "FelixConfiguration"),
        ("Namespace", "ServiceAccount"),
        ("ServiceAccount", "ClusterRoleBinding"),
        ("ClusterRole", "ClusterRoleBinding"),
        ("ConfigMap", "Deployment"),
        ("Secret", "Deployment"),
        ("ClusterRoleBinding", "Deployment"),
        ("Service", "Deployment"),
        ("Deployment", "FelixConfiguration"),
        ("Deployment", "APIService"),
        ("Deployment", "ValidatingWebhookConfiguration"),
        ("FelixConfiguration", "ValidatingWebhookConfiguration"),
    ],
)
def test_what_is_needed_comes_first(earlier: str, later: str) -> None:
    assert apply_class(named(earlier)) < apply_class(named(later))


def test_the_group_counts_not_only_the_kind() -> None:
    knative = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "x"}}
    assert apply_class(knative) > apply_class(named("Deployment"))


def test_no_kind_stands_in_two_classes() -> None:
    kinds = [kind for group in APPLY_CLASSES for kind in group]
    assert len(kinds) == len(set(kinds))


@given(st.lists(st.sampled_from([*API, "Namespace", "ConfigMap", "Secret", "Service", "Widget"]), max_size=20))
def test_every_object_is_in_exactly_one_class_in_its_own_order(kinds: list[str]) -> None:
    documents = [named(kind, str(number)) for number, kind in enumerate(kinds)]
    groups = in_apply_order(documents)
    assert sorted(d["metadata"]["name"] for group in groups for d in group) == sorted(map(str, range(len(kinds))))
    classes = [{apply_class(document) for document in group} for group in groups]
    assert all(len(found) == 1 for found in classes)
    assert [min(found) for found in classes] == sorted(min(found) for found in classes)
    for group in groups:
        names = [int(document["metadata"]["name"]) for document in group]
        assert names == sorted(names)
