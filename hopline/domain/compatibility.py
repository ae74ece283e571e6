"""Do the components of a release fit each other (openfuyao-api.md §5.6; §11.3 B43, B44)?

What counts is the release as the hop leaves it: the install list, overridden by the upgrade list. A composite counts
with its own version and constraints and with those of its parts, at any depth. Every conflict is reported. What
Kubernetes itself allows between versions is in `version_skew`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hopline.domain.component_rules import describe_component
from hopline.domain.components import release_versions
from hopline.domain.constraint_rules import parse_rule
from hopline.domain.errors import InvalidInput, InvalidVersion
from hopline.domain.plan import Finding, Severity
from hopline.domain.release import ComponentVersion, Constraint, Release
from hopline.domain.versions import parse_version


def constraint_findings(release: Release) -> tuple[Finding, ...]:
    """Every conflict of a release as a finding that blocks, by component and in the author's order."""
    versions = _effective_versions(release)
    return tuple(
        finding
        for name in sorted(versions)
        if (component := release.component(name, versions[name])) is not None
        for index, constraint in enumerate(component.compatibility.constraints)
        for finding in _conflict(component, index, constraint, versions)
    )


def _effective_versions(release: Release) -> dict[str, str]:
    """Listed components and all their parts; what is listed wins over what is only a part."""
    listed = release_versions(release)
    found = dict(listed)
    waiting = list(listed.items())
    while waiting:
        component = release.component(*waiting.pop(0))
        for part in component.sub_components if component else ():
            if part.name not in found:
                found[part.name] = part.version
                waiting.append((part.name, part.version))
    return found


def _conflict(
    component: ComponentVersion, index: int, constraint: Constraint, versions: Mapping[str, str]
) -> Iterator[Finding]:
    field = f"spec.compatibility.constraints[{index}]"
    wanted = " ".join(
        word for word in (component.name, component.version, "needs", constraint.component, constraint.rule) if word
    )

    def blocks(message: str, remedy: str) -> Finding:
        return Finding(
            severity=Severity.BLOCKS,
            object=describe_component(component),
            field=field,
            message=f"{wanted}: {message}",
            remedy=remedy,
        )

    try:
        rule = parse_rule(constraint.rule)
    except InvalidInput as error:
        yield blocks(error.message, error.remedy)
        return
    found = versions.get(constraint.component)
    if found is None:
        yield blocks(
            "the release has no such component", f"add {constraint.component or 'the component'} to the release"
        )
        return
    try:
        fits = rule.accepts(parse_version(found))
    except InvalidVersion as error:
        yield blocks(error.message, error.remedy)
        return
    if not fits:
        yield blocks(
            f"the release has {found}", f"release {component.name} together with a {constraint.component} that fits"
        )
