"""Deployments, DaemonSets, StatefulSets and Jobs: rolled out step by step, by timers.

A changed template replaces the pods one after the other (in at most ten steps) within the scripted seconds; a changed
number of replicas is met at once. A scripted rollout that never gets ready stops at its first new pod, and goes on
when the fault is cleared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from hopline.domain.resources import DAEMON_SET, DEPLOYMENT, POD, STATEFUL_SET, Document, Kind
from hopline.sim import budgets
from hopline.sim.controllers import condition, set_status
from hopline.sim.database import Session
from hopline.sim.pods import digest, is_ready, make_pod, node_names, pod_status, sync_endpoints
from hopline.sim.script import DurationScope, FaultType, duration, has_fault, take_fault
from hopline.sim.storage import Storage, deep, timestamp
from hopline.sim.workload_status import workload_status

WORKLOADS: dict[str, Kind] = {kind.kind: kind for kind in (DEPLOYMENT, DAEMON_SET, STATEFUL_SET)}
MAX_STEPS = 10


class Slot(NamedTuple):
    """One place for a pod of a workload."""

    name: str
    node: str


def hash_label(kind: str) -> str:
    """The label that tells which template a pod was made from."""
    return "pod-template-hash" if kind == "Deployment" else "controller-revision-hash"


def template_hash(workload: Document) -> str:
    """Name of a workload's current template."""
    return digest(deep(workload, "spec", "template"))


def react(storage: Storage, old: Document | None, new: Document | None) -> None:
    """Start what a write asks for."""
    document: Any = new if new is not None else old
    kind = document["kind"]
    if kind in WORKLOADS:
        _react_to_workload(storage, old, new)
    elif kind == "Pod":
        _react_to_pod(storage, old, new)
    elif kind == "Job" and old is None:
        _start_job(storage, document)
    elif kind == "Service" and new is not None:
        _counted(storage, document)
    elif kind == "Node" and (old is None or new is None):
        for daemon_set in storage.select(DAEMON_SET):
            _observe(storage, daemon_set)
    elif kind == "Node" and deep(old, "spec", "unschedulable") and not deep(new, "spec", "unschedulable"):
        _schedule_pending(storage, document["metadata"]["name"])


def _counted(storage: Storage, document: Document) -> None:
    """Let the controllers that count pods count again in a document's namespace."""
    kube_namespace = document["metadata"]["namespace"]
    sync_endpoints(storage, kube_namespace)
    budgets.count(storage, kube_namespace)


def _schedule_pending(storage: Storage, node: str) -> None:
    """Pods that had nowhere to go start on a node that takes pods again."""
    for pod in storage.select(POD):
        if deep(pod, "status", "phase") == "Pending" and not deep(pod, "spec", "nodeName"):
            pod["spec"]["nodeName"] = node
            set_status(storage, pod, pod_status(pod, storage.now))
            _counted(storage, pod)


def _react_to_workload(storage: Storage, old: Document | None, new: Document | None) -> None:
    if new is None:
        if old is not None:
            _counted(storage, old)
    elif old is None or old["metadata"].get("generation") != new["metadata"].get("generation"):
        _observe(storage, new)


def _react_to_pod(storage: Storage, old: Document | None, new: Document | None) -> None:
    if new is None:
        if old is not None:
            _refill(storage, old)
    elif old is None and "status" not in new:
        set_status(storage, new, pod_status(new, storage.now))
        _counted(storage, new)


def recheck(session: Session) -> None:
    """Go on with every rollout that is not done: a fault may have been cleared."""
    for (server,) in session.execute("SELECT DISTINCT server FROM objects").fetchall():
        storage = Storage(session, server)
        for kind in WORKLOADS.values():
            for workload in storage.select(kind):
                if any(not is_ready(pod) for pod in _pods(storage, workload)):
                    _observe(storage, workload)


def _pods(storage: Storage, workload: Document) -> list[Document]:
    return [item for item in storage.dependents(workload["metadata"]["uid"]) if item["kind"] == "Pod"]


def _by_slot(storage: Storage, workload: Document) -> dict[str, Document]:
    return {_slot_name(workload, pod): pod for pod in _pods(storage, workload)}


