"""What the manifests of a planned way would run into stands in the plan, for every hop, before the first write."""

from __future__ import annotations

from typing import Any

import pytest

from builders_domain import component, release, sample_facts
from hopline.documents.loading import load_documents
from hopline.domain.plan import Action, ComponentType, Finding, HopPlan, PlannedComponent, Severity
from hopline.domain.release import ManifestFile, Release
from hopline.domain.resources import CUSTOM_RESOURCE_DEFINITION, ObjectRef
from hopline.operations.manifest_review import review_in_this_thread, review_manifests
from hopline.ports import ClusterClient
from manifest_lab import Lab, simulated_lab  # noqa: F401

BUDGET = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a, namespace: b}\n"
ON_DELETE = (
    "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a, namespace: b}\n"
    "spec:\n  updateStrategy: {type: OnDelete}\n"
)
PLACE = "component web v2 of release v26.06, components/web/v2/a.yaml:1"


def bundle(text: str) -> Release:
    declared = component("web", "v2")
    made = release("v26.06", declared, manifests={})
    files = (ManifestFile(path="components/web/v2/a.yaml", text=text),)
    return made.model_copy(update={"manifests": {"web@v2": files}})


def hop(action: Action = Action.RUN, kubernetes: str = "v1.34.3") -> HopPlan:
    planned = PlannedComponent(name="web", version="v2", type=ComponentType.MANIFEST, action=action)
    return HopPlan(
        from_version="v26.03",
        to_version="v26.06",
        components=(planned,),
        targets={"kubernetesVersion": kubernetes},
    )


async def review(text: str, planned: HopPlan) -> tuple[Finding, ...]:
    return await review_manifests(sample_facts(), [planned], [bundle(text)])


async def test_an_api_that_the_hop_no_longer_serves_blocks() -> None:
    (finding,) = await review(BUDGET, hop())
    assert (finding.severity, finding.field) == (Severity.BLOCKS, "apiVersion")
    assert finding.object == f"{PLACE}: PodDisruptionBudget b/a"
    assert "the cluster gets v1.34.3" in finding.message
    assert await review(BUDGET, hop(kubernetes="v1.24.2")) == ()


async def test_pods_that_stay_old_are_a_warning() -> None:
    (finding,) = await review(ON_DELETE, hop())
    assert (finding.severity, finding.object) == (Severity.WARNS, f"{PLACE}: StatefulSet b/a")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: {{ .tenant }}\n", ".tenant has no value"),
        ("a: [\n", "does not parse"),
        (BUDGET.replace("v1beta1", "v1") + "---\n" + BUDGET.replace("v1beta1", "v1"), "stands twice"),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", "neither does the component"),
    ],
)
async def test_what_could_not_be_applied_blocks(text: str, words: str) -> None:
    (finding,) = await review(text, hop())
    assert finding.severity is Severity.BLOCKS
    assert words in finding.message
    assert finding.object.startswith("component web v2 of release v26.06, components/web/v2/a.yaml:")
    assert finding.remedy


async def test_a_component_without_work_is_not_looked_at() -> None:
    assert await review(BUDGET, hop(Action.SKIP)) == ()


async def test_a_field_that_cannot_change_is_a_warning_unless_the_object_is_replaced() -> None:
    binding = (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: a}\nroleRef: {name: X}\n"
    )
    new = bundle(binding.replace("X", "new"))
    old = bundle(binding.replace("X", "old"))
    (finding,) = await review_manifests(sample_facts(), [hop()], [new], old)
    assert (finding.severity, finding.field) == (Severity.WARNS, "roleRef")
    assert await review_manifests(sample_facts(), [hop()], [new], new) == ()
    assert await review_manifests(sample_facts(), [hop()], [new]) == ()


SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: b, labels: {app: web}}\n"


