"""What makes one component of an upgrade list usable (openfuyao-api.md §1.5, §7.3 to §7.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum

from hopline.domain.components import ALIASES, HANDLERS, handler_of, inline_of, type_of
from hopline.domain.durations import seconds_of
from hopline.domain.errors import InvalidInput, InvalidRelease
from hopline.domain.plan import ComponentType, Finding, Severity
from hopline.domain.release import (
    ApplyStrategy,
    ComponentRef,
    ComponentVersion,
    FailurePolicy,
    HealthCheckItem,
    InlineHandler,
    InlineRef,
    Release,
)
from hopline.domain.upgrade_strategy import mistakes

NOT_BUILT = ("helm", "binary")
"""Types that the documents name and nobody implements (openfuyao-api.md §6.3)."""


def describe_component(component: ComponentVersion) -> str:
    """For messages."""
    place = f" ({component.path})" if component.path else ""
    return f"ComponentVersion {component.name}@{component.version}{place}"


def component_errors(release: Release, index: int) -> Iterator[InvalidRelease]:
    """What is wrong with `spec.upgrade.components[index]`; that the bundle lacks it is a matter of `release_rules`."""
    ref = release.upgrade[index]
    component = release.component(ref.name, ref.version)
    if component is None or not ref.name.strip():
        return
    yield from _road_errors(release, index, ref, component)
    yield from _strategy_errors(component)
    kind = type_of(ref, component)
    if kind is ComponentType.MANIFEST:
        yield from _manifest_errors(release, component)
    if kind is ComponentType.RESOURCES:
        yield from _resource_errors(component)


def component_warnings(release: Release, index: int) -> Iterator[Finding]:
    """What a person should know about `spec.upgrade.components[index]`."""
    ref = release.upgrade[index]
    component = release.component(ref.name, ref.version)
    if component is None:
        return
    handler = handler_of(inline_of(ref, component))
    if component.upgrade_strategy.failure_policy == FailurePolicy.ROLLBACK:
        yield _warning(
            component,
            "spec.upgradeStrategy.failurePolicy",
            f"{ref.name} asks for Rollback, which does not exist yet: a failure holds the hop as FailFast does",
        )
    if handler and ref.name not in _names_of(handler):
        yield _warning(
            component,
            "spec.inline.handler",
            f"{ref.name} uses the handler of {HANDLERS[handler].component}; its version is looked for under that name",
        )
    if handler and any(_same_handler(release, other, handler) for other in release.upgrade[:index]):
        yield _warning(
            component, "spec.inline.handler", f"{handler} runs for more than one component of release {release.version}"
        )
    if type_of(ref, component) is not ComponentType.MANIFEST:
        return
    if component.yaml.health_check.enabled:
        for number, check in enumerate(component.yaml.health_check.checks):
            if check.type == CheckType.CUSTOM:
                field = f"spec.yaml.healthCheck.checks[{number}]"
                yield _warning(component, field, f"the shell command of a Custom check of {ref.name} is never run")


class CheckType(StrEnum):
    """`spec.yaml.healthCheck.checks[].type` (openfuyao-api.md §7.6)."""

    POD_READY = "PodReady"
    ENDPOINT_READY = "EndpointReady"
    CUSTOM = "Custom"


def _names_of(handler: InlineHandler) -> tuple[str, ...]:
    name = HANDLERS[handler].component
    return (name, *ALIASES.get(name, ()))


def _same_handler(release: Release, ref: ComponentRef, handler: InlineHandler) -> bool:
    return handler_of(inline_of(ref, release.component(ref.name, ref.version))) is handler


def _warning(component: ComponentVersion, field: str, message: str) -> Finding:
    return Finding(severity=Severity.WARNS, object=describe_component(component), field=field, message=message)


def _error(component: ComponentVersion, field: str, value: str, message: str, remedy: str) -> InvalidRelease:
    return InvalidRelease(message, subject=describe_component(component), field=field, value=value, remedy=remedy)


def _road_errors(
    release: Release, index: int, ref: ComponentRef, component: ComponentVersion
) -> Iterator[InvalidRelease]:
    inline = inline_of(ref, component)
    if inline is not None:
        yield from _handler_errors(release, index, ref, component, inline)
    elif component.type == "inline":
        yield _error(
            component,
            "spec.inline",
            "",
            f"{ref.name} is of type inline, but names no handler",
            f"set spec.inline.handler to one of {', '.join(InlineHandler)}",
        )
    elif component.type not in ("", "yaml"):
        known = "is not implemented" if component.type in NOT_BUILT else "is unknown"
        yield _error(
            component,
            "spec.type",
            component.type,
            f"type {component.type!r} of {ref.name} {known}",
            "deliver it as type yaml with plain manifests, or as type inline with one of the handlers",
        )


def _handler_errors(
    release: Release, index: int, ref: ComponentRef, component: ComponentVersion, inline: InlineRef
) -> Iterator[InvalidRelease]:
    if handler_of(inline) is None:
        in_release = ref.inline is not None
        yield InvalidRelease(
            f"{ref.name} names an inline handler that does not exist: {inline.handler or 'none'}",
            subject=f"ReleaseImage {release.name}" if in_release else describe_component(component),
            field=f"spec.upgrade.components[{index}].inline.handler" if in_release else "spec.inline.handler",
            value=inline.handler or '""',
            remedy=f"use one of {', '.join(InlineHandler)}",
        )
    if component.type not in ("", "inline"):
        yield _error(
            component,
            "spec.type",
            component.type,
            f"{ref.name} is of type {component.type} and has the inline handler {inline.handler}: which one counts?",
            "set spec.type to inline, or remove the handler",
        )


def _strategy_errors(component: ComponentVersion) -> Iterator[InvalidRelease]:
    strategy = component.upgrade_strategy
    policies = ("", *FailurePolicy)
    if strategy.failure_policy not in policies:
        yield _error(
            component,
            "spec.upgradeStrategy.failurePolicy",
            strategy.failure_policy,
            f"{component.name} asks for an unknown failure policy",
            f"use one of {', '.join(FailurePolicy)}",
        )
    yield from _duration_errors(component, "spec.upgradeStrategy.timeout", strategy.timeout)
    for mistake in mistakes(strategy):
        yield _error(
            component,
            f"spec.upgradeStrategy.{mistake.field}",
            mistake.value,
            f"{component.name}: {mistake.message}",
            mistake.remedy,
        )


def _duration_errors(component: ComponentVersion, field: str, text: str) -> Iterator[InvalidRelease]:
    if not text:
        return
    try:
        positive = seconds_of(text) > 0
    except InvalidInput as error:
        yield _error(component, field, text, f"{component.name}: {error.message}", error.remedy)
        return
    if not positive:
        yield _error(component, field, text, f"{component.name} gives itself no time", "write a duration above 0")


def _manifest_errors(release: Release, component: ComponentVersion) -> Iterator[InvalidRelease]:
    spec = component.yaml
    if not release.files_of(component.name, component.version):
        folder = f"components/{component.name}/{component.version}/"
        yield _error(
            component,
            "spec.type",
            component.type,
            f"{component.name} has no manifest: {folder} of {release.origin} holds no file to apply",
            f"put its manifests into {folder}, or remove it from the list",
        )
    if spec.apply_strategy and spec.apply_strategy not in tuple(ApplyStrategy):
        yield _error(
            component,
            "spec.yaml.applyStrategy",
            spec.apply_strategy,
            f"{component.name} asks for an unknown apply strategy",
            f"use one of {', '.join(ApplyStrategy)}",
        )
    if spec.prune and not spec.prune_label_selector:
        yield _error(
            component,
            "spec.yaml.pruneLabelSelector",
            "{}",
            f"{component.name} wants to prune without saying what belongs to it",
            "set pruneLabelSelector, or prune: false",
        )
    if spec.health_check.enabled:
        yield from _duration_errors(component, "spec.yaml.healthCheck.timeout", spec.health_check.timeout)
        yield from _duration_errors(component, "spec.yaml.healthCheck.interval", spec.health_check.interval)
        for number, check in enumerate(spec.health_check.checks):
            yield from _check_errors(component, f"spec.yaml.healthCheck.checks[{number}]", check)


_CHECK_NEEDS: dict[str, tuple[str, Callable[[HealthCheckItem], bool]]] = {
    CheckType.POD_READY: (
        "podReady with namespace and labelSelector",
        lambda check: bool(check.pod_ready and check.pod_ready.kube_namespace and check.pod_ready.label_selector),
    ),
    CheckType.ENDPOINT_READY: (
        "endpointReady with namespace and serviceName",
        lambda check: bool(
            check.endpoint_ready and check.endpoint_ready.kube_namespace and check.endpoint_ready.service_name
        ),
    ),
    CheckType.CUSTOM: ("custom with command", lambda check: bool(check.custom and check.custom.command)),
}


def _check_errors(component: ComponentVersion, field: str, check: HealthCheckItem) -> Iterator[InvalidRelease]:
    if check.type not in _CHECK_NEEDS:
        yield _error(
            component,
            f"{field}.type",
            check.type or '""',
            f"{component.name} has a health check of an unknown type",
            f"use one of {', '.join(CheckType)}",
        )
        return
    needs, is_complete = _CHECK_NEEDS[check.type]
    if not is_complete(check):
        yield _error(
            component, field, check.type, f"a {check.type} check of {component.name} is incomplete", f"give it {needs}"
        )


def _resource_errors(component: ComponentVersion) -> Iterator[InvalidRelease]:
    for number, resource in enumerate(component.resources):
        field = f"spec.resources[{number}]"
        for name, value in (("kind", resource.kind), ("apiVersion", resource.api_version), ("name", resource.name)):
            if not value.strip():
                yield _error(
                    component, f"{field}.{name}", '""', f"a resource of {component.name} has no {name}", "name it"
                )
        if resource.kind not in ("", "ConfigMap", "Secret") and not resource.manifest.strip():
            yield _error(
                component,
                f"{field}.manifest",
                '""',
                f"resource {resource.kind} {resource.name} of {component.name} has no manifest",
                "write the object into manifest; only ConfigMap and Secret are built from data",
            )
