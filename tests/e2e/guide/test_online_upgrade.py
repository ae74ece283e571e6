"""The guide's online upgrade (在线场景升级操作), steps one to five, typed for a workload cluster.

Management and workload cluster are two API servers, as in the guide's 能力范围: the lines are typed on the first one,
the second is reached through its kubeconfig Secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from controlplane.agent_script import Outcome, Step
from controlplane.binaries import Binaries
from controlplane.control_plane import ControlPlane
from guide_lines import DESCRIBE, EVENTS, WATCH_EVENTS, Line, Person
from hopline.documents.loading import load_documents
from hopline.domain.resources import ANNOTATION_UPGRADE_READY
from real_lab import RealCluster, RealSite, in_order

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]
OLD, MIDDLE, NEW = "v26.06-rc.2", "v26.06-rc.3", "v26.06"
BATCHES = (
    {"provider"},
    {"containerd"},
    {"etcd"},
    {"kubernetes-master", "kubernetes-worker"},
    {"kube-proxy", "coredns", "calico"},
)
"""The guide's order of the stages; its bkeagent needs SSH and is not in these releases."""


@dataclass
class Walk:
    """One person, one cluster, and what was printed on the way."""

    person: Person
    cluster: RealCluster
    printed: dict[str, str] = field(default_factory=dict)
    """By the line that was typed."""
    in_the_middle: dict[str, Any] = field(default_factory=dict)
    """The BKECluster while the first hop's control plane was in hand."""


@pytest.fixture(scope="module")
def workload_api_server(control_plane_binaries: Binaries) -> Iterator[ControlPlane]:
    """The API server of the workload cluster: no CRD and nothing else of ours."""
    with ControlPlane(control_plane_binaries) as running:
        yield running


@pytest.fixture(scope="module")
def before(site: RealSite, workload_api_server: ControlPlane) -> Iterator[Walk]:
    """The cluster as it stands when the person comes."""
    cluster = site.add_cluster("business", (2, 2), target=workload_api_server)
    walk = Walk(Person(site, cluster.key), cluster)
    for line in (Line.CLUSTER, Line.PATHS, Line.ANY_PATHS, "hopline versions <集群名称> -n <命名空间>"):
        walk.printed[line] = walk.person.type(line)
    yield walk
    site.remove_cluster(cluster)


@pytest.fixture(scope="module")
def upgraded(site: RealSite, before: Walk) -> Walk:
    """Steps three and four walked, with every `-w` open beside them, and a look in the middle of the first hop."""
    person, script, watched = (
        before.person,
        before.cluster.script,
        (Line.WATCH_VERSION, Line.WATCH_CLUSTER, WATCH_EVENTS),
    )
    script.hold(before.cluster.master, Step.UPGRADE_CONTROL_PLANE)
    with person.watching(*watched) as printed:
        before.printed[Line.PATCH] = person.type(Line.PATCH)
        site.until(lambda: Step.UPGRADE_CONTROL_PLANE in {one.step for one in script.executions}, "in mid-hop")
        before.printed[DESCRIBE] = person.type(DESCRIBE)
        before.in_the_middle = site.bke(before.cluster)
        script.release(before.cluster.master, Step.UPGRADE_CONTROL_PLANE)
        site.until_ready(before.cluster, NEW)
        site.until(lambda: person.type(EVENTS).count("HopSucceeded") == 2, "told")
    before.printed.update(zip(watched, printed, strict=True))
    return before


def test_step_1_check_the_state_of_the_cluster(before: Walk) -> None:
    """步骤一：检查集群状态. The guide expects Healthy."""
    heads, row = before.printed[Line.CLUSTER].splitlines()
    assert heads.split()[:3] == ["NAME", "PHASE", "STATE"]
    assert row.split()[:3] == ["business", "EnsureCluster", "Healthy"]


def test_step_2_look_up_the_upgrade_paths(before: Walk) -> None:
    """步骤二：查询可升级路径. The rules are shown, and which versions they lead to is answered."""
    (document,) = load_documents(before.printed[Line.PATHS], "printed")
    edges = {(edge["from"], edge["to"]) for edge in document.document["spec"]["paths"] if not edge.get("blocked")}
    assert {(OLD, MIDDLE), (MIDDLE, NEW)} <= edges
    assert (OLD, NEW) not in edges
    answer = before.printed["hopline versions <集群名称> -n <命名空间>"]
    assert MIDDLE in answer and f"{NEW} " in answer


def test_step_3_trigger_the_upgrade_by_patch(site: RealSite, upgraded: Walk) -> None:
    """步骤三：触发升级, `kubectl patch`. Declaring the version is all: everything else follows from it."""
    assert upgraded.printed[Line.PATCH] == "clusterversion.config.openfuyao.com/business patched\n"
    metadata, version = upgraded.in_the_middle["metadata"], site.version(upgraded.cluster)
    assert metadata["annotations"][ANNOTATION_UPGRADE_READY] == MIDDLE, "the hop is announced on the BKECluster"
    assert version["spec"]["desiredVersion"] == NEW
    images = site.control_plane.get("releaseimage", "-n", "business")["items"]
    assert {image["spec"]["version"]: image["status"]["phase"] for image in images} == {MIDDLE: "Valid", NEW: "Valid"}


