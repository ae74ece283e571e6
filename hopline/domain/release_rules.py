"""What makes a release usable, checked before anything changes (openfuyao-api.md §5.3, §5.6, §6.1, §11.3).

Stricter than the existing controller where that one fails in the middle of a hop or silently does nothing; each
difference is a line in docs/compatibility.md. `component_rules` looks into each component of the upgrade list.

Not refused: a second version of a listed component (its files are never used, §11.4 B53), a component that only the
install list names, and a component's dependency on itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hopline.domain.component_rules import component_errors, component_warnings, describe_component
from hopline.domain.components import gates_of, inline_of
from hopline.domain.errors import InvalidRelease, ReleasePhase
from hopline.domain.plan import Finding, Severity
from hopline.domain.release import ComponentRef, Release
from hopline.domain.step_graph import StepGraph, build_graph

REBUILD = "rebuild the release image, or ask its publisher"


@dataclass(frozen=True)
class ReleaseReport:
    """All that is wrong with a release, the gravest first, and what a person should know of it besides."""

    errors: tuple[InvalidRelease, ...]
    warnings: tuple[Finding, ...]


def release_subject(release: Release) -> str:
    """For messages."""
    return f"ReleaseImage {release.name}"


def examine(release: Release, asked_version: str) -> ReleaseReport:
    """Hold a release to every rule."""
    errors = (
        *_version_errors(release, asked_version),
        *_list_errors(release, "install", release.install),
        *_list_errors(release, "upgrade", release.upgrade),
        *_unlisted_errors(release),
        *_composite_errors(release),
        *(error for index in range(len(release.upgrade)) for error in component_errors(release, index)),
        *_order_errors(release),
    )
    warnings = (
        *_second_versions(release),
        *(finding for index in range(len(release.upgrade)) for finding in component_warnings(release, index)),
    )
    return ReleaseReport(errors=errors, warnings=warnings)


def release_findings(release: Release, asked_version: str) -> tuple[Finding, ...]:
    """The same as a list for a person: errors block, the rest warns."""
    report = examine(release, asked_version)
    return (*(finding_of(error) for error in report.errors), *report.warnings)


def require_valid(release: Release, asked_version: str) -> tuple[Finding, ...]:
    """The warnings of a release without errors.

    Raises:
        InvalidRelease: the gravest error, and how many more there are.
    """
    report = examine(release, asked_version)
    if not report.errors:
        return report.warnings
    first, more = report.errors[0], len(report.errors) - 1
    if not more:
        raise first
    raise InvalidRelease(
        f"{first.message} (and {more} more {'fault' if more == 1 else 'faults'})",
        subject=first.subject,
        field=first.field,
        value=first.value,
        remedy=first.remedy,
        phase=phase_of(report),
    )


def phase_of(report: ReleaseReport) -> ReleasePhase:
    """What the object says: a fault of the release itself outweighs components that are missing."""
    if any(error.phase is ReleasePhase.INVALID for error in report.errors):
        return ReleasePhase.INVALID
    return report.errors[0].phase if report.errors else ReleasePhase.VALID


def finding_of(error: InvalidRelease) -> Finding:
    """An error as a finding that blocks."""
    shown = "" if not error.value or error.value in error.message else f": {error.value}"
    return Finding(
        severity=Severity.BLOCKS,
        object=error.subject,
        field=error.field,
        message=error.message + shown,
        remedy=error.remedy,
    )


def release_graph(release: Release) -> StepGraph:
    """The step graph of the upgrade list.

    Raises:
        InvalidRelease: a dependency outside the list, or a cycle.
    """
    dependencies: dict[str, list[str]] = {}
    handlers: dict[str, str] = {}
    for ref in release.upgrade:
        component = release.component(ref.name, ref.version)
        dependencies[ref.name] = [dependency.name for dependency in component.dependencies] if component else []
        inline = inline_of(ref, component)
        handlers[ref.name] = inline.handler if inline else ""
    names = [ref.name for ref in release.upgrade]
    return build_graph(names, dependencies, gates=gates_of(handlers), subject=release_subject(release))


def _error(release: Release, field: str, value: str, message: str, remedy: str = REBUILD) -> InvalidRelease:
    return InvalidRelease(message, subject=release_subject(release), field=field, value=value, remedy=remedy)


INCOMPLETE = ReleasePhase.COMPATIBILITY_FAILED
"""What the existing controller calls a listed component that the bundle lacks (openfuyao-api.md §5.7)."""


def _version_errors(release: Release, asked_version: str) -> Iterator[InvalidRelease]:
    if release.version != asked_version:
        yield _error(
            release,
            "spec.version",
            release.version,
            f"the release says that it is {release.version or 'of no version'}, but {asked_version} was asked for",
            f"set spec.version to {asked_version}, or publish it under its own version; it was read from"
            f" {release.origin}",
        )
    if not release.upgrade:
        yield _error(
            release,
            "spec.upgrade.components",
            "[]",
            f"release {release.version} names no component to upgrade",
            "list the components in spec.upgrade.components",
        )


def _list_errors(release: Release, which: str, refs: tuple[ComponentRef, ...]) -> Iterator[InvalidRelease]:
    first: dict[str, int] = {}
    for index, ref in enumerate(refs):
        place = f"spec.{which}.components[{index}]"
        blank = next((field for field in ("name", "version") if not getattr(ref, field).strip()), "")
        if blank:
            shown = ref.name or ref.version or '""'
            yield _error(release, f"{place}.{blank}", shown, f"a component of release {release.version} has no {blank}")
            continue
        earlier = first.setdefault(ref.name, index)
        if earlier != index:
            yield _error(
                release,
                f"{place}.name",
                ref.name,
                f"component {ref.name} stands twice in the {which} list, first as"
                f" spec.{which}.components[{earlier}] with {refs[earlier].version}",
                f"keep one of {refs[earlier].version} and {ref.version}",
            )
        if release.component(ref.name, ref.version) is None:
            yield _missing(release, place, ref)


def _missing(release: Release, place: str, ref: ComponentRef) -> InvalidRelease:
    others = sorted(component.version for component in release.components if component.name == ref.name)
    has = f"; it has {', '.join(others)}" if others else ""
    return InvalidRelease(
        f"release {release.version} names a component that its bundle lacks: looked for"
        f" components/{ref.name}/{ref.version}/component.yaml in {release.origin}{has}",
        subject=release_subject(release),
        field=place,
        value=f"{ref.name} {ref.version}",
        remedy=REBUILD,
        phase=INCOMPLETE,
    )


def _listed_names(release: Release) -> frozenset[str]:
    refs = (*release.install, *release.upgrade)
    parts = (part for component in release.components for part in component.sub_components)
    return frozenset(ref.name for ref in (*refs, *parts))


def _unlisted_errors(release: Release) -> Iterator[InvalidRelease]:
    listed = _listed_names(release)
    for component in sorted(release.components, key=lambda one: (one.name, one.version)):
        if component.name not in listed:
            yield _error(
                release,
                "spec.upgrade.components",
                f"{component.name} {component.version}",
                f"the bundle of release {release.version} holds a component that no list names: {component.path}",
                f"list {component.name} in spec.upgrade.components or spec.install.components, or remove it from the"
                " bundle",
            )


def _second_versions(release: Release) -> Iterator[Finding]:
    listed = _listed_names(release)
    used = {(ref.name, ref.version) for ref in (*release.install, *release.upgrade)}
    used |= {(part.name, part.version) for component in release.components for part in component.sub_components}
    for component in sorted(release.components, key=lambda one: (one.name, one.version)):
        if component.name in listed and (component.name, component.version) not in used:
            yield Finding(
                severity=Severity.INFO,
                object=release_subject(release),
                field="spec.upgrade.components",
                message=f"the bundle also holds {component.name} {component.version}, which no list names; none of its"
                " files is used",
            )


def _composite_errors(release: Release) -> Iterator[InvalidRelease]:
    """Parts that are missing, and composites that contain themselves (§11.3 B44)."""
    for component in release.components:
        for index, part in enumerate(component.sub_components):
            if release.component(part.name, part.version) is None:
                yield InvalidRelease(
                    f"{component.name} consists of {part.name} {part.version}, which the bundle lacks",
                    subject=describe_component(component),
                    field=f"spec.subComponents[{index}]",
                    value=f"{part.name} {part.version}",
                    remedy=REBUILD,
                    phase=INCOMPLETE,
                )
        if _contains_itself(release, (component.name, component.version)):
            yield InvalidRelease(
                f"{component.name} {component.version} is a part of itself",
                subject=describe_component(component),
                field="spec.subComponents",
                value=component.name,
                remedy="remove the entry that leads back to it",
            )


def _contains_itself(release: Release, key: tuple[str, str]) -> bool:
    seen: set[tuple[str, str]] = set()
    waiting = [key]
    while waiting:
        component = release.component(*waiting.pop())
        for part in component.sub_components if component else ():
            found = (part.name, part.version)
            if found == key:
                return True
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    return False


def _order_errors(release: Release) -> Iterator[InvalidRelease]:
    listed = {ref.name for ref in release.upgrade}
    outside = False
    for ref in release.upgrade:
        component = release.component(ref.name, ref.version)
        for index, dependency in enumerate(component.dependencies if component else ()):
            name = dependency.name.strip()
            if component is None or not name or name in listed:
                continue
            outside = True
            yield InvalidRelease(
                f"{ref.name} depends on {name}, which spec.upgrade.components of release {release.version} does not"
                " name",
                subject=describe_component(component),
                field=f"spec.dependencies[{index}].name",
                value=name,
                remedy=f"add {name} to spec.upgrade.components, or remove the dependency",
            )
    if not outside:
        try:
            release_graph(release)
        except InvalidRelease as error:
            yield error
