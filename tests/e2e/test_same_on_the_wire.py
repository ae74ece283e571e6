"""Our upgrade of a recorded input against the recording of the existing controller (observed.md, the "Keep" list).

Whatever differs must be a line of docs/compatibility.md, and each line that is named here must still be true.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from controlplane.binaries import Binaries
from controlplane.control_plane import ControlPlane
from docs.pages import ROOT, rows
from hopline.domain.resources import ANNOTATION_EVENT
from observed_input import (
    CLUSTER,
    CONTROLLER_IMAGE,
    VERSIONS,
    recorded_objects,
    write_observed_input,
)
from observed_story import (
    MOMENTS,
    RUNNING,
    Difference,
    Kept,
    compare_applies,
    compare_events,
    compare_kinds,
    compare_moments,
    compare_order,
    compare_values,
    moments_of,
)
from observed_trace import Objects, Write, Writer, recorded_trace
from real_lab import TARGET, WATCHER, WORKER, RealCluster, RealSite

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]
COMPATIBILITY = ROOT / "docs" / "compatibility.md"
WRITERS = {"admin": Writer.OPERATOR, WORKER: Writer.MANAGEMENT, WATCHER: Writer.MANAGEMENT, TARGET: Writer.TARGET}
BATCHES = {
    "configmaps cluster-system/release-notes": 1,
    "deployments cluster-system/bke-controller-manager": 2,
    "configmaps cluster-system/bkeagent-config": 3,
    "configmaps cluster-system/containerd-config": 3,
    "configmaps cluster-system/etcd-config": 4,
    "configmaps cluster-system/master-config": 5,
    "configmaps cluster-system/worker-config": 5,
    "configmaps kube-system/kube-proxy": 6,
    "daemonsets kube-system/kube-proxy": 6,
    "configmaps kube-system/coredns": 6,
    "deployments kube-system/coredns": 6,
    "configmaps kube-system/calico-config": 6,
    "daemonsets kube-system/calico-node": 6,
    "deployments kube-system/calico-kube-controllers": 6,
}

ALLOWED: dict[str, tuple[str, ...]] = {
    "ClusterVersion phase while a hop runs": (
        r"^hop 1 running \| ClusterVersion demo status\.phase: 'PreChecking' -> 'Upgrading'$",
        r"^values \| clusterversions status\.phase: ",
    ),
    "conditions of ClusterVersion": (
        r"ClusterVersion demo status\.conditions\[Ready\]\.(status|reason|message): ",
        r"ClusterVersion demo status\.conditions\[Progressing\]\.\w+: None -> ",
        r"ClusterVersion demo status\.conditions\[Failing\]\.\w+: None -> ",
    ),
    "order at the end of a hop": (
        r"^hop \d just completed \| BKECluster demo status\.clusterHealthState: 'Upgrading' -> 'Healthy'$",
        r"^hop \d just completed \| BKECluster demo status\.clusterStatus: 'Upgrading' -> 'Ready'$",
        r"^hop \d \| order of (current version|history) and cluster Healthy: .* -> 'cluster Healthy first'$",
        r"^hop \d \| order of cluster Healthy and annotations removed: .* -> 'cluster Healthy first'$",
    ),
    "`clusterComponentStatuses`": (r"BKECluster demo status\.clusterComponentStatuses\.\S+: None -> ",),
    "`upgradeHistory`": (r"ClusterVersion demo status\.upgradeHistory\[\d\]\.startedAt: None -> ",),
    "`last-update-configuration`": (
        r"last-update-configuration metadata\.creationTimestamp: 'null' -> None$",
        r"last-update-configuration status\.ready: False -> None$",
        r"last-update-configuration status\.agentStatus: '{}' -> None$",
    ),
    "marks of our own": (
        r"BKECluster demo metadata\.annotations\.hopline\.dev/taken-by: None -> 'cluster-upgrade/demo/demo'$",
        r"BKECluster demo metadata\.annotations\.hopline\.dev/taken-before: None -> ",
        r"ClusterVersion demo metadata\.annotations\.hopline\.dev/handled: None -> '2/Done'$",
        r"^kinds of write \| management patch clusterversions: None -> True$",
    ),
    "finalizer of ReleaseImage": (
        r"ReleaseImage \S+ metadata\.finalizers: .* -> None$",
        r"^kinds of write \| management patch releaseimages: True -> None$",
    ),
    "when a ReleaseImage is made": (
        r"\| ReleaseImage demo/release-v26\.06-rc\.2: 'there' -> None$",
        r"^between hops \| ReleaseImage demo/release-v26\.06: 'there' -> None$",
    ),
    "objects as they were before a hop": (r"^kinds of write \| management create configmaps: None -> True$",),
    "events": (
        r"^events \| BKECluster (declarative upgrade|HealthCheckConfigSync): 'Normal' -> None$",
        r"^events \| BKECluster (ClusterReady|ClusterVersionInstallComplete): 'Normal' -> None$",
        r"^events \| BKECluster ComponentUpgraded: None -> 'Normal'$",
        r"^events \| ClusterVersion HopSucceeded: None -> 'Normal'$",
    ),
}
"""Line of docs/compatibility.md → the differences that it explains, as regular expressions."""


@pytest.fixture(scope="module")
def control_plane(control_plane_binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane that tells what each write has made of its object."""
    with ControlPlane(control_plane_binaries, audit_responses=True) as running:
        running.install_crds(ROOT / "deploy" / "crds")
        yield running


