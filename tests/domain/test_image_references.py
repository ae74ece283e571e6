"""Where releases and the catalogue lie, by the documented rules."""

from __future__ import annotations

import pytest

from hopline.domain.errors import InvalidInput
from hopline.domain.image_references import catalogue_repository, parse_reference, release_repository

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "host", "repository", "tag", "digest"),
    [
        (
            "cr.openfuyao.cn/openfuyao/release-image:v26.06-rc.2",
            "cr.openfuyao.cn",
            "openfuyao/release-image",
            "v26.06-rc.2",
            "",
        ),
        (
            "deploy.bocloud.k8s:40443/kubernetes/upgrade-path:latest",
            "deploy.bocloud.k8s:40443",
            "kubernetes/upgrade-path",
            "latest",
            "",
        ),
        (f"localhost/a@{DIGEST}", "localhost", "a", "", DIGEST),
        (f"192.0.2.5:40443/a/b:t@{DIGEST}", "192.0.2.5:40443", "a/b", "t", DIGEST),
        ("[2001:db8::5]:40443/a:t", "[2001:db8::5]:40443", "a", "t", ""),
    ],
)
def test_a_reference(text: str, host: str, repository: str, tag: str, digest: str) -> None:
    found = parse_reference(text)
    assert (found.host, found.repository, found.tag, found.digest) == (host, repository, tag, digest)
    assert str(found) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "release-image:v26.06",
        "library/release-image:v26.06",
        "registry.test/release-image",
        "registry.test/Release:v1",
        "registry.test/a:v 1",
        "registry.test/a@sha256:12",
        "registry.test/a/../b:t",
        "https://registry.test/a:t",
        "registry.test:port/a:t",
        "user@registry.test/a:t",
        "registry.test/a:" + "t" * 129,
        f"registry.test/a@{DIGEST.upper()}",
    ],
)
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(InvalidInput, match="HOST") as caught:
        parse_reference(text)
    assert caught.value.value == text


def references(repo: dict[str, object], config: dict[str, object] | None = None) -> list[str]:
    found = release_repository(repo, config or {})
    return [str(one) for one in found.references("release-image", "v26.06")]


def test_a_release_by_domain_then_by_address() -> None:
    repo: dict[str, object] = {
        "domain": "deploy.bocloud.k8s",
        "ip": "192.0.2.5",
        "port": "40443",
        "prefix": "/kubernetes/",
    }
    assert references(repo) == [
        "deploy.bocloud.k8s:40443/kubernetes/release-image:v26.06",
        "192.0.2.5:40443/kubernetes/release-image:v26.06",
    ]
    assert references({**repo, "port": 443}) == [
        "deploy.bocloud.k8s/kubernetes/release-image:v26.06",
        "192.0.2.5/kubernetes/release-image:v26.06",
    ]
    assert references({**repo, "domain": "192.0.2.5"}) == ["192.0.2.5:40443/kubernetes/release-image:v26.06"]
    assert references({**repo, "domain": "", "ip": "2001:db8::5"}) == [
        "[2001:db8::5]:40443/kubernetes/release-image:v26.06"
    ]


def test_the_public_repository() -> None:
    public = ["cr.openfuyao.cn/openfuyao/release-image:v26.06"]
    assert references({}) == public
    assert references({"prefix": "kubernetes"}) == public
    host: dict[str, object] = {"domain": "registry.test", "port": "5000"}
    assert references(host, {"onlineImage": "cr.openfuyao.cn"}) == public
    # A site without internet and without a prefix is asked at its own registry (trap B78).
    assert references(host) == ["registry.test:5000/release-image:v26.06"]
    assert references(host, {"onlineImage": "x", "otherRepo": "y"}) == ["registry.test:5000/release-image:v26.06"]
    assert references({**host, "prefix": "k"}, {"onlineImage": "x"}) == ["registry.test:5000/k/release-image:v26.06"]
    assert release_repository({}, {}).is_public
    assert not release_repository(host, {}).is_public


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"otherRepo": "registry.test:5000/a/b/"}, ["registry.test:5000/a/b/upgrade-path:latest"]),
        (
            {"otherRepo": "registry.test/a", "otherRepoIp": "192.0.2.5", "onlineImage": "x", "domain": "y"},
            ["registry.test/a/upgrade-path:latest", "192.0.2.5/a/upgrade-path:latest"],
        ),
        ({"otherRepo": "registry.test:443"}, ["registry.test/upgrade-path:latest"]),
        ({"onlineImage": "x", "domain": "y"}, ["cr.openfuyao.cn/openfuyao/upgrade-path:latest"]),
        (
            {"domain": "deploy.bocloud.k8s", "host": "192.0.2.5", "imageRepoPort": "40443"},
            [
                "deploy.bocloud.k8s:40443/kubernetes/upgrade-path:latest",
                "192.0.2.5:40443/kubernetes/upgrade-path:latest",
            ],
        ),
    ],
)
def test_the_catalogue(config: dict[str, object], expected: list[str]) -> None:
    found = catalogue_repository(config).references("upgrade-path", "latest")
    assert [str(one) for one in found] == expected


def test_no_catalogue_anywhere() -> None:
    with pytest.raises(InvalidInput, match="otherRepo"):
        catalogue_repository({"imageRepoPort": "40443"})
