"""Upgrades whose releases come from a real registry with TLS and a login, by a worker without HOPLINE_RELEASES."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from absent_parts import present
from artifacts import Artifact, titled
from controlplane.agent_script import Step
from controlplane.control_plane import ControlPlane
from hopline.sim.scenarios import EXAMPLE_CONTROLLER_IMAGE
from real_lab import RealCluster, RealSite
from registry import programs
from registry.server import PASSWORD, USER, Registry
from stalling_proxy import StallingProxy

pytestmark = [pytest.mark.slow, pytest.mark.controlplane, pytest.mark.timeout(900)]
FIRST, SECOND = "v26.06-rc.3", "v26.06"


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    running = Registry(present(programs.registry), keep_requests=True)
    yield running
    running.close()


@pytest.fixture(scope="module")
def online(site: RealSite, registry: Registry) -> RealSite:
    """The site with a worker that reads no folder of releases."""
    site.kill("worker")
    site.start_worker(**settings(site, registry.host))
    return site


def settings(site: RealSite, host: str) -> dict[str, str]:
    return {
        "HOPLINE_RELEASES": "",
        "HOPLINE_RELEASE_CACHE": str(cache(site)),
        "HOPLINE_CATALOGUE_INTERVAL": "1",
        "HOPLINE_OWN_IMAGES": f"{EXAMPLE_CONTROLLER_IMAGE},{host}/",
    }


def cache(site: RealSite) -> Path:
    return site.folder / "cache"


def bundle(site: RealSite, version: str, change: Callable[[dict[str, Any]], None] | None = None) -> Artifact:
    folder = site.releases / version
    files = {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.y*ml"))}
    if change is not None:
        release = json.loads(files["release.yaml"])
        change(release["spec"])
        files["release.yaml"] = json.dumps(release)
    return titled(files)


def connect(site: RealSite, cluster: RealCluster, registry: Registry, prefix: str, host: str = "") -> None:
    """The cluster's imageRepo: where, whose certificate, which login, all as the documented fields say."""
    name, _, port = (host or registry.host).partition(":")

    def secret(name: str, **data: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": cluster.key.kube_namespace}
        encoded = {key.replace("_", "."): b64encode(value.encode()).decode() for key, value in data.items()}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}

    site.control_plane.apply(
        secret("registry-ca", ca_crt=registry.ca), secret("registry-login", username=USER, password=PASSWORD)
    )
    repository = {
        "domain": name,
        "ip": None,
        "port": port,
        "prefix": prefix,
        "tlsSecretRef": {"name": "registry-ca"},
        "authSecretRef": {"name": "registry-login"},
    }
    body = json.dumps({"spec": {"clusterConfig": {"cluster": {"imageRepo": repository}}}})
    site.control_plane.kubectl("patch", "bkecluster", *cluster.where, "--type", "merge", "-p", body)


def release_image(site: RealSite, cluster: RealCluster, version: str) -> dict[str, Any]:
    found = site.control_plane.get("releaseimage", "-n", cluster.key.kube_namespace)
    (one,) = [item for item in found["items"] if item["spec"]["version"] == version]
    return dict(one)


