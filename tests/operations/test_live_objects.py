"""Few requests for many objects: lists instead of reads, and hints of a plan that an apply may take once."""

from __future__ import annotations

import pytest

from hopline.domain.errors import ComponentFailed
from hopline.domain.resources import CONFIG_MAP, ObjectRef
from hopline.operations.component_objects import PlacedObject
from hopline.operations.live_objects import LIST_FROM, PlainDifferences, read_live
from hopline.operations.manifests import apply_documents, look
from hopline.sim.script import Failure, Verb
from manifest_lab import Lab, simulated_lab  # noqa: F401


def placed(*names: str) -> list[PlacedObject]:
    refs = [ObjectRef(kind=CONFIG_MAP, name=name, kube_namespace="web") for name in names]
    return [PlacedObject(ref, {"metadata": {"name": ref.name}}, "x.yaml:1") for ref in refs]


def settings(name: str, mode: str = "fast") -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{mode: {mode}}}\n"


NAMES = [f"c{number}" for number in range(LIST_FROM)]


async def test_some_objects_of_a_kind_cost_one_list(lab: Lab) -> None:
    await lab.install(settings("c0"))
    before = lab.client.requests.copy()
    live = await read_live(lab.client, placed(*NAMES))
    assert lab.spent(before) == {"list": 1}
    assert [document is not None for document in live.values()] == [True] + [False] * (LIST_FROM - 1)
    assert {ref.name for ref in live} == set(NAMES)


async def test_fewer_are_read_one_by_one(lab: Lab) -> None:
    before = lab.client.requests.copy()
    await read_live(lab.client, placed(*NAMES[1:]))
    assert lab.spent(before) == {"get": LIST_FROM - 1}


async def test_what_is_known_is_not_read(lab: Lab) -> None:
    targets = placed(*NAMES)
    known = dict.fromkeys((target.ref for target in targets), None)
    before = lab.client.requests.copy()
    assert await read_live(lab.client, targets, known) == known
    assert lab.spent(before) == {}


async def test_an_account_that_may_not_list_reads_one_by_one(lab: Lab) -> None:
    await lab.install(settings("c0"))
    lab.script.fail_request(Failure.FORBIDDEN, verb=Verb.LIST, kind="ConfigMap", times=99)
    live = await read_live(lab.client, placed(*NAMES))
    assert [document is not None for document in live.values()] == [True] + [False] * (LIST_FROM - 1)


async def test_a_difference_that_the_plan_has_seen_is_written_without_a_look_once(lab: Lab) -> None:
    await lab.install(settings("c0", "slow"))
    objects, seen = lab.objects(settings("c0")), PlainDifferences()
    await look(lab.client, objects, seen=seen)
    before = lab.client.requests.copy()
    outcome = await apply_documents(lab.client, objects, seen=seen)
    assert (outcome.changed, lab.spent(before)) == (("ConfigMap web/c0",), {"apply": 1})
    before = lab.client.requests.copy()
    assert (await apply_documents(lab.client, objects, seen=seen)).changed == ()
    assert "apply" not in lab.spent(before)


async def test_a_hint_holds_for_its_document_and_a_short_time(lab: Lab) -> None:
    now = 0.0
    seen = PlainDifferences(lambda: now)
    (target,) = placed("c0")
    seen.note(lab.client, target.ref, target.document)
    assert not seen.take(lab.client, target.ref, {**target.document, "data": {}})
    seen.note(lab.client, target.ref, target.document)
    now = 61.0
    assert not seen.take(lab.client, target.ref, target.document)


async def test_a_field_of_somebody_else_is_settled_by_a_look_after_all(lab: Lab) -> None:
    await lab.install(settings("c0", "slow"))
    objects, seen = lab.objects(settings("c0")), PlainDifferences()
    await look(lab.client, objects, seen=seen)
    document = {**objects.documents[0], "metadata": {"name": "c0", "namespace": "web"}, "data": {"mode": "own"}}
    await lab.apply_as("somebody", document)
    outcome = await apply_documents(lab.client, objects, seen=seen)
    assert (await lab.get(CONFIG_MAP, "c0"))["data"] == {"mode": "own"}
    assert "left with somebody" in "\n".join(outcome.notes)


async def test_a_refused_write_is_the_failure_of_the_component(lab: Lab) -> None:
    await lab.install(settings("c0", "slow"))
    objects, seen = lab.objects(settings("c0")), PlainDifferences()
    await look(lab.client, objects, seen=seen)
    lab.script.fail_request(Failure.REJECTED, verb=Verb.APPLY, name="c0")
    with pytest.raises(ComponentFailed, match="nothing was written"):
        await apply_documents(lab.client, objects, seen=seen)
