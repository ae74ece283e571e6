"""What was seen of a component, judged: is it rolled out and healthy, and if not, what is in the way?

What has to be seen grows with what was seen: the pods of a workload only while it is not ready, the health checks only
when all workloads are. A `Source` is one thing to list or to watch; judging is a pure function of what they show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hopline.domain.health import endpoint_missing, pods_missing
from hopline.domain.pods import creation_trouble, first_trouble
from hopline.domain.release import HealthCheck, HealthCheckItem
from hopline.domain.resources import ENDPOINTS, EVENT, JOB, POD, Document, Kind, ObjectRef, kind_of
from hopline.domain.rollout import RolloutState, has_rollout, rollout_state, runs_pods
from hopline.operations.component_objects import ComponentObjects

MAX_POD_SOURCES = 10
"""Workloads whose pods are looked at, when many are not ready at once."""

_TELLS_BY_EVENTS = frozenset({"DaemonSet", "StatefulSet", "Job"})
_CLUSTER_SCOPED = frozenset({"CustomResourceDefinition", "APIService"})


@dataclass(frozen=True)
class RolloutObservation:
    """What a look at a component's rollout showed.

    Attributes:
        ready: all workloads are rolled out and all health checks pass.
        waiting_for: the first thing that is not ready, and why; empty when ready.
        failed: why it will not get ready by waiting; empty while it may.
        detail: how many workloads are rolled out.
        urgent: `waiting_for` names a trouble (a pod that cannot start), not only how far it is.
    """

    ready: bool
    waiting_for: str = ""
    failed: str = ""
    detail: str = ""
    urgent: bool = False


@dataclass(frozen=True)
class Source:
    """Objects of one kind that are looked at together: one by name, or those that match labels and fields."""

    kind: Kind
    kube_namespace: str = ""
    labels: str = ""
    name: str = ""
    fields: str = ""


Seen = dict[Source, dict[str, Document]]
"""What each source showed: name → object."""


class Judgement(NamedTuple):
    """`observation` counts only when every source of `needs` was seen."""

    observation: RolloutObservation
    needs: tuple[Source, ...] = ()


class _Pending(NamedTuple):
    ref: ObjectRef
    live: Document | None
    state: RolloutState


def judge(objects: ComponentObjects, seen: Seen) -> Judgement:
    """The observation, and the sources that it rests on or still lacks."""
    documents = _workloads(objects)
    workloads = list(documents)
    sources = _sources(workloads)
    needs = tuple(sorted(set(sources.values()), key=str))
    if any(source not in seen for source in needs):
        return Judgement(RolloutObservation(ready=False), needs)
    states = [_state(ref, document, seen[sources[ref]].get(ref.name)) for ref, document in documents.items()]
    pending = [entry for entry in states if not entry.state.ready]
    detail = f"{len(workloads) - len(pending)} of {len(workloads)} workloads are rolled out" if workloads else ""
    if not pending:
        return _judge_health(objects.health, seen, needs, detail)
    for entry in pending:
        if entry.state.failed:
            return Judgement(RolloutObservation(False, str(entry.ref), f"{entry.ref}: {entry.state.message}", detail))
    return _judge_pending(pending, seen, needs, detail)


def _workloads(objects: ComponentObjects) -> dict[ObjectRef, Document]:
    found = {}
    for document in objects.documents:
        if has_rollout(document):
            kind = kind_of(document, namespaced=document["kind"] not in _CLUSTER_SCOPED)
            place = str(document["metadata"].get("namespace") or objects.kube_namespace) if kind.namespaced else ""
            found[ObjectRef(kind=kind, name=document["metadata"]["name"], kube_namespace=place)] = document
    return found


def _sources(workloads: Sequence[ObjectRef]) -> dict[ObjectRef, Source]:
    """One source per kind and Namespace; by name where it has a single workload of interest."""
    groups: dict[tuple[Kind, str], list[ObjectRef]] = {}
    for ref in workloads:
        groups.setdefault((ref.kind, ref.kube_namespace), []).append(ref)
    return {
        ref: Source(ref.kind, ref.kube_namespace, name=ref.name if len(group) == 1 else "")
        for group in groups.values()
        for ref in group
    }


def _state(ref: ObjectRef, document: Document, live: Document | None) -> _Pending:
    """A Job that removes itself after its end was there when it was applied: gone means done."""
    if live is not None:
        return _Pending(ref, live, rollout_state(live))
    if ref.kind.kind == JOB.kind and "ttlSecondsAfterFinished" in (document.get("spec") or {}):
        return _Pending(ref, None, RolloutState(ready=True, message="finished, and removed since"))
    return _Pending(ref, None, RolloutState(ready=False, message="it does not exist", alarm="it does not exist"))


def _judge_pending(pending: Sequence[_Pending], seen: Seen, needs: tuple[Source, ...], detail: str) -> Judgement:
    """The first workload with a trouble, else the first one that is not ready."""
    pods = {entry.ref: _pods_of(entry) for entry in pending[:MAX_POD_SOURCES]}
    events = {entry.ref: _events_of(entry, seen.get(source)) for entry in pending if (source := pods.get(entry.ref))}
    needs = (*needs, *(source for source in (*pods.values(), *events.values()) if source is not None))
    for entry in pending:
        trouble = entry.state.alarm or _trouble(seen, pods.get(entry.ref), events.get(entry.ref))
        if trouble:
            return Judgement(RolloutObservation(False, f"{entry.ref}: {trouble}", "", detail, urgent=True), needs)
    first = pending[0]
    return Judgement(RolloutObservation(False, f"{first.ref}: {first.state.message}", "", detail), needs)


def _trouble(seen: Seen, pods: Source | None, events: Source | None) -> str:
    if pods is None:
        return ""
    found = seen.get(pods, {}).values()
    trouble = first_trouble(found)
    return trouble or (creation_trouble(seen.get(events, {}).values(), found) if events is not None else "")


def _events_of(entry: _Pending, pods: Mapping[str, Document] | None) -> Source | None:
    """Where a controller says that it cannot make pods, while some are missing; a Deployment has a condition for it."""
    if entry.ref.kind.kind not in _TELLS_BY_EVENTS or pods is None or entry.live is None:
        return None
    spec, status = entry.live.get("spec") or {}, entry.live.get("status") or {}
    wanted = status.get("desiredNumberScheduled", spec.get("replicas", 1))
    if sum("deletionTimestamp" not in pod["metadata"] for pod in pods.values()) >= wanted:
        return None
    about = {"kind": entry.ref.kind.kind, "name": entry.ref.name}
    fields = [*(f"involvedObject.{key}={value}" for key, value in about.items()), "reason=FailedCreate"]
    return Source(EVENT, entry.ref.kube_namespace, fields=",".join(fields))


def _pods_of(entry: _Pending) -> Source | None:
    if entry.live is None or not runs_pods(entry.live):
        return None
    labels = selector_text((entry.live.get("spec") or {}).get("selector") or {})
    return Source(POD, entry.ref.kube_namespace, labels=labels) if labels else None


def selector_text(selector: Document) -> str:
    """A workload's selector as the text of a list request; empty when it would select everything."""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, operator, values = expression["key"], expression["operator"], ",".join(expression.get("values") or ())
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        parts.append(words.get(operator, f"!{key}"))
    return ",".join(parts)


