"""What a VersionConfig asks for, and what nobody could carry."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.documents.version_configs import load_version_config, version_config_document
from hopline.domain.errors import HoplineError, InvalidDocument, InvalidInput
from hopline.domain.version_config import check_carried, wanted_images

CONFIG = """registry:
  imageAddress: hub.example.org/openfuyao/registry:2.8.1
  architecture: [amd64, arm64]
openFuyaoVersion: v26.06
kubernetesVersion: v1.34.4-of.1
repos:
  - architecture: [arm64]
    needDownload: true
    isKubernetes: false
    subImages:
      - sourceRepo: cr.example.org/openfuyao/
        targetRepo: kubernetes
        images:
          - name: pause
            tag: [3.10, "3.6"]
            usedPodInfo:
              - podPrefix: bke-controller-manager
                namespace: cluster-system
      - sourceRepo: cr.example.org/addons
        targetRepo: /
        images:
          - name: dashboard
            tag: [v4.0-*-2025]
  - needDownload: false
    subImages:
      - sourceRepo: cr.example.org
        images:
          - name: left/alone
            tag: [v1]
files:
  - address: https://files.example.org/containerd/
    files:
      - fileName: containerd-v2.1.1-linux-amd64.tar.gz
      - fileName: bke
        fileAlias: bkeadm
rpms:
  - address: https://files.example.org
    system: [CentOS]
    systemVersion: [7, 8]
    systemArchitecture: [amd64]
    directory: [docker-ce]
debs:
addons:
  - name: coredns
    version: v1.12.2-of.2
"""


def test_a_tag_stays_as_it_is_written() -> None:
    images = wanted_images(load_version_config(CONFIG, "x.yaml"))
    assert [image.name for image in images] == [
        "kubernetes/pause:3.10",
        "kubernetes/pause:3.6",
        "dashboard:v4.0",
        "left/alone:v1",
    ]
    assert str(images[0].at_source()) == "cr.example.org/openfuyao/pause:3.10"
    assert str(images[0].at("127.0.0.1:40443")) == "127.0.0.1:40443/kubernetes/pause:3.10"
    assert images[0].architectures == ("arm64",)
    assert images[0].place == "repos[0].subImages[0].images[0].tag[0]"


def test_the_mark_of_the_architecture() -> None:
    image = wanted_images(load_version_config(CONFIG, "x.yaml"))[2]
    assert str(image.at_source("arm64")) == "cr.example.org/addons/dashboard:v4.0-arm64-2025"


def test_what_is_not_packed_is_told_apart() -> None:
    *packed, left = wanted_images(load_version_config(CONFIG, "x.yaml"))
    assert all(image.packed for image in packed) and not left.packed
    assert left.architectures == ("amd64", "arm64")


def test_folders_of_packages() -> None:
    (source,) = load_version_config(CONFIG, "x.yaml").rpms
    assert list(source.folders()) == ["CentOS/7/amd64/docker-ce", "CentOS/8/amd64/docker-ce"]


def test_a_file_keeps_its_alias() -> None:
    (source,) = load_version_config(CONFIG, "x.yaml").files
    assert [file.kept_name for file in source.files] == ["containerd-v2.1.1-linux-amd64.tar.gz", "bkeadm"]


def test_the_other_spelling_and_line_ends_of_windows() -> None:
    config = load_version_config("openfuyaoVersion: v26.06\r\nrepos: []\r\n", "x.yaml")
    assert config.open_fuyao_version == "v26.06"


def check(text: str) -> None:
    check_carried(version_config_document(text, "x.yaml"), load_version_config(text, "x.yaml"), "x.yaml")


def test_a_whole_file_can_be_carried() -> None:
    check(CONFIG)


@pytest.mark.parametrize("section", ["openFuyaoCharts:\n  - name: x\n", "wheels:\n  a: b\n"])
def test_a_section_that_nobody_could_carry(section: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be carried") as caught:
        check(CONFIG + section)
    assert caught.value.field == section.partition(":")[0]


def test_the_newest_image_is_another_one_tomorrow() -> None:
    text = CONFIG.replace("targetRepo: /", "targetRepo: /\n        imageTrack: harbor@http://user:word@example.org/")
    with pytest.raises(InvalidInput, match="another one tomorrow") as caught:
        check(text)
    assert caught.value.field == "repos[0].subImages[1].imageTrack"
    assert "word" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("repos: {}\n", "repos"),
        ("repos:\n  - subImages:\n      - images: []\n", "repos[0].subImages[0].sourceRepo"),
        ("repos:\n  - needDownload: maybe\n", "repos[0].needDownload"),
        ("files:\n  - address: [a]\n", "files[0].address"),
    ],
)
def test_another_shape(text: str, field: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        load_version_config(text, "x.yaml")
    assert (caught.value.field, caught.value.subject) == (field, "x.yaml")


@pytest.mark.parametrize("text", ["a: 1\n---\nb: 2\n", "", "a: 1\na: 2\n", "- 1\n", "a: [\n"])
def test_no_version_config(text: Any) -> None:
    with pytest.raises(HoplineError):
        load_version_config(text, "x.yaml")
