"""The examples agree with themselves, with the documented sample graph, and with a real API server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.control_plane import ControlPlane

EXAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "examples"
RELEASES = ("v26.06-rc.2", "v26.06-rc.3", "v26.06")
BATCHES = [
    ["provider"],
    ["bkeagent"],
    ["containerd"],
    ["etcd"],
    ["kubernetes-master", "kubernetes-worker"],
    ["calico", "coredns", "kube-proxy"],
]
HANDLERS = {
    "bkeagent": "EnsureAgentUpgrade",
    "containerd": "EnsureContainerdUpgrade",
    "etcd": "EnsureEtcdUpgrade",
    "kubernetes-master": "EnsureMasterUpgrade",
    "kubernetes-worker": "EnsureWorkerUpgrade",
}
VARIABLES = {"repo": "registry.example.test/kubernetes/", "podSubnet": "10.250.0.0/16", "dnsDomain": "cluster.local"}
Object = dict[str, Any]


def documents(path: Path) -> list[Object]:
    """The documents of a file; template variables, which the examples use only plainly, have their values."""
    text = re.sub(r"{{ \.(\w+) }}", lambda match: VARIABLES[match[1]], path.read_text())
    return [document for document in yaml.safe_load_all(text) if document]


def components(version: str) -> dict[str, Object]:
    """The ComponentVersion of each component that the release's upgrade lists, by name."""
    (release,) = documents(EXAMPLES / "releases" / version / "release.yaml")
    found: dict[str, Object] = {}
    for listed in release["spec"]["upgrade"]["components"]:
        folder = EXAMPLES / "releases" / version / "components" / listed["name"] / listed["version"]
        (found[listed["name"]],) = documents(folder / "component.yaml")
    return found


def manifests(version: str) -> Iterator[Object]:
    """Every object that a release's manifest components apply."""
    for path in sorted((EXAMPLES / "releases" / version / "components").rglob("*.yaml")):
        if path.name != "component.yaml":
            yield from documents(path)


@pytest.mark.parametrize("version", RELEASES)
def test_a_release_lists_exactly_the_components_of_its_bundle(version: str) -> None:
    base = EXAMPLES / "releases" / version
    (release,) = documents(base / "release.yaml")
    assert (release["kind"], release["spec"]["version"]) == ("ReleaseImage", version)
    upgrade = release["spec"]["upgrade"]["components"]
    assert [{key: item[key] for key in ("name", "version")} for item in upgrade] == release["spec"]["install"][
        "components"
    ]
    listed = {(item["name"], item["version"]) for item in upgrade}
    assert len(listed) == len(upgrade)
    assert {tuple(path.parts[-3:-1]) for path in base.rglob("component.yaml")} == listed
    for item in upgrade:
        component = components(version)[item["name"]]["spec"]
        assert (component["name"], component["version"]) == (item["name"], item["version"])
        assert component.get("inline") == item.get("inline")


@pytest.mark.parametrize("version", RELEASES)
def test_the_dependencies_make_the_six_documented_batches(version: str) -> None:
    known = components(version)
    graph = {
        name: [dependency["name"] for dependency in component["spec"].get("dependencies", [])]
        for name, component in known.items()
    }
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    batches = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        sorter.done(*ready)
        batches.append(ready)
    assert batches == BATCHES
    assert {
        name: item["spec"]["inline"]["handler"] for name, item in known.items() if "inline" in item["spec"]
    } == HANDLERS


@pytest.mark.parametrize("version", RELEASES)
def test_manifests_carry_their_component_version_and_only_known_template_variables(version: str) -> None:
    wanted = {name: item["spec"]["version"] for name, item in components(version).items()}
    images = {
        container["name"]: container["image"]
        for item in manifests(version)
        for container in item.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])
    }
    repo = VARIABLES["repo"]
    assert images == {
        "manager": f"{repo}cluster-api-provider-bke:{wanted['provider']}",
        "kube-proxy": f"{repo}kube-proxy:{wanted['kube-proxy']}",
        "coredns": f"{repo}coredns:{wanted['coredns']}",
        "calico-node": f"{repo}calico-node:{wanted['calico']}",
    }


def test_the_catalogue_leads_over_rc_3_and_blocks_the_short_cut() -> None:
    (catalogue,) = documents(EXAMPLES / "upgrade-paths.yaml")
    assert catalogue["metadata"]["name"] == "openfuyao-upgrade-paths"
    edges = {(edge["from"], edge["to"]): edge for edge in catalogue["spec"]["paths"]}
    assert list(edges) == [(RELEASES[0], RELEASES[1]), (RELEASES[1], RELEASES[2]), (RELEASES[0], RELEASES[2])]
    short_cut = edges[RELEASES[0], RELEASES[2]]
    assert short_cut["blocked"] and short_cut["notes"]
    assert {version["version"] for version in catalogue["spec"]["versions"]} == set(RELEASES)


def test_the_cluster_stands_at_the_first_release_with_three_masters_and_five_workers() -> None:
    cluster, version, *nodes = documents(EXAMPLES / "cluster.yaml")
    at = {name: component["spec"]["version"] for name, component in components(RELEASES[0]).items()}
    status = cluster["status"]
    assert (cluster["kind"], version["kind"]) == ("BKECluster", "ClusterVersion")
    assert (
        status["openFuyaoVersion"]
        == version["status"]["currentVersion"]
        == version["spec"]["desiredVersion"]
        == RELEASES[0]
    )
    assert (status["kubernetesVersion"], status["etcdVersion"], status["containerdVersion"]) == (
        at["kubernetes-master"],
        at["etcd"],
        at["containerd"],
    )
    assert {addon["name"]: addon["version"] for addon in status["addonStatus"]} == {
        name: at[name] for name in ("bkeagent", "kube-proxy", "coredns", "calico")
    }
    assert [(node["spec"]["role"], node["status"]["stateCode"]) for node in nodes] == [
        (["master", "etcd"], 575)
    ] * 3 + [(["node"], 527)] * 5
    for node in nodes:
        assert node["metadata"]["name"] == f"east-{node['spec']['ip'].replace('.', '-')}"
        assert node["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "east"}


@pytest.mark.parametrize("version", RELEASES)
def test_a_real_api_server_accepts_every_object_of_a_release(control_plane: ControlPlane, version: str) -> None:
    objects = list(manifests(version))
    assert {item["kind"] for item in objects} >= {"Deployment", "DaemonSet", "ConfigMap", "Service", "ClusterRole"}
    bundle = [*documents(EXAMPLES / "releases" / version / "release.yaml"), *components(version).values()]
    for item in objects:
        if item["metadata"].get("namespace") == "cluster-system":  # made by the platform's installer
            item["metadata"]["namespace"] = "default"
    dry_run(control_plane, [*objects, *bundle])


def test_a_real_api_server_accepts_the_catalogue_and_the_cluster(control_plane: ControlPlane) -> None:
    objects = documents(EXAMPLES / "cluster.yaml")
    for item in objects:
        item["metadata"]["namespace"] = "default"
    dry_run(control_plane, [*documents(EXAMPLES / "upgrade-paths.yaml"), *objects])


def dry_run(control_plane: ControlPlane, objects: list[Object]) -> None:
    """Server-side apply of the objects, with strict field validation, that changes nothing."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    arguments = ("--server-side", "--field-manager=bke", "--dry-run=server", "--validate=strict", "-f", "-")
    answer = control_plane.kubectl("apply", *arguments, stdin=text)
    assert answer.count("serverside-applied (server dry run)") == len(objects)
