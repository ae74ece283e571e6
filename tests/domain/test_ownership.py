"""Whose fields are taken, whose are kept, and which block."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.ownership import settle, without_field

DOCUMENT: dict[str, Any] = {
    "metadata": {"name": "x", "annotations": {"example.com/a.b": "1", "example.com/a": "2"}},
    "spec": {
        "replicas": 2,
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "image": "a:1",
                        "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1"}},
                        "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 53, "protocol": "UDP"}],
                    },
                    {"name": "side", "image": "b:1"},
                ]
            }
        },
    },
    "finalizers": ["a.example.com/x", "b"],
}

CONTAINER = '.spec.template.spec.containers[name="web"]'


@pytest.mark.parametrize("manager", ["kubectl", "kubectl-client-side-apply", "kubeadm", "helm", "bke", "manager"])
def test_installers_give_up_every_field(manager: str) -> None:
    field = f"{CONTAINER}.image"
    assert settle([(manager, field)]).taken == ((manager, field),)


@pytest.mark.parametrize(
    "field", [".spec.replicas", f"{CONTAINER}.resources.limits.memory", ".webhooks[0].clientConfig"]
)
def test_others_keep_what_they_own(field: str) -> None:
    assert settle([("vpa", field)]).kept == (("vpa", field),)


@pytest.mark.parametrize("field", [f"{CONTAINER}.image", f"{CONTAINER}.command", f'{CONTAINER}.args[="-v"]'])
def test_nobody_keeps_what_an_upgrade_must_bring(field: str) -> None:
    assert settle([("argocd", field)]).blocked == (("argocd", field),)


def test_a_name_that_only_contains_an_installer_is_somebody_else() -> None:
    assert settle([("my-kubectl", ".data.a"), ("kube-controller-manager", ".data.a")]).taken == ()


def test_installers_are_a_setting() -> None:
    assert settle([("argocd", ".data.a"), ("helm", ".data.a")], installers=("argo*",)).taken == (("argocd", ".data.a"),)


@pytest.mark.parametrize(
    ("field", "gone"),
    [
        (".spec.replicas", lambda d: "replicas" not in d["spec"]),
        (".metadata.annotations.example.com/a", lambda d: d["metadata"]["annotations"] == {"example.com/a.b": "1"}),
        (".metadata.annotations.example.com/a.b", lambda d: d["metadata"]["annotations"] == {"example.com/a": "2"}),
        (f"{CONTAINER}.resources.limits.memory",
         lambda d: d["spec"]["template"]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}),
        (f'{CONTAINER}.ports[containerPort=80,protocol="TCP"].name',
         lambda d: d["spec"]["template"]["spec"]["containers"][0]["ports"][0] == {"containerPort": 80}),
        (f'{CONTAINER}.ports[containerPort=53,protocol="UDP"]',
         lambda d: len(d["spec"]["template"]["spec"]["containers"][0]["ports"]) == 1),
        ('.spec.template.spec.containers[name="side"].image',
         lambda d: d["spec"]["template"]["spec"]["containers"][1] == {"name": "side"}),
        ('.finalizers[="b"]', lambda d: d["finalizers"] == ["a.example.com/x"]),
        (".finalizers[1]", lambda d: d["finalizers"] == ["a.example.com/x"]),
        (".finalizers", lambda d: "finalizers" not in d),
    ],
)  # fmt: skip
def test_a_field_is_left_out_and_nothing_else_changes(field: str, gone: Any) -> None:
    before = str(DOCUMENT)
    smaller = without_field(DOCUMENT, field)
    assert smaller is not None
    assert gone(smaller)
    assert str(DOCUMENT) == before


def test_a_container_that_becomes_empty_goes_too() -> None:
    smaller = without_field({"spec": {"a": {"b": {"c": 1}}, "d": 2}}, ".spec.a.b.c")
    assert smaller == {"spec": {"d": 2}}


@pytest.mark.parametrize("field", [".spec.nope", ".finalizers[9]", '.finalizers[="z"]', "spec", '.spec[name="x"]', ""])
def test_a_path_that_leads_nowhere_is_told(field: str) -> None:
    assert without_field(DOCUMENT, field) is None