@pytest.fixture
def cluster(online: RealSite, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    made = online.add_cluster(request.node.name.split("_")[-1], (1, 0))
    yield made
    made.script.release(made.master, Step.UPGRADE_CONTROL_PLANE)
    online.remove_cluster(made)


def test_two_hops_online(online: RealSite, cluster: RealCluster, registry: Registry) -> None:
    images = {version: bundle(online, version) for version in (FIRST, SECOND)}
    digests = {version: registry.push("online/release-image", version, image) for version, image in images.items()}
    connect(online, cluster, registry, "online")
    online.patch_desired_version(cluster, SECOND)
    online.until_ready(cluster, SECOND)
    for version, digest in digests.items():
        image = release_image(online, cluster, version)
        assert image["status"]["phase"] == "Valid"
        assert image["status"]["source"] == "OCI"
        assert not image["status"].get("cacheFallback")
        assert image["metadata"]["annotations"]["cvo.openfuyao.cn/bkecluster-name"] == cluster.key.name
        assert not image["metadata"].get("finalizers")
        assert (cache(online) / "blobs" / "sha256" / digest.removeprefix("sha256:")).is_file()
    assert PASSWORD not in online.log("worker")


def condition(site: RealSite, cluster: RealCluster) -> str:
    """What the condition `Progressing` says."""
    found = site.version(cluster)["status"]["conditions"]
    return str(next(one["message"] for one in found if one["type"] == "Progressing"))


def stop_in_hop_one(site: RealSite, cluster: RealCluster, registry: Registry) -> None:
    """The plan has pinned both releases, hop one is in the middle, and the registry goes away."""
    cluster.script.hold(cluster.master, Step.UPGRADE_CONTROL_PLANE)
    site.patch_desired_version(cluster, SECOND)
    step = Step.UPGRADE_CONTROL_PLANE
    site.until(lambda: step in [one.step for one in cluster.script.executions], "in the middle of hop one")
    registry.stop()
    cluster.script.release(cluster.master, Step.UPGRADE_CONTROL_PLANE)


def test_a_registry_that_goes_away_between_two_hops_is_waited_for(
    online: RealSite, cluster: RealCluster, registry: Registry
) -> None:
    registry.push("strict/release-image", FIRST, bundle(online, FIRST))
    registry.push("strict/release-image", SECOND, bundle(online, SECOND, lambda spec: spec.pop("allowCacheFallback")))
    connect(online, cluster, registry, "strict")
    try:
        stop_in_hop_one(online, cluster, registry)
        online.until(lambda: "the registry cannot be reached" in condition(online, cluster), "waiting for the registry")
        assert online.version(cluster)["status"]["currentVersion"] == FIRST
    finally:
        registry.start()
    online.until_ready(cluster, SECOND)
    assert not release_image(online, cluster, SECOND)["status"].get("cacheFallback")
    assert len(online.runs(cluster)) == 2


def test_where_the_copy_on_disk_counts_the_upgrade_goes_on_without(
    online: RealSite, cluster: RealCluster, registry: Registry
) -> None:
    for version in (FIRST, SECOND):
        registry.push("kept/release-image", version, bundle(online, version))
    connect(online, cluster, registry, "kept")
    try:
        stop_in_hop_one(online, cluster, registry)
        online.until_ready(cluster, SECOND)
        status = release_image(online, cluster, SECOND)["status"]
        assert (status["phase"], status["source"], status["cacheFallback"]) == ("Valid", "Disk", True)
        assert "out of reach" in status["message"]
    finally:
        registry.start()


def test_a_worker_that_dies_in_the_middle_of_a_pull(online: RealSite, cluster: RealCluster, registry: Registry) -> None:
    images = {version: bundle(online, version) for version in (FIRST, SECOND)}
    for version, image in images.items():
        registry.push("killed/release-image", version, image)
    wanted = {digest: content for image in images.values() for digest, content in image.blobs.items()}
    proxy = StallingProxy(registry.host)
    online.kill("worker")
    folder = online.folder / "cache-of-the-killed"
    given = {**settings(online, proxy.host), "HOPLINE_RELEASE_CACHE": str(folder)}
    try:
        online.start_worker(**given)
        connect(online, cluster, registry, "killed", proxy.host)
        proxy.stall_after(sum(map(len, wanted.values())) // 2)
        online.patch_desired_version(cluster, SECOND)
        online.until(proxy.stalled.is_set, "in the middle of a pull")
        online.until(lambda: bool(held(folder)), "anything kept")
        online.kill("worker")
        kept = held(folder)
        assert set(wanted) - kept, "not everything has come"
        # It notes a request when that is over: those of the dead worker are, once it has ended.
        registry.stop()
        mark = len(registry.requests())
        registry.start()
        proxy.go_on()
        online.start_worker(**given)
        online.until_ready(cluster, SECOND)
        again = [path for path in registry.requests()[mark:] if "/blobs/" in path]
        assert again
        assert len(again) == len(set(again)), "each blob once"
        assert not {digest for digest in kept if any(digest in path for path in again)}, "what was there is not fetched"
    finally:
        proxy.close()
        online.kill("worker")
        online.start_worker(**settings(online, registry.host))


def held(folder: Path) -> set[str]:
    """Digests of what is in a cache; each file holds what its name says."""
    found = [path for path in folder.glob("blobs/sha256/*") if not path.name.startswith(".")]
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() == path.name for path in found)
    return {f"sha256:{path.name}" for path in found}


def test_the_catalogue_of_the_registry_is_followed(online: RealSite, registry: Registry, tmp_path: Path) -> None:
    """By the worker's schedule, with the rights of its account; a field that the server does not know is no edit."""
    plane = online.control_plane
    kept = plane.get("upgradepath")["items"]
    plane.kubectl("delete", "upgradepath", "--all")
    plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cluster-system"}})
    (tmp_path / "ca.pem").write_text(registry.ca)
    login = {"auths": {registry.host: {"auth": b64encode(f"{USER}:{PASSWORD}".encode()).decode()}}}
    (tmp_path / "auth.json").write_text(json.dumps(login))
    online.kill("worker")
    files = {"HOPLINE_REGISTRY_CA": str(tmp_path / "ca.pem"), "HOPLINE_REGISTRY_AUTH": str(tmp_path / "auth.json")}
    try:
        online.start_worker(**settings(online, registry.host), **files)
        metadata = {"name": "bke-config", "namespace": "cluster-system"}
        data = {"otherRepo": f"{registry.host}/kubernetes"}
        plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        for edges in ([(FIRST, SECOND)], [(FIRST, SECOND), (SECOND, "v26.09")]):
            publish_catalogue(registry, edges)
            online.until(lambda edges=edges: paths(plane) == edges, "as the registry has it")
        (found,) = plane.get("upgradepath")["items"]
        rounds(online, 3)
        (later,) = plane.get("upgradepath")["items"]
        assert later["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"], "nothing is written"
    finally:
        plane.kubectl("delete", "configmap", "bke-config", "-n", "cluster-system", "--ignore-not-found")
        plane.kubectl("delete", "upgradepath", "--all")
        for one in kept:
            named = {"metadata": {"name": one["metadata"]["name"]}}
            plane.apply({key: one[key] for key in ("apiVersion", "kind", "spec")} | named)


def publish_catalogue(registry: Registry, edges: Sequence[tuple[str, str]]) -> None:
    spec = {"paths": [{"from": old, "to": new, "unheardOf": True} for old, new in edges]}
    head = {"apiVersion": "config.openfuyao.com/v1alpha1", "kind": "UpgradePath", "metadata": {"name": "published"}}
    registry.push("kubernetes/upgrade-path", "latest", titled({"paths.yaml": json.dumps({**head, "spec": spec})}))


def paths(plane: ControlPlane) -> list[tuple[str, str]]:
    found = plane.get("upgradepath")["items"]
    return [(edge["from"], edge["to"]) for one in found for edge in one["spec"]["paths"]]


def rounds(site: RealSite, count: int) -> None:
    """Until so many more rounds of the schedule have ended well."""
    query = f"TaskQueue='{site.task_queue}' AND WorkflowType='CatalogueSync' AND ExecutionStatus="

    def ended(status: str) -> int:
        counted = site.temporal("workflow", "count", "--query", f"{query}'{status}'", "-o", "json")
        return int(json.loads(counted.stdout)["count"])

    before = ended("Completed")
    site.until(lambda: ended("Completed") >= before + count, "followed again")
