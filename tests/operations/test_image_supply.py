"""The plan says where images come from, reads the guide's lists, and offline no request leaves the named hosts."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from artifacts import Artifact, titled
from hopline.domain.errors import Forbidden, Transient
from hopline.domain.image_overrides import NO_OVERRIDES, ImageOverrides, read_overrides
from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.plan import Finding, Severity, SupplyMode, UpgradePlan
from hopline.domain.release_origin import RegistryDefaults
from hopline.domain.resources import CONFIG_MAP, NAMESPACE, Document, ObjectRef
from hopline.files.releases import DirectoryReleaseSource
from hopline.oci.releases import RegistryReleaseSource
from hopline.operations.image_supply import SeenImages, review_supply
from hopline.operations.one_controller import OneController
from hopline.operations.planning import Planner
from hopline.operations.release_origins import CatalogueOrigins, ClusterReleaseOrigins
from hopline.operations.releases import ReleaseShelf
from scripted_registry import ScriptedRegistry, serving

RELEASES = Path(__file__).parents[2] / "deploy" / "examples" / "releases"
VERSIONS = ("v26.06-rc.3", "v26.06")
HOSTS = ("registry.example.test:40443", "192.0.2.5:40443")
LISTED = """openFuyaoVersion: VERSION
repos:
- needDownload: true
  subImages:
  - sourceRepo: cr.openfuyao.cn/openfuyao
    targetRepo: kubernetes
    images:
    - {name: release-image, tag: [VERSION]}
"""


async def config_map(east: Any, kube_namespace: str, name: str, data: dict[str, str]) -> None:
    """As `kubectl create configmap` and `kubectl patch --type merge` leave it."""
    place = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube_namespace}}
    await east.management.apply(place, kind=NAMESPACE, field_manager="kubectl")
    metadata = {"name": name, "namespace": kube_namespace}
    body: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    await east.management.apply(body, kind=CONFIG_MAP, field_manager="kubectl", force=True)


async def listed(east: Any, version: str, text: str | None = None, **data: str) -> None:
    """The guide's two commands. `$(cat …)` drops the line ends at the end of the file."""
    content = (LISTED if text is None else text).replace("VERSION", version).rstrip("\n")
    await config_map(east, "openfuyao-patch", f"cm.{version}", {version: content, **data})
    await east.management.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "bke-config", "namespace": "cluster-system"},
            "data": {f"patch.{version}": f"cm.{version}"},
        },
        kind=CONFIG_MAP,
        field_manager=f"kubectl-{version}",
    )


async def planned(east: Any, overrides: ImageOverrides = NO_OVERRIDES) -> UpgradePlan:
    shelf = ReleaseShelf(DirectoryReleaseSource(RELEASES), overrides)
    alone = OneController(east.management, ControllerPolicy())
    return (await Planner(east.clusters, shelf, "bke", alone).plan(east.key, "v26.06"))[1]


def about(plan: UpgradePlan, *words: str) -> list[Finding]:
    return [one for one in plan.findings if any(word in f"{one.object} {one.message}" for word in words)]


async def test_an_offline_cluster_says_so_and_names_the_lists_that_are_missing(east: Any) -> None:
    plan = await planned(east)
    assert plan.supply.mode is SupplyMode.OFFLINE
    assert plan.supply.field == "BKECluster east/east spec.clusterConfig.cluster.imageRepo.domain"
    assert plan.supply.hosts == HOSTS
    assert plan.supply.lists == ()
    (missing,) = about(plan, "bke-config")
    assert missing.severity is Severity.INFO
    assert missing.field == "data[patch.v26.06-rc.3]"
    assert all(version in missing.message for version in VERSIONS)
    assert "kubectl create configmap cm.v26.06-rc.3 -n openfuyao-patch --from-literal=v26.06-rc.3=" in missing.remedy
    assert """-p '{"data":{"patch.v26.06-rc.3":"cm.v26.06-rc.3"}}'""" in missing.remedy


