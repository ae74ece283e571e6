"""Pre-upgrade resources: definitions are kept current, everything else is only made where it is missing."""

from __future__ import annotations

import pytest

from builders_domain import component
from hopline.domain.errors import ComponentFailed, InvalidRelease
from hopline.domain.release import ComponentVersion, InlineResource
from hopline.domain.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, SECRET
from hopline.operations.pre_upgrade_resources import create_resources, resource_documents
from hopline.sim.script import Failure, Verb
from manifest_lab import Lab, simulated_lab  # noqa: F401

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.test}
spec:
  group: example.test
  scope: Cluster
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""

WIDGET = "apiVersion: example.test/v1\nkind: Widget\nmetadata: {name: one}\nspec: {size: 1}\n"


def resources(crd: str = CRD) -> ComponentVersion:
    found = (
        InlineResource(kind="Widget", api_version="example.test/v1", name="one", manifest=WIDGET),
        InlineResource(kind="Secret", api_version="v1", name="s", kube_namespace="web", string_data={"k": "v"}),
        InlineResource(
            kind="ConfigMap", api_version="v1", name="notes", kube_namespace="web", labels={"a": "b"}, data={"r": "1"}
        ),
        InlineResource(kind="CustomResourceDefinition", api_version="x", name="widgets", manifest=crd),
    )
    return component("pre-upgrade-resources", "v26.06", resources=found)


def test_the_documented_order() -> None:
    assert [source.kind for source in resource_documents(resources())] == [
        "CustomResourceDefinition",
        "ConfigMap",
        "Secret",
        "Widget",
    ]


async def test_everything_is_made_once(lab: Lab) -> None:
    first = await create_resources(lab.client, resources())
    assert first.changed[0] == "CustomResourceDefinition widgets.example.test"
    assert set(first.changed[1:]) == {"ConfigMap web/notes", "Secret web/s", "Widget one"}
    notes = await lab.get(CONFIG_MAP, "notes")
    assert (notes["data"], notes["metadata"]["labels"]) == ({"r": "1"}, {"a": "b"})
    assert (await lab.get(SECRET, "s"))["metadata"]["name"] == "s"
    second = await create_resources(lab.client, resources())
    assert (second.changed, second.unchanged) == ((), 4)


async def test_objects_that_exist_are_left_alone(lab: Lab) -> None:
    metadata = {"name": "notes", "namespace": "web"}
    await lab.apply_as("person", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"r": "own"}})
    await create_resources(lab.client, resources())
    assert (await lab.get(CONFIG_MAP, "notes"))["data"] == {"r": "own"}


async def test_a_newer_definition_is_applied_and_told(lab: Lab) -> None:
    await create_resources(lab.client, resources())
    newer = CRD.replace("names: {kind: Widget,", "names: {kind: Widget, shortNames: [wd],")
    outcome = await create_resources(lab.client, resources(newer))
    assert outcome.changed == ("CustomResourceDefinition widgets.example.test",)
    assert "is the definition of this release" in outcome.notes[0]
    live = await lab.get(CUSTOM_RESOURCE_DEFINITION, "widgets.example.test", "")
    assert live["spec"]["names"]["shortNames"] == ["wd"]


async def test_an_object_that_appears_meanwhile_counts_as_there(lab: Lab) -> None:
    only = InlineResource(kind="ConfigMap", api_version="v1", name="n", kube_namespace="kube-system", data={"r": "1"})
    declared = component("pre-upgrade-resources", "v26.06", resources=(only,))
    lab.script.fail_request(Failure.NOT_FOUND, verb=Verb.GET, kind="ConfigMap", times=1)
    await create_resources(lab.client, declared)
    lab.script.fail_request(Failure.NOT_FOUND, verb=Verb.GET, kind="ConfigMap", times=1)
    assert (await create_resources(lab.client, declared)).unchanged == 1


async def test_a_missing_namespace_holds_the_component(lab: Lab) -> None:
    lost = InlineResource(kind="ConfigMap", api_version="v1", name="n", kube_namespace="nowhere")
    with pytest.raises(ComponentFailed, match="nowhere"):
        await create_resources(lab.client, component("pre-upgrade-resources", "v26.06", resources=(lost,)))


def test_a_resource_without_a_usable_manifest_is_refused() -> None:
    empty = InlineResource(kind="Widget", api_version="example.test/v1", name="w", manifest="# nothing\n")
    with pytest.raises(InvalidRelease) as caught:
        resource_documents(component("pre-upgrade-resources", "v26.06", resources=(empty,)))
    assert caught.value.field == "spec.resources[0].manifest"
