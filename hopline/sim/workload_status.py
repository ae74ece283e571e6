"""The status that a Deployment, a DaemonSet or a StatefulSet shows for the pods that it has."""

from __future__ import annotations

from typing import Any

from hopline.domain.resources import Document
from hopline.sim.controllers import condition
from hopline.sim.pods import is_ready
from hopline.sim.storage import deep


def workload_status(
    workload: Document,
    pods: list[Document],
    *,
    slots: int,
    revision: str,
    label: str,
    now: float,
    late: bool,
) -> Document:
    """Status of a workload.

    Args:
        slots: pods that it should have.
        revision: name of its current template, as pods carry it under `label`.
        late: the progress deadline of a Deployment has passed.
    """
    updated = sum(1 for pod in pods if pod["metadata"]["labels"].get(label) == revision)
    ready = sum(1 for pod in pods if is_ready(pod))
    generation = workload["metadata"].get("generation", 1)
    if workload["kind"] == "DaemonSet":
        return _daemon_set(generation, slots, len(pods), updated, ready)
    if workload["kind"] == "StatefulSet":
        return _stateful_set(workload, pods, updated=updated, ready=ready, revision=revision, label=label)
    done = updated == ready == len(pods) == slots
    counts = {
        "replicas": len(pods),
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": slots - min(ready, slots),
    }
    conditions = [_available(slots, ready, now), _progressing(now, done=done, late=late)]
    kept = _keep_times(deep(workload, "status", "conditions") or [], conditions)
    return {"observedGeneration": generation, **_without_zeros(counts), "conditions": kept}


def _daemon_set(generation: int, slots: int, pods: int, updated: int, ready: int) -> Document:
    always = {
        "currentNumberScheduled": pods,
        "desiredNumberScheduled": slots,
        "numberMisscheduled": 0,
        "numberReady": ready,
    }
    counts = {"updatedNumberScheduled": updated, "numberAvailable": ready, "numberUnavailable": max(0, slots - ready)}
    return {"observedGeneration": generation, **always, **_without_zeros(counts)}


def _stateful_set(
    workload: Document, pods: list[Document], *, updated: int, ready: int, revision: str, label: str
) -> Document:
    others = sorted({str(pod["metadata"]["labels"].get(label)) for pod in pods} - {revision})
    name = workload["metadata"]["name"]
    counts = {"readyReplicas": ready, "currentReplicas": len(pods) - updated if others else updated}
    return {
        "observedGeneration": workload["metadata"].get("generation", 1),
        "replicas": len(pods),
        "availableReplicas": ready,
        "currentRevision": f"{name}-{others[0] if others else revision}",
        "updateRevision": f"{name}-{revision}",
        **_without_zeros({**counts, "updatedReplicas": updated}),
        "collisionCount": 0,
    }


def _without_zeros(counts: dict[str, int]) -> dict[str, int]:
    """Kubernetes leaves these out of the JSON when they are 0."""
    return {field: value for field, value in counts.items() if value}


def _available(slots: int, ready: int, now: float) -> Document:
    enough = ready >= slots
    reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
    return condition("Available", now, status=enough, reason=reason)


def _progressing(now: float, *, done: bool, late: bool) -> Document:
    if late and not done:
        message = "the rollout has not made progress within progressDeadlineSeconds"
        return condition("Progressing", now, status=False, reason="ProgressDeadlineExceeded", message=message)
    return condition("Progressing", now, reason="NewReplicaSetAvailable" if done else "ReplicaSetUpdated")


def _keep_times(before: list[Document], after: list[Document]) -> list[Document]:
    """A condition whose status is the same keeps its lastTransitionTime."""
    known: dict[tuple[Any, Any], Any] = {(entry["type"], entry["status"]): entry for entry in before}
    for entry in after:
        same = known.get((entry["type"], entry["status"]))
        if same is not None:
            entry["lastTransitionTime"] = same["lastTransitionTime"]
    return after