def _judge_health(health: HealthCheck, seen: Seen, needs: tuple[Source, ...], detail: str) -> Judgement:
    sources = {item: _health_source(item) for item in health.checks} if health.enabled else {}
    needs = (*needs, *(source for source in sources.values() if source is not None))
    for item, source in sources.items():
        problem = _health_problem(item, seen.get(source, {})) if source is not None else ""
        if problem:
            return Judgement(RolloutObservation(False, f"health check: {problem}", "", detail), needs)
    return Judgement(RolloutObservation(ready=True, detail=detail), needs)


def _health_source(item: HealthCheckItem) -> Source | None:
    """What a check looks at; None for a Custom one, which no worker ever runs (docs/compatibility.md)."""
    if item.pod_ready is not None and item.type == "PodReady":
        return Source(POD, item.pod_ready.kube_namespace, labels=item.pod_ready.label_selector)
    if item.endpoint_ready is not None and item.type == "EndpointReady":
        return Source(ENDPOINTS, item.endpoint_ready.kube_namespace, name=item.endpoint_ready.service_name)
    return None


def _health_problem(item: HealthCheckItem, table: dict[str, Document]) -> str:
    if item.pod_ready is not None and item.type == "PodReady":
        return pods_missing(item.pod_ready, list(table.values()))
    if item.endpoint_ready is not None:
        return endpoint_missing(item.endpoint_ready, table.get(item.endpoint_ready.service_name))
    return ""


def judge_health(health: HealthCheck, seen: Seen) -> Judgement:
    """The health checks alone."""
    return _judge_health(health, seen, (), "")
