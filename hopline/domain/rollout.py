"""Is a workload rolled out? "Rolled out" means that its pods are new, not that some pods are ready (design §8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hopline.domain.apply_order import group_of
from hopline.domain.resources import Document


@dataclass(frozen=True)
class RolloutState:
    """What one object says about its own rollout.

    Attributes:
        ready: nothing left to wait for.
        message: how far it is, for a person; where nothing will replace the pods, that is said here.
        failed: it will not get ready by waiting; `message` says why.
        alarm: why it makes no progress although it has not given up: worth telling at once.
    """

    ready: bool
    message: str = ""
    failed: bool = False
    alarm: str = ""


def has_rollout(document: Document) -> bool:
    """Whether there is anything to wait for after this object is written."""
    return _judge(document) is not None


def runs_pods(document: Document) -> bool:
    """Whether pods belong to this object, so that they can tell why it is not ready."""
    return document.get("kind") in _POD_KINDS and group_of(str(document.get("apiVersion", ""))) in ("apps", "batch")


def rollout_state(document: Document) -> RolloutState:
    """The state of a live object. Kinds without a rollout are ready as soon as they exist."""
    judge = _judge(document)
    if judge is None:
        return RolloutState(ready=True)
    spec, status = _mapping(document.get("spec")), _mapping(document.get("status"))
    if judge not in (_custom_resource_definition, _api_service, _job):
        generation = _number(_mapping(document.get("metadata")), "generation")
        if _number(status, "observedGeneration") < generation:
            return RolloutState(ready=False, message="its controller has not seen the change yet")
    return judge(spec, status)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(values: Mapping[str, Any], key: str, default: int = 0) -> int:
    value = values.get(key)
    return value if isinstance(value, int) else default


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    for condition in status.get("conditions") or ():
        if _mapping(condition).get("type") == kind:
            return _mapping(condition)
    return {}


def _told(condition: Mapping[str, Any]) -> str:
    return ": ".join(str(condition[key]) for key in ("reason", "message") if condition.get(key))


def _deployment(spec: Mapping[str, Any], status: Mapping[str, Any]) -> RolloutState:
    wanted = _number(spec, "replicas", 1)
    updated, total = _number(status, "updatedReplicas"), _number(status, "replicas")
    available = _number(status, "availableReplicas")
    progressing = _condition(status, "Progressing")
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return RolloutState(ready=False, message=_told(progressing), failed=True)
    if updated < wanted:
        state = RolloutState(ready=False, message=f"{updated} of {wanted} pods are new")
    elif total > updated:
        state = RolloutState(ready=False, message=f"{total - updated} old pods are still there")
    elif available < wanted:
        state = RolloutState(ready=False, message=f"{available} of {wanted} new pods are available")
    else:
        return RolloutState(ready=True, message=f"{wanted} of {wanted} pods are new and available")
    if spec.get("paused"):
        return RolloutState(ready=False, message="its rollout is paused (spec.paused)", failed=True)
    failure = _condition(status, "ReplicaFailure")
    return RolloutState(False, state.message, alarm=_told(failure) if failure.get("status") == "True" else "")


def _daemon_set(spec: Mapping[str, Any], status: Mapping[str, Any]) -> RolloutState:
    wanted = _number(status, "desiredNumberScheduled")
    updated, available = _number(status, "updatedNumberScheduled"), _number(status, "numberAvailable")
    if _mapping(spec.get("updateStrategy")).get("type") == "OnDelete":
        return RolloutState(ready=True, message=f"{updated} of {wanted} pods are new; the others stay (OnDelete)")
    if updated < wanted:
        return RolloutState(ready=False, message=f"{updated} of {wanted} pods are new")
    if available < wanted:
        return RolloutState(ready=False, message=f"{available} of {wanted} new pods are available")
    return RolloutState(ready=True, message=f"{wanted} of {wanted} pods are new and available")


def _stateful_set(spec: Mapping[str, Any], status: Mapping[str, Any]) -> RolloutState:
    wanted, strategy = _number(spec, "replicas", 1), _mapping(spec.get("updateStrategy"))
    updated = _number(status, "updatedReplicas")
    available = _number(status, "availableReplicas", _number(status, "readyReplicas"))
    if strategy.get("type") == "OnDelete":
        return RolloutState(ready=True, message=f"{updated} of {wanted} pods are new; the others stay (OnDelete)")
    partition = _number(_mapping(strategy.get("rollingUpdate")), "partition")
    target = max(wanted - partition, 0)
    if status.get("currentRevision") == status.get("updateRevision") and "updateRevision" in status:
        updated = max(updated, _number(status, "currentReplicas"))
    if updated < target:
        return RolloutState(ready=False, message=f"{updated} of {target} pods are new")
    if available < wanted:
        return RolloutState(ready=False, message=f"{available} of {wanted} pods are available")
    held = f"; {wanted - target} stay old (partition {partition})" if partition else ""
    return RolloutState(ready=True, message=f"{target} of {wanted} pods are new and available{held}")


def _job(spec: Mapping[str, Any], status: Mapping[str, Any]) -> RolloutState:
    failed = _condition(status, "Failed")
    if failed.get("status") == "True":
        return RolloutState(ready=False, message=_told(failed) or "the job failed", failed=True)
    if _condition(status, "Complete").get("status") == "True":
        return RolloutState(ready=True, message="the job is complete")
    if spec.get("suspend"):
        return RolloutState(ready=True, message="the job is suspended")
    done, wanted = _number(status, "succeeded"), _number(spec, "completions", 1)
    return RolloutState(ready=False, message=f"{done} of {wanted} pods have succeeded")


def _custom_resource_definition(spec: Mapping[str, Any], status: Mapping[str, Any]) -> RolloutState:
    accepted = _condition(status, "NamesAccepted")
    if accepted.get("status") == "False":
        return RolloutState(ready=False, message=_told(accepted), failed=True)
    if _condition(status, "Established").get("status") == "True":
        return RolloutState(ready=True, message="established")
    return RolloutState(ready=False, message="not established yet")


def _api_service(spec: Mapping[str, Any], status: Mapping[str, Any]) -> RolloutState:
    available = _condition(status, "Available")
    if available.get("status") == "True":
        return RolloutState(ready=True, message="available")
    return RolloutState(ready=False, message="not available yet", alarm=_told(available))


_Judge = Callable[[Mapping[str, Any], Mapping[str, Any]], RolloutState]
_JUDGES: Mapping[tuple[str, str], _Judge] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "Job"): _job,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _custom_resource_definition,
    ("apiregistration.k8s.io", "APIService"): _api_service,
}
_POD_KINDS = frozenset({"Deployment", "DaemonSet", "StatefulSet", "Job"})


def _judge(document: Document) -> _Judge | None:
    return _JUDGES.get((group_of(str(document.get("apiVersion", ""))), str(document.get("kind", ""))))
