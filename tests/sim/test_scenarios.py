"""What a simulation starts with: the example cluster as it was installed, or any graph of components."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopline.domain.cluster import cluster_facts
from hopline.domain.errors import ClusterNotReady, InvalidInput
from hopline.domain.observation import Presence
from hopline.domain.release import Release
from hopline.domain.resources import (
    BKE_CLUSTER,
    BKE_NODE,
    CLUSTER_VERSION,
    CONFIG_MAP,
    DEPLOYMENT,
    NODE,
    POD,
    SECRET,
    UPGRADE_PATH,
    ObjectRef,
)
from hopline.domain.wire import ClusterKey
from hopline.operations.manifests import look, render_documents
from hopline.sim.clusters import open_simulation
from hopline.sim.releases import (
    CLUSTER,
    COMPONENT_NAMESPACE,
    OBSERVED_GRAPH,
    layered,
    small_components,
    write_examples,
)
from hopline.sim.scenarios import Durations, create_scenario, read_release

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"


def release(version: str) -> Release:
    return read_release(EXAMPLES / "releases" / version, version)


async def test_the_management_cluster_holds_the_examples_with_their_status(world) -> None:
    client = world.management
    cluster = await client.get(world.ref(BKE_CLUSTER, "east"))
    assert cluster["status"]["clusterHealthState"] == "Healthy"
    assert (await client.get(world.ref(CLUSTER_VERSION, "east")))["status"]["phase"] == "Ready"
    assert len((await client.list(BKE_NODE, kube_namespace="east")).items) == 8
    assert len((await client.list(UPGRADE_PATH)).items) == 1
    assert (await client.get(world.ref(SECRET, "east-kubeconfig")))["data"]["value"]
    assert world.clusters.journal() == []


async def test_the_target_shows_the_versions_that_are_recorded(world) -> None:
    client = await world.target()
    nodes = (await client.list(NODE)).items
    assert {node["metadata"]["name"] for node in nodes} == {"m1", "m2", "m3", "w1", "w2", "w3", "w4", "w5"}
    infos = [node["status"]["nodeInfo"] for node in nodes]
    assert {info["kubeletVersion"] for info in infos} == {"v1.34.3-of.1"}
    assert {info["containerRuntimeVersion"] for info in infos} == {"containerd://2.1.1"}
    pods = (await client.list(POD, kube_namespace="kube-system", labels="tier=control-plane")).items
    assert len(pods) == 12
    etcd = next(pod for pod in pods if pod["metadata"]["name"] == "etcd-m1")
    assert etcd["spec"]["containers"][0]["image"] == "registry.example.test:40443/kubernetes/etcd:3.6.7-of.1"
    assert set(world.clusters.agent_versions(world.key).values()) == {"v1.0.1"}


@pytest.mark.parametrize("name", ["provider", "kube-proxy", "coredns", "calico"])
async def test_the_current_release_is_there_and_the_next_one_is_not(world, name: str) -> None:
    management, target = world.management, await world.target()
    nodes = (await management.list(BKE_NODE, kube_namespace="east")).items
    cluster = await management.get(world.ref(BKE_CLUSTER, "east"))
    facts = cluster_facts(cluster, None, nodes)
    seen = {}
    for version in ("v26.06-rc.2", "v26.06-rc.3"):
        bundle = release(version)
        component = next(one for one in bundle.components if one.name == name)
        seen[version] = (await look(target, await render_documents(bundle, component, facts))).presence
    assert seen == {"v26.06-rc.2": Presence.PRESENT, "v26.06-rc.3": Presence.ABSENT}


async def test_target_and_management_are_two_servers(world) -> None:
    target = await world.target()
    assert await target.identity() != await world.management.identity()


async def test_a_self_managed_cluster_is_its_own_target(tmp_path: Path) -> None:
    key = create_scenario(tmp_path / "s.db", examples=EXAMPLES, self_managed=True)
    clusters = open_simulation(tmp_path / "s.db")
    target = await clusters.target(key)
    assert await target.identity() == await clusters.management.identity()
    assert len((await clusters.management.list(NODE)).items) == 8
    await clusters.aclose()


async def test_a_cluster_without_a_kubeconfig_is_not_ready(world) -> None:
    secret = world.ref(SECRET, "east-kubeconfig")
    await world.management.patch(secret, {"data": None})
    with pytest.raises(ClusterNotReady, match="leads to no API server"):
        await world.target()
    await world.management.delete(secret)
    with pytest.raises(ClusterNotReady, match="Secret east/east-kubeconfig"):
        await world.target()
    with pytest.raises(ClusterNotReady):
        await world.clusters.target(ClusterKey(kube_namespace="east", name="west"))


async def test_any_number_of_nodes(tmp_path: Path) -> None:
    key = create_scenario(tmp_path / "s.db", examples=EXAMPLES, nodes=(1, 299))
    clusters = open_simulation(tmp_path / "s.db")
    nodes = (await clusters.management.list(BKE_NODE)).items
    assert len({node["spec"]["ip"] for node in nodes}) == 300
    cluster = await clusters.management.get(ObjectRef(kind=BKE_CLUSTER, name="east", kube_namespace="east"))
    facts = cluster_facts(cluster, None, nodes)
    assert sum(node.is_control_plane for node in facts.nodes) == 1
    assert len((await (await clusters.target(key)).list(NODE)).items) == 300
    await clusters.aclose()


async def test_durations_count_after_the_seeding(tmp_path: Path) -> None:
    durations = Durations(rollout=600.0, command=5.0)
    key = create_scenario(tmp_path / "s.db", examples=EXAMPLES, durations=durations)
    clusters = open_simulation(tmp_path / "s.db")
    target = await clusters.target(key)
    coredns = ObjectRef(kind=DEPLOYMENT, name="coredns", kube_namespace="kube-system")
    assert (await target.get(coredns))["status"]["updatedReplicas"] == 2
    container = {"name": "coredns", "image": "coredns:new"}
    body = {"spec": {"template": {"spec": {"containers": [container]}}}}
    await target.patch(coredns, body)
    assert "updatedReplicas" not in (await target.get(coredns))["status"]
    await clusters.aclose()


def test_a_file_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_text("mine")
    with pytest.raises(InvalidInput, match=r"s\.db"):
        create_scenario(tmp_path / "s.db", examples=EXAMPLES)
    assert (tmp_path / "s.db").read_text() == "mine"


def test_a_folder_without_examples(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"upgrade-paths\.yaml"):
        create_scenario(tmp_path / "s.db", examples=tmp_path)
    assert not (tmp_path / "s.db").exists()


async def test_small_components_make_a_scenario(tmp_path: Path) -> None:
    versions = ["v26.06-rc.1", "v26.06-rc.2", "v26.06"]
    components = [*small_components(OBSERVED_GRAPH), *small_components({"web": ()}, roll_out=True)]
    folder = write_examples(tmp_path / "examples", versions, components)
    key = create_scenario(tmp_path / "s.db", examples=folder, nodes=(1, 2))
    assert key == CLUSTER
    clusters = open_simulation(tmp_path / "s.db")
    target = await clusters.target(key)
    config = ObjectRef(kind=CONFIG_MAP, name="pre", kube_namespace=COMPONENT_NAMESPACE)
    assert (await target.get(config))["data"] == {"version": "v26.06-rc.1"}
    web = ObjectRef(kind=DEPLOYMENT, name="web", kube_namespace=COMPONENT_NAMESPACE)
    assert (await target.get(web))["status"]["readyReplicas"] == 1
    await clusters.aclose()
    for version in versions:
        bundle = read_release(folder / "releases" / version, version)
        assert [ref.name for ref in bundle.upgrade] == [component.name for component in components]


@pytest.mark.parametrize(("count", "width"), [(10, 3), (60, 8), (4, 1), (5, 10)])
def test_layers(count: int, width: int) -> None:
    graph = layered(count, width)
    assert len(graph) == count
    names = list(graph)
    for index, (name, needs) in enumerate(graph.items()):
        layer = index // width
        assert list(needs) == names[max(0, layer - 1) * width : layer * width], name