@pytest.mark.parametrize(
    ("yaml", "severity", "words"),
    [
        ({}, Severity.WARNS, "is not in the new version, and stays: the component does not ask for pruning"),
        ({"prune": True, "pruneLabelSelector": {"app": "web"}}, Severity.INFO, "is deleted after it was applied"),
        ({"prune": True, "pruneLabelSelector": {"app": "x"}}, Severity.WARNS, "it lacks the label app=x"),
    ],
)
async def test_what_the_new_version_no_longer_has_is_named(yaml: Any, severity: Severity, words: str) -> None:
    kept, gone = SETTINGS.replace("NAME", "kept"), SETTINGS.replace("NAME", "gone")
    old, new = bundle(f"{kept}---\n{gone}"), bundle(kept)
    declared = component("web", "v2", yaml=yaml)
    new = new.model_copy(update={"components": (declared,)})
    (finding,) = await review_manifests(sample_facts(), [hop()], [new], old)
    assert (finding.severity, finding.object) == (severity, "component web v2 of release v26.06: ConfigMap b/gone")
    assert words in finding.message


def definition(*versions: str) -> str:
    listed = "".join(f"    - {{name: {name}, served: true, storage: {name == versions[-1]}}}\n" for name in versions)
    return (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.test}\n"
        f"spec:\n  group: example.test\n  scope: Namespaced\n  names: {{kind: Widget, plural: widgets}}\n"
        f"  versions:\n{listed}"
    )


async def stored(lab: Lab, *versions: str) -> None:
    (source,) = load_documents(definition(*versions), "crd.yaml")
    await lab.client.create(source.document, kind=CUSTOM_RESOURCE_DEFINITION)
    ref = ObjectRef(kind=CUSTOM_RESOURCE_DEFINITION, name="widgets.example.test")
    await lab.client.patch(ref, {"status": {"storedVersions": list(versions)}}, subresource="status")


async def test_a_version_in_which_objects_are_still_stored_blocks(lab: Lab) -> None:
    await stored(lab, "v1alpha1", "v1")

    async def target() -> ClusterClient:
        return lab.client

    old, new = bundle(definition("v1alpha1", "v1")), bundle(definition("v1"))
    (finding,) = await review_manifests(sample_facts(), [hop()], [new], old, target)
    assert (finding.severity, finding.field) == (Severity.BLOCKS, "spec.versions")
    assert finding.object == f"{PLACE}: CustomResourceDefinition widgets.example.test"
    assert "has no version v1alpha1 any more" in finding.message
    later = await review_manifests(sample_facts(), [hop(Action.SKIP), hop()], [old, new], old, target)
    assert [one.severity for one in later] == [Severity.WARNS]
    assert await review_manifests(sample_facts(), [hop()], [old], old, target) == ()


async def test_a_definition_that_lost_no_version_costs_no_request(lab: Lab) -> None:
    async def target() -> ClusterClient:
        raise AssertionError("nobody had to be asked")

    new = bundle(definition("v1alpha1", "v1"))
    assert await review_manifests(sample_facts(), [hop()], [new], bundle(definition("v1")), target) == ()


async def test_on_files_alone_it_is_said_what_nobody_could_check() -> None:
    (finding,) = review_in_this_thread(sample_facts(), [hop()], [bundle(definition("v1"))])
    assert finding.severity is Severity.INFO
    assert "which kinds the cluster serves" in finding.message
    assert finding.message.endswith("in which versions it stores the objects of widgets.example.test")
    assert review_in_this_thread(sample_facts(), [hop(Action.SKIP)], [bundle(definition("v1"))]) == ()


async def test_a_component_that_the_release_no_longer_has_is_named() -> None:
    old = release("v26.03", component("web", "v1"), component("gone", "v3"), component("etcd"), upgrade=())
    old = old.model_copy(update={"install": (*bundle("").upgrade, *release("x", component("gone", "v3")).upgrade)})
    (finding,) = await review_manifests(sample_facts(), [hop(Action.SKIP)], [bundle("")], old)
    assert (finding.severity, finding.field) == (Severity.WARNS, "spec.upgrade.components gone")
    assert finding.message.endswith("its objects stay as v3 has brought them")
