"""The guide's offline section (离线场景升级操作), typed from its first line to its last.

What is published lies in one registry and on one web server; both are stopped once the package is made. The upgrade
then has the registry of the bootstrap node and nothing else: each process of ours writes down every address that it
connects to, and cannot reach another one than the two that it needs (but for Temporal, whose client is no Python).
The lines are those of our page, docs/guide.md, which has all lines of the guide.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from absent_parts import present
from artifacts import Artifact, titled
from docs.transcripts import ENGLISH, Typed, matched, parts, transcript
from example_folders import catalogue
from guide_lines import Line, OfflineLine, Person
from hopline.runtime.settings import child_environment
from hopline.sim.scenarios import EXAMPLE_CONTROLLER_IMAGE
from offline_lab import CONTAINERD, auth_file, file_server, noise, program
from real_lab import RealCluster, RealSite
from registry import programs
from registry.server import PASSWORD, USER, Registry

pytestmark = [pytest.mark.slow, pytest.mark.controlplane, pytest.mark.timeout(900)]
OLD, MIDDLE, NEW = "v26.06-rc.2", "v26.06-rc.3", "v26.06"
PUBLISHED_AT = "https://openfuyao.obs.cn-north-4.myhuaweicloud.com/openFuyao/version-config"
BOOTSTRAP_NODE = "192.0.2.10:40443"
"""Addresses in our page, which types the guide's lines; the test has others."""
NAME = f"offline-{NEW}"
CONFIG = f"VersionConfig-{NEW}.yaml"

CARRIED = 5
"""So many lines are typed before the package is carried."""
UNPACK = OfflineLine.UNPACK.with_own(NEW, BOOTSTRAP_NODE)
LOAD = OfflineLine.LOAD.with_own(NEW, BOOTSTRAP_NODE)

PROGRAMS = {
    "cluster-api-provider-bke": (MIDDLE, NEW),
    "calico-node": ("v3.30.2", "v3.30.3"),
    "coredns": ("v1.12.2", "v1.12.3"),
    "kube-proxy": ("v1.34.4-of.1", "v1.34.5-of.1"),
}
"""What the manifests of both hops run."""

ONLY_THESE = '''"""Writes down every connection of this process, and allows those to a few places only."""
import os
import sys

allowed = set(os.environ["ONLY_THESE"].split(","))


def watch(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        place = f"{arguments[1][0]}:{arguments[1][1]}"
    elif event == "socket.getaddrinfo":
        place = f"{arguments[0]}:{arguments[1]}"
    else:
        return
    with open(os.environ["CONNECTIONS"], "a") as file:
        file.write(place + "\\n")
    if place not in allowed:
        raise PermissionError(place)


sys.addaudithook(watch)
'''


