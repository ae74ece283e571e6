"""Manifest components on the simulated API server: look, check as a whole, write, and write nothing twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hopline.domain.errors import ComponentFailed, NotFound, Transient
from hopline.domain.observation import Presence
from hopline.domain.resources import CONFIG_MAP, DEPLOYMENT, NAMESPACE, SECRET, Document, Kind, ObjectRef
from hopline.operations.manifests import apply_documents, look
from hopline.sim.script import Failure, Verb
from manifest_lab import Lab, simulated_lab  # noqa: F401

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: fast}
"""

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - {name: web, image: "registry/web:2"}
"""

ALL = f"{CONFIG}---{WEB}"
OLD = ALL.replace("web:2", "web:1").replace("fast", "slow")
"""What the release before had."""

WIDGETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.test}
spec:
  group: example.test
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: example.test/v1
kind: Widget
metadata: {name: one}
spec: {size: 1}
"""

WIDGET = Kind(api_version="example.test/v1", kind="Widget")


def config_map(name: str = "settings", **data: str) -> Document:
    metadata = {"name": name, "namespace": "web"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def installed(lab: Lab, text: str = OLD) -> None:
    await lab.install(text)


async def test_applies_what_differs_and_nothing_twice(lab: Lab) -> None:
    await installed(lab)
    objects = lab.objects(ALL)
    before = len(lab.written())
    first = await apply_documents(lab.client, objects)
    assert set(first.changed) == {"ConfigMap web/settings", "Deployment web/web"}
    assert (await lab.get(CONFIG_MAP, "settings"))["data"] == {"mode": "fast"}
    assert lab.written()[before:] == ["ConfigMap web/settings", "Deployment web/web"]
    second = await apply_documents(lab.client, objects)
    assert (second.changed, second.unchanged, second.notes) == ((), 2, ())
    assert len(lab.written()) == before + 2


async def test_an_unchanged_object_costs_one_read_and_one_dry_run(lab: Lab) -> None:
    await installed(lab)
    objects = lab.objects(ALL)
    await apply_documents(lab.client, objects)
    before = lab.client.requests.copy()
    await apply_documents(lab.client, objects)
    assert lab.spent(before) == {"get": 2, "dry run": 2}


@pytest.mark.parametrize("there", [True, False])
async def test_a_single_object_that_changes_costs_one_read_and_one_write(lab: Lab, there: bool) -> None:
    if there:
        await lab.apply_as("bke", config_map(mode="slow"))
    before = lab.client.requests.copy()
    assert (await apply_documents(lab.client, lab.objects(CONFIG))).changed == ("ConfigMap web/settings",)
    assert lab.spent(before) == {"get": 1, "apply": 1}


async def test_the_whole_component_is_refused_before_its_first_write(lab: Lab) -> None:
    await installed(lab)
    lab.script.fail_request(Failure.REJECTED, verb=Verb.DRY_RUN, kind="Deployment", text="spec.selector: immutable")
    before = len(lab.written())
    with pytest.raises(ComponentFailed) as caught:
        await apply_documents(lab.client, lab.objects(ALL))
    assert "component web v2 of release v26.06: spec.selector: immutable; nothing was written" in caught.value.message
    assert caught.value.subject == "Deployment web/web (components/web/v2/all.yaml:7)"
    assert len(lab.written()) == before


async def test_a_failure_after_the_first_write_tells_how_far_it_got_and_goes_on_there(lab: Lab) -> None:
    await installed(lab)
    fault = lab.script.fail_request(Failure.REJECTED, verb=Verb.APPLY, kind="Deployment", text="no quota")
    with pytest.raises(ComponentFailed) as caught:
        await apply_documents(lab.client, lab.objects(ALL))
    assert "1 written (ConfigMap web/settings), not yet: Deployment web/web" in caught.value.message
    assert lab.script.hits(fault) == 1
    again = await apply_documents(lab.client, lab.objects(ALL))
    assert (again.changed, again.unchanged) == (("Deployment web/web",), 1)


async def test_a_fault_that_passes_is_left_to_the_next_attempt(lab: Lab) -> None:
    await installed(lab)
    lab.script.fail_request(Failure.TRANSIENT, verb=Verb.APPLY, kind="ConfigMap")
    with pytest.raises(Transient):
        await apply_documents(lab.client, lab.objects(ALL))
    assert (await apply_documents(lab.client, lab.objects(ALL))).changed[-1] == "Deployment web/web"


async def test_progress_is_told_object_by_object(lab: Lab) -> None:
    await installed(lab)
    told: list[str] = []
    await apply_documents(lab.client, lab.objects(ALL), on_progress=told.append)
    assert told[-1] == "applied 2 of 2 objects, last Deployment web/web"
    assert sum(line.startswith("checked") for line in told) == 2


async def test_kinds_and_namespaces_that_the_component_brings_come_first(lab: Lab) -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: fresh}\n"
    inside = CONFIG.replace("name: settings", "name: settings, namespace: fresh")
    objects = lab.objects(f"{inside}---\n{WIDGETS}---\n{namespace}")
    outcome = await apply_documents(lab.client, objects)
    assert set(outcome.changed[:2]) == {"Namespace fresh", "CustomResourceDefinition widgets.example.test"}
    assert set(outcome.changed[2:]) == {"ConfigMap fresh/settings", "Widget web/one"}
    assert (await lab.get(WIDGET, "one"))["spec"] == {"size": 1}
    again = await apply_documents(lab.client, objects)
    assert (again.changed, again.unchanged) == ((), 4)


