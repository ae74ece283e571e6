"""What goes into a bundle: releases of every hop, the catalogue, and every image once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hopline.documents.version_configs import load_version_config, version_config_document
from hopline.domain.bundle_plan import (
    PUBLIC_RELEASES,
    hops,
    listed_images,
    merged_config,
    planned_images,
    release_place,
)
from hopline.domain.catalogue import Catalogue, read_catalogue
from hopline.domain.errors import InvalidCatalogue, InvalidInput, NoUpgradePath
from hopline.domain.offline_bundle import ImageRole
from hopline.domain.version_config import VersionConfig, wanted_images


def catalogue(*edges: tuple[str, str]) -> Catalogue:
    head = {"apiVersion": "config.openfuyao.com/v1alpha1", "kind": "UpgradePath", "metadata": {"name": "x"}}
    return read_catalogue({**head, "spec": {"paths": [{"from": old, "to": new} for old, new in edges]}})


PATHS = catalogue(
    ("v26.03", "v26.06-rc.2"),
    ("v26.06-rc.2", "v26.06-rc.3"),
    ("v26.06-rc.3", "v26.06"),
    ("v26.06-rc.2", "v26.06-rc.4"),
    ("v26.06", "v26.09"),
)


def test_every_hop_from_every_version_that_can_start() -> None:
    assert hops(PATHS, ["v26.06"], []) == ("v26.06-rc.3", "v26.06")
    assert hops(PATHS, ["v26.09"], []) == ("v26.06-rc.3", "v26.06", "v26.09")
    assert hops(PATHS, ["v26.09"], ["v26.06"]) == ("v26.09",)


def test_a_target_that_no_path_leads_to_is_in_all_the_same() -> None:
    """The guide makes a package for the oldest version too."""
    assert hops(PATHS, ["v26.06-rc.2"], []) == ("v26.06-rc.2",)


def test_a_start_from_which_there_is_no_path() -> None:
    with pytest.raises(NoUpgradePath):
        hops(PATHS, ["v26.06"], ["v26.06-rc.4"])


def test_a_catalogue_that_breaks_its_rules() -> None:
    with pytest.raises(InvalidCatalogue):
        hops(catalogue(("v26.06", "v26.06")), ["v26.06"], [])


def text(*images: tuple[str, str], repo: str = "cr.example.org/a", version: str = "v26.06", **more: Any) -> str:
    listed = [{"name": name, "tag": [tag]} for name, tag in images]
    source = {"sourceRepo": repo, "targetRepo": "kubernetes", "images": listed}
    group = {"needDownload": True, "architecture": ["amd64"], "subImages": [source], **more}
    return json.dumps({"openFuyaoVersion": version, "repos": [group]})


def configs(*texts: str) -> dict[str, VersionConfig]:
    return {f"{index}.yaml": load_version_config(one, "x") for index, one in enumerate(texts)}


def test_releases_lie_where_a_version_config_lists_one() -> None:
    given = configs(text(("etcd", "v1")), text(("release-image", "v26.06"), repo="cr.example.org/b/"))
    assert release_place(given).source_repo == "cr.example.org/b"
    assert release_place(configs(text(("etcd", "v1")))).source_repo == PUBLIC_RELEASES
    assert release_place(given, "cr.example.org/c").source_repo == "cr.example.org/c"


def test_each_image_once_and_releases_of_every_hop() -> None:
    given = configs(text(("release-image", "v26.06"), ("etcd", "v1")), text(("etcd", "v1"), ("etcd", "v2")))
    planned = planned_images(given, release_place(given), ("v26.06-rc.3", "v26.06"))
    assert [(one.wanted.name, one.role) for one in planned] == [
        ("kubernetes/upgrade-path:latest", ImageRole.CATALOGUE),
        ("kubernetes/release-image:v26.06-rc.3", ImageRole.RELEASE),
        ("kubernetes/release-image:v26.06", ImageRole.RELEASE),
        ("kubernetes/etcd:v1", ImageRole.IMAGE),
        ("kubernetes/etcd:v2", ImageRole.IMAGE),
    ]


def test_architectures_of_both_lists_count() -> None:
    given = configs(text(("etcd", "v1")), text(("etcd", "v1"), architecture=["arm64"]))
    assert listed_images(given)[0].architectures == ("amd64", "arm64")


def test_what_is_not_packed_is_not_fetched() -> None:
    assert listed_images(configs(text(("etcd", "v1"), needDownload=False))) == ()


def test_one_name_for_two_images() -> None:
    given = configs(text(("etcd", "v1")), text(("etcd", "v1"), repo="cr.example.org/b"))
    with pytest.raises(InvalidInput, match=r"two images would be kubernetes/etcd:v1") as caught:
        listed_images(given)
    assert "cr.example.org/a/etcd:v1 and cr.example.org/b/etcd:v1" in caught.value.value


def test_version_configs_as_one_for_the_existing_tools() -> None:
    texts = [text(("etcd", "v1"), version="v26.06-rc.3"), text(("etcd", "v2"))]
    given = configs(*texts)
    planned = planned_images(given, release_place(given), ("v26.06",))
    merged = merged_config([version_config_document(one, "x") for one in texts], planned)
    assert merged["openFuyaoVersion"] == "v26.06"
    names = [wanted.name for wanted in wanted_images(VersionConfig.model_validate(merged))]
    assert names == [
        "kubernetes/etcd:v1",
        "kubernetes/etcd:v2",
        "kubernetes/upgrade-path:latest",
        "kubernetes/release-image:v26.06",
    ]
