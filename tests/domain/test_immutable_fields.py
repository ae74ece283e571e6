"""Changes that an API server refuses are found by comparing two versions of a component."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.builtin_kinds import BUILTIN_SCOPES
from hopline.domain.immutable_fields import IMMUTABLE, immutable_changes


def an_object(kind: str, api_version: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": "b"}, **rest}


RBAC = "rbac.authorization.k8s.io/v1"


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        (
            an_object("Deployment", "apps/v1", spec={"selector": {"matchLabels": {"a": "b"}}}),
            an_object("Deployment", "apps/v1", spec={"selector": {"matchLabels": {"a": "c"}}}),
            ["spec.selector"],
        ),
        (
            an_object("Deployment", "apps/v1", spec={"replicas": 1}),
            an_object("Deployment", "apps/v1", spec={"replicas": 2}),
            [],
        ),
        (
            an_object("StatefulSet", "apps/v1", spec={"serviceName": "x", "volumeClaimTemplates": []}),
            an_object("StatefulSet", "apps/v1", spec={"serviceName": "y", "volumeClaimTemplates": [{}]}),
            ["spec.serviceName", "spec.volumeClaimTemplates"],
        ),
        (
            an_object("RoleBinding", RBAC, roleRef={"name": "x"}),
            an_object("RoleBinding", RBAC, roleRef={"name": "y"}),
            ["roleRef"],
        ),
        (an_object("Service", "v1", spec={"clusterIP": "10.0.0.1"}), an_object("Service", "v1", spec={}), []),
        (
            an_object("Service", "v1", spec={"clusterIP": "10.0.0.1"}),
            an_object("Service", "v1", spec={"clusterIP": "10.0.0.2"}),
            ["spec.clusterIP"],
        ),
        (
            an_object("ConfigMap", "v1", immutable=True, data={"a": "1"}),
            an_object("ConfigMap", "v1", data={"a": "2"}),
            ["data"],
        ),
        (
            an_object("ConfigMap", "v1", data={"a": "1"}),
            an_object("ConfigMap", "v1", immutable=True, data={"a": "2"}),
            [],
        ),
        (
            an_object("Job", "batch/v1", spec={"template": {"a": 1}}),
            an_object("Job", "batch/v1", spec={"template": {"a": 2}}),
            ["spec.template"],
        ),
    ],
)
def test_a_field_that_cannot_change_is_named(before: dict[str, Any], after: dict[str, Any], fields: list[str]) -> None:
    changes = list(immutable_changes([before], [an_object("Other", "v1"), after]))
    assert [complaint.field for _, complaint in changes] == fields
    assert {at for at, _ in changes} <= {1}


def test_another_object_is_no_change() -> None:
    before = an_object("RoleBinding", RBAC, roleRef={"name": "x"})
    after = {**before, "metadata": {"name": "other", "namespace": "b"}, "roleRef": {"name": "y"}}
    assert list(immutable_changes([before], [after])) == []


def test_the_table_names_kinds_that_there_are() -> None:
    assert set(IMMUTABLE) <= set(BUILTIN_SCOPES)
