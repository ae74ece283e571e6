"""An apply that could change an object is never taken for one that cannot."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hopline.domain.coming_changes import may_change
from hopline.domain.resources import Document

DOCUMENT: Document = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "web", "labels": {"a.b/c": "x"}, "finalizers": ["f/1"]},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"spec": {"containers": [{"name": "web", "image": "web:1", "ports": [{"containerPort": 80}]}]}},
    },
}
FIELDS = {
    "f:metadata": {"f:labels": {"f:a.b/c": {}}, "f:finalizers": {".": {}, 'v:"f/1"': {}}},
    "f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:template": {
            "f:spec": {
                "f:containers": {
                    'k:{"name":"web"}': {
                        ".": {},
                        "f:name": {},
                        "f:image": {},
                        "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
                    }
                }
            }
        },
    },
}


def live() -> Document:
    found = copy.deepcopy(DOCUMENT)
    found["metadata"] |= {
        "uid": "1",
        "managedFields": [{"manager": "bke", "operation": "Apply", "fieldsV1": copy.deepcopy(FIELDS)}],
    }
    found["spec"]["paused"] = False
    found["spec"]["template"]["spec"]["containers"][0]["ports"][0]["protocol"] = "TCP"
    found["status"] = {"replicas": 2}
    return found


def fields(found: Document) -> dict[str, Any]:
    return found["metadata"]["managedFields"][0]["fieldsV1"]  # type: ignore[no-any-return]


def test_what_is_there_as_it_was_applied_does_not_change() -> None:
    assert not may_change(live(), DOCUMENT, "bke")


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["spec"].update(replicas=3),
        lambda document: document["spec"].update(replicas="2"),
        lambda document: document["metadata"]["labels"].update(more="x"),
        lambda document: document["metadata"].pop("labels"),
        lambda document: document["metadata"].update(finalizers=[]),
        lambda document: document["spec"].pop("replicas"),
        lambda document: document["spec"]["selector"]["matchLabels"].pop("app"),
        lambda document: document["spec"]["template"]["spec"]["containers"].append({"name": "second"}),
        lambda document: document["spec"]["template"]["spec"]["containers"][0].pop("ports"),
    ],
    ids=["value", "type", "new field", "label gone", "finalizer gone", "field gone", "inside a whole", "item", "ports"],
)
def test_every_change_of_the_manifest_is_seen(change: Any) -> None:
    document = copy.deepcopy(DOCUMENT)
    change(document)
    assert may_change(live(), document, "bke")


def test_a_change_of_the_live_object_is_seen() -> None:
    found = live()
    found["spec"]["replicas"] = 5
    assert may_change(found, DOCUMENT, "bke")


def test_what_we_never_applied_would_get_a_new_owner() -> None:
    found = live()
    found["metadata"]["managedFields"][0]["manager"] = "kubectl"
    assert may_change(found, DOCUMENT, "bke")
    assert may_change({"metadata": {}}, DOCUMENT, "bke")


def test_a_list_that_is_owned_as_a_whole_is_compared_as_a_whole() -> None:
    found, document = live(), copy.deepcopy(DOCUMENT)
    found["spec"]["versions"] = [{"name": "v1", "schema": {"gone": 1}}]
    document["spec"]["versions"] = [{"name": "v1", "schema": {}}]
    fields(found)["f:spec"]["f:versions"] = {}
    assert may_change(found, document, "bke")
    document["spec"]["versions"] = copy.deepcopy(found["spec"]["versions"])
    assert not may_change(found, document, "bke")


def test_null_asks_for_nothing_that_is_not_there() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["metadata"]["creationTimestamp"] = None
    assert not may_change(live(), document, "bke")
