"""What counts as a difference between a live object and what it would be."""

from __future__ import annotations

import copy
from typing import Any

from hopline.domain.differences import first_difference, plain_difference, same_ownership

LIVE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "x",
        "resourceVersion": "5",
        "uid": "u",
        "generation": 1,
        "labels": {"a": "b"},
        "managedFields": [{"manager": "bke", "operation": "Apply", "time": "t1", "fieldsV1": {"f:data": {}}}],
    },
    "data": {"k": "v", "list": [1, 2]},
    "status": {"phase": "old"},
}


def changed(**fields: Any) -> dict[str, Any]:
    return {**copy.deepcopy(LIVE), **fields}


def test_bookkeeping_and_status_do_not_count() -> None:
    metadata = {**LIVE["metadata"], "resourceVersion": "6", "generation": 2, "managedFields": []}
    assert first_difference(LIVE, changed(metadata=metadata, status={"phase": "new"})) == ""


def test_the_first_changed_field_is_named() -> None:
    assert first_difference(LIVE, changed(data={"k": "w", "list": [1, 2]})) == ".data.k"
    assert first_difference(LIVE, changed(data={"k": "v", "list": [1, 3]})) == ".data.list[1]"
    assert first_difference(LIVE, changed(data={"k": "v"})) == ".data.list"
    assert first_difference(LIVE, changed(metadata={**LIVE["metadata"], "labels": {}})) == ".metadata.labels.a"


def test_true_is_not_one() -> None:
    assert first_difference(changed(data={"k": 1}), changed(data={"k": True})) == ".data.k"


def test_only_the_fields_that_a_manager_has_applied_are_its_ownership() -> None:
    other = copy.deepcopy(LIVE)
    entries = other["metadata"]["managedFields"]
    entries[0]["time"] = "t2"
    entries.append({"manager": "controller", "operation": "Update", "fieldsV1": {"f:status": {}}})
    entries.append({"manager": "bke", "operation": "Update", "fieldsV1": {"f:data": {}}})
    assert same_ownership(LIVE, other, "bke")
    entries[0]["fieldsV1"] = {"f:data": {"f:k": {}}}
    assert not same_ownership(LIVE, other, "bke")
    assert same_ownership(LIVE, other, "nobody")


def test_only_certain_differences_are_plain() -> None:
    def workload(image: str, cpu: str) -> dict[str, Any]:
        container = {"name": "web", "image": image, "resources": {"requests": {"cpu": cpu}}}
        return {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [container]}}}}

    image = '.spec.template.spec.containers[name="web"].image'
    assert plain_difference(workload("a:1", "1"), workload("a:2", "1")) == image
    assert plain_difference(workload("a:1", "1000m"), workload("a:1", "1")) == ""
    assert plain_difference(LIVE, {"kind": "ConfigMap", "data": {"k": "w"}}) == ".data.k"
    assert plain_difference(LIVE, {"kind": "ConfigMap", "data": {"new": "w"}}) == ".data.new"
    assert plain_difference(LIVE, {"kind": "ConfigMap", "data": {"k": "v"}}) == ""
    assert plain_difference({"kind": "Service", "spec": None}, {"kind": "Service", "spec": {"a": 1}}) == ""
