"""The images that a release runs on a cluster: rendered as an upgrade renders, then read from every object."""

from __future__ import annotations

from collections.abc import Iterator

from hopline.domain.cluster import ClusterFacts
from hopline.domain.container_images import container_images, probable_images
from hopline.domain.errors import InvalidDocument, InvalidRelease
from hopline.domain.image_supply import ImageWish
from hopline.domain.plan import Finding, Severity
from hopline.domain.release import ComponentVersion, Release
from hopline.domain.resources import Document, describe
from hopline.operations.component_objects import manifest_files, read_objects


def wished_images(release: Release, facts: ClusterFacts) -> tuple[list[ImageWish], list[Finding]]:
    """Every image of every component in the bundle, whatever it is listed for; and components that cannot be read.

    Blocks for as long as it renders.
    """
    wishes: list[ImageWish] = []
    findings: list[Finding] = []
    for component in release.components:
        try:
            wishes += _of(release, component, facts)
        except (InvalidRelease, InvalidDocument) as error:
            findings.append(_unproven(release, component, error))
    return wishes, findings


def _of(release: Release, component: ComponentVersion, facts: ClusterFacts) -> Iterator[ImageWish]:
    subject = f"component {component.name} {component.version} of release {release.version}"
    if manifest_files(release, component):
        objects = read_objects(release, component, facts)
        for source in objects.sources:
            yield from _in(release.version, source.document, f"{subject}, {source.place}")
    for number, resource in enumerate(component.resources):
        place = f"{subject}, spec.resources[{number}]"
        document: Document = {
            "kind": resource.kind,
            "metadata": {"name": resource.name, "namespace": resource.kube_namespace},
            "data": resource.data,
            "stringData": resource.string_data,
        }
        if not resource.manifest.strip():
            yield from _in(release.version, document, place)


def _in(version: str, document: Document, place: str) -> Iterator[ImageWish]:
    for use in (*container_images(document), *probable_images(document)):
        yield ImageWish(version, use.image, f"{place}: {describe(document)} {use.field}", use.probable)


def _unproven(release: Release, component: ComponentVersion, error: InvalidRelease | InvalidDocument) -> Finding:
    return Finding(
        severity=Severity.BLOCKS,
        object=f"component {component.name} {component.version} of release {release.version}, {error.subject}",
        field=error.field,
        message=f"nobody can say which images it runs: {error.message}",
        remedy=f"{error.remedy}; or give the BKECluster that it is for with -f" if error.remedy else "give it with -f",
    )