async def test_a_kind_that_nobody_brings_is_refused_before_the_first_write(lab: Lab) -> None:
    text = f"{CONFIG}---\napiVersion: example.test/v1\nkind: Gadget\nmetadata: {{name: x}}\n"
    with pytest.raises(ComponentFailed, match="does not know Gadget x") as caught:
        await apply_documents(lab.client, lab.objects(text))
    assert caught.value.subject == "components/web/v2/all.yaml:7"
    assert "CustomResourceDefinition" in caught.value.remedy
    assert lab.written() == []


async def test_monitoring_objects_are_left_out_where_no_operator_serves_them(lab: Lab) -> None:
    monitor = "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: m}\n"
    outcome = await apply_documents(lab.client, lab.objects(f"{CONFIG}---\n{monitor}"))
    assert outcome.changed == ("ConfigMap web/settings",)
    assert "ServiceMonitor m left out" in outcome.notes[0]


async def test_an_object_without_a_namespace_anywhere_is_refused(lab: Lab) -> None:
    with pytest.raises(ComponentFailed, match="names no namespace"):
        await apply_documents(lab.client, lab.objects(CONFIG, namespace=""))


async def test_cluster_scoped_objects_lose_a_namespace_that_means_nothing(lab: Lab) -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: fresh, namespace: web}\n"
    assert (await apply_documents(lab.client, lab.objects(text))).changed == ("Namespace fresh",)
    assert "namespace" not in (await lab.get(NAMESPACE, "fresh", ""))["metadata"]


class TestOwnership:
    """Design §2: installers' fields are taken once and reported, others keep theirs, essential ones block."""

    async def test_fields_of_installers_are_taken_once_and_told(self, lab: Lab) -> None:
        await lab.apply_as("kubectl-client-side-apply", config_map(mode="slow", other="kept"))
        outcome = await apply_documents(lab.client, lab.objects(f"{CONFIG}---\n{CONFIG.replace('settings', 'b')}"))
        assert outcome.notes == ("ConfigMap web/settings: taken over from kubectl-client-side-apply: .data.mode",)
        assert (await lab.get(CONFIG_MAP, "settings"))["data"] == {"mode": "fast", "other": "kept"}
        again = await apply_documents(lab.client, lab.objects(CONFIG))
        assert (again.changed, again.notes) == ((), ())

    async def test_a_single_object_settles_its_conflict_too(self, lab: Lab) -> None:
        await lab.apply_as("helm", config_map(mode="slow"))
        outcome = await apply_documents(lab.client, lab.objects(CONFIG))
        assert outcome.notes == ("ConfigMap web/settings: taken over from helm: .data.mode",)

    async def test_fields_of_others_stay_with_them_and_are_told(self, lab: Lab) -> None:
        await installed(lab)
        scaled = {**workload(replicas=7), "metadata": {"name": "web", "namespace": "web"}}
        await lab.apply_as("kube-controller-manager", scaled)
        outcome = await apply_documents(lab.client, lab.objects(ALL))
        assert outcome.notes == ("Deployment web/web: left with kube-controller-manager: .spec.replicas",)
        live = await lab.get(DEPLOYMENT, "web")
        assert live["spec"]["replicas"] == 7
        assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "registry/web:2"
        again = await apply_documents(lab.client, lab.objects(ALL))
        assert again.changed == ()

    async def test_an_image_that_somebody_else_owns_blocks(self, lab: Lab) -> None:
        await installed(lab)
        container = {"name": "web", "image": "registry/web:own"}
        spec = {"template": {"spec": {"containers": [container]}}}
        await lab.apply_as("argocd", workload(**spec))
        before = len(lab.written())
        with pytest.raises(ComponentFailed) as caught:
            await apply_documents(lab.client, lab.objects(ALL))
        assert "belong to argocd" in caught.value.message
        assert caught.value.field == '.spec.template.spec.containers[name="web"].image'
        assert "argocd" in caught.value.remedy
        assert len(lab.written()) == before
        sighting = await look(lab.client, lab.objects(ALL))
        assert sighting.presence is Presence.ABSENT


