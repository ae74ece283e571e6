"""The documented template variables, and the differences to the existing controller."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders_domain import component, node, release, sample_nodes
from hopline.domain.cluster import ClusterFacts, cluster_facts
from hopline.domain.errors import InvalidRelease
from hopline.domain.template_variables import PLACES, variables

CALICO = component("calico", "v3.30.2")
RELEASE = release(
    "v26.06",
    CALICO,
    component("etcd", "v3.6.8-of.1"),
    component("containerd", "v2.1.3"),
    component("kubernetes-master", "v1.34.5-of.1"),
)

CLUSTER: dict[str, Any] = {
    "openFuyaoVersion": "v26.06-rc.3",
    "kubernetesVersion": "v1.34.3-of.1",
    "etcdVersion": "v3.6.7-of.1",
    "containerdVersion": "v2.1.1",
    "agentHealthPort": "58080",
    "ntpServer": "192.0.2.5:123",
    "networking": {"dnsDomain": "corp.local", "podSubnet": "10.1.0.0/16", "serviceSubnet": "10.2.0.0/16"},
    "imageRepo": {"domain": "registry.example.test", "ip": "192.0.2.5", "port": "40443", "prefix": "kubernetes"},
    "httpRepo": {"domain": "files.example.test", "ip": "192.0.2.6", "port": "40080", "prefix": "p"},
    "kubelet": {"extraVolumes": [{"name": "kubelet-root-dir", "hostPath": "/data/kubelet"}]},
}


def facts(
    cluster: dict[str, Any] | None = None, nodes: list[dict[str, Any]] | None = None, **config: Any
) -> ClusterFacts:
    spec = {
        "controlPlaneEndpoint": {"host": "192.0.2.10", "port": 6443},
        "clusterConfig": {"cluster": CLUSTER if cluster is None else cluster, **config},
    }
    document = {"kind": "BKECluster", "metadata": {"namespace": "east", "name": "east"}, "spec": spec}
    return cluster_facts(document, None, sample_nodes() if nodes is None else nodes)


def test_every_documented_variable_has_its_value() -> None:
    found = variables(facts(customExtra={"nfsServer": "n", "nfsRootDir": "/r", "nfsVersion": "4"}), RELEASE, CALICO)
    etcd = [entry["spec"]["ip"] for entry in sample_nodes()[:3]]
    assert found == {
        "repo": "registry.example.test:40443/kubernetes/",
        "imageRepo": "registry.example.test:40443",
        "imageRepoDomain": "registry.example.test",
        "imageRepoPort": "40443",
        "imageRepoIp": "192.0.2.5",
        "imageRepoPrefix": "kubernetes",
        "httpRepo": "http://files.example.test:40080",
        "httpRepoDomain": "files.example.test",
        "httpRepoPort": "40080",
        "httpRepoIp": "192.0.2.6",
        "httpRepoPrefix": "p",
        "ntpServer": "192.0.2.5:123",
        "agentHealthPort": "58080",
        "nfsServer": "n",
        "nfsRootDir": "/r",
        "nfsVersion": "4",
        "namespace": "east",
        "podSubnet": "10.1.0.0/16",
        "serviceSubnet": "10.2.0.0/16",
        "dnsDomain": "corp.local",
        "dnsIP": "10.2.0.10",
        "apiServerSrcHost": "192.0.2.10",
        "apiServerSrcPort": 6443,
        "etcdEndpoints": ",".join(f"https://{ip}:2379" for ip in etcd),
        "etcdIps": ",".join(etcd),
        "masterReplicas": "3",
        "workerReplicas": "5",
        "replicas": 1,
        "ingressReplicas": 1,
        "kubeletDataRoot": "/data/kubelet",
        "dockerDataRoot": "/var/lib/docker",
        "k8sVersion": "v1.34.5-of.1",
        "etcdVersion": "v3.6.8-of.1",
        "containerdVersion": "v2.1.3",
        "kubeConfigDir": "/etc/kubernetes",
        "ipModVersion": "ipv4",
        "product": "boc",
        "version": "v3.30.2",
    }


def test_an_empty_cluster_has_defaults_and_leaves_the_rest_out() -> None:
    found = variables(facts({}, []), release("v1.0", CALICO), CALICO)
    assert found["podSubnet"] == "10.250.0.0/16"
    assert (found["serviceSubnet"], found["dnsIP"], found["dnsDomain"]) == (
        "10.96.0.0/16",
        "10.96.0.10",
        "cluster.local",
    )
    assert found["masterReplicas"] == "0"
    assert not {"imageRepo", "httpRepo", "k8sVersion", "ntpServer", "nfsServer", "etcdEndpoints"} & set(found)


def test_repo_is_empty_without_a_prefix_and_absent_without_an_address() -> None:
    no_prefix = {**CLUSTER, "imageRepo": {"domain": "r", "port": "1"}}
    assert variables(facts(no_prefix), RELEASE, CALICO)["repo"] == ""
    no_address = {**CLUSTER, "imageRepo": {"prefix": "kubernetes"}}
    assert "repo" not in variables(facts(no_address), RELEASE, CALICO)


@pytest.mark.parametrize(
    ("repository", "address"),
    [
        ({"domain": "r", "ip": "192.0.2.5", "prefix": "k"}, "r/k/"),
        ({"ip": "192.0.2.5", "port": "443", "prefix": "k"}, "192.0.2.5:443/k/"),
        ({"domain": "r", "prefix": "/k/"}, "r/k/"),
    ],
)
def test_repo_never_starts_with_a_separator(repository: dict[str, str], address: str) -> None:
    assert variables(facts({**CLUSTER, "imageRepo": repository}), RELEASE, CALICO)["repo"] == address


def test_versions_are_those_of_the_release_before_those_of_the_cluster() -> None:
    found = variables(facts(), release("v26.06", CALICO, component("etcd", "v3.6.8")), CALICO)
    assert found["etcdVersion"] == "v3.6.8"
    assert found["k8sVersion"] == "v1.34.3-of.1"


def test_parameters_of_the_own_addon_win_and_may_belong_to_one_file() -> None:
    addons = [
        {"name": "calico", "param": {"calicoMode": "bgp", "podSubnet": "10.9.0.0/16", "02-daemonset.mtu": "1400"}},
        {"name": "coredns", "param": {"foreign": "x"}},
    ]
    here = variables(facts(addons=addons), RELEASE, CALICO, "components/calico/v3.30.2/02-daemonset.yaml")
    there = variables(facts(addons=addons), RELEASE, CALICO, "components/calico/v3.30.2/01-rbac.yaml")
    assert (here["calicoMode"], here["podSubnet"], here["mtu"]) == ("bgp", "10.9.0.0/16", "1400")
    assert here["clusterNetworkMode"] == "calico"
    assert "mtu" not in there
    assert "foreign" not in here


def test_ingress_replicas_count_the_nodes_of_the_load_balancer_addon() -> None:
    addons = [{"name": "beyondELB", "param": {"lbNodes": "a,b,c"}}]
    assert variables(facts(addons=addons), RELEASE, CALICO)["ingressReplicas"] == 3


def test_a_node_with_both_roles_counts_in_both() -> None:
    found = variables(facts(nodes=[node("m1", "master", "node"), node("w1", "node")]), RELEASE, CALICO)
    assert (found["masterReplicas"], found["workerReplicas"]) == ("1", "2")


@pytest.mark.parametrize("subnet", ["nonsense", "10.96.0.0/30"])
def test_a_service_subnet_without_a_tenth_address_is_refused(subnet: str) -> None:
    with pytest.raises(InvalidRelease) as caught:
        variables(facts({**CLUSTER, "networking": {"serviceSubnet": subnet}}), RELEASE, CALICO)
    assert caught.value.field == "spec.clusterConfig.cluster.networking.serviceSubnet"
    assert caught.value.value == subnet


def test_ipv6_service_subnets_have_a_dns_address() -> None:
    cluster = {**CLUSTER, "networking": {"serviceSubnet": "fd00:10:96::/112"}}
    assert variables(facts(cluster), RELEASE, CALICO)["dnsIP"] == "fd00:10:96::a"


def test_every_variable_that_can_be_missing_names_its_field() -> None:
    full = variables(facts(customExtra={"nfsServer": "n", "nfsRootDir": "r", "nfsVersion": "4"}), RELEASE, CALICO)
    bare = variables(facts({}), release("v1.0", CALICO), CALICO)
    assert set(full) - set(bare) <= set(PLACES)


@given(
    st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.none() | st.lists(st.text(max_size=3), max_size=2))
)
def test_odd_clusters_give_variables_or_a_refusal(cluster: dict[str, Any]) -> None:
    assert variables(facts(cluster), RELEASE, CALICO)["version"] == "v3.30.2"
