"""A plan whose releases come from a registry: fetched for the whole path, pinned, and held when a tag moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from artifacts import Artifact, titled
from hopline.domain.errors import InvalidRelease, Transient
from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.plan import SchedulingMode, Severity, outline_of
from hopline.domain.release_origin import RegistryDefaults
from hopline.oci.releases import RegistryReleaseSource
from hopline.operations.one_controller import OneController
from hopline.operations.planning import Planner
from hopline.operations.release_origins import ClusterReleaseOrigins
from hopline.operations.releases import ReleaseShelf
from scripted_registry import ScriptedRegistry, serving

RELEASES = Path(__file__).parents[2] / "deploy" / "examples" / "releases"
VERSIONS = ("v26.06-rc.2", "v26.06-rc.3", "v26.06")


def published(version: str, **more: str) -> Artifact:
    """One of the example releases, a layer for each file."""
    folder = RELEASES / version
    files = {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.y*ml"))}
    return titled({**files, **more})


@pytest_asyncio.fixture
async def registry(east: Any) -> AsyncIterator[ScriptedRegistry]:
    async with serving(ScriptedRegistry()) as running:
        for version in VERSIONS:
            running.push(version, published(version))
        domain, _, port = running.host.partition(":")
        repository = {"domain": domain, "ip": None, "port": port, "prefix": "kubernetes"}
        await east.patch_cluster({"spec": {"clusterConfig": {"cluster": {"imageRepo": repository}}}})
        yield running


def planner(east: Any, folder: Path) -> Planner:
    """As a worker that has just started has one."""
    origins = ClusterReleaseOrigins(east.management, RegistryDefaults(plain_http=True))
    alone = OneController(east.management, ControllerPolicy())
    return Planner(east.clusters, ReleaseShelf(RegistryReleaseSource(origins, folder)), "bke", alone)


async def test_every_release_of_the_path_is_fetched_and_pinned_before_hop_one(
    east: Any, registry: ScriptedRegistry, tmp_path: Path
) -> None:
    _, plan = await planner(east, tmp_path).plan(east.key, "v26.06")
    assert plan.hops
    for hop in plan.hops:
        assert hop.release_digest == published(hop.to_version).digest
        assert registry.count(f"kubernetes/release-image/manifests/{hop.to_version}") >= 1


async def test_one_release_that_is_missing_refuses_the_whole_path(
    east: Any, registry: ScriptedRegistry, tmp_path: Path
) -> None:
    del registry.manifests["v26.06"]
    with pytest.raises(InvalidRelease, match=r"no release image of v26\.06"):
        await planner(east, tmp_path).plan(east.key, "v26.06")


async def test_a_hop_is_planned_from_the_pinned_image_and_held_when_the_tag_moves(
    east: Any, registry: ScriptedRegistry, tmp_path: Path
) -> None:
    _, plan = await planner(east, tmp_path / "one").plan(east.key, "v26.06")
    outline = outline_of(plan)

    async def hop(folder: str) -> str:
        asked = planner(east, tmp_path / folder)
        _, found = await asked.plan_hop(east.key, outline, 0, mode=SchedulingMode.BATCHES, slots=8)
        return found.release_digest

    assert await hop("two") == plan.hops[0].release_digest
    version = plan.hops[0].to_version
    registry.push(version, published(version, **{"components/more.yaml": "a: 1"}))
    with pytest.raises(InvalidRelease, match="has changed since the plan was made"):
        await hop("one")


async def test_a_registry_that_is_away_is_no_refusal(east: Any, registry: ScriptedRegistry, tmp_path: Path) -> None:
    registry.content_type = None
    for version in VERSIONS:
        registry.manifests[version] = b"<html>"
    with pytest.raises(Transient):
        await planner(east, tmp_path).plan(east.key, "v26.06")


async def test_the_plan_says_what_is_odd_about_the_origin(
    east: Any, registry: ScriptedRegistry, tmp_path: Path
) -> None:
    _, plan = await planner(east, tmp_path).plan(east.key, "v26.06")
    assert not [one for one in plan.findings if "certificate" in one.message]
    repository = {"insecureSkipTLSVerify": True}
    await east.patch_cluster({"spec": {"clusterConfig": {"cluster": {"imageRepo": repository}}}})
    _, plan = await planner(east, tmp_path).plan(east.key, "v26.06")
    told = [one for one in plan.findings if "not verified" in one.message]
    assert {one.severity for one in told} == {Severity.INFO}
