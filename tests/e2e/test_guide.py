"""The guide's command on a real API server: what a person types, sees, and what is written in which order."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from controlplane.agent_script import Outcome
from controlplane.audit import AuditEvent
from hopline.domain.resources import (
    ANNOTATION_CLUSTER_VERSION,
    ANNOTATION_LAST_UPDATE,
    ANNOTATION_TAKEN_BY,
    ANNOTATION_UPGRADE_PATH,
    ANNOTATION_UPGRADE_READY,
)
from real_lab import GUIDE, WATCHER, WORKER, RealCluster, RealSite, in_order

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]
FIRST, TARGET = "v26.06-rc.3", "v26.06"
TRIGGERS = {ANNOTATION_UPGRADE_READY, ANNOTATION_CLUSTER_VERSION, ANNOTATION_UPGRADE_PATH}
SPEC_OF_HOPS = [
    {"openFuyaoVersion": FIRST, "kubernetesVersion": "v1.34.4-of.1", "containerdVersion": "v2.1.2"},
    {
        "openFuyaoVersion": TARGET,
        "kubernetesVersion": "v1.34.5-of.1",
        "etcdVersion": "v3.6.8-of.1",
        "containerdVersion": "v2.1.3",
    },
]


@pytest.fixture(scope="module")
def upgraded(site: RealSite) -> Iterator[tuple[RealCluster, list[str]]]:
    """The cluster that manages itself, after the guide's command; and the lines of the two `get -w` beside it."""
    cluster = site.add_cluster(GUIDE.name, (3, 2))
    watching = [
        site.open(site.kubectl_program, "get", kind, *cluster.where, "-w", "--no-headers")
        for kind in ("clusterversion", "bkecluster")
    ]
    site.patch_desired_version(cluster, TARGET)
    site.until_ready(cluster, TARGET, 240)
    lines = [_end(process) for process in watching]
    yield cluster, lines
    site.remove_cluster(cluster)


def _end(process: subprocess.Popen[str]) -> str:
    process.terminate()
    return process.communicate()[0]


def merged(event: AuditEvent) -> dict[str, Any]:
    return event.body if isinstance(event.body, dict) else {}


def annotations(event: AuditEvent) -> dict[str, Any]:
    return dict((merged(event).get("metadata") or {}).get("annotations") or {})


def writes_of(site: RealSite, cluster: RealCluster, resource: str, subresource: str = "") -> list[AuditEvent]:
    """Successful writes of the worker to one object of the cluster."""
    return [
        event
        for event in site.requests(cluster, WORKER)
        if event.is_write
        and not event.is_dry_run
        and (event.resource, event.subresource) == (resource, subresource)
        and event.code < 300
    ]


def test_the_objects_say_that_the_version_is_there(site: RealSite, upgraded: tuple[RealCluster, list[str]]) -> None:
    cluster, _ = upgraded
    version, bke = site.version(cluster), site.bke(cluster)
    status = version["status"]
    assert (status["currentVersion"], status["phase"]) == (TARGET, "Ready")
    (ready,) = [condition for condition in status["conditions"] if condition["type"] == "Ready"]
    assert ready["status"] == "True"
    hops = [(entry["from"], entry["to"], entry["status"]) for entry in status["upgradeHistory"]]
    assert hops == [("v26.06-rc.2", FIRST, "Succeeded"), (FIRST, TARGET, "Succeeded")]
    assert all(entry["startedAt"] <= entry["completedAt"] for entry in status["upgradeHistory"])
    assert site.outcome(cluster) == "Done"
    assert bke["status"]["clusterHealthState"] == "Healthy"
    assert bke["status"]["clusterStatus"] == "Ready"
    for field, value in SPEC_OF_HOPS[-1].items():
        assert bke["spec"]["clusterConfig"]["cluster"][field] == bke["status"][field] == value
    present = set(bke["metadata"]["annotations"])
    assert not present & {*TRIGGERS, ANNOTATION_TAKEN_BY, "hopline.dev/taken-before"}


def test_every_component_of_the_last_hop_is_recorded(site: RealSite, upgraded: tuple[RealCluster, list[str]]) -> None:
    progress = site.bke(upgraded[0])["status"]["declarativeUpgrade"]
    names = {entry["name"] for entry in progress["completed"]}
    assert names == {
        "provider", "containerd", "etcd", "kubernetes-master", "kubernetes-worker", "kube-proxy", "coredns", "calico",
    }  # fmt: skip
    assert progress["targetVersion"] == TARGET
    assert progress["startedAt"] <= progress["finishedAt"]
    assert not progress.get("lastFailure")


def test_every_node_is_at_the_target(site: RealSite, upgraded: tuple[RealCluster, list[str]]) -> None:
    cluster, _ = upgraded
    nodes = site.control_plane.get("nodes", *[node.name for node in cluster.installed.nodes])["items"]
    shown = {
        (node["status"]["nodeInfo"]["kubeletVersion"], node["status"]["nodeInfo"]["containerRuntimeVersion"])
        for node in nodes
    }
    assert shown == {("v1.34.5-of.1", "containerd://2.1.3")}
    pods = site.control_plane.get("pods", "-n", "kube-system", "-l", "tier=control-plane")["items"]
    tags = {pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in pods}
    assert tags == {"1.34.5-of.1", "3.6.8-of.1"}
    states = {node["status"]["state"] for node in site.control_plane.get("bkenode", "-n", GUIDE.name)["items"]}
    assert states == {"Ready"}


