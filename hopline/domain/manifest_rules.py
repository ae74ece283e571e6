"""Rules for the objects of one component, as far as they can be judged without a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hopline.domain.builtin_kinds import OPTIONAL_KINDS, Scopes, group_of
from hopline.domain.manifest_findings import Complaint, Component, Path, mapping
from hopline.domain.plan import Severity
from hopline.domain.removed_apis import removal_of
from hopline.domain.resources import Document

MAX_DATA = 1024 * 1024
"""Bytes of all values of a ConfigMap or Secret that an API server takes."""

_KUSTOMIZE = "kustomize.config.k8s.io/"
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def object_complaints(document: Document, component: Component, scopes: Scopes) -> Iterator[Complaint]:
    """What is wrong with one object, or worth knowing. Nothing else is asked of one that has no kind or name."""
    shape = list(_shape(document))
    yield from shape
    if shape:
        return
    yield from _place(document, component, scopes)
    yield from _served(document, component)
    yield from _texts(document)
    yield from _size(document)
    yield from _replacement(document)


def _blocks(path: Path, message: str, remedy: str) -> Complaint:
    return Complaint(Severity.BLOCKS, path, message, remedy)


def _shape(document: Document) -> Iterator[Complaint]:
    """What no API server could take."""
    if str(document.get("apiVersion", "")).startswith(_KUSTOMIZE):
        message = f"a {document.get('kind')} is an instruction for kustomize, not an object"
        yield _blocks(("apiVersion",), message, "build it first (kustomize build) and deliver the output")
        return
    for key in ("apiVersion", "kind"):
        value = document.get(key)
        if not isinstance(value, str) or not value:
            yield _blocks((key,), f"the object has no {key}", f"write {key} at the top level")
    kind, metadata = document.get("kind") or "the object", document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        yield _blocks(("metadata",), "metadata is not a mapping", "write metadata with a name in it")
        return
    name = mapping(metadata).get("name")
    if isinstance(name, str) and name:
        return
    if name not in (None, ""):
        remedy = f'put it in quotes: name: "{name}"'
        yield _blocks(("metadata", "name"), f"the name of {kind} is no text but {name!r}", remedy)
    elif mapping(metadata).get("generateName"):
        message = f"{kind} has generateName instead of a name: every run would make a new object"
        yield _blocks(("metadata", "generateName"), message, "write metadata.name")
    else:
        yield _blocks(("metadata", "name"), f"{kind} has no name", "write metadata.name")


def _place(document: Document, component: Component, scopes: Scopes) -> Iterator[Complaint]:
    kind = str(document["kind"])
    namespaced = scopes.get((group_of(document["apiVersion"]), kind))
    kube_namespace = document["metadata"].get("namespace")
    path: Path = ("metadata", "namespace")
    if namespaced is False and kube_namespace:
        message = f"{kind} belongs to the whole cluster, but names namespace {kube_namespace}, which is ignored"
        yield Complaint(Severity.WARNS, path, message, "remove metadata.namespace")
    if namespaced and not kube_namespace:
        if component.kube_namespace:
            message = f"names no namespace and goes to {component.kube_namespace}, the component's own"
            yield Complaint(Severity.INFO, path, message, "write metadata.namespace if another one is meant")
        elif component.described:
            remedy = "write metadata.namespace, or spec.yaml.namespace of the component"
            yield _blocks(path, f"{kind} names no namespace, and neither does the component", remedy)
        else:
            message = "names no namespace and goes to that of the component"
            yield Complaint(Severity.INFO, path, message, "write metadata.namespace, or spec.yaml.namespace")


def _served(document: Document, component: Component) -> Iterator[Complaint]:
    api_version, kind = document["apiVersion"], document["kind"]
    removal = removal_of(api_version, kind, component.kubernetes)
    if removal is None:
        return
    target = f", and the cluster gets {component.kubernetes}" if component.kubernetes else ""
    message = f"Kubernetes serves {api_version} {kind} no longer since {removal.since_text}{target}"
    remedy = f"write apiVersion: {removal.instead}" if removal.instead else f"remove it: nothing replaces {kind}"
    yield Complaint(Severity.BLOCKS if component.kubernetes else Severity.WARNS, ("apiVersion",), message, remedy)


def _texts(document: Document) -> Iterator[Complaint]:
    """Fields that must hold text, where YAML has read a number or a boolean: the API server refuses them."""
    places: list[tuple[Path, object]] = [
        (("metadata", name), document["metadata"].get(name)) for name in ("labels", "annotations")
    ]
    if document["apiVersion"] == "v1" and document["kind"] in ("ConfigMap", "Secret"):
        places += [((name,), document.get(name)) for name in ("data", "stringData")]
    pod = pod_template(document)
    if pod is not None:
        path, template = pod
        if path:
            places.append(((*path, "metadata", "labels"), mapping(template.get("metadata")).get("labels")))
        places += _environments((*path, "spec"), mapping(template.get("spec")))
    for path, values in places:
        for name, value in mapping(values).items():
            if isinstance(value, bool | int | float):
                shown = str(value).lower() if isinstance(value, bool) else str(value)
                remedy = f'put it in quotes, for example "{shown}"'
                yield _blocks((*path, name), f"the value is read as {shown}, but must be a text", remedy)


def _environments(path: Path, spec: Any) -> list[tuple[Path, object]]:
    """The `value` of every environment variable, each as a mapping of its own."""
    found: list[tuple[Path, object]] = []
    for group in _CONTAINERS:
        for number, container in enumerate(_items(spec.get(group))):
            for index, variable in enumerate(_items(mapping(container).get("env"))):
                value = mapping(variable).get("value")
                found.append(((*path, group, number, "env", index), {"value": value}))
    return found


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def pod_template(document: Document) -> tuple[Path, Any] | None:
    """The pod template of a workload, and where it stands."""
    spec = mapping(document.get("spec"))
    match document.get("kind"):
        case "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job" | "ReplicationController":
            return ("spec", "template"), mapping(spec.get("template"))
        case "CronJob":
            inner = mapping(mapping(spec.get("jobTemplate")).get("spec")).get("template")
            return ("spec", "jobTemplate", "spec", "template"), mapping(inner)
        case "Pod":
            return (), document
    return None


def _size(document: Document) -> Iterator[Complaint]:
    if document["apiVersion"] != "v1" or document["kind"] not in ("ConfigMap", "Secret"):
        return
    values = [value for name in ("data", "binaryData") for value in mapping(document.get(name)).values()]
    size = sum(len(value.encode(errors="replace")) for value in values if isinstance(value, str))
    if size > MAX_DATA:
        message = f"its data has {size / 1024 / 1024:.1f} MiB, and a {document['kind']} holds 1 MiB"
        yield _blocks(("data",), message, "split it, or put the data into an image")


def _replacement(document: Document) -> Iterator[Complaint]:
    """Workloads whose pods stay as they are after an apply (design §8)."""
    spec, kind = mapping(document.get("spec")), document["kind"]
    strategy = mapping(spec.get("updateStrategy"))
    if kind in ("DaemonSet", "StatefulSet") and strategy.get("type") == "OnDelete":
        message = "nothing replaces its pods: with OnDelete each one stays old until somebody deletes it"
        yield Complaint(
            Severity.WARNS, ("spec", "updateStrategy", "type"), message, "use RollingUpdate, or delete them"
        )
    partition = mapping(strategy.get("rollingUpdate")).get("partition")
    if kind == "StatefulSet" and isinstance(partition, int) and partition > 0:
        message = f"its pods below number {partition} stay old: the partition keeps them"
        path: Path = ("spec", "updateStrategy", "rollingUpdate", "partition")
        yield Complaint(Severity.WARNS, path, message, "set the partition to 0 when all may be replaced")
    if kind == "Deployment" and spec.get("paused") is True:
        message = "nothing replaces its pods: the Deployment is paused"
        yield Complaint(Severity.WARNS, ("spec", "paused"), message, "remove paused")


def guarding_webhooks(documents: Sequence[Document]) -> Iterator[tuple[int, Complaint]]:
    """Webhooks that must say yes to the pods of their own server: index of the configuration, and why.

    Such a server cannot start again once its last pod is gone.
    """
    services = {
        (mapping(document.get("metadata")).get("namespace"), mapping(document.get("metadata")).get("name"))
        for document in documents
        if document.get("kind") == "Service"
    }
    for at, document in enumerate(documents):
        if document.get("kind") not in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
            continue
        for number, webhook in enumerate(_items(document.get("webhooks"))):
            hook = mapping(webhook)
            service = mapping(mapping(hook.get("clientConfig")).get("service"))
            own = (service.get("namespace"), service.get("name")) in services
            excused = (
                hook.get("failurePolicy") == "Ignore" or hook.get("namespaceSelector") or hook.get("objectSelector")
            )
            if own and not excused and any(_covers_pods(mapping(rule)) for rule in _items(hook.get("rules"))):
                message = f"webhook {hook.get('name')} decides about pods, those of its own server too"
                remedy = "leave out its own namespace with namespaceSelector, or set failurePolicy: Ignore"
                yield at, Complaint(Severity.WARNS, ("webhooks", number, "rules"), message, remedy)


def _covers_pods(rule: Any) -> bool:
    groups, resources = _items(rule.get("apiGroups")), _items(rule.get("resources"))
    creates = {"CREATE", "*"} & set(map(str, _items(rule.get("operations"))))
    return bool(creates and {"", "*"} & set(map(str, groups)) and {"pods", "*", "*/*"} & set(map(str, resources)))


def unknown_kind(document: Document) -> Complaint:
    """A cluster was asked, and neither serves the kind nor gets it from this component."""
    api_version, kind = document["apiVersion"], document["kind"]
    message = f"the cluster does not know {api_version} {kind}"
    if kind in OPTIONAL_KINDS:
        return Complaint(Severity.INFO, ("kind",), f"{message}, so the object is left out", "install its operator")
    remedy = "add its CustomResourceDefinition to this or an earlier component, or correct apiVersion and kind"
    return _blocks(("kind",), message, remedy)