@dataclass
class Walk:
    """One person, two registries, one cluster, and what was printed on the way."""

    site: RealSite
    published: Registry
    bootstrap: Registry
    folder: Path
    web: str = ""
    printed: dict[str, str] = field(default_factory=dict)

    @property
    def online(self) -> Path:
        """The folder of the machine with a network."""
        return self.folder / "online"

    @property
    def node(self) -> Path:
        """The folder of the bootstrap node, in place of its root."""
        return self.folder / "node"

    @property
    def connections(self) -> set[str]:
        """Every place that a process of ours has connected to since the network was gone."""
        return set((self.folder / "connections").read_text().split())

    def type(self, line: str, place: Path) -> None:
        """A line of the page with the test's own addresses and folders; it must succeed."""
        typed = line.replace(PUBLISHED_AT, self.web).replace(BOOTSTRAP_NODE, self.bootstrap.host)
        typed = typed.replace("/etc/openFuyao", str(self.node / "etc")).replace("/bke/mount", str(self.node / "mount"))
        homes = (Path(self.site.kubectl_program).parent, Path(sys.executable).parent)
        settings = self.site.environment | {
            "SSL_CERT_FILE": str(self.folder / "published.pem"),
            "HOPLINE_REGISTRY_AUTH": str(auth_file(self.folder, self.published, self.bootstrap)),
            "PATH": os.pathsep.join([*map(str, homes), os.environ["PATH"]]),
        }
        if place == self.node:
            settings |= self.only(self.bootstrap.host)
        done = subprocess.run(
            ["bash", "-c", typed],
            cwd=place,
            env=child_environment(settings),
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, f"{typed}\n{done.stdout}{done.stderr}"
        self.printed[line] = done.stdout.replace(self.bootstrap.host, BOOTSTRAP_NODE).replace(self.web, PUBLISHED_AT)

    def only(self, *places: str) -> dict[str, str]:
        """Variables of a process that may connect to these places."""
        hook = self.folder / "hook"
        hook.mkdir(exist_ok=True)
        (hook / "sitecustomize.py").write_text(ONLY_THESE)
        return {
            "PYTHONPATH": str(hook),
            "ONLY_THESE": ",".join(places),
            "CONNECTIONS": str(self.folder / "connections"),
        }


def lines_of_the_page() -> list[Typed]:
    return transcript(parts(ENGLISH.read_text(encoding="utf-8"))[1])


def releases(site: RealSite, version: str) -> Artifact:
    folder = site.releases / version
    return titled({path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.y*ml"))})


def publish(site: RealSite, registry: Registry, folder: Path, address: str) -> None:
    """Releases, catalogue and programs in the registry; index.yaml, VersionConfig and containerd on the web server."""
    for version in (MIDDLE, NEW):
        registry.push("openfuyao/release-image", version, releases(site, version))
    paths = titled({"paths.yaml": json.dumps(catalogue())})
    registry.push("openfuyao/upgrade-path", "latest", paths)
    listed: list[dict[str, Any]] = [{"name": "release-image", "tag": [MIDDLE, NEW]}]
    listed.append({"name": "upgrade-path", "tag": ["latest"]})
    for name, tags in PROGRAMS.items():
        listed.append({"name": name, "tag": list(tags)})
        for tag in tags:
            registry.push(f"openfuyao/{name}", tag, program(f"{name}-{tag}", shared=1))
    folder.mkdir()
    (folder / CONTAINERD).write_bytes(noise("containerd", 20_000))
    sources = [{"sourceRepo": f"{registry.host}/openfuyao", "targetRepo": "kubernetes", "images": listed}]
    config = {
        "openFuyaoVersion": NEW,
        "kubernetesVersion": "v1.34.5-of.1",
        "etcdVersion": "v3.6.8-of.1",
        "containerdVersion": "v2.1.3",
        "registry": {"architecture": ["amd64"]},
        "repos": [{"architecture": ["amd64"], "needDownload": True, "subImages": sources}],
        "files": [{"address": address, "files": [{"fileName": CONTAINERD}]}],
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=1))
    (folder / "index.yaml").write_text(f"- openFuyaoVersion: {NEW}\n  filePath: ./{CONFIG}\n")


@pytest.fixture(scope="module")
def packed(site: RealSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """制备离线包 step one to three, with a network; it is gone afterwards."""
    folder = tmp_path_factory.mktemp("offline")
    binary = present(programs.registry)
    published, bootstrap = Registry(binary), Registry(binary, keep_requests=True)
    walk = Walk(site, published, bootstrap, folder)
    for place in (walk.online, walk.node / "etc", walk.node / "mount" / "source_registry" / "files"):
        place.mkdir(parents=True)
    (folder / "published.pem").write_text(published.ca)
    prepare_management_cluster(site, bootstrap)
    with file_server(folder / "web") as address:
        publish(site, published, folder / "web", address)
        walk.web = address
        for typed in lines_of_the_page()[:CARRIED]:
            walk.type(typed.command, walk.online)
    published.stop()
    yield walk
    published.close()
    bootstrap.close()
    site.control_plane.kubectl("delete", "namespace", "openfuyao-patch", "--wait=false")
    site.control_plane.kubectl("delete", "configmap", "bke-config", "-n", "cluster-system", "--ignore-not-found")


def prepare_management_cluster(site: RealSite, bootstrap: Registry) -> None:
    """The platform is installed offline: its registry is the bootstrap node's."""
    name, _, port = bootstrap.host.partition(":")
    for namespace in ("cluster-system", "openfuyao-patch"):
        site.control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    metadata = {"name": "bke-config", "namespace": "cluster-system"}
    data = {"domain": name, "host": name, "imageRepoPort": port}
    site.control_plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


@pytest.fixture(scope="module")
def carried(packed: Walk) -> Walk:
    """离线升级步骤一: the package is on the bootstrap node, and its images are in the registry there."""
    shutil.copy(packed.online / f"{NAME}.tar.gz", packed.node / "etc")
    for typed in lines_of_the_page()[CARRIED:]:
        packed.type(typed.command, packed.node)
    return packed


@pytest.fixture(scope="module")
def upgraded(site: RealSite, carried: Walk) -> Iterator[tuple[Walk, Person]]:
    """离线升级步骤二 to 步骤五, by a worker that reads no folder of releases."""
    cluster = site.add_cluster("airgapped", (1, 1))
    site.control_plane.kubectl("delete", "upgradepath", "--all")
    connect(site, cluster, carried.bootstrap)
    (carried.folder / "bootstrap.pem").write_text(carried.bootstrap.ca)
    api_server = urlsplit(site.control_plane.server).netloc
    site.kill("worker")
    site.start_worker(
        HOPLINE_RELEASES="",
        HOPLINE_RELEASE_CACHE=str(carried.folder / "cache"),
        HOPLINE_REGISTRY_CA=str(carried.folder / "bootstrap.pem"),
        HOPLINE_REGISTRY_AUTH=str(auth_file(carried.folder, carried.bootstrap)),
        HOPLINE_CATALOGUE_INTERVAL="1",
        HOPLINE_OWN_IMAGES=f"{EXAMPLE_CONTROLLER_IMAGE},{carried.bootstrap.host}/",
        **carried.only(carried.bootstrap.host, api_server),
    )
    person = Person(site, cluster.key)
    site.until(lambda: NEW in json.dumps(site.control_plane.get("upgradepath")), "the catalogue is there")
    for line in (Line.CLUSTER, Line.PATHS, Line.PATCH):
        carried.printed[line] = person.type(line)
    site.until_ready(cluster, NEW)
    yield carried, person
    site.remove_cluster(cluster)


def connect(site: RealSite, cluster: RealCluster, registry: Registry) -> None:
    """The cluster's imageRepo is the registry of the bootstrap node, with its certificate and login."""
    name, _, port = registry.host.partition(":")

    def secret(called: str, data: dict[str, str]) -> dict[str, Any]:
        metadata = {"name": called, "namespace": cluster.key.kube_namespace}
        encoded = {key: b64encode(value.encode()).decode() for key, value in data.items()}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}

    login = {"username": USER, "password": PASSWORD}
    site.control_plane.apply(secret("registry-ca", {"ca.crt": registry.ca}), secret("registry-login", login))
    repository = {
        "domain": name,
        "ip": None,
        "port": port,
        "prefix": "kubernetes",
        "tlsSecretRef": {"name": "registry-ca"},
        "authSecretRef": {"name": "registry-login"},
    }
    body = json.dumps({"spec": {"clusterConfig": {"cluster": {"imageRepo": repository}}}})
    site.control_plane.kubectl("patch", "bkecluster", *cluster.where, "--type", "merge", "-p", body)


def test_package_step_1_and_2_the_version_config(site: RealSite, packed: Walk) -> None:
    """制备离线包步骤一、二: the file is there, and its ConfigMap and index entry are as the guide creates them."""
    written = site.control_plane.get("configmap", f"cm.{NEW}", "-n", "openfuyao-patch")
    assert written["data"] == {NEW: (packed.online / CONFIG).read_text()}
    platform = site.control_plane.get("configmap", "bke-config", "-n", "cluster-system")
    assert platform["data"][f"patch.{NEW}"] == f"cm.{NEW}"


def test_package_step_3_the_package_is_closed(packed: Walk) -> None:
    """制备离线包步骤三: the one line makes a package with everything that both hops run."""
    package = str(packed.online / f"{NAME}.tar.gz")
    done = packed.site.hopline("offline", "verify", package, "-o", "json")
    assert done.returncode == 0, done.stdout
    answer = json.loads(done.stdout)
    assert (answer["closed"], answer["missing"], answer["corrupt"]) == (True, [], [])


def test_upgrade_step_1_unpacked_loaded_and_copied(carried: Walk) -> None:
    """离线升级步骤一: the folder of that name, the registry of the bootstrap node, the binary in its place."""
    assert f"{NAME}/bundle.json" in carried.printed[UNPACK]
    assert "11 images brought" in carried.printed[LOAD]
    copied = carried.node / "mount" / "source_registry" / "files" / CONTAINERD
    assert copied.read_bytes() == noise("containerd", 20_000)


def test_upgrade_step_2_and_3_checked_and_triggered(upgraded: tuple[Walk, Person]) -> None:
    """离线升级步骤二、三: as online; the catalogue came from the package."""
    walk, _ = upgraded
    assert "Healthy" in walk.printed[Line.CLUSTER]
    assert MIDDLE in walk.printed[Line.PATHS]
    assert walk.printed[Line.PATCH] == "clusterversion.config.openfuyao.com/airgapped patched\n"


def test_upgrade_step_4_and_5_both_hops_are_done(site: RealSite, upgraded: tuple[Walk, Person]) -> None:
    """离线升级步骤四、五: both hops, with releases from the registry of the bootstrap node."""
    _, person = upgraded
    assert person.type(Line.CURRENT_VERSION) == NEW
    assert (person.type(Line.PHASE), person.type(Line.HEALTH)) == ("Ready", "Healthy")
    version = json.loads(
        site.control_plane.kubectl("get", "clusterversion", "airgapped", "-n", "airgapped", "-o", "json")
    )
    assert [(hop["from"], hop["to"]) for hop in version["status"]["upgradeHistory"]] == [(OLD, MIDDLE), (MIDDLE, NEW)]
    images = site.control_plane.get("releaseimage", "-n", "airgapped")["items"]
    assert {(one["spec"]["version"], one["status"]["phase"], one["status"]["source"]) for one in images} == {
        (MIDDLE, "Valid", "OCI"),
        (NEW, "Valid", "OCI"),
    }
    assert not [one for one in images if one["status"].get("cacheFallback")]


def test_the_page_shows_what_is_printed(carried: Walk) -> None:
    wrong = []
    for typed in lines_of_the_page():
        printed = [line.rstrip() for line in carried.printed[typed.command].splitlines()]
        if matched(typed.shown, printed) is None:
            wrong.append("\n".join([f"$ {typed.command}", *printed]))
    assert not wrong, "\n\n".join(wrong)


def test_nothing_else_was_asked(site: RealSite, upgraded: tuple[Walk, Person]) -> None:
    """管理集群正常运行且是离线环境: no process of ours has connected to anything but the two places that it needs."""
    walk, _ = upgraded
    api_server = urlsplit(site.control_plane.server).netloc
    assert walk.connections == {walk.bootstrap.host, api_server}
