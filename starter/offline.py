"""What the starter can say from files alone: no server, no cluster, no clock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from hopline.domain.catalogue import Catalogue
from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import ClusterNotReady, InvalidCatalogue, InvalidDocument, InvalidRelease, PathReason
from hopline.domain.image_overrides import ImageOverrides
from hopline.domain.oldest_version import too_old
from hopline.domain.plan import SchedulingMode, UpgradePlan
from hopline.domain.planner import PlanningInputs, plan_upgrade
from hopline.domain.release import Release
from hopline.domain.routes import Reachable, UpgradeRoute, invalid_reachable, invalid_route
from hopline.domain.schedule import DEFAULT_SLOTS
from hopline.domain.upgrade_graph import UpgradeGraph
from hopline.domain.wire import ClusterKey
from hopline.files.objects import OfflineObjects, read_objects
from hopline.files.releases import DirectoryReleaseSource
from hopline.operations.brought_controllers import brought_controllers
from hopline.operations.image_supply import SeenImages, review_supply
from hopline.operations.manifest_review import review_in_this_thread
from hopline.operations.releases import ReleaseShelf
from hopline.runtime.settings import Settings


def find_path(files: Sequence[Path], current: str, desired: str) -> UpgradeRoute:
    """The way from `current` to `desired` by the UpgradePath in the files; `reason` says why there is none.

    Raises InvalidInput when a file cannot be read.
    """
    try:
        graph = UpgradeGraph(_catalogue(files))
    except InvalidCatalogue as fault:
        return invalid_route(current, desired, fault)
    return graph.find_path(current, desired)


def reachable(files: Sequence[Path], current: str) -> Reachable:
    """Every version that can be reached from `current`, or why there is none. Raises InvalidInput as `find_path`."""
    try:
        graph = UpgradeGraph(_catalogue(files))
    except InvalidCatalogue as fault:
        return invalid_reachable(current, fault)
    return graph.reachable(current)


def plan(
    files: Sequence[Path],
    releases: Path,
    cluster: ClusterKey,
    desired: str,
    *,
    mode: str = "",
    slots: int = DEFAULT_SLOTS,
    settings: Settings | None = None,
) -> UpgradePlan:
    """The plan as far as files tell it: what is recorded counts, and nothing is verified.

    Args:
        releases: directory of release bundles, one sub-folder each.
        settings: the oldest version to start from, and what must not start in the management cluster; None: defaults.

    Raises:
        InvalidInput: a file cannot be read.
        Refusal: what the live plan would refuse: catalogue, path, release, document, cluster.
    """
    settings = settings or Settings()
    objects = read_objects(files)
    facts = _recorded(objects, cluster)
    if desired != facts.current_version and (error := too_old(facts.current_version, settings.oldest_version, cluster)):
        raise error
    edges = UpgradeGraph(objects.catalogue()).require_path(facts.current_version, desired, cluster).hops
    source = DirectoryReleaseSource(releases)
    overrides = settings.image_overrides
    releases_on_the_way = tuple(_release(source, edge.to_version, overrides) for edge in edges)
    inputs = PlanningInputs(
        facts=facts,
        edges=edges,
        releases=releases_on_the_way,
        current_release=_release_if_there(source, facts.current_version, overrides),
        mode=SchedulingMode(mode or SchedulingMode.BATCHES),
        slots=slots,
        foreign=tuple(_foreign(release, facts, settings) for release in releases_on_the_way),
        foreign_provider=settings.foreign_provider,
    )
    return _reviewed(plan_upgrade(inputs), inputs, objects)


def _recorded(objects: OfflineObjects, cluster: ClusterKey) -> ClusterFacts:
    """The cluster, whose version somebody has recorded."""
    facts = objects.cluster(cluster)
    if facts.current_version:
        return facts
    raise ClusterNotReady(
        "nobody has recorded which version the cluster has",
        subject=f"ClusterVersion {cluster}",
        field="status.currentVersion",
        remedy="add the ClusterVersion with its status to the files",
    )


def _reviewed(made: UpgradePlan, inputs: PlanningInputs, objects: OfflineObjects) -> UpgradePlan:
    """With what manifests and lists of images say."""
    seen = SeenImages()
    facts, releases = inputs.facts, inputs.releases
    reviewed = review_in_this_thread(facts, made.hops, releases, inputs.current_release, seen.add)
    versions = [edge.to_version for edge in inputs.edges]
    supply, supplied = asyncio.run(review_supply(objects.get, facts, versions, seen, looked=False))
    return made.model_copy(update={"findings": (*made.findings, *reviewed, *supplied), "supply": supply})


def _foreign(release: Release, facts: ClusterFacts, settings: Settings) -> dict[str, str]:
    """Components that would start another controller, if this is the management cluster; one that cannot be read says
    so by a finding of its own."""
    if facts.key != settings.management_cluster:
        return {}
    try:
        return brought_controllers(release, facts, settings.controllers)
    except (InvalidDocument, InvalidRelease):
        return {}


def _release(source: DirectoryReleaseSource, version: str, overrides: ImageOverrides) -> Release:
    return asyncio.run(ReleaseShelf(source, overrides).release(version))


def _release_if_there(source: DirectoryReleaseSource, version: str, overrides: ImageOverrides) -> Release | None:
    """The installed release is a claim for the plan, so its absence is no fault."""
    try:
        return _release(source, version, overrides)
    except InvalidRelease:
        return None


def is_refusal(reason: PathReason) -> bool:
    """Whether "there is no path" makes a command end as refused; to be there already does not."""
    return reason not in (PathReason.NONE, PathReason.ALREADY_THERE)


def _catalogue(files: Sequence[Path]) -> Catalogue:
    try:
        return read_objects(files).catalogue()
    except InvalidDocument as fault:
        raise InvalidCatalogue(
            fault.message, subject=fault.subject, field=fault.field, value=fault.value, remedy=fault.remedy
        ) from fault
