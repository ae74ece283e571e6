"""Each phase of a ReleaseImage object, reached from a registry by a plan; and what never changes the phase."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.planning import HopRequest, PlanningActivities, PlanRequest
from activities.requests import ManagementFence
from artifacts import titled
from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.plan import outline_of
from hopline.domain.release import Release
from hopline.domain.release_origin import RegistryDefaults
from hopline.domain.resources import RELEASE_IMAGE, ObjectRef
from hopline.oci.releases import RegistryReleaseSource
from hopline.operations.hop_objects import ensure_release_image
from hopline.operations.one_controller import OneController
from hopline.operations.planning import Planner
from hopline.operations.release_origins import ClusterReleaseOrigins
from hopline.operations.releases import ReleaseShelf
from hopline.operations.target_reach import TargetReach
from oci_signed import SIGNATURE_KEYS
from scripted_registry import ScriptedRegistry, serving

RELEASES = Path(__file__).parents[2] / "deploy" / "examples" / "releases"
VERSIONS = ("v26.06-rc.2", "v26.06-rc.3", "v26.06")
TARGET = "v26.06"
COREDNS = "components/coredns/v1.12.3/component.yaml"
Files = dict[str, str]


def files_of(version: str) -> Files:
    folder = RELEASES / version
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.y*ml"))}


class World:
    """The example cluster, its registry, and an object that somebody has made for the last release of the path."""

    def __init__(self, east: Any, registry: ScriptedRegistry, folder: Path) -> None:
        self.east, self.registry = east, registry
        self.ref = ObjectRef(kind=RELEASE_IMAGE, name="mine", kube_namespace=east.key.kube_namespace)
        origins = ClusterReleaseOrigins(east.management, RegistryDefaults(plain_http=True))
        self.shelf = ReleaseShelf(RegistryReleaseSource(origins, folder))
        alone = OneController(east.management, ControllerPolicy())
        self.planner = Planner(east.clusters, self.shelf, "bke", alone)
        fence, reach = ManagementFence(east.management), TargetReach(east.clusters)
        self.activities = PlanningActivities(self.planner, fence, reach, management=east.management)

    def push(self, version: str, files: Mapping[str, str]) -> None:
        self.registry.push(version, titled(files))

    async def make_object(self, **spec: Any) -> None:
        metadata = {"name": self.ref.name, "namespace": self.ref.kube_namespace}
        head = {"apiVersion": RELEASE_IMAGE.api_version, "kind": "ReleaseImage", "metadata": metadata}
        await self.east.management.create({**head, "spec": {"version": TARGET, **spec}}, kind=RELEASE_IMAGE)

    async def plan(self) -> ApplicationError:
        request = PlanRequest(cluster=self.east.key, desired_version=TARGET, mode="batches")
        with pytest.raises(ApplicationError) as caught:
            await ActivityEnvironment().run(self.activities.plan_upgrade, request)
        return caught.value

    async def release(self) -> Release:
        return await self.shelf.release(TARGET, cluster=self.east.key)

    async def status(self) -> dict[str, Any]:
        return dict((await self.east.management.get(self.ref)).get("status") or {})


@pytest_asyncio.fixture
async def world(east: Any, tmp_path: Path) -> AsyncIterator[World]:
    async with serving(ScriptedRegistry()) as running:
        made = World(east, running, tmp_path / "store")
        for version in VERSIONS:
            made.push(version, files_of(version))
        domain, _, port = running.host.partition(":")
        repository = {"domain": domain, "ip": None, "port": port, "prefix": "kubernetes"}
        await east.patch_cluster({"spec": {"clusterConfig": {"cluster": {"imageRepo": repository}}}})
        yield made


def without(path: str) -> Callable[[Files], Files]:
    return lambda files: {name: text for name, text in files.items() if name != path}


def replaced(path: str, old: str, new: str) -> Callable[[Files], Files]:
    def change(files: Files) -> Files:
        assert old in files[path]
        return {**files, path: files[path].replace(old, new)}

    return change


@pytest.mark.parametrize(
    ("change", "phase", "told"),
    [
        (replaced("release.yaml", f"version: {TARGET}\n", "version: v99.01\n"), "Invalid", "v99.01"),
        (lambda files: {**files, COREDNS: "spec: ["}, "Invalid", COREDNS),
        (without(COREDNS), "CompatibilityFailed", "coredns"),
        (replaced(COREDNS, "    constraints:", "    constraints:\n      - {component: etcd, rule: '>=v99.0.0'}"),
         "CompatibilityFailed", "etcd >=v99.0.0"),
        (replaced(COREDNS, "    constraints:", "    constraints:\n      - {component: nobody, rule: '*'}"),
         "CompatibilityFailed", "no such component"),
    ],
    ids=["another version", "no YAML", "a component that is not in it", "a version that does not fit", "nobody there"],
)  # fmt: skip
async def test_what_a_bundle_says(world: World, change: Callable[[Files], Files], phase: str, told: str) -> None:
    await world.make_object()
    world.push(TARGET, change(files_of(TARGET)))
    assert (await world.plan()).type == "Refused"
    status = await world.status()
    assert status["phase"] == phase, status
    assert told in status["message"]
    assert ("compatibilityReport" in status) == (phase == "CompatibilityFailed")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"digest": f"sha256:{'0' * 64}"}, "not the one that is required"),
        ({"verifySignature": True, "signatureKey": SIGNATURE_KEYS["ecdsa"]}, "not signed"),
    ],
)
async def test_what_an_object_requires(world: World, spec: dict[str, Any], told: str) -> None:
    await world.make_object(**spec)
    assert (await world.plan()).type == "Refused"
    assert (await world.status())["phase"] == "Invalid"
    assert told in (await world.status())["message"]


async def test_a_tag_that_is_missing_and_then_pushed(world: World) -> None:
    await world.make_object()
    del world.registry.manifests[TARGET]
    assert (await world.plan()).type == "Refused"
    assert (await world.status())["phase"] == "ManifestMissing"
    world.push(TARGET, files_of(TARGET))
    await ensure_release_image(world.east.management, await world.east.facts(), await world.release(), "now")
    status = await world.status()
    assert (status["phase"], status["message"]) == ("Valid", "release image validated")


async def test_a_release_that_changed_after_the_plan_is_told_where_the_hop_is_held(world: World) -> None:
    _, plan = await world.planner.plan(world.east.key, TARGET)
    await world.make_object()
    world.push(TARGET, {**files_of(TARGET), "components/more.yaml": "a: 1"})
    request = HopRequest(cluster=world.east.key, outline=outline_of(plan), hop_index=1, mode="batches")
    with pytest.raises(ApplicationError, match="has changed since the plan was made"):
        await ActivityEnvironment().run(world.activities.plan_hop, request)
    assert (await world.status())["phase"] == "Invalid"


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503, 200], ids=str)
async def test_a_registry_with_a_fault_changes_no_phase(world: World, status: int) -> None:
    await world.make_object()

    async def fault(request: web.Request) -> web.StreamResponse:
        page = {"text": "<html><body>Sign in</body></html>", "content_type": "text/html"}
        return web.Response(status=status, **page if status == 200 else {})

    world.registry.before = fault
    assert not (await world.plan()).non_retryable
    assert await world.status() == {}


async def test_a_fault_that_lasts_is_told_once_and_asked_again(world: World) -> None:
    for version in VERSIONS:
        world.push(version, replaced("release.yaml", "  allowCacheFallback: true\n", "")(files_of(version)))
    _, plan = await world.planner.plan(world.east.key, TARGET)

    async def fault(request: web.Request) -> web.StreamResponse:
        return web.Response(status=503)

    world.registry.before = fault
    way = PlanRequest(cluster=world.east.key, desired_version=TARGET, mode="batches")
    hop = HopRequest(cluster=world.east.key, outline=outline_of(plan), hop_index=1, mode="batches")
    environment = ActivityEnvironment()
    for ask, request in ((world.activities.plan_upgrade, way), (world.activities.plan_hop, hop)):
        environment.info = replace(environment.info, attempt=2)
        with pytest.raises(ApplicationError, match="has a fault"):
            await environment.run(ask, request)
        environment.info = replace(environment.info, attempt=3)
        told = await environment.run(ask, request)
        assert "the registry has a fault" in told.waiting
        with pytest.raises(ApplicationError, match="has a fault"):
            await environment.run(ask, request.model_copy(update={"waiting": told.waiting}))