@pytest.fixture(scope="module")
def upgraded(site: RealSite, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Write], dict[str, Kept]]:
    """Our writes, and our objects at the recorded moments."""
    examples = write_observed_input(tmp_path_factory.mktemp("observed"))
    cluster = site.add_cluster_of(examples, CLUSTER)
    _as_recorded(site)
    _with_a_slow_last_batch(site)
    settings = {"HOPLINE_RELEASES": str(examples / "releases"), "HOPLINE_OWN_IMAGES": CONTROLLER_IMAGE}
    site.kill("worker")
    site.start_worker(**settings)
    known = [site.version(cluster), site.bke(cluster), *site.control_plane.get("bkenode", "-n", "demo")["items"]]
    workloads = "configmaps,deployments,daemonsets"
    for place in ("kube-system", "cluster-system"):
        known += site.control_plane.get(workloads, "-n", place)["items"]
    mark = site.control_plane.audit_mark()
    site.patch_desired_version(cluster, VERSIONS[-1])
    site.until_ready(cluster, VERSIONS[-1])
    _until_told(site, cluster, mark)
    objects = Objects(known)
    writes: list[Write] = []

    def kept() -> Iterator[Write]:
        for write in objects.written(site.control_plane.audit_events(mark), WRITERS):
            writes.append(write)
            yield write

    first = [entry["name"] for entry in _completed_when_running()]
    return writes, moments_of(objects, kept(), first)


def _as_recorded(site: RealSite) -> None:
    """Before the recorded upgrade there were workloads only: their ConfigMaps came with the first hop."""
    names = [name.split()[1].split("/") for name in BATCHES if name.startswith("configmaps")]
    for place, name in names:
        site.control_plane.kubectl("delete", "configmap", name, "-n", place)


def _with_a_slow_last_batch(site: RealSite) -> None:
    """Its rollout takes seconds, so that the recorded moment in mid-hop is published however busy the machine is."""
    where = ("coredns", "-n", "kube-system")
    slow = {"spec": {"template": {"metadata": {"annotations": {"hopline.dev/test-rollout": "slow"}}}}}
    site.control_plane.kubectl("patch", "deployment", *where, "--type=merge", "-p", json.dumps(slow))
    site.control_plane.kubectl("rollout", "status", "deployment", *where, "--timeout=60s")


def _completed_when_running() -> list[dict[str, str]]:
    (bke,) = [document for document in recorded_objects(RUNNING) if document["kind"] == "BKECluster"]
    completed: list[dict[str, str]] = bke["status"]["declarativeUpgrade"]["completed"]
    return completed


def _until_told(site: RealSite, cluster: RealCluster, mark: int) -> None:
    """Events are the last writes of a run: until the second HopSucceeded is in the audit log."""

    def told() -> int:
        events = site.control_plane.audit_events(mark, WORKER)
        return sum(e.resource == "events" and (e.body or {}).get("reason") == "HopSucceeded" for e in events)

    site.until(lambda: told() == len(VERSIONS) - 1, "told that both hops are done")


def recorded_moments() -> dict[str, Kept]:
    """The recorded objects at each moment."""
    return {
        moment: {
            (document["kind"], f"{document['metadata']['namespace']}/{document['metadata']['name']}"): document
            for document in recorded_objects(moment)
        }
        for moment in MOMENTS
    }


@pytest.fixture(scope="module")
def differences(upgraded: tuple[list[Write], dict[str, Kept]]) -> list[Difference]:
    """Everything that is not as it was recorded."""
    writes, moments = upgraded
    recorded = recorded_trace()
    return [
        *compare_moments(recorded_moments(), moments),
        *compare_values(recorded, writes),
        *compare_order(recorded, writes),
        *compare_applies(recorded, writes, BATCHES),
        *compare_kinds(recorded, writes),
        *compare_events(recorded, writes),
    ]


def test_every_difference_is_a_line_of_the_compatibility_page(differences: list[Difference]) -> None:
    patterns = [pattern for explained in ALLOWED.values() for pattern in explained]
    unexplained = [str(one) for one in differences if not any(re.search(p, str(one)) for p in patterns)]
    assert not unexplained, "\n".join(unexplained)


def test_every_difference_that_is_explained_still_occurs(differences: list[Difference]) -> None:
    texts = [str(one) for one in differences]
    gone = [
        f"{line}: {pattern}"
        for line, patterns in ALLOWED.items()
        for pattern in patterns
        if not any(re.search(pattern, text) for text in texts)
    ]
    assert not gone


def test_events_of_the_cluster_carry_the_mark_of_the_log_stream(
    site: RealSite, upgraded: tuple[list[Write], dict[str, Kept]]
) -> None:
    """Recorded on every event of the BKECluster (observed.md §3)."""
    events = site.control_plane.get("events", "-n", CLUSTER.kube_namespace)["items"]
    of_cluster = [event for event in events if event["involvedObject"]["kind"] == "BKECluster"]
    assert of_cluster
    assert {event["metadata"].get("annotations", {}).get(ANNOTATION_EVENT) for event in of_cluster} == {""}


def test_every_explanation_is_a_line_of_the_compatibility_page() -> None:
    lines = {row["what"] for row in rows(COMPATIBILITY)}
    assert not set(ALLOWED) - lines
