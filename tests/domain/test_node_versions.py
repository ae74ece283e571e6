"""What nodes show, compared with what a hop wants (openfuyao-nodes.md §2.3 to §2.6, §2.9)."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.cluster import NodeFacts
from hopline.domain.node_versions import NodeView, gate, image_tag, is_same_version, sight_node
from hopline.domain.release import InlineHandler

ETCD, MASTER, WORKER = InlineHandler.ETCD.value, InlineHandler.MASTER.value, InlineHandler.WORKER.value
CONTAINERD, AGENT = InlineHandler.CONTAINERD.value, InlineHandler.AGENT.value
M1 = NodeFacts(name="east-1", ip="10.0.0.1", hostname="m1", roles=("master", "etcd"), state="Ready")
W1 = NodeFacts(name="east-2", ip="10.0.0.2", hostname="w1", roles=("node",), state="Ready")
KUBE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def core(name: str, kubelet: str = "v1.34.4-of.1", runtime: str = "containerd://2.1.2", ready: str = "True") -> Any:
    return {
        "metadata": {"name": name},
        "status": {
            "nodeInfo": {"kubeletVersion": kubelet, "containerRuntimeVersion": runtime},
            "conditions": [{"type": "Ready", "status": ready, "message": "kubelet is posting ready status"}],
        },
    }


def pod(component: str, tag: str, *, ready: bool = True, image: str = "") -> dict[str, Any]:
    image = image or f"registry.test:5000/kubernetes/{component}:{tag}"
    return {
        "metadata": {"name": f"{component}-m1"},
        "spec": {"containers": [{"name": "sidecar", "image": "other:9"}, {"name": component, "image": image}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def view(**tags: str) -> NodeView:
    pods = {f"{c}-m1": pod(c, tags.get(c.replace("-", "_"), "1.34.4-of.1")) for c in KUBE}
    pods["etcd-m1"] = pod("etcd", tags.get("etcd", "3.6.8-of.1"))
    return NodeView(node=core("m1", tags.get("kubelet", "v1.34.4-of.1")), pods=pods)


def test_a_control_plane_node_is_at_the_target_when_every_place_shows_it() -> None:
    seen = sight_node(MASTER, "v1.34.4-of.1", M1, view())
    assert (seen.at_target, seen.settled) == (True, True)
    late = sight_node(MASTER, "v1.34.4-of.1", M1, view(kube_scheduler="1.34.3-of.1"))
    assert (late.at_target, late.seen) == (False, "kube-scheduler runs 1.34.3-of.1")


def test_what_differs_is_told_in_one_sentence() -> None:
    behind = view(kubelet="v1.34.3", kube_apiserver="v1.34.3", kube_scheduler="1.34.2")
    seen = sight_node(MASTER, "v1.34.4-of.1", M1, behind)
    assert seen.seen == "kubelet and kube-apiserver run v1.34.3, kube-scheduler runs 1.34.2"


def test_a_missing_static_pod_is_not_the_target() -> None:
    seen = view()
    del seen.pods["etcd-m1"]
    assert sight_node(ETCD, "v3.6.8-of.1", M1, seen).at_target is False


@pytest.mark.parametrize(
    ("runtime", "at_target"),
    [
        ("containerd://2.1.2", True),
        ("containerd://v2.1.2", True),
        ("containerd://2.1.1", False),
        ("cri-o://2.1.2", False),
    ],
)
def test_containerd(runtime: str, at_target: bool) -> None:
    seen = NodeView(node=core("w1", runtime=runtime))
    assert sight_node(CONTAINERD, "v2.1.2", W1, seen).at_target is at_target


def test_could_not_look_is_neither_yes_nor_no() -> None:
    assert sight_node(WORKER, "v1", W1, NodeView()).at_target is None
    assert "no Node w1" in sight_node(WORKER, "v1", W1, NodeView()).seen
    assert sight_node(AGENT, "v1", W1, view()).at_target is None


def test_at_the_target_but_not_well_is_not_settled() -> None:
    not_ready = NodeView(node=core("w1", ready="False"))
    seen = sight_node(WORKER, "v1.34.4-of.1", W1, not_ready)
    assert (seen.at_target, seen.settled) == (True, False)
    failed = W1.model_copy(update={"state": "UpgradeFailed"})
    assert sight_node(WORKER, "v1.34.4-of.1", failed, NodeView(node=core("w1"))).settled is False


def test_the_gate_names_what_is_missing() -> None:
    wanted = "v1.34.4-of.1"
    assert gate(MASTER, wanted, M1, view()) == ""
    assert gate(MASTER, wanted, M1, view(kubelet="v1")) == "kubelet runs v1, v1.34.4-of.1 is expected"
    unready = view()
    unready.pods["kube-scheduler-m1"] = pod("kube-scheduler", "1.34.4-of.1", ready=False)
    assert "kube-scheduler-m1 is not ready" in gate(MASTER, wanted, M1, unready)
    # Another component's static pod counts as well: the next node waits until all of them are ready.
    assert "kube-scheduler-m1 is not ready" in gate(ETCD, "v3.6.8-of.1", M1, unready)


def test_a_node_without_a_ready_condition_does_not_pass() -> None:
    bare = core("w1")
    bare["status"]["conditions"] = []
    assert "w1 is not Ready" in gate(WORKER, "v1.34.4-of.1", W1, NodeView(node=bare))


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("registry.test:5000/kubernetes/etcd:3.6.8-of.1", "3.6.8-of.1"),
        ("registry.test:5000/kubernetes/etcd", "none"),
        ("etcd:3.6.8@sha256:0123", "3.6.8"),
        ("etcd@sha256:0123", "none"),
    ],
)
def test_image_tags(image: str, tag: str) -> None:
    assert image_tag(pod("etcd", "", image=image), "etcd") == tag


def test_a_leading_v_does_not_count() -> None:
    assert is_same_version("2.1.2", "v2.1.2")
    assert not is_same_version("2.1.2-of.1", "v2.1.2")