def _slots(storage: Storage, workload: Document) -> list[Slot]:
    name, nodes = workload["metadata"]["name"], node_names(storage)
    if workload["kind"] == "DaemonSet":
        return [Slot(f"{name}-{digest(node, 5)}", node) for node in nodes]
    replicas = int(deep(workload, "spec", "replicas") if deep(workload, "spec", "replicas") is not None else 1)
    places = storage.schedulable_nodes() or [""]
    if workload["kind"] == "StatefulSet":
        return [Slot(f"{name}-{index}", places[index % len(places)]) for index in range(replicas)]
    return [Slot(f"{name}-{digest(index, 5)}", places[index % len(places)]) for index in range(replicas)]


def _slot_name(workload: Document, pod: Document) -> str:
    """Slot of a pod; a Deployment's pods carry the template's name in the middle of theirs."""
    name = str(pod["metadata"]["name"])
    if workload["kind"] == "Deployment":
        return f"{workload['metadata']['name']}-{name.rsplit('-', 1)[-1]}"
    return name


def _pod_name(workload: Document, slot: Slot) -> str:
    if workload["kind"] == "Deployment":
        suffix = slot.name.rsplit("-", 1)[-1]
        return f"{workload['metadata']['name']}-{template_hash(workload)}-{suffix}"
    return slot.name


def _replaceable(workload: Document, slots: list[Slot]) -> list[Slot]:
    """Slots whose old pods the controller replaces by itself."""
    strategy = deep(workload, "spec", "updateStrategy") or {}
    if deep(workload, "spec", "paused") or strategy.get("type") == "OnDelete":
        return []
    partition = int(deep(strategy, "rollingUpdate", "partition") or 0) if workload["kind"] == "StatefulSet" else 0
    return list(reversed(slots[partition:])) if workload["kind"] == "StatefulSet" else slots


def _observe(storage: Storage, workload: Document) -> None:
    """Meet the number of replicas, then plan the replacement of old pods."""
    label, current = hash_label(workload["kind"]), template_hash(workload)
    slots = _slots(storage, workload)
    pods, wanted = _by_slot(storage, workload), {slot.name for slot in slots}
    for name, pod in pods.items():
        if name not in wanted:
            storage.remove(pod)
    old = [
        slot
        for slot in _replaceable(workload, slots)
        if slot.name in pods and (pods[slot.name]["metadata"]["labels"].get(label) != current)
    ]
    missing = [slot for slot in slots if slot.name not in pods]
    stale = set(old)
    waiting = [slot for slot in slots if slot.name in pods and not is_ready(pods[slot.name]) and slot not in stale]
    _plan(storage, workload, missing, [*waiting, *old])
    finish(storage, workload)


def _facts(workload: Document) -> dict[str, str]:
    metadata = workload["metadata"]
    return {"kind": workload["kind"], "kube_namespace": metadata["namespace"], "name": metadata["name"]}


def _plan(storage: Storage, workload: Document, missing: list[Slot], replaced: list[Slot]) -> None:
    session, facts = storage.session, _facts(workload)
    is_new = not _pods(storage, workload)
    seconds = duration(session, DurationScope.ROLLOUT, **facts)
    if (is_new or replaced) and (missing or replaced):
        fault = take_fault(session, FaultType.ROLLOUT, **facts)
        if fault is not None:
            _replace(storage, workload, (replaced or missing)[:1], waiting=fault[1])
            deadline = float(deep(workload, "spec", "progressDeadlineSeconds") or 600)
            _later(storage, workload, deadline, "workload.deadline")
            return
    steps = [*missing, *replaced] if is_new else replaced
    if not is_new or seconds <= 0:
        _replace(storage, workload, missing)
        steps = replaced
    if seconds <= 0:
        _replace(storage, workload, steps)
        return
    count = min(len(steps), MAX_STEPS)
    for step in range(1, count + 1):
        part = steps[math.ceil((step - 1) * len(steps) / count) : math.ceil(step * len(steps) / count)]
        _later(storage, workload, seconds * step / count, "workload.step", slots=[list(slot) for slot in part])


def _later(storage: Storage, workload: Document, after: float, action: str, **payload: Any) -> None:
    metadata = workload["metadata"]
    storage.session.schedule(
        after, action, server=storage.server, uid=metadata["uid"], generation=metadata.get("generation", 1), **payload
    )