def workload(**spec: Any) -> Document:
    metadata = {"name": "web", "namespace": "web"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


class TestStrategies:
    """openfuyao-api.md §7.4."""

    async def test_create_only_leaves_what_exists(self, lab: Lab) -> None:
        await lab.apply_as("person", config_map(mode="mine"))
        text = f"{CONFIG}---\n{CONFIG.replace('settings', 'second')}"
        objects = lab.objects(text, applyStrategy="CreateOnly")
        outcome = await apply_documents(lab.client, objects)
        assert (outcome.changed, outcome.unchanged) == (("ConfigMap web/second",), 1)
        assert (await lab.get(CONFIG_MAP, "settings"))["data"] == {"mode": "mine"}
        assert (await look(lab.client, objects)).presence is Presence.PRESENT

    async def test_replace_makes_a_new_object_only_where_something_changes(self, lab: Lab) -> None:
        await installed(lab, CONFIG.replace("fast", "slow"))
        old = (await lab.get(CONFIG_MAP, "settings"))["metadata"]["uid"]
        objects = lab.objects(CONFIG, applyStrategy="Replace")
        await apply_documents(lab.client, objects)
        new = await lab.get(CONFIG_MAP, "settings")
        assert (new["metadata"]["uid"] != old, new["data"]) == (True, {"mode": "fast"})
        assert (await apply_documents(lab.client, objects)).changed == ()

    async def test_replace_waits_until_the_old_object_is_gone(self, lab: Lab) -> None:
        held = config_map(mode="slow")
        held["metadata"]["finalizers"] = ["example.test/hold"]
        await lab.apply_as("bke", held)
        applying = asyncio.create_task(apply_documents(lab.client, lab.objects(CONFIG, applyStrategy="Replace")))
        ref = ObjectRef(kind=CONFIG_MAP, name="settings", kube_namespace="web")
        async for change in lab.client.watch(CONFIG_MAP, kube_namespace="web", name="settings"):
            if "deletionTimestamp" in change.documents[0]["metadata"]:
                break
        assert not applying.done()
        await lab.client.patch(ref, {"metadata": {"finalizers": None}})
        assert (await applying).changed == ("ConfigMap web/settings",)


class TestInstalled:
    """A component that the cluster never had is left alone (openfuyao-api.md §7.4)."""

    async def test_none_of_its_workloads_exists(self, lab: Lab) -> None:
        outcome = await apply_documents(lab.client, lab.objects(ALL))
        assert outcome.not_installed
        assert lab.written() == []
        sighting = await look(lab.client, lab.objects(ALL))
        assert sighting.presence is Presence.NOT_INSTALLED
        assert "Deployment web/web" in sighting.detail

    async def test_without_workloads_it_counts_as_installed(self, lab: Lab) -> None:
        assert not (await apply_documents(lab.client, lab.objects(CONFIG))).not_installed

    async def test_a_fixed_anchor_counts_even_when_it_is_not_among_the_objects(self, lab: Lab) -> None:
        objects = lab.objects(CONFIG, name="coredns")
        assert (await apply_documents(lab.client, objects)).not_installed
        anchor = workload(replicas=0)
        anchor["metadata"] = {"name": "coredns", "namespace": "kube-system"}
        await lab.apply_as("kubeadm", anchor)
        assert not (await apply_documents(lab.client, objects)).not_installed


class TestLook:
    """ "Already there" is concluded from live objects only, and looking changes nothing."""

    async def test_an_empty_difference_and_a_finished_rollout_are_present(self, lab: Lab) -> None:
        await installed(lab)
        objects = lab.objects(ALL)
        await apply_documents(lab.client, objects)
        writes = len(lab.written())
        sighting = await look(lab.client, objects)
        assert (sighting.presence, sighting.name, sighting.current) == (Presence.PRESENT, "web", "v2")
        assert "dry run of its 2 objects changes nothing" in sighting.detail
        assert len(lab.written()) == writes

    @pytest.mark.parametrize(
        ("text", "detail"),
        [
            (ALL, "ConfigMap web/settings differs in .data.mode"),
            (OLD.replace("web:1", "web:2"),
             'Deployment web/web differs in .spec.template.spec.containers[name="web"].image'),
            (OLD.replace("replicas: 2", "replicas: 5"), "Deployment web/web differs in .spec.replicas"),
            (f"{OLD}---\n{CONFIG.replace('settings', 'more')}", "ConfigMap web/more does not exist"),
        ],
    )  # fmt: skip
    async def test_the_first_difference_is_named(self, lab: Lab, text: str, detail: str) -> None:
        await installed(lab)
        sighting = await look(lab.client, lab.objects(text))
        assert (sighting.presence, sighting.detail) == (Presence.ABSENT, detail)

    async def test_a_rollout_that_is_not_finished_is_absent(self, lab: Lab) -> None:
        await installed(lab)
        lab.script.never_ready("Deployment", "web")
        objects = lab.objects(ALL)
        await apply_documents(lab.client, objects)
        sighting = await look(lab.client, objects)
        assert sighting.presence is Presence.ABSENT
        assert "not rolled out" in sighting.detail

    @pytest.mark.parametrize("failure", [Failure.TRANSIENT, Failure.FORBIDDEN])
    async def test_a_cluster_that_does_not_answer_is_never_nothing_to_do(self, lab: Lab, failure: Failure) -> None:
        await installed(lab)
        objects = lab.objects(ALL)
        await apply_documents(lab.client, objects)
        lab.script.fail_request(failure, verb=Verb.DRY_RUN, text="no answer")
        sighting = await look(lab.client, objects)
        assert sighting.presence is Presence.COULD_NOT_LOOK
        assert "no answer" in sighting.detail


async def test_an_object_that_vanishes_while_it_is_replaced_is_simply_made(lab: Lab) -> None:
    await installed(lab, CONFIG.replace("fast", "slow"))
    objects = lab.objects(CONFIG, applyStrategy="Replace")
    lab.script.fail_request(Failure.NOT_FOUND, verb=Verb.DELETE)
    assert (await apply_documents(lab.client, objects)).changed == ("ConfigMap web/settings",)


async def test_secrets_are_written_and_stay_written(lab: Lab) -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {k: dg==}\n"
    await apply_documents(lab.client, lab.objects(text))
    assert (await lab.get(SECRET, "s"))["data"] == {"k": "dg=="}
    assert (await apply_documents(lab.client, lab.objects(text))).changed == ()


async def test_a_missing_namespace_is_named(lab: Lab) -> None:
    with pytest.raises(ComponentFailed, match="nowhere"):
        await apply_documents(lab.client, lab.objects(CONFIG, namespace="nowhere"))
    with pytest.raises(NotFound):
        await lab.get(CONFIG_MAP, "settings", "nowhere")


class Meddler:
    """A client beside which a controller writes just before the first dry run."""

    def __init__(self, lab: Lab, document: Document) -> None:
        self._lab = lab
        self._document: Document | None = document

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lab.client, name)

    async def apply(self, document: Document, **options: Any) -> Document:
        if self._document is not None:
            meddling, self._document = self._document, None
            await self._lab.apply_as("controller", meddling)
        return await self._lab.client.apply(document, **options)


async def test_what_a_controller_writes_between_two_looks_is_no_difference(lab: Lab) -> None:
    await installed(lab)
    objects = lab.objects(ALL)
    await apply_documents(lab.client, objects)
    revised = workload()
    revised["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "2"}
    outcome = await apply_documents(Meddler(lab, revised), objects)
    assert (outcome.changed, outcome.unchanged) == ((), 2)
