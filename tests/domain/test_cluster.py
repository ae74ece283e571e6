"""Reading BKECluster, ClusterVersion and BKENodes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hopline.domain.cluster import cluster_facts, node_facts

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def bke(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "east", "namespace": "east", "uid": "u1", "annotations": {"a": "b"}},
        "spec": {"clusterConfig": {"cluster": {"openFuyaoVersion": "v1", "kubernetesVersion": "v1.34.3-of.1"}}},
        "status": status,
    }


def test_current_version_is_the_cluster_versions_then_the_status_then_the_spec() -> None:
    wish = {"metadata": {"generation": 3}, "spec": {"desiredVersion": "v3"}, "status": {"currentVersion": "v2"}}
    assert cluster_facts(bke(openFuyaoVersion="v0"), wish, []).current_version == "v2"
    assert cluster_facts(bke(openFuyaoVersion="v0"), None, []).current_version == "v0"
    assert cluster_facts(bke(), None, []).current_version == "v1"
    assert cluster_facts(bke(), wish, []).generation == 3


def test_nodes_come_in_one_order_whatever_the_list_says() -> None:
    nodes = [{"metadata": {"name": name}, "spec": {"ip": "192.0.2.1"}} for name in ("c", "a", "b")]
    assert [node.name for node in cluster_facts(bke(), None, nodes).nodes] == ["a", "b", "c"]


def test_a_node_with_both_roles_belongs_to_the_control_plane_only() -> None:
    both = node_facts({"metadata": {"name": "m"}, "spec": {"ip": "192.0.2.1", "role": ["master", "node"]}})
    assert both.is_control_plane
    assert not both.is_worker


@given(JSON, JSON, JSON)
def test_objects_of_any_shape_are_read_without_an_exception(spec: Any, status: Any, role: Any) -> None:
    node = {"metadata": {"name": "n"}, "spec": {"ip": "192.0.2.1", "role": role}, "status": {"stateCode": status}}
    document = {"metadata": {"name": "east", "namespace": "east"}, "spec": spec, "status": status}
    assert cluster_facts(document, {"spec": spec, "status": status}, [node]).key.name == "east"
