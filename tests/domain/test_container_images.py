"""Images that objects name: what runs, and what probably will."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.container_images import container_images, image_name, probable_images
from hopline.domain.image_references import ImageReference

DIGEST = "sha256:" + "a" * 64


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {}, "spec": spec}
    inner: dict[str, Any] = {"template": template}
    if kind == "CronJob":
        inner = {"jobTemplate": {"spec": {"template": template}}}
    if kind == "Pod":
        inner = spec
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": inner}


def certain(document: dict[str, Any]) -> dict[str, str]:
    return {use.field: use.image for use in container_images(document)}


def probable(document: dict[str, Any]) -> list[str]:
    found = list(probable_images(document))
    assert all(use.probable for use in found)
    return [use.image for use in found]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("busybox", ImageReference("docker.io", "library/busybox", "latest")),
        ("busybox:1.36", ImageReference("docker.io", "library/busybox", "1.36")),
        ("calico/node:v3", ImageReference("docker.io", "calico/node", "v3")),
        ("docker.io/busybox:1", ImageReference("docker.io", "library/busybox", "1")),
        ("index.docker.io/library/busybox:1", ImageReference("docker.io", "library/busybox", "1")),
        ("localhost/a:1", ImageReference("localhost", "a", "1")),
        ("registry:5000/a/b:1", ImageReference("registry:5000", "a/b", "1")),
        ("192.0.2.5:443/a:1", ImageReference("192.0.2.5", "a", "1")),
        (f"quay.io/a/b@{DIGEST}", ImageReference("quay.io", "a/b", "", DIGEST)),
        (f"quay.io/a/b:v1@{DIGEST}", ImageReference("quay.io", "a/b", "v1", DIGEST)),
        ("", None),
        ("A/b", None),
        ("https://quay.io/a:1", None),
        ("two words", None),
        ("quay.io/a:b:c", None),
    ],
)
def test_references_in_full(text: str, name: ImageReference | None) -> None:
    assert image_name(text) == name
    if name is not None:
        assert image_name(str(name)) == name


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob", "Pod", "Rollout"])
def test_every_container_of_every_kind(kind: str) -> None:
    document = workload(
        kind,
        initContainers=[{"image": "a:1"}],
        containers=[{"image": "b:1"}, {"name": "without"}, {"image": ""}, "odd"],
        ephemeralContainers=[{"image": "c:1"}],
        volumes=[{"image": {"reference": "d:1"}}, {"emptyDir": {}}],
    )
    assert sorted(certain(document).values()) == ["a:1", "b:1", "c:1", "d:1"]
    assert probable(document) == []


def test_the_place_is_told() -> None:
    assert certain(workload("Deployment", containers=[{"image": "b:1"}])) == {
        "spec.template.spec.containers[0].image": "b:1"
    }


@pytest.mark.parametrize(
    ("container", "images"),
    [
        ({"env": [{"name": "OPERAND_IMAGE", "value": "calico/node:v3"}]}, ["calico/node:v3"]),
        ({"env": [{"name": "RELATED_IMAGE_A", "value": "quay.io/a/b"}]}, ["quay.io/a/b"]),
        ({"env": [{"name": "X", "value": "quay.io/a/b:v1"}]}, ["quay.io/a/b:v1"]),
        ({"env": [{"name": "IMAGE_PULL_POLICY", "value": "a:b"}]}, []),
        ({"env": [{"name": "IMAGE", "value": "nothing"}]}, []),
        ({"env": [{"name": "ADDRESS", "value": "kubernetes.default.svc:443"}]}, []),
        ({"env": [{"name": "URL", "value": "https://quay.io/a/b:443"}]}, []),
        ({"args": ["--reloader=quay.io/a/reloader:v1"]}, ["quay.io/a/reloader:v1"]),
        ({"args": ["--image=busybox:1.36"]}, ["busybox:1.36"]),
        ({"args": ["--sidecar-image=a.example:40443/a/b:v1"]}, ["a.example:40443/a/b:v1"]),
        ({"args": ["--with=x --image=a.example:40443/a/b:v1"]}, ["a.example:40443/a/b:v1"]),
        ({"args": ["--sidecar-image", "busybox:1.36"]}, ["busybox:1.36"]),
        ({"args": ["--listen", "a:1"]}, []),
        ({"args": ["--taint=node-role.kubernetes.io/master:NoSchedule"]}, []),
        ({"command": ["sh", "-c", "ctr run quay.io/a/b:v1; echo done"]}, ["quay.io/a/b:v1"]),
        ({"command": ["sh", "-c", f"run 'quay.io/a/b@{DIGEST}'."]}, [f"quay.io/a/b@{DIGEST}"]),
    ],
)
def test_environment_and_arguments(container: dict[str, Any], images: list[str]) -> None:
    assert probable(workload("Deployment", containers=[{"image": "x:1", **container}])) == images


@pytest.mark.parametrize(
    ("text", "images"),
    [
        ("image: busybox:1.36\n", ["busybox:1.36"]),
        ('- image: "quay.io/a/b:v1" # why\n  imagePullPolicy: Always\n', ["quay.io/a/b:v1"]),
        ('{"image":"quay.io/a/b:v1","port":80}', ["quay.io/a/b:v1"]),
        ("sandbox_image = 'registry.k8s.io/pause:3.9'\n", ["registry.k8s.io/pause:3.9"]),
        ("forward . /etc/resolv.conf:53\nkubernetes cluster.local in-addr.arpa\n", []),
        ("see https://quay.io/a/b:v1 for more", []),
        ("apiVersion: rbac.authorization.k8s.io/v1\nhost: a.b:80/x\n", []),
    ],
)
def test_configuration(text: str, images: list[str]) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"config": text}}
    assert probable(document) == images


@pytest.mark.parametrize(
    ("spec", "images"),
    [
        ({"repository": "nvcr.io/nvidia", "image": "driver", "version": "550.1"}, ["nvcr.io/nvidia/driver:550.1"]),
        ({"image": {"repository": "quay.io/a/b", "tag": "v1"}}, ["quay.io/a/b:v1"]),
        ({"image": {"registry": "quay.io", "repository": "a/b", "tag": "v1"}}, ["quay.io/a/b:v1"]),
        ({"repository": "quay.io/a", "image": "b", "version": DIGEST}, [f"quay.io/a/b@{DIGEST}"]),
        ({"image": "quay.io/a/b", "version": "v1"}, ["quay.io/a/b:v1"]),
        ({"image": "quay.io/a/b:v1", "version": "v2"}, ["quay.io/a/b:v1"]),
        ({"operator": {"image": "a/b:v1"}}, ["a/b:v1"]),
        ({"repository": "a", "tag": "v1"}, []),
        ({"repository": 1, "tag": None, "image": []}, []),
    ],
)
def test_custom_resources(spec: dict[str, Any], images: list[str]) -> None:
    document = {"apiVersion": "a.example/v1", "kind": "ClusterPolicy", "metadata": {"name": "a"}, "spec": spec}
    assert probable(document) == images


def test_the_schema_of_a_kind_counts_by_its_defaults_alone() -> None:
    schema = {"description": "such as quay.io/a/b:v1", "properties": {"x": {"default": "quay.io/c/d:v1"}}}
    document = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "a", "annotations": {"x": "quay.io/e/f:v1"}},
        "spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]},
    }
    assert probable(document) == ["quay.io/c/d:v1"]
