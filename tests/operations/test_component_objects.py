"""From the files of a component to objects: collected, rendered, read, refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders_domain import component, release, sample_facts
from hopline.documents.bundles import parse_bundle
from hopline.domain.errors import InvalidDocument, InvalidRelease
from hopline.domain.release import ComponentVersion, InlineResource, ManifestFile, Release
from hopline.files.releases import DirectoryReleaseSource
from hopline.operations.component_objects import ComponentObjects, read_objects, render_documents

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples" / "releases"
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {version: '{{ .version }}'}\n"


def read(*files: tuple[str, str], **spec: Any) -> ComponentObjects:
    declared = component("web", "v2", **spec)
    bundle = release("v26.06", declared, manifests={})
    manifests = {"web@v2": tuple(ManifestFile(path=path, text=text) for path, text in files)}
    return read_objects(bundle.model_copy(update={"manifests": manifests}), declared, sample_facts())


def one(text: str, **spec: Any) -> ComponentObjects:
    return read(("components/web/v2/a.yaml", text), **spec)


def test_files_are_rendered_with_the_version_of_the_component() -> None:
    objects = one(CONFIG.replace("NAME", "a"))
    assert objects.documents[0]["data"] == {"version": "v2"}
    assert objects.subject == "component web v2 of release v26.06"


def test_files_come_in_path_order_then_inline_manifests() -> None:
    resources = (InlineResource(kind="ConfigMap", api_version="v1", name="c", manifest=CONFIG.replace("NAME", "c")),)
    files = [(f"components/web/v2/0{n}.yaml", CONFIG.replace("NAME", name)) for n, name in ((1, "a"), (2, "b"))]
    objects = read(*files, resources=resources)
    assert [document["metadata"]["name"] for document in objects.documents] == ["a", "b", "c"]
    assert objects.documents[2]["data"] == {"version": "v2"}
    assert objects.sources[2].origin.endswith("spec.resources[0].manifest")


def test_files_marked_noexecute_are_read_as_they_stand() -> None:
    rules = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: r}\ndata: {alert: 'on {{ $labels.instance }}'}\n"
    objects = read(("components/web/v2/noexecute/rules.yaml", rules))
    assert objects.documents[0]["data"]["alert"] == "on {{ $labels.instance }}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .tenant }}'}\n", ["a.yaml:3", ".tenant has no value"]),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n", ["a.yaml:1", "ConfigMap has no name"]),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x-}\n", ["a.yaml:1", "generateName"]),
        ("---\nkind: ConfigMap\nmetadata: {name: x}\n", ["a.yaml:2", "no apiVersion"]),
        ("apiVersion: v1\nmetadata: {name: x}\n", ["a.yaml:1", "no kind"]),
        (CONFIG + "---\n" + CONFIG, ["a.yaml:6", "ConfigMap NAME stands twice", "a.yaml:1"]),
        (CONFIG + "---\n" + CONFIG.replace("name: NAME", "name: NAME, namespace: web"), ["stands twice"]),
    ],
)  # fmt: skip
def test_unusable_objects_are_refused_with_file_and_line(text: str, words: list[str]) -> None:
    with pytest.raises(InvalidRelease) as caught:
        one(text, yaml={"namespace": "web"})
    for word in words:
        assert word in str(caught.value)


def test_yaml_that_does_not_parse_names_file_and_line() -> None:
    with pytest.raises(InvalidDocument) as caught:
        one("apiVersion: v1\nkind: [\n")
    assert "components/web/v2/a.yaml:" in str(caught.value)


def test_the_same_name_in_another_namespace_or_group_is_another_object() -> None:
    other = CONFIG.replace("name: NAME", "name: NAME, namespace: other")
    grouped = CONFIG.replace("apiVersion: v1", "apiVersion: example.test/v1")
    assert len(one(CONFIG + "---\n" + other + "---\n" + grouped).documents) == 3


@pytest.mark.parametrize("kind", ["Namespace", "CustomResourceDefinition", "PersistentVolumeClaim"])
def test_replace_never_deletes_what_holds_other_things(kind: str) -> None:
    text = f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: x}}\n"
    with pytest.raises(InvalidRelease, match="Replace would delete"):
        one(text, yaml={"applyStrategy": "Replace"})
    assert one(text, yaml={"applyStrategy": "ServerSideApply"}).documents


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(InvalidRelease, match="unknown apply strategy"):
        one(CONFIG, yaml={"applyStrategy": "Merge"})


async def _example(version: str) -> Release:
    return parse_bundle(await DirectoryReleaseSource(EXAMPLES).fetch(version))


@pytest.mark.parametrize("version", ["v26.06-rc.2", "v26.06-rc.3", "v26.06"])
async def test_every_manifest_component_of_the_examples_can_be_read(version: str) -> None:
    bundle = await _example(version)
    facts = sample_facts()
    repository = {"imageRepo": {"domain": "registry.example.test", "prefix": "kubernetes"}}
    cluster = facts.document["spec"]["clusterConfig"]["cluster"] | repository
    facts = facts.model_copy(update={"document": {"spec": {"clusterConfig": {"cluster": cluster}}}})
    manifests: list[ComponentVersion] = [c for c in bundle.components if bundle.files_of(c.name, c.version)]
    assert {c.name for c in manifests} == {"provider", "kube-proxy", "coredns", "calico"}
    for declared in manifests:
        objects = await render_documents(bundle, declared, facts)
        assert objects.documents
        assert "{{" not in str(objects.documents)


# --- images of other registries ------------------------------------------------------------------------------------

JOB = """apiVersion: batch/v1
kind: CronJob
metadata: {name: j, namespace: n}
spec:
  jobTemplate:
    spec:
      template:
        spec:
          initContainers: [{name: i, image: "busybox:1.36"}]
          containers: [{name: c, image: "{{.repo}}web:{{.version}}"}]
"""


def test_images_follow_the_repository_of_the_cluster_and_the_rules_of_the_installation() -> None:
    declared = component("web", "v2")
    bundle = release("v26.06", declared, manifests={"web@v2": JOB})
    rules = (("docker.io", "registry.example.test:40443/kubernetes"),)
    repository = {"domain": "registry.example.test", "port": "40443", "prefix": "kubernetes"}
    facts = sample_facts().model_copy(
        update={"document": {"spec": {"clusterConfig": {"cluster": {"imageRepo": repository}}}}}
    )
    objects = read_objects(bundle.model_copy(update={"image_overrides": rules}), declared, facts)
    pod = objects.documents[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example.test:40443/kubernetes/web:v2"
    assert pod["initContainers"][0]["image"] == "registry.example.test:40443/kubernetes/library/busybox:1.36"
    assert [(one.named, one.applied) for one in objects.rewrites] == [
        ("busybox:1.36", "registry.example.test:40443/kubernetes/library/busybox:1.36")
    ]
    assert objects.sources[0].line == 1
    assert read_objects(bundle, declared, facts).rewrites == ()
