"""A start as a person types it: either spelling, and a bad one ends at once and names the field (design §2)."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from small_lab import FINAL, RC3, SmallLab
from workflows.identifiers import CLUSTER_UPGRADE

pytestmark = pytest.mark.slow

OWN = {"namespace": "east", "name": "OWN"}
"""Replaced by the cluster of the test, whose workflow id is the right one then."""

BAD_INPUTS: list[tuple[Any, str]] = [
    (None, "input"),
    ("v26.06", "input"),
    ([1], "input"),
    ({}, "cluster"),
    ({"cluster": "east/east", "desiredVersion": FINAL}, "cluster"),
    ({"cluster": {"name": "OWN"}, "desiredVersion": FINAL}, "cluster.namespace"),
    ({"cluster": OWN}, "desiredVersion"),
    ({"cluster": OWN, "desiredVersion": 26}, "desiredVersion"),
    ({"cluster": OWN, "desiredVersion": "  "}, "desiredVersion"),
    ({"cluster": {"namespace": "east", "name": ""}, "desiredVersion": FINAL}, "cluster.name"),
    ({"cluster": OWN, "desiredVersion": FINAL, "to": "x"}, "to"),
    ({"cluster": OWN, "desiredVersion": FINAL, "onFailure": "stop"}, "onFailure"),
    ({"cluster": OWN, "desiredVersion": FINAL, "mode": "fast"}, "mode"),
    ({"cluster": {"namespace": "east", "name": "other"}, "desiredVersion": FINAL}, "workflow id"),
]


@pytest.mark.parametrize("spelling", ["camelCase", "snake_case"])
async def test_a_plain_start_in_either_spelling(small: SmallLab, spelling: str) -> None:
    cluster = small.cluster
    raw: dict[str, Any] = {
        "cluster": {"namespace": cluster.kube_namespace, "name": cluster.name},
        "desiredVersion": RC3,
        "onFailure": "fail",
    }
    if spelling == "snake_case":
        key = {"kube_namespace": cluster.kube_namespace, "name": cluster.name}
        raw = {"cluster": key, "desired_version": RC3, "on_failure": "fail"}
    async with small.worker():
        await small.client.start_workflow(CLUSTER_UPGRADE, raw, id=small.handle.id, task_queue=small.task_queue)
        assert (await small.end()).type == "Done"
    assert small.end_state(await small.version()) == (RC3, "Ready")


async def test_bad_inputs_end_at_once_and_name_the_field(small: SmallLab) -> None:
    async with small.worker():
        for raw, field in BAD_INPUTS:
            error = await _end_of(small, _named(raw, small.cluster.name))
            assert error.type == "InvalidInput", raw
            assert error.details[0]["field"] == field, (raw, error.message)
            assert error.details[0]["remedy"], raw
    assert small.clusters.journal() == []


def _named(raw: Any, name: str) -> Any:
    if isinstance(raw, dict) and isinstance(raw.get("cluster"), dict) and raw["cluster"].get("name") == "OWN":
        return {**raw, "cluster": {**raw["cluster"], "name": name}}
    return raw


async def _end_of(lab: SmallLab, raw: Any) -> ApplicationError:
    handle = await lab.client.start_workflow(CLUSTER_UPGRADE, raw, id=lab.handle.id, task_queue=lab.task_queue)
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert isinstance(caught.value.cause, ApplicationError)
    return caught.value.cause