def _replace(storage: Storage, workload: Document, slots: list[Slot], *, waiting: str = "") -> None:
    """Put new pods into slots; a pod of the current template that is there only gets ready."""
    label, current = hash_label(workload["kind"]), template_hash(workload)
    pods = _by_slot(storage, workload) if slots else {}
    for slot in slots:
        pod = pods.get(slot.name)
        if pod is not None and pod["metadata"]["labels"].get(label) == current:
            if not is_ready(pod):
                nowhere = _nowhere(storage, deep(pod, "spec", "nodeName"))
                set_status(storage, pod, pod_status(pod, storage.now, waiting=waiting or nowhere))
            continue
        if pod is not None:
            storage.remove(pod)
        name = _pod_name(workload, slot)
        if storage.find(POD, name, workload["metadata"]["namespace"]) is None:
            nowhere = waiting or _nowhere(storage, slot.node)
            make_pod(storage, workload, name, slot.node, {label: current}, waiting=nowhere)


def _nowhere(storage: Storage, node: str | None) -> str:
    """Why a pod cannot start: every node is cordoned; empty when it has one, or the cluster has none at all."""
    return "" if node or not node_names(storage) else "Unschedulable"


def finish(storage: Storage, workload: Document, *, late: bool = False) -> None:
    """Write the status that follows from the pods."""
    current = storage.find_uid(workload["metadata"]["uid"])
    if current is None:
        return
    status = workload_status(
        current,
        _pods(storage, current),
        slots=len(_slots(storage, current)),
        revision=template_hash(current),
        label=hash_label(current["kind"]),
        now=storage.now,
        late=late,
    )
    set_status(storage, current, status)
    _counted(storage, current)


def _refill(storage: Storage, pod: Document) -> None:
    for owner in pod["metadata"].get("ownerReferences") or ():
        workload = storage.find_uid(str(owner.get("uid", "")))
        if workload is not None and workload["kind"] in WORKLOADS and "deletionTimestamp" not in workload["metadata"]:
            _observe(storage, workload)
            return
    _counted(storage, pod)


def _current(session: Session, server: str, uid: str, generation: int) -> tuple[Storage, Document | None]:
    storage = Storage(session, server)
    workload = storage.find_uid(uid)
    if workload is not None and workload["metadata"].get("generation", 1) != generation:
        workload = None
    return storage, workload


def _step(session: Session, server: str, uid: str, generation: int, slots: list[list[str]]) -> None:
    storage, workload = _current(session, server, uid, generation)
    if workload is not None:
        _replace(storage, workload, [Slot(name, node) for name, node in slots])
        finish(storage, workload)


def _deadline(session: Session, server: str, uid: str, generation: int) -> None:
    storage, workload = _current(session, server, uid, generation)
    stuck = workload is not None and has_fault(session, FaultType.ROLLOUT, **_facts(workload)) is not None
    if workload is not None and stuck:
        finish(storage, workload, late=True)


def _start_job(storage: Storage, job: Document) -> None:
    set_status(storage, job, {"active": 1, "startTime": timestamp(storage.now)})
    seconds = duration(storage.session, DurationScope.JOB, **_facts(job))
    storage.session.schedule(seconds, "job.finish", server=storage.server, uid=job["metadata"]["uid"])


def _finish_job(session: Session, server: str, uid: str) -> None:
    storage = Storage(session, server)
    job = storage.find_uid(uid)
    if job is None:
        return
    fault = take_fault(session, FaultType.ROLLOUT, **_facts(job))
    status: Document = {"startTime": job["status"]["startTime"]}
    if fault is None:
        reason = "CompletionsReached"
        status["conditions"] = [
            condition("SuccessCriteriaMet", session.now, reason=reason),
            condition("Complete", session.now, reason=reason),
        ]
        status["succeeded"] = int(deep(job, "spec", "completions") or 1)
        status["completionTime"] = timestamp(session.now)
    else:
        status["conditions"] = [condition("Failed", session.now, reason="BackoffLimitExceeded", message=fault[1])]
        status["failed"] = int(deep(job, "spec", "backoffLimit") or 6) + 1
    set_status(storage, job, status)


ACTIONS: dict[str, Callable[..., None]] = {
    "workload.step": _step,
    "workload.deadline": _deadline,
    "workload.recheck": recheck,
    "job.finish": _finish_job,
}