async def test_the_lists_are_read_as_the_guide_creates_them(east: Any) -> None:
    for version in VERSIONS:
        await listed(east, version)
    plan = await planned(east)
    assert [(one.version, one.object, one.images) for one in plan.supply.lists] == [
        (version, f"ConfigMap openfuyao-patch/cm.{version}", 1) for version in VERSIONS
    ]
    found = about(plan, "its list does not name")
    assert [(one.object, one.severity) for one in found] == [
        (f"release {version}", Severity.WARNS) for version in VERSIONS
    ]
    assert f"{HOSTS[0]}/kubernetes/coredns:v1.12.3 (coredns Deployment kube-system/coredns)" in found[1].message
    assert not plan.blocking


async def test_a_list_that_names_everything_leaves_nothing_to_say(east: Any) -> None:
    text = LISTED + "    - {name: NAME, tag: [TAG]}\n".replace("NAME", "all").replace("TAG", "x")
    await listed(east, "v26.06-rc.3", text)
    before = await planned(east)
    (lacking,) = [one for one in about(before, "its list does not name") if one.object == "release v26.06-rc.3"]
    names = [part.partition(" (")[0].rpartition("/")[2] for part in lacking.message.partition(": ")[2].split("), ")]
    images = "".join(f"    - {{name: {name.partition(':')[0]}, tag: [{name.partition(':')[2]}]}}\n" for name in names)
    await listed(east, "v26.06-rc.3", LISTED + images)
    assert not [one for one in about(await planned(east), "its list does not name") if "rc.3" in one.object]


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda east: listed(east, "v26.06", "- a"), "not an object"),
        (lambda east: listed(east, "v26.06", "a: ["), "does not parse"),
        (lambda east: listed(east, "v26.06", "openFuyaoVersion: v26.03"), "it is the list of v26.03"),
        (lambda east: listed(east, "v26.06", "repos: 1"), "something else than it should"),
        (lambda east: listed(east, "v26.06", "", other="x"), "other"),
        (
            lambda east: config_map(east, "cluster-system", "bke-config", {"patch.v26.06": "cm.nowhere"}),
            "ConfigMap openfuyao-patch/cm.nowhere does not exist",
        ),
    ],
)
async def test_a_list_that_cannot_be_used_is_a_finding_that_names_it(
    east: Any, break_it: Callable[[Any], Any], message: str
) -> None:
    await break_it(east)
    plan = await planned(east)
    (found,) = about(plan, "cannot be used")
    assert found.severity is Severity.WARNS
    assert "v26.06" in found.message
    assert message in found.message
    assert found.object.startswith("ConfigMap ")
    assert not plan.blocking
    assert not plan.supply.lists


async def test_an_online_cluster_needs_no_list(east: Any) -> None:
    await config_map(east, "cluster-system", "bke-config", {"onlineImage": "true"})
    plan = await planned(east)
    assert plan.supply.mode is SupplyMode.ONLINE
    assert plan.supply.field == "ConfigMap cluster-system/bke-config onlineImage"
    assert not about(plan, "bke-config", "list")


async def test_what_may_not_be_read_is_told(east: Any) -> None:
    async def get(ref: ObjectRef) -> Document:
        raise Forbidden("not allowed to read it", subject=str(ref))

    supply, (found,) = await review_supply(get, await east.facts(), VERSIONS, SeenImages())
    assert supply.mode is SupplyMode.OFFLINE
    assert "not allowed" in found.message

    async def only_config(ref: ObjectRef) -> Document:
        if ref.name != "bke-config":
            return await get(ref)
        return {"data": {f"patch.{version}": f"cm.{version}" for version in VERSIONS}}

    _, findings = await review_supply(only_config, await east.facts(), VERSIONS, SeenImages())
    assert [one.object for one in findings] == [f"ConfigMap openfuyao-patch/cm.{version}" for version in VERSIONS]


# --- images of other registries ------------------------------------------------------------------------------------


async def test_an_image_from_elsewhere_is_told_offline_and_follows_the_rules_in_the_plan(east: Any) -> None:
    await east.patch_cluster({"spec": {"clusterConfig": {"cluster": {"imageRepo": {"domain": "another.example"}}}}})
    # The manifests follow imageRepo: nothing is strange, wherever it points to.
    assert not about(await planned(east), "does not have")
    overrides = read_overrides("another.example:40443/kubernetes=registry.example.test/mirror", "X")
    plan = await planned(east, overrides)
    (found, _) = about(plan, "does not have")
    assert (found.severity, found.object) == (Severity.WARNS, "release v26.06-rc.3")
    assert "registry.example.test/mirror/coredns:v1.12.2" in found.message
    assert "HOPLINE_REGISTRY_OVERRIDES" in found.remedy
    named = {rewrite.named: rewrite.applied for rewrite in plan.supply.rewrites}
    assert named["another.example:40443/kubernetes/coredns:v1.12.3"] == "registry.example.test/mirror/coredns:v1.12.3"
    assert plan.supply.rewritten == len(named)