def test_step_4_watch_the_phase_of_the_cluster_version(upgraded: Walk) -> None:
    """步骤四：监控升级进度, `kubectl get clusterversion -w`: the phases in their order, the version hop by hop."""
    rows = [line.split() for line in upgraded.printed[Line.WATCH_VERSION].splitlines()]
    assert rows[0] == ["NAME", "DESIRED", "CURRENT", "PHASE"]
    shown = list(dict.fromkeys(tuple(row[1:4]) for row in rows[1:]))
    assert shown[0] == (OLD, OLD, "Ready")
    assert (NEW, OLD, "PreChecking") in shown
    upgrading = [current for _, current, phase in shown if phase == "Upgrading"]
    assert upgrading == [OLD, MIDDLE]
    assert shown[-1] == (NEW, NEW, "Ready")
    assert {phase for *_, phase in shown} == {"Ready", "PreChecking", "Upgrading"}


def test_step_4_watch_the_health_of_the_cluster(upgraded: Walk) -> None:
    """步骤四：监控升级进度, `kubectl get bkecluster -w`."""
    text = upgraded.printed[Line.WATCH_CLUSTER]
    assert in_order(text, "Healthy", "Upgrading", "Healthy", "Upgrading", "Healthy"), text
    assert in_order(text, "EnsureContainerdUpgrade", "EnsureMasterUpgrade", "EnsureCluster"), text
    assert "UpgradeFailed" not in text


def test_step_4_the_stages_follow_the_graph(upgraded: Walk) -> None:
    """步骤四：监控升级进度, 声明式升级的阶段顺序: batch after batch, in every hop, told by `kubectl get events -w`."""
    lines = [line for line in upgraded.printed[WATCH_EVENTS].splitlines() if " ComponentUpgraded " in line]
    told = re.findall(r"\d/\d ([\w-]+): ", "\n".join(lines))
    first, second = told[: told.index("provider", 1)], told[told.index("provider", 1) :]
    for hop, batches in ((first, [batch for batch in BATCHES if batch != {"etcd"}]), (second, BATCHES)):
        for batch in batches:
            ended, hop = set(hop[: len(batch)]), hop[len(batch) :]
            assert ended == batch, told
        assert not hop


def test_step_4_what_is_done_and_what_goes_on_is_recorded(upgraded: Walk) -> None:
    """步骤四：监控升级进度: each component's state in mid-hop, and what `kubectl describe` tells."""
    status = upgraded.in_the_middle["status"]
    assert {entry["name"] for entry in status["declarativeUpgrade"]["completed"]} == {"provider", "containerd"}
    assert status["declarativeUpgrade"]["targetVersion"] == MIDDLE
    states = {name: entry["phase"] for name, entry in status["clusterComponentStatuses"].items()}
    assert states["kubernetes-master"] == "Upgrading"
    assert states["coredns"] == "Pending"
    assert (status["clusterStatus"], status["clusterHealthState"]) == ("Upgrading", "Upgrading")
    described = upgraded.printed[DESCRIBE]
    assert in_order(described, "Phase:", "Upgrading")
    assert "UpgradeReady" in described


def test_step_4_node_by_node(upgraded: Walk) -> None:
    """步骤四：监控升级进度, note 2: what runs in one batch runs side by side; no node has two things in hand."""
    script = upgraded.cluster.script
    assert {one.outcome for one in script.executions} == {Outcome.SUCCEEDED}
    assert script.overlaps() == []
    assert len(script.executions) == upgraded.cluster.steps_of_both_hops


def test_step_5_confirm_that_the_upgrade_is_complete(upgraded: Walk) -> None:
    """步骤五：确认升级完成. The three lines."""
    person = upgraded.person
    assert person.type(Line.CURRENT_VERSION) == NEW
    assert person.type(Line.PHASE) == "Ready"
    assert person.type(Line.HEALTH) == "Healthy"
    metadata = person.site.bke(upgraded.cluster)["metadata"]
    assert ANNOTATION_UPGRADE_READY not in metadata["annotations"], "the annotations are gone (流程步骤 14)"


def test_step_5_the_workload_cluster_has_the_version(workload_api_server: ControlPlane, upgraded: Walk) -> None:
    """步骤五：确认升级完成, on the other API server; nothing of ours stays there but the components."""
    nodes = workload_api_server.get("nodes")["items"]
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes} == {"v1.34.5-of.1"}
    assert "openfuyao" not in workload_api_server.kubectl("get", "crds", "-o", "name")


def test_faq_3_what_a_multi_hop_upgrade_is(site: RealSite, upgraded: Walk) -> None:
    """FAQ 多跳升级是什么: the versions between are found, and walked one after the other."""
    history = site.version(upgraded.cluster)["status"]["upgradeHistory"]
    assert [(hop["from"], hop["to"], hop["status"]) for hop in history] == [
        (OLD, MIDDLE, "Succeeded"),
        (MIDDLE, NEW, "Succeeded"),
    ]
    assert history[0]["completedAt"] <= history[1]["startedAt"]
    lines = upgraded.printed[WATCH_EVENTS].splitlines()
    hops = [line for line in lines if "UpgradeReady" in line or "HopSucceeded" in line]
    assert len(hops) == 4 and in_order("\n".join(hops), MIDDLE, MIDDLE, NEW, NEW)
    assert len(site.runs(upgraded.cluster)) == 2, "one execution per hop"
