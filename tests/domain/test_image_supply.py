"""Online or offline, and by which field (openfuyao-api.md §2.4, §5.1)."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.image_references import ImageReference, catalogue_repository
from hopline.domain.image_supply import catalogue_mode, name_at, supply_of
from hopline.domain.plan import SupplyMode

OWN = {"domain": "deploy.bocloud.k8s", "ip": "192.0.2.5", "port": "40443", "prefix": "kubernetes"}
REPOSITORY = "BKECluster a/b spec.clusterConfig.cluster.imageRepo"


@pytest.mark.parametrize(
    ("image_repo", "config", "mode", "field", "hosts"),
    [
        (OWN, {}, "offline", f"{REPOSITORY}.domain", ("deploy.bocloud.k8s:40443", "192.0.2.5:40443")),
        ({**OWN, "domain": ""}, {}, "offline", f"{REPOSITORY}.ip", ("192.0.2.5:40443",)),
        (OWN, {"otherRepo": "r.example/x", "onlineImage": "yes"}, "offline", f"{REPOSITORY}.domain", None),
        (OWN, {"onlineImage": "yes"}, "online", "ConfigMap cluster-system/bke-config onlineImage", None),
        (
            {**OWN, "prefix": ""},
            {"onlineImage": "yes"},
            "online",
            "ConfigMap cluster-system/bke-config onlineImage",
            None,
        ),
        ({}, {}, "online", f"{REPOSITORY} (no domain and no ip)", ("cr.openfuyao.cn",)),
        (
            {"domain": "cr.openfuyao.cn", "prefix": "openfuyao"},
            {},
            "online",
            f"{REPOSITORY}.domain",
            ("cr.openfuyao.cn",),
        ),
    ],
)
def test_the_field_that_says_so(
    image_repo: dict[str, Any], config: dict[str, Any], mode: str, field: str, hosts: tuple[str, ...] | None
) -> None:
    found = supply_of(image_repo, config, "BKECluster a/b")
    assert (found.mode.value, found.field) == (mode, field)
    assert hosts is None or found.hosts == hosts


@pytest.mark.parametrize(
    ("config", "mode"),
    [
        ({"otherRepo": "registry.example:5000/kubernetes"}, SupplyMode.OFFLINE),
        ({"otherRepo": "cr.openfuyao.cn/openfuyao"}, SupplyMode.ONLINE),
        ({"onlineImage": "yes"}, SupplyMode.ONLINE),
        ({"domain": "deploy.bocloud.k8s", "imageRepoPort": "40443"}, SupplyMode.OFFLINE),
    ],
)
def test_the_catalogue(config: dict[str, Any], mode: SupplyMode) -> None:
    assert catalogue_mode(catalogue_repository(config), config) is mode


@pytest.mark.parametrize(
    ("image", "name"),
    [
        (ImageReference("a.example:5000", "kubernetes/etcd", "v1"), "kubernetes/etcd:v1"),
        (ImageReference("a.example:5000", "kubernetes/etcd", "", "sha256:1"), "kubernetes/etcd@sha256:1"),
        (ImageReference("a.example", "kubernetes/etcd", "v1"), ""),
    ],
)
def test_the_name_in_a_list(image: ImageReference, name: str) -> None:
    assert name_at(image, ("a.example:5000",)) == name