# --- requests ------------------------------------------------------------------------------------------------------


def published(version: str) -> Artifact:
    folder = RELEASES / version
    return titled({path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.y*ml"))})


@pytest_asyncio.fixture
async def registry(east: Any) -> AsyncIterator[ScriptedRegistry]:
    async with serving(ScriptedRegistry()) as running:
        for version in ("v26.06-rc.2", *VERSIONS):
            running.push(version, published(version))
        domain, _, port = running.host.partition(":")
        repository = {"domain": domain, "ip": None, "port": port, "prefix": "kubernetes"}
        await east.patch_cluster({"spec": {"clusterConfig": {"cluster": {"imageRepo": repository}}}})
        yield running


def from_registry(east: Any, folder: Path, **defaults: Any) -> Planner:
    origins = ClusterReleaseOrigins(east.management, RegistryDefaults(plain_http=True, **defaults))
    alone = OneController(east.management, ControllerPolicy())
    return Planner(east.clusters, ReleaseShelf(RegistryReleaseSource(origins, folder)), "bke", alone)


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int]]:
    """Every address that any socket of this process connects to."""
    found: set[tuple[str, int]] = set()
    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            found.add((address[0], address[1]))
        real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    return found


async def test_offline_no_request_leaves_the_named_hosts(
    east: Any, registry: ScriptedRegistry, tmp_path: Path, connected: set[tuple[str, int]]
) -> None:
    _, plan = await from_registry(east, tmp_path).plan(east.key, "v26.06")
    assert plan.supply.mode is SupplyMode.OFFLINE
    assert {f"{host}:{port}" for host, port in connected} == {registry.host}


@pytest.mark.parametrize("how", ["redirect", "token"])
async def test_offline_a_registry_cannot_send_us_elsewhere(
    east: Any, registry: ScriptedRegistry, tmp_path: Path, how: str
) -> None:
    async with serving(ScriptedRegistry()) as other:
        other.manifests, other.blobs = registry.manifests, registry.blobs

        async def away(request: web.Request) -> web.StreamResponse | None:
            if how == "redirect":
                return web.Response(status=307, headers={"Location": f"http://{other.host}{request.path}"})
            if request.headers.get("Authorization"):
                return None
            return web.Response(status=401, headers={"WWW-Authenticate": f'Bearer realm="http://{other.host}/token"'})

        async def token(request: web.Request) -> web.StreamResponse | None:
            return web.json_response({"token": "t"}) if request.path == "/token" else None

        registry.before, other.before = away, token
        with pytest.raises(Transient, match="nobody has named") as caught:
            await from_registry(east, tmp_path / "a").plan(east.key, "v26.06")
        assert other.requests == []
        assert "HOPLINE_REGISTRY_HOSTS" in caught.value.remedy
        _, plan = await from_registry(east, tmp_path / "b", hosts=(other.host,)).plan(east.key, "v26.06")
        assert plan.hops and other.requests
        await config_map(east, "cluster-system", "bke-config", {"onlineImage": "true"})
        _, plan = await from_registry(east, tmp_path / "c").plan(east.key, "v26.06")
        assert plan.supply.mode is SupplyMode.ONLINE


async def test_the_catalogue_stays_within_the_named_hosts_too(east: Any) -> None:
    async def hosts(**data: str) -> tuple[str, ...]:
        await config_map(east, "cluster-system", "bke-config", data)
        origin = await CatalogueOrigins(east.management, RegistryDefaults(hosts=("store.example",))).origin(None, "")
        return origin.access.hosts

    assert await hosts(otherRepo="registry.example:5000/kubernetes") == ("registry.example:5000", "store.example")
    assert await hosts(otherRepo="", onlineImage="true") == ()