def test_no_agent_was_asked_twice_or_two_things_at_once(upgraded: tuple[RealCluster, list[str]]) -> None:
    script = upgraded[0].script
    assert {execution.outcome for execution in script.executions} == {Outcome.SUCCEEDED}
    assert script.overlaps() == []
    per_command = [(execution.node, execution.command, execution.arguments) for execution in script.executions]
    assert len(set(per_command)) == len(per_command)
    commands_per_work: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for node, command, arguments in per_command:
        commands_per_work.setdefault((node, arguments), set()).add(command)
    assert max(len(commands) for commands in commands_per_work.values()) <= 2, "once per hop"


def test_release_images_are_valid(site: RealSite, upgraded: tuple[RealCluster, list[str]]) -> None:
    images = site.control_plane.get("releaseimage", "-n", GUIDE.name)["items"]
    phases = {image["spec"]["version"]: image["status"]["phase"] for image in images}
    assert phases == {FIRST: "Valid", TARGET: "Valid"}


def test_kubectl_get_watch_shows_the_story(upgraded: tuple[RealCluster, list[str]]) -> None:
    versions, clusters = upgraded[1]
    assert in_order(versions, "Ready", "Upgrading", FIRST, "Upgrading", TARGET, "Ready"), versions
    assert in_order(clusters, "Healthy", "Upgrading", "Healthy"), clusters


def test_events_tell_the_story(site: RealSite, upgraded: tuple[RealCluster, list[str]]) -> None:
    events = site.control_plane.get("events", "-n", GUIDE.name)["items"]
    reasons = [event["reason"] for event in events if event["involvedObject"]["kind"] == "ClusterVersion"]
    assert reasons.count("UpgradeReady") == reasons.count("HopSucceeded") == 2
    ended = [event["message"] for event in events if event["reason"] == "ComponentUpgraded"]
    told = [component for message in ended for component in message.split("; ")]
    assert len(told) == 7 + 8, told
    assert not [event["message"] for event in events if event["type"] == "Warning"]


def test_each_hop_announces_declares_and_gives_back(site: RealSite, upgraded: tuple[RealCluster, list[str]]) -> None:
    """Annotations, then one patch of spec, then the work; annotations away, then the version (observed.md §3)."""
    cluster, _ = upgraded
    writes = writes_of(site, cluster, "bkeclusters")
    announced = [event for event in writes if annotations(event).get(ANNOTATION_UPGRADE_READY)]
    declared = [event for event in writes if "spec" in merged(event)]
    removed = [event for event in writes if annotations(event).get(ANNOTATION_UPGRADE_READY, "") is None]
    assert [annotations(event)[ANNOTATION_UPGRADE_READY] for event in announced] == [FIRST, TARGET]
    assert all(set(annotations(event)) >= TRIGGERS for event in announced)
    assert [merged(event)["spec"]["clusterConfig"]["cluster"] for event in declared] == SPEC_OF_HOPS
    assert all(ANNOTATION_LAST_UPDATE in annotations(event) for event in declared)
    assert all(dict.fromkeys(TRIGGERS).items() <= annotations(event).items() for event in removed)
    assert len(writes) == 6, "three writes a hop: announced, declared, given back"

    versions = [
        event
        for event in writes_of(site, cluster, "clusterversions", "status")
        if (merged(event).get("status") or {}).get("currentVersion") in (FIRST, TARGET)
    ]
    reached = [
        next(event for event in versions if merged(event)["status"]["currentVersion"] == v) for v in (FIRST, TARGET)
    ]
    work = [*writes_of(site, cluster, "commands"), *writes_of(site, cluster, "deployments")]
    order = [moment for hop in zip(announced, declared, removed, reached, strict=True) for moment in hop]
    assert all(before.at <= after.at for before, after in pairwise(order)), [(e.at, e.uri, e.body) for e in order]
    for start, end in zip(declared, removed, strict=True):
        assert any(start.at < event.at < end.at for event in work)
    outside = [event for event in work if event.at < declared[0].at or removed[0].at < event.at < declared[1].at]
    assert outside == []


def test_the_accounts_were_never_refused(site: RealSite, upgraded: tuple[RealCluster, list[str]]) -> None:
    for account in (WORKER, WATCHER):
        assert [event.uri for event in site.requests(upgraded[0], account) if event.code in (401, 403)] == []


def test_requests_are_counted(
    site: RealSite, upgraded: tuple[RealCluster, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Prints how many requests each hop took: from its annotations to the ones of the next hop, or to the end."""
    cluster, _ = upgraded
    requests = [event for event in site.requests(cluster, WORKER) if event.verb != "watch"]
    told = [event for event in requests if annotations(event).get(ANNOTATION_UPGRADE_READY)]
    announced = [event.at for event in told if not event.is_dry_run]
    second = [event for event in requests if event.at >= announced[1]]
    first = [event for event in requests if announced[0] <= event.at < announced[1]]
    with capsys.disabled():
        for hop, nodes in ((first, cluster.steps_of_first_hop), (second, cluster.steps_of_last_hop)):
            writes = sum(event.is_write for event in hop)
            print(f"\n  {len(hop)} requests, {writes} of them writes, in a hop with {nodes} node steps", end="")
        print()
    most = Counter((event.verb, event.resource) for event in requests).most_common(1)[0][1]
    assert most < 8 * cluster.steps_of_both_hops, "no loop that asks again and again"
