"""Does a component have work in a hop, and why (design §2.2)?

A skip needs confirmation: what each node and each live object shows. Where nothing can be looked at (plans on files,
and the later hops of any plan) the answer is a prediction from records and bundles, and its reason says so; it is
decided again when the hop starts.
"""

from __future__ import annotations

from dataclasses import dataclass

from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import HoplineError
from hopline.domain.observation import ComponentSighting, Presence
from hopline.domain.plan import Action, ComponentType
from hopline.domain.release import Release
from hopline.domain.template_variables import variables
from hopline.domain.templates import render

RUNS_ALWAYS = "runs in every hop; what is already there is left alone"
NOT_VERIFIED = "recorded, not verified"
NOT_INSTALLED = "not installed"
"""How the reason of a skip begins for a component that the cluster does not have."""


@dataclass(frozen=True)
class Wanted:
    """A component of a hop, as far as the decision needs it."""

    name: str
    version: str
    type: ComponentType


def decide(component: Wanted, sighting: ComponentSighting | None, recorded: str) -> tuple[Action, str]:
    """What to do, and the reason for a person.

    Args:
        sighting: what was seen; None: nobody has looked.
        recorded: the version that the records claim; empty when they are silent.
    """
    presence = sighting.presence if sighting else Presence.NOT_VERIFIED
    detail = sighting.detail if sighting else ""
    current = (sighting.current if sighting else "") or recorded
    match presence:
        case Presence.PRESENT:
            return Action.SKIP, f"already at {component.version}: {detail or 'seen in the cluster'}"
        case Presence.NOT_INSTALLED:
            return Action.SKIP, f"{NOT_INSTALLED}: {detail}" if detail else NOT_INSTALLED
        case Presence.COULD_NOT_LOOK:
            return Action.RUN, f"could not look: {detail}" if detail else "could not look"
    if component.type is ComponentType.RESOURCES:
        return Action.RUN, RUNS_ALWAYS
    if presence is Presence.NOT_VERIFIED and recorded == component.version:
        return Action.SKIP, NOT_VERIFIED
    return Action.RUN, _step(component.version, current, detail)


def predict(
    component: Wanted, recorded: str, previous: Release | None, release: Release, facts: ClusterFacts
) -> tuple[Action, str]:
    """The decision without a sighting, for a component that `previous` has left at `recorded`.

    A manifest component of an unchanged version still runs when its rendered files differ: the dry run would see it.
    """
    action, reason = decide(component, None, recorded)
    if action is Action.RUN or previous is None or previous.component(component.name, component.version) is None:
        return action, reason
    if component.type is ComponentType.MANIFEST and not _same_files(component, previous, release, facts):
        return Action.RUN, f"same version, but its manifests differ from those of {previous.version}"
    return action, f"unchanged since {previous.version} ({NOT_VERIFIED})"


def _step(version: str, current: str, detail: str) -> str:
    if current and current != version:
        return f"{current} -> {version}"
    if current:
        return f"{version} is recorded, but not seen everywhere: {detail}" if detail else f"{version} is not confirmed"
    return f"current version unknown: {detail}" if detail else "current version unknown"


def _same_files(component: Wanted, previous: Release, release: Release, facts: ClusterFacts) -> bool:
    try:
        return _rendered(component, previous, facts) == _rendered(component, release, facts)
    except HoplineError:
        return False


def _rendered(component: Wanted, release: Release, facts: ClusterFacts) -> tuple[str, ...]:
    """Raises InvalidRelease when a file does not render; the dry run then says why."""
    version = release.component(component.name, component.version)
    files = release.files_of(component.name, component.version)
    if version is None:
        return ()
    return tuple(
        render(file.text, variables(facts, release, version, file.path), file.path) if "{{" in file.text else file.text
        for file in files
    )
