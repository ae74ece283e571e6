"""Another controller that works on the objects of an upgrade: two of them write over each other, so one must stop.

The existing one is the Deployment `cluster-system/bke-controller-manager` (openfuyao-api.md §2.3). Who it is and what
counts as ours are settings; a Deployment that runs only our own images is no other controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from hopline.domain.errors import OtherController
from hopline.domain.resources import (
    DEPLOYMENT,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Document,
    ObjectRef,
)

PLATFORM_CONTROLLER = ObjectRef(kind=DEPLOYMENT, name="bke-controller-manager", kube_namespace="cluster-system")
CONTROLLER_CONTAINER = "manager"
"""The container that reconciles; the images of others beside it do not count (openfuyao-api.md §2.3)."""

PROVIDER = "provider"
"""The component that brings the platform's controller (openfuyao-nodes.md §3.2)."""


class ForeignProvider(StrEnum):
    """What is done with a manifest component that brings another controller."""

    BLOCK = "block"
    """A finding that blocks."""
    SKIP = "skip"
    """The component is left alone and not recorded."""
    SCALE_TO_ZERO = "scale-to-zero"
    """It is applied, but that controller gets no pods."""


class ControllerPolicy(BaseModel):
    """Which Deployments are looked for, and which images are our own.

    Attributes:
        deployments: empty: nobody is looked for.
        own_images: prefixes of image names, each up to a `/`, `:`, `@` or the end of the name.
    """

    model_config = ConfigDict(frozen=True)

    deployments: tuple[ObjectRef, ...] = (PLATFORM_CONTROLLER,)
    own_images: tuple[str, ...] = ()
    foreign_provider: ForeignProvider = ForeignProvider.BLOCK


class RunningController(BaseModel):
    """A Deployment of somebody else that has, or is about to have, pods.

    Attributes:
        replicas: what it shall have; 0: it was stopped, and `pods` of it are still there.
        webhooks: kind and name of each webhook configuration whose service is its own.
        unread: why its webhook configurations could not be read; empty when they were.
    """

    model_config = ConfigDict(frozen=True)

    ref: ObjectRef
    image: str
    replicas: int
    pods: int = 0
    webhooks: tuple[ObjectRef, ...] = ()
    unread: str = ""


def is_own_image(image: str, own_images: Iterable[str]) -> bool:
    """`registry.example/hopline` covers `registry.example/hopline:v1`, not `registry.example/hopline-other:v1`."""
    for prefix in own_images:
        rest = image.removeprefix(prefix)
        if prefix and image.startswith(prefix) and (not rest or rest[0] in "/:@" or not prefix[-1].isalnum()):
            return True
    return False


def foreign_image(deployment: Document, own_images: Iterable[str]) -> str:
    """The first image of its controller that is not ours; empty when all are."""
    own = tuple(own_images)
    containers = _containers(deployment)
    deciding = [one for one in containers if one.get("name") == CONTROLLER_CONTAINER] or containers
    images = [str(one.get("image") or "") for one in deciding]
    return next((image or "no image" for image in images if not is_own_image(image, own)), "")


def running_controller(ref: ObjectRef, deployment: Document, policy: ControllerPolicy) -> RunningController | None:
    """The controller behind a live Deployment; None when it is ours, or was stopped and has no pods any more."""
    image = foreign_image(deployment, policy.own_images)
    status = _mapping(deployment.get("status"))
    pods = sum(count for key in ("replicas", "terminatingReplicas") if isinstance(count := status.get(key), int))
    found = RunningController(ref=ref, image=image, replicas=_replicas(deployment), pods=pods)
    return found if image and (found.replicas or found.pods) else None


def foreign_deployments(documents: Iterable[Document], policy: ControllerPolicy) -> dict[str, str]:
    """Which objects of a component would start another controller: `namespace/name` → image."""
    found = {}
    for document in documents:
        ref = _as_watched(document, policy)
        image = foreign_image(document, policy.own_images) if ref else ""
        if ref and image and _replicas(document):
            found[f"{ref.kube_namespace}/{ref.name}"] = image
    return found


def without_pods(document: Document) -> Document:
    """A Deployment that starts nothing."""
    return {**document, "spec": {**_mapping(document.get("spec")), "replicas": 0}}


