"""Release bundles: which file is what, and what is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from hopline.documents.bundles import content_digest, parse_bundle, release_name
from hopline.domain.errors import InvalidDocument, InvalidRelease
from hopline.domain.release import BundleSource, RawBundle, Release

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples" / "releases"
RELEASE = """\
kind: ReleaseImage
spec:
  version: v26.06
  install: {components: [{name: coredns, version: v1}]}
  upgrade:
    components:
    - {name: coredns, version: v1.2}
    - {name: etcd, version: v3.6.8, inline: {handler: EnsureEtcdUpgrade, version: v1.0.0}}
"""
COREDNS = "kind: ComponentVersion\nspec: {name: coredns, type: yaml, version: v1.2}\n"


def bundle(files: dict[str, str], source: BundleSource = BundleSource.DISK) -> RawBundle:
    return RawBundle(
        version="v26.06", digest=content_digest(files), source=source, origin="releases/v26.06", files=files
    )


def parse(**files: str) -> Release:
    return parse_bundle(
        bundle({"release.yaml": RELEASE} | {path.replace("|", "/"): text for path, text in files.items()})
    )


def refusal(files: dict[str, str]) -> InvalidRelease:
    with pytest.raises(InvalidRelease) as caught:
        parse_bundle(bundle(files))
    assert caught.value.remedy
    return caught.value


def paths(release: Release, name: str, version: str) -> list[str]:
    return [file.path for file in release.files_of(name, version)]


@pytest.mark.parametrize("version", ["v26.06-rc.2", "v26.06-rc.3", "v26.06"])
def test_the_sample_releases_are_read(version: str) -> None:
    root = EXAMPLES / version
    files = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.yaml")}
    release = parse_bundle(
        RawBundle(version=version, digest="sha256:1", source=BundleSource.DISK, origin=str(root), files=files)
    )
    assert release.name == f"release-{version}"
    assert len(release.upgrade) == len(release.components) == 9
    assert all(release.component(ref.name, ref.version) for ref in (*release.install, *release.upgrade))
    names = {key.split("@")[0] for key in release.manifests}
    assert names == {"provider", "kube-proxy", "coredns", "calico"}


def test_lists_components_and_handlers_are_read_in_the_authors_order() -> None:
    release = parse()
    assert [(ref.name, ref.version) for ref in release.upgrade] == [("coredns", "v1.2"), ("etcd", "v3.6.8")]
    assert release.upgrade[1].inline is not None
    assert release.upgrade[1].inline.handler == "EnsureEtcdUpgrade"
    assert [ref.name for ref in release.install] == ["coredns"]
    assert release.document["kind"] == "ReleaseImage"


def test_component_versions_may_stand_anywhere() -> None:
    release = parse(
        **{
            "all.yaml": f"{COREDNS}---\n{COREDNS.replace('coredns', 'etcd')}",
            "components|x|component.yaml": "spec: {name: x, version: v1}",
        }
    )
    assert [(c.name, c.path) for c in release.components] == [
        ("coredns", "all.yaml"),
        ("etcd", "all.yaml"),
        ("x", "components/x/component.yaml"),
    ]


def test_manifests_are_those_of_the_version_only() -> None:
    release = parse(
        **{
            "components|coredns|v1.2|component.yaml": COREDNS,
            "components|coredns|v1.1|component.yaml": COREDNS.replace("v1.2", "v1.1"),
            "components|coredns|v1.2|b.yaml": "{{ template }}",
            "components|coredns|v1.2|crds|a.yml": "x",
            "components|coredns|v1.1|a.yaml": "old",
            "components|coredns|v1.0|a.yaml": "undescribed, older",
            "components|coredns|shared.yaml": "both",
            "components|coredns|rbac|role.yaml": "both",
            "components|coredns|nightly|component.yaml": COREDNS.replace("v1.2", "other"),
            "components|coredns|nightly|x.yaml": "a folder that holds a component.yaml",
            "components|coredns|v1.2|notes.txt": "no YAML",
            "components|coredns-extra|v1.2|a.yaml": "another component",
        }
    )
    assert paths(release, "coredns", "v1.2") == [
        "components/coredns/rbac/role.yaml",
        "components/coredns/shared.yaml",
        "components/coredns/v1.2/b.yaml",
        "components/coredns/v1.2/crds/a.yml",
    ]
    assert paths(release, "coredns", "v1.1") == [
        "components/coredns/rbac/role.yaml",
        "components/coredns/shared.yaml",
        "components/coredns/v1.1/a.yaml",
    ]
    assert paths(release, "coredns", "v1.0") == []
    assert release.files_of("coredns", "v1.2")[2].text == "{{ template }}"


def test_a_component_version_beside_its_manifests_is_not_one_of_them() -> None:
    release = parse(**{"components|coredns|v1.2|cv.yaml": COREDNS, "components|coredns|v1.2|a.yaml": "x"})
    assert paths(release, "coredns", "v1.2") == ["components/coredns/v1.2/a.yaml"]


def test_every_field_of_a_component_is_read() -> None:
    text = """\
    kind: ComponentVersion
    spec:
      name: coredns
      type: yaml
      version: v1.2
      dependencies: [{name: etcd, phase: Install}]
      inline: null
      subComponents:
      upgradeStrategy: {timeout: 15m, failurePolicy: Continue}
      compatibility: {constraints: [{component: etcd, rule: ">=v3"}]}
      yaml:
        namespace: kube-system
        applyStrategy: Replace
        prune: true
        pruneLabelSelector: {app: dns}
        healthCheck:
          enabled: true
          checks:
          - {type: PodReady, podReady: {namespace: kube-system, labelSelector: app=dns, minReady: 2}}
      resources:
      - {kind: ConfigMap, apiVersion: v1, name: c, namespace: kube-system, data: {a: b}}
      - {kind: X, apiVersion: g/v1, name: x, manifest: "kind: X"}
    """
    component = parse(**{"c.yaml": "\n".join(line[4:] for line in text.splitlines())}).components[0]
    assert component.dependencies[0].name == "etcd"
    assert component.upgrade_strategy.timeout == "15m"
    assert component.compatibility.constraints[0].rule == ">=v3"
    assert component.yaml.kube_namespace == "kube-system"
    assert component.yaml.prune_label_selector == {"app": "dns"}
    ready = component.yaml.health_check.checks[0].pod_ready
    assert ready is not None and (ready.label_selector, ready.min_ready) == ("app=dns", 2)
    assert component.resources[0].data == {"a": "b"}
    assert component.resources[1].manifest == "kind: X"
    assert (component.inline, component.sub_components) == (None, ())


def test_a_bundle_without_a_release_is_refused() -> None:
    error = refusal({"components/coredns/component.yaml": COREDNS})
    assert error.message == "the bundle of v26.06 has no release.yaml"
    assert "releases/v26.06/release.yaml" in error.remedy


def test_a_second_release_is_refused_with_both_places() -> None:
    error = refusal({"release.yaml": RELEASE, "old/image.yaml": RELEASE})
    assert "releases/v26.06/old/image.yaml:1, releases/v26.06/release.yaml:1" in error.value


def test_another_version_than_the_one_asked_for_is_refused() -> None:
    error = refusal({"release.yaml": RELEASE.replace("version: v26.06\n", "version: v26.12\n")})
    assert error.message == "the bundle of v26.06 holds release v26.12"
    assert (error.subject, error.field, error.value) == ("releases/v26.06/release.yaml:1", "spec.version", "v26.12")


@pytest.mark.parametrize(
    ("release", "field"),
    [
        ("kind: ReleaseImage\n", "spec.version"),
        ("kind: ReleaseImage\nspec: []\n", "spec"),
        ("kind: ReleaseImage\nspec: {version: v26.06, upgrade: {components: {a: b}}}\n", "spec.upgrade.components"),
        (
            "kind: ReleaseImage\nspec: {version: v26.06, upgrade: {components: [coredns]}}\n",
            "spec.upgrade.components[0]",
        ),
        (
            "kind: ReleaseImage\nspec: {version: v26.06, install: {components: [{name: 3}]}}\n",
            "spec.install.components[0].name",
        ),
    ],
)
def test_a_release_of_the_wrong_shape_is_refused_at_its_field(release: str, field: str) -> None:
    assert refusal({"release.yaml": release}).field == field


@pytest.mark.parametrize(
    ("component", "field"),
    [
        ("kind: ComponentVersion\nspec: {version: v1}\n", "spec.name"),
        ("kind: ComponentVersion\nspec: {name: a}\n", "spec.version"),
        ("kind: ComponentVersion\n", "spec.name"),
        (
            "kind: ComponentVersion\nspec: {name: a, version: v1, dependencies: [{name: 3}]}\n",
            "spec.dependencies[0].name",
        ),
    ],
)
def test_a_component_of_the_wrong_shape_is_refused_at_its_field(component: str, field: str) -> None:
    error = refusal({"release.yaml": RELEASE, "components/a/component.yaml": component})
    assert (error.subject, error.field) == ("releases/v26.06/components/a/component.yaml:1", field)


def test_a_component_version_that_stands_twice_is_refused() -> None:
    error = refusal({"release.yaml": RELEASE, "a/component.yaml": COREDNS, "b/component.yaml": f"\n{COREDNS}"})
    assert error.subject == "releases/v26.06/b/component.yaml:2"
    assert "coredns@v1.2 stands twice, first in releases/v26.06/a/component.yaml:1" in error.message


def test_yaml_that_does_not_parse_is_refused_with_file_and_line() -> None:
    with pytest.raises(InvalidDocument) as caught:
        parse(**{"components|a|component.yaml": "spec:\n  name: a\n bad\n"})
    assert caught.value.subject == "releases/v26.06/components/a/component.yaml:3"


def test_a_place_in_an_image_names_image_and_file() -> None:
    with pytest.raises(InvalidDocument) as caught:
        parse_bundle(bundle({"release.yaml": "a: ["}, BundleSource.OCI))
    assert caught.value.subject.startswith("releases/v26.06!release.yaml:")


def test_the_digest_is_over_path_and_bytes_in_path_order() -> None:
    expected = hashlib.sha256(b"a.yaml\0x\r\n\0b/c.yaml\0\xc3\xa9\0").hexdigest()
    assert content_digest({"b/c.yaml": "é", "a.yaml": "x\r\n"}) == f"sha256:{expected}"


@pytest.mark.parametrize(
    ("version", "name"),
    [("v26.06-rc.2", "release-v26.06-rc.2"), ("26.06", "release-v26.06"), ("V1/2_3@4:5-", "release-v1-2-3-4-5")],
)
def test_the_derived_name(version: str, name: str) -> None:
    assert release_name(version) == name
