"""Whose fields are those of a client-side apply, before and after the take-over (kubectl's csaupgrade)."""

from __future__ import annotations

from typing import Any

from hopline.domain.client_side_apply import is_client_side_applied, outdated_fields, taken_over
from hopline.domain.resources import Document

ANNOTATION = {"f:metadata": {"f:annotations": {".": {}, "f:kubectl.kubernetes.io/last-applied-configuration": {}}}}


def entry(manager: str, operation: str = "Update", subresource: str = "", **fields: Any) -> Document:
    found: Document = {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields}
    return {**found, "subresource": subresource} if subresource else found


def owned(*entries: Document) -> Document:
    return {"metadata": {"managedFields": list(entries)}}


CLIENT = entry("kubectl-client-side-apply", **ANNOTATION, **{"f:data": {".": {}, "f:mode": {}, "f:gone": {}}})
OURS = entry("bke", "Apply", **{"f:data": {"f:mode": {}}})
CONTROLLER = entry("controller", subresource="status", **{"f:status": {"f:ready": {}}})


def test_an_entry_is_known_by_its_name_or_by_the_annotation_that_it_owns() -> None:
    assert is_client_side_applied(owned(CLIENT))
    assert is_client_side_applied(owned(entry("some-pipeline", **ANNOTATION)))
    assert not is_client_side_applied(owned(OURS, CONTROLLER, entry("kubectl-edit", **{"f:data": {}})))
    assert not is_client_side_applied({"metadata": {}})


def test_its_fields_become_those_of_the_applier() -> None:
    found = taken_over(owned(CLIENT, CONTROLLER, OURS), "bke")
    assert [(one["manager"], one["operation"]) for one in found] == [("controller", "Update"), ("bke", "Apply")]
    assert found[1]["fieldsV1"] == {**ANNOTATION, "f:data": {".": {}, "f:mode": {}, "f:gone": {}}}
    assert found[0] == CONTROLLER


def test_without_an_entry_of_the_applier_the_old_one_gets_its_name() -> None:
    (found,) = taken_over(owned(CLIENT), "bke")
    assert (found["manager"], found["operation"], found["fieldsV1"]) == ("bke", "Apply", CLIENT["fieldsV1"])


def test_fields_of_another_api_version_are_nobodys() -> None:
    beta = {**CLIENT, "apiVersion": "v1beta1"}
    assert taken_over(owned(beta, OURS), "bke") == [OURS]


def test_nothing_that_is_given_is_changed() -> None:
    live = owned(CLIENT, OURS)
    taken_over(live, "bke")
    assert live == owned(CLIENT, OURS)
    assert "f:gone" not in OURS["fieldsV1"]["f:data"]


def test_what_the_manifest_does_not_have_goes_with_it() -> None:
    assert outdated_fields(owned(CLIENT), owned(CLIENT, OURS)) == [".data.gone"]


def test_what_somebody_else_has_too_stays() -> None:
    other = entry("person", "Apply", **{"f:data": {"f:gone": {}}})
    assert outdated_fields(owned(CLIENT, other), owned(CLIENT, OURS, other)) == []


def test_items_of_lists_are_named_by_their_keys() -> None:
    key = 'k:{"name":"web"}'
    fields = {"f:spec": {"f:containers": {key: {"f:name": {}, "f:args": {}}}}}
    ours = {"f:spec": {"f:containers": {key: {"f:name": {}}}}}
    live = owned(entry("kubectl-client-side-apply", **fields))
    would = owned(entry("bke", "Apply", **ours))
    assert outdated_fields(live, would) == ['.spec.containers[{"name":"web"}].args']
