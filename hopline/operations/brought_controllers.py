"""Which components of a release would start another controller (openfuyao-nodes.md §3.2)."""

from __future__ import annotations

from collections.abc import Iterator

from hopline.domain.cluster import ClusterFacts
from hopline.domain.components import type_of
from hopline.domain.other_controllers import PROVIDER, ControllerPolicy, foreign_deployments
from hopline.domain.plan import ComponentType
from hopline.domain.release import ComponentVersion, Release
from hopline.operations.component_objects import manifest_files, read_objects


def brought_controllers(release: Release, facts: ClusterFacts, policy: ControllerPolicy) -> dict[str, str]:
    """Component → image of the controller that it brings. Only components that can bring one are rendered; blocks.

    One in a workload cluster works on objects of its own: ask this for the management cluster only.
    Raises InvalidRelease or InvalidDocument, with file and line.
    """
    found: dict[str, str] = {}
    for component in _suspects(release, policy):
        objects = read_objects(release, component, facts)
        for image in foreign_deployments(objects.placed_documents, policy).values():
            found[component.name] = image
    return found


def _suspects(release: Release, policy: ControllerPolicy) -> Iterator[ComponentVersion]:
    names = [ref.name for ref in policy.deployments]
    for ref in release.upgrade:
        component = release.component(ref.name, ref.version)
        if component is None or type_of(ref, component) is not ComponentType.MANIFEST:
            continue
        texts = [file.text for file in manifest_files(release, component)]
        if ref.name == PROVIDER or any(name in text for name in names for text in texts):
            yield component