def own_webhooks(
    deployment: Document, services: Iterable[Document], configurations: Iterable[Document]
) -> tuple[ObjectRef, ...]:
    """The webhook configurations that are served by the pods of a Deployment, by kind and name."""
    labels = _mapping(
        _mapping(_mapping(_mapping(deployment.get("spec")).get("template")).get("metadata")).get("labels")
    )
    place = _mapping(deployment.get("metadata")).get("namespace")
    names = {
        str(service["metadata"]["name"])
        for service in services
        if service["metadata"].get("namespace") == place and _selects(service, labels)
    }
    found = [
        webhook_ref(one)
        for one in configurations
        if any(service.get("namespace") == place and service.get("name") in names for service in _services_of(one))
    ]
    return tuple(sorted(found, key=str))


def configurations_of(webhook: str, configurations: Iterable[Document]) -> tuple[ObjectRef, ...]:
    """The configurations that have a webhook of this name."""
    found = [
        webhook_ref(one)
        for one in configurations
        if any(_mapping(hook).get("name") == webhook for hook in one.get("webhooks") or ())
    ]
    return tuple(sorted(found, key=str))


def webhook_ref(configuration: Document) -> ObjectRef:
    """Kind and name of a webhook configuration."""
    kind = VALIDATING_WEBHOOKS if configuration.get("kind") == VALIDATING_WEBHOOKS.kind else MUTATING_WEBHOOKS
    return ObjectRef(kind=kind, name=str(configuration["metadata"]["name"]))


def refusal_of(controller: RunningController) -> OtherController:
    """Why nothing may be started beside it, and the commands that stop it."""
    state = f"runs {_count(controller.replicas, 'replica')}"
    if not controller.replicas:
        state = f"was stopped, but still has {_count(controller.pods, 'pod')}"
    message = f"another controller works on the objects of this upgrade: {controller.ref} {state} of {controller.image}"
    if controller.webhooks:
        names = ", ".join(str(one) for one in controller.webhooks)
        message += f"; once it is stopped, nobody answers for its webhooks: {names}"
    if controller.unread:
        message += f"; its webhook configurations could not be read: {controller.unread}"
    return OtherController(
        message,
        subject=str(controller.ref),
        field="spec.replicas" if controller.replicas else "status.replicas",
        value=str(controller.replicas or controller.pods),
        remedy=stop_it(controller),
    )


def stop_it(controller: RunningController) -> str:
    """What a person types: stop it, then take away the webhooks that nobody would answer."""
    name, place = controller.ref.name, controller.ref.kube_namespace
    if controller.replicas:
        commands = [f"kubectl scale deployment {name} --replicas=0 -n {place}"]
        return " && ".join([*commands, *([delete_webhooks(controller.webhooks)] if controller.webhooks else [])])
    wait = f"wait until they are gone: kubectl get deployment {name} -n {place}"
    return f"{wait}; then: {delete_webhooks(controller.webhooks)}" if controller.webhooks else wait


def delete_webhooks(webhooks: Sequence[ObjectRef]) -> str:
    """One command for all of them."""
    return "kubectl delete " + " ".join(f"{one.kind.kind.lower()}/{one.name}" for one in webhooks)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _as_watched(document: Document, policy: ControllerPolicy) -> ObjectRef | None:
    if document.get("kind") != DEPLOYMENT.kind or document.get("apiVersion") != DEPLOYMENT.api_version:
        return None
    metadata = _mapping(document.get("metadata"))
    for ref in policy.deployments:
        if (metadata.get("namespace"), metadata.get("name")) == (ref.kube_namespace, ref.name):
            return ref
    return None


def _replicas(deployment: Document) -> int:
    wanted = _mapping(deployment.get("spec")).get("replicas")
    return wanted if isinstance(wanted, int) else 1


def _containers(deployment: Document) -> list[Mapping[str, Any]]:
    pod = _mapping(_mapping(_mapping(deployment.get("spec")).get("template")).get("spec"))
    return [_mapping(one) for one in pod.get("containers") or ()]


def _selects(service: Document, labels: Mapping[str, Any]) -> bool:
    selector = _mapping(_mapping(service.get("spec")).get("selector"))
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def _services_of(configuration: Document) -> list[Mapping[str, Any]]:
    hooks = [_mapping(hook) for hook in configuration.get("webhooks") or ()]
    return [_mapping(_mapping(hook.get("clientConfig")).get("service")) for hook in hooks]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
