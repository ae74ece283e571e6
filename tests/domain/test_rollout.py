"""Rolled out means that the pods are new: one row per thing that a workload can say about itself."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.resources import Document
from hopline.domain.rollout import has_rollout, rollout_state, runs_pods

API = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
    "APIService": "apiregistration.k8s.io/v1",
}


def live(kind: str, spec: dict[str, Any], status: dict[str, Any], generation: int = 3, seen: int = 3) -> Document:
    return {
        "apiVersion": API[kind],
        "kind": kind,
        "metadata": {"name": "x", "generation": generation},
        "spec": spec,
        "status": {"observedGeneration": seen, **status},
    }


def says(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, "reason": reason, "message": message}]}


FULL = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}
DAEMONS = {"desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 3}
ROLLING = {"updateStrategy": {"type": "RollingUpdate"}}


@pytest.mark.parametrize(
    ("document", "ready", "message"),
    [
        (live("Deployment", {"replicas": 2}, FULL), True, "2 of 2 pods are new and available"),
        (live("Deployment", {"replicas": 2}, FULL, seen=2), False, "has not seen the change"),
        (live("Deployment", {"replicas": 2}, {**FULL, "updatedReplicas": 1}), False, "1 of 2 pods are new"),
        (live("Deployment", {"replicas": 2}, {**FULL, "replicas": 3}), False, "1 old pods are still there"),
        (live("Deployment", {"replicas": 2}, {**FULL, "availableReplicas": 1}), False, "1 of 2 new pods are available"),
        (live("Deployment", {"replicas": 0}, {}), True, "0 of 0"),
        (live("Deployment", {}, {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}), True, "1 of 1"),
        (live("DaemonSet", ROLLING, DAEMONS), True, "3 of 3"),
        (live("DaemonSet", ROLLING, {**DAEMONS, "updatedNumberScheduled": 2}), False, "2 of 3 pods are new"),
        (live("DaemonSet", ROLLING, {**DAEMONS, "numberAvailable": 2}), False, "2 of 3 new pods are available"),
        (live("DaemonSet", {"updateStrategy": {"type": "OnDelete"}}, {**DAEMONS, "updatedNumberScheduled": 0}), True,
         "the others stay (OnDelete)"),
        (live("DaemonSet", ROLLING, {}), True, "0 of 0"),
        (live("DaemonSet", ROLLING, DAEMONS, seen=1), False, "has not seen the change"),
        (live("StatefulSet", {"replicas": 2}, FULL), True, "2 of 2"),
        (live("StatefulSet", {"replicas": 2}, {**FULL, "updatedReplicas": 1}), False, "1 of 2 pods are new"),
        (live("StatefulSet", {"replicas": 2}, {**FULL, "availableReplicas": 0}), False, "0 of 2 pods are available"),
        (live("StatefulSet",
              {"replicas": 2, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}},
              {**FULL, "updatedReplicas": 1}), True, "1 stay old (partition 1)"),
        (live("StatefulSet", {"replicas": 2, "updateStrategy": {"type": "OnDelete"}}, {**FULL, "updatedReplicas": 0}),
         True, "OnDelete"),
        (live("StatefulSet", {"replicas": 2},
              {"currentRevision": "a", "updateRevision": "a", "currentReplicas": 2, "readyReplicas": 2}),
         True, "2 of 2"),
        (live("Job", {"completions": 2}, {"succeeded": 1}), False, "1 of 2 pods have succeeded"),
        (live("Job", {}, says("Complete", "True")), True, "complete"),
        (live("Job", {"suspend": True}, {}), True, "suspended"),
        (live("CustomResourceDefinition", {}, {}), False, "not established"),
        (live("CustomResourceDefinition", {}, says("Established", "True")), True, "established"),
        (live("APIService", {}, says("Available", "True")), True, "available"),
    ],
)  # fmt: skip
def test_how_far_a_rollout_is(document: Document, ready: bool, message: str) -> None:
    state = rollout_state(document)
    assert (state.ready, state.failed) == (ready, False)
    assert message in state.message


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (live("Deployment", {"replicas": 2}, {**FULL, "updatedReplicas": 1,
              **says("Progressing", "False", "ProgressDeadlineExceeded", "has timed out progressing")}),
         "ProgressDeadlineExceeded: has timed out progressing"),
        (live("Deployment", {"replicas": 2, "paused": True}, {**FULL, "updatedReplicas": 0}), "paused"),
        (live("Job", {}, says("Failed", "True", "BackoffLimitExceeded", "often")), "BackoffLimitExceeded: often"),
        (live("CustomResourceDefinition", {}, says("NamesAccepted", "False", "ListKindConflict", "taken")), "taken"),
    ],
)  # fmt: skip
def test_what_will_not_get_ready_by_waiting(document: Document, message: str) -> None:
    state = rollout_state(document)
    assert (state.ready, state.failed) == (False, True)
    assert message in state.message


def test_a_finished_rollout_that_once_missed_its_deadline_still_counts_as_failed_only_while_it_says_so() -> None:
    late = live("Deployment", {"replicas": 2}, {**FULL, **says("Progressing", "True", "NewReplicaSetAvailable")})
    assert rollout_state(late).ready


@pytest.mark.parametrize(
    ("document", "alarm"),
    [
        (live("Deployment", {"replicas": 2}, {**says("ReplicaFailure", "True", "FailedCreate", "quota exceeded")}),
         "FailedCreate: quota exceeded"),
        (live("APIService", {}, says("Available", "False", "MissingEndpoints", "no addresses")),
         "MissingEndpoints: no addresses"),
    ],
)  # fmt: skip
def test_what_a_person_should_see_at_once(document: Document, alarm: str) -> None:
    state = rollout_state(document)
    assert (state.ready, state.failed, state.alarm) == (False, False, alarm)


def test_only_known_kinds_are_waited_for() -> None:
    config_map: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    stranger: Document = {"apiVersion": "apps.example.test/v1", "kind": "Deployment", "metadata": {"name": "x"}}
    assert not has_rollout(config_map)
    assert not has_rollout(stranger)
    assert rollout_state(config_map).ready
    assert has_rollout(live("Job", {}, {}))
    assert runs_pods(live("DaemonSet", {}, {}))
    assert not runs_pods(live("CustomResourceDefinition", {}, {}))
