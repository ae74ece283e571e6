"""What follows from names and handlers."""

from __future__ import annotations

import pytest

from builders_domain import component, node, release, sample_facts, sample_release
from hopline.domain.cluster import cluster_facts
from hopline.domain.components import (
    HANDLERS,
    expected_seconds,
    gates_of,
    handler_of,
    inline_of,
    pool_nodes,
    pools_of,
    record_version,
    recorded_version,
    release_versions,
    target_fields,
    timeout_seconds,
    type_of,
)
from hopline.domain.plan import ComponentType, Pool
from hopline.domain.release import ComponentRef, InlineHandler, InlineRef, UpgradeStrategy

ETCD = ComponentRef(name="etcd", version="v3.6.8-of.1")


def test_every_handler_is_described() -> None:
    assert set(HANDLERS) == set(InlineHandler)
    assert all(bool(facts.pools) == (facts.seconds_per_node > 0) for facts in HANDLERS.values())


def test_release_entry_wins_over_component_version() -> None:
    own = ETCD.model_copy(update={"inline": InlineRef(handler="EnsureEtcdUpgrade", version="v2.0.0")})
    assert record_version(own, inline_of(own, component("etcd"))) == "v2.0.0"
    assert record_version(ETCD, inline_of(ETCD, component("etcd"))) == "v1.0.0"


def test_record_version_is_the_component_version_for_manifests_and_never_empty() -> None:
    assert record_version(ComponentRef(name="coredns", version="v1.12.3"), None) == "v1.12.3"
    assert record_version(ComponentRef(name="coredns"), None) == "v1.0.0"
    assert record_version(ETCD, InlineRef(handler="EnsureEtcdUpgrade")) == "v1.0.0"


@pytest.mark.parametrize(
    ("name", "kind", "pools"),
    [
        ("pre-upgrade-resources", ComponentType.RESOURCES, ()),
        ("bkeagent", ComponentType.AGENT, (Pool.CONTROL_PLANE, Pool.WORKERS)),
        ("containerd", ComponentType.NODE, (Pool.CONTROL_PLANE, Pool.WORKERS)),
        ("etcd", ComponentType.NODE, (Pool.CONTROL_PLANE,)),
        ("kubernetes-master", ComponentType.NODE, (Pool.CONTROL_PLANE,)),
        ("kubernetes-worker", ComponentType.NODE, (Pool.WORKERS,)),
        ("coredns", ComponentType.MANIFEST, ()),
    ],
)
def test_road_and_pools(name: str, kind: ComponentType, pools: tuple[Pool, ...]) -> None:
    ref, version = ComponentRef(name=name, version="v1"), component(name)
    assert type_of(ref, version) is kind
    assert pools_of(handler_of(inline_of(ref, version))) == pools


@pytest.mark.parametrize("declared", ["helm", "binary", "inline", "YAML"])
def test_unknown_types_have_no_road(declared: str) -> None:
    assert type_of(ComponentRef(name="x"), component("x", type=declared)) is ComponentType.UNKNOWN


@pytest.mark.parametrize(
    ("kind", "text", "seconds"),
    [
        (ComponentType.MANIFEST, "", 900),
        (ComponentType.RESOURCES, "", 900),
        (ComponentType.NODE, "", 2400),
        (ComponentType.AGENT, "", 2400),
        (ComponentType.NODE, "1h", 3600),
        (ComponentType.MANIFEST, "1ms", 1),
    ],
)
def test_timeouts(kind: ComponentType, text: str, seconds: int) -> None:
    assert timeout_seconds(kind, UpgradeStrategy(timeout=text)) == seconds


def test_pool_nodes_follow_the_roles() -> None:
    nodes = sample_facts(nodes=[node("both", "master/node"), node("e", "etcd"), node("m", "master"), node("w", "node")])
    names = {
        (pool, handler): [one.hostname for one in pool_nodes(nodes.nodes, pool, handler)]
        for pool in (Pool.CONTROL_PLANE, Pool.WORKERS)
        for handler in (InlineHandler.CONTAINERD, InlineHandler.ETCD, InlineHandler.MASTER)
    }
    assert names[Pool.CONTROL_PLANE, InlineHandler.CONTAINERD] == ["both", "e", "m"]
    assert names[Pool.CONTROL_PLANE, InlineHandler.ETCD] == ["e"]
    assert names[Pool.CONTROL_PLANE, InlineHandler.MASTER] == ["both", "m"]
    assert names[Pool.WORKERS, InlineHandler.CONTAINERD] == ["w"]


def test_expected_seconds_count_nodes() -> None:
    nodes = sample_facts().nodes
    assert expected_seconds("containerd", InlineHandler.CONTAINERD, nodes) == 8 * 60
    assert expected_seconds("etcd", InlineHandler.ETCD, nodes) == 3 * 90
    assert expected_seconds("containerd", InlineHandler.CONTAINERD, ()) == 2 * 60
    assert expected_seconds("provider", None, nodes) == 120
    assert expected_seconds("coredns", None, nodes) == 60


def test_gates_lead_from_workers_to_masters() -> None:
    handlers = {"kubernetes-worker": "EnsureWorkerUpgrade", "kubernetes-master": "EnsureMasterUpgrade", "coredns": ""}
    assert gates_of(handlers) == (("kubernetes-worker", "kubernetes-master"),)
    assert gates_of({"kubernetes-worker": "EnsureWorkerUpgrade"}) == ()


def test_release_versions_upgrade_overrides_install_and_blanks_are_ignored() -> None:
    built = release("v1", upgrade=[("etcd", "v2"), (" ", "v9")], install=[("etcd", "v1"), ("ntp", "v4"), ("dns", " ")])
    assert release_versions(built) == {"etcd": "v2", "ntp": "v4"}


def test_targets_are_those_of_the_release() -> None:
    assert target_fields("v26.06", release_versions(sample_release("v26.06"))) == {
        "openFuyaoVersion": "v26.06",
        "kubernetesVersion": "v1.34.5-of.1",
        "etcdVersion": "v3.6.8-of.1",
        "containerdVersion": "v2.1.3",
    }
    assert target_fields("v2", {"kubernetes": "v1.30.1"}) == {"openFuyaoVersion": "v2", "kubernetesVersion": "v1.30.1"}


def test_recorded_version_prefers_the_current_release() -> None:
    facts = sample_facts("v26.06-rc.2")
    assert recorded_version("etcd", facts, sample_release("v26.06")) == "v3.6.8-of.1"
    assert recorded_version("etcd", facts, None) == "v3.6.7-of.1"
    assert recorded_version("kubernetes-worker", facts, None) == "v1.34.3-of.1"
    assert recorded_version("calico", facts, None) == "v3.30.1"
    assert recorded_version("provider", facts, None) == ""


def test_recorded_version_reads_lifecycle_entries_and_old_names_but_never_completed() -> None:
    status = {
        "clusterComponentStatuses": {"calico": {"currentVersion": "v3"}},
        "addonStatus": [{"name": "bkeagent-upgrade", "version": "v0.9"}, "nonsense"],
        "declarativeUpgrade": {"completed": [{"name": "coredns", "version": "v1.12.1"}]},
    }
    spec = {"clusterConfig": {"cluster": {"etcdVersion": "v3.5.0"}}}
    facts = cluster_facts({"metadata": {"name": "c"}, "spec": spec, "status": status}, None, [])
    assert recorded_version("calico", facts, None) == "v3"
    assert recorded_version("bkeagent", facts, None) == "v0.9"
    assert recorded_version("coredns", facts, None) == ""
    assert recorded_version("etcd", facts, None) == "v3.5.0", "status is silent, so spec speaks"
