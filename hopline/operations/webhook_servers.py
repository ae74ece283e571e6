"""Webhooks of a component wait for the servers behind them, which the component itself brings.

An admission webhook without a server refuses every write that it watches over, those of its own pods among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hopline.domain.errors import ComponentFailed, Transient
from hopline.domain.release import HealthCheck
from hopline.domain.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Document
from hopline.domain.rollout import runs_pods
from hopline.operations.component_objects import ComponentObjects
from hopline.operations.manifest_rollout import observe_rollout, wait_for_change
from hopline.ports import ClusterClient

STEP_SECONDS = 30.0
"""One wait; longer ones are the next attempt's, up to the component's deadline."""

_WEBHOOKS = (MUTATING_WEBHOOKS.kind, VALIDATING_WEBHOOKS.kind)


def servers_of(guards: Iterable[Document], documents: Sequence[Document]) -> tuple[Document, ...]:
    """The workloads among a component's documents (with their namespaces) that answer for some of its webhooks."""
    services = {place for guard in guards if guard.get("kind") in _WEBHOOKS for place in _services(guard)}
    selectors = [
        (place[0], selector)
        for document in documents
        if document.get("kind") == "Service"
        and (place := _place(document)) in services
        and (selector := _mapping(_mapping(document.get("spec")).get("selector")))
    ]
    return tuple(
        document
        for document in documents
        if runs_pods(document) and _has_pods(document) and any(_selects(*one, document) for one in selectors)
    )


async def wait_for_servers(client: ClusterClient, objects: ComponentObjects, servers: Sequence[Document]) -> None:
    """Return when these workloads are rolled out.

    Raises ComponentFailed when one will not be by waiting, and Transient after half a minute or at a trouble of a pod:
    the next attempt waits on.
    """
    names = {(document["kind"], *_place(document)) for document in servers}
    pairs = zip(objects.sources, objects.placed_documents, strict=True)
    some = tuple(source for source, placed in pairs if (placed["kind"], *_place(placed)) in names)
    only = replace(objects, sources=some, health=HealthCheck())
    seen = await observe_rollout(client, only)
    if not seen.ready and not seen.failed:
        seen = await wait_for_change(client, only, seen, STEP_SECONDS, quiet_seconds=STEP_SECONDS)
    if seen.failed:
        raise ComponentFailed(f"the server of a webhook does not get ready: {seen.failed}", subject=seen.waiting_for)
    if not seen.ready:
        raise Transient(
            f"a webhook waits for its server: {seen.waiting_for}",
            subject=objects.subject,
            remedy="see why its pods do not get ready; the webhook is not written before",
        )


def _services(guard: Document) -> Iterable[tuple[str, str]]:
    for webhook in guard.get("webhooks") or ():
        service = _mapping(_mapping(_mapping(webhook).get("clientConfig")).get("service"))
        if service.get("name"):
            yield str(service.get("namespace") or ""), str(service["name"])


def _place(document: Document) -> tuple[str, str]:
    metadata = _mapping(document.get("metadata"))
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _has_pods(document: Document) -> bool:
    """A workload that is scaled to nothing on purpose never answers."""
    return _mapping(document.get("spec")).get("replicas") != 0 and document.get("kind") != "Job"


def _selects(kube_namespace: str, selector: Mapping[str, Any], workload: Document) -> bool:
    template = _mapping(_mapping(_mapping(workload.get("spec")).get("template")).get("metadata"))
    labels = _mapping(template.get("labels"))
    return _place(workload)[0] == kube_namespace and all(labels.get(key) == value for key, value in selector.items())


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
