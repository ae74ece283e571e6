"""Two API servers: a workload cluster is upgraded from its management cluster, through its kubeconfig Secret alone."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.binaries import Binaries
from controlplane.control_plane import ControlPlane
from real_lab import RealCluster, RealSite

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]

OURS, ROTATED = "hopline-before", "hopline-after"
"""Users behind the first and the second kubeconfig: the audit log tells which of them was used."""

NEW = "v26.06-rc.3"
PROVIDER = ("deployment", "bke-controller-manager", "-n", "cluster-system")


@pytest.fixture(scope="module")
def workload(control_plane_binaries: Binaries) -> Iterator[ControlPlane]:
    """The API server of the cluster that is upgraded; none of our CRDs is there."""
    users = {OURS: ["system:masters"], ROTATED: ["system:masters"]}
    with ControlPlane(control_plane_binaries, users=users) as running:
        yield running


@pytest.fixture
def cluster(site: RealSite, workload: ControlPlane) -> Iterator[RealCluster]:
    """Installed as in the field: its controller is that of the management cluster, so it has none of its own."""
    made = site.add_cluster("workload", (1, 1), target=workload, seconds=0.5)
    workload.kubectl("delete", *PROVIDER)
    write_secret(site, made, workload, OURS)
    yield made
    site.remove_cluster(made)


def write_secret(site: RealSite, cluster: RealCluster, workload: ControlPlane, user: str) -> None:
    content = base64.b64encode(workload.kubeconfig_for(user).read_bytes()).decode()
    metadata = {"name": f"{cluster.key.name}-kubeconfig", "namespace": cluster.key.kube_namespace}
    site.control_plane.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"value": content}})


def ready(site: RealSite, cluster: RealCluster) -> dict[str, Any]:
    conditions = site.version(cluster)["status"].get("conditions") or ()
    return next((one for one in conditions if one["type"] == "Ready"), {})


def events(site: RealSite, cluster: RealCluster, reason: str) -> list[str]:
    listed = site.control_plane.get("events", "-n", cluster.key.kube_namespace)["items"]
    return [one["message"] for one in listed if one["reason"] == reason]


def written(workload: ControlPlane, user: str) -> list[tuple[str, str, str]]:
    """What a user has changed there: verb, resource and name; dry runs left out."""
    return [
        (event.verb, event.resource, event.name)
        for event in workload.audit_events(0, user)
        if event.is_write and not event.is_dry_run and event.code < 300
    ]


def test_it_waits_for_its_kubeconfig_and_goes_on_with_the_new_one(
    site: RealSite, cluster: RealCluster, workload: ControlPlane
) -> None:
    secret = f"{cluster.key.name}-kubeconfig"
    site.patch_desired_version(cluster, NEW)
    site.until(lambda: bool(written(workload, OURS)), "at work on the workload cluster")
    workload.kill_apiserver()
    site.control_plane.kubectl("delete", "secret", secret, "-n", cluster.key.kube_namespace)
    site.until(lambda: ready(site, cluster).get("reason") == "TargetUnreachable", "waiting, and saying so")
    workload.start_apiserver()
    site.until(lambda: f"Secret {cluster.key.kube_namespace}/{secret}" in ready(site, cluster)["message"], "named")
    shown = site.hopline("status", *cluster.where)
    assert "there is no kubeconfig of the cluster" in shown.stdout
    assert site.version(cluster)["status"]["phase"] == "Upgrading", "it is not held"

    write_secret(site, cluster, workload, ROTATED)
    site.until_ready(cluster, NEW, 180)
    assert site.bke(cluster)["status"]["clusterHealthState"] == "Healthy"
    assert written(workload, ROTATED), "the new content is used"
    assert any("cannot be reached" in message for message in events(site, cluster, "TargetUnreachable"))
    assert events(site, cluster, "TargetReachable")
    assert not events(site, cluster, "UpgradeHeld")
    _assert_provider_was_skipped(site, cluster, workload)
    _assert_nothing_of_ours_is_there(workload)


def _assert_provider_was_skipped(site: RealSite, cluster: RealCluster, workload: ControlPlane) -> None:
    assert any(message.startswith("provider: not installed") for message in events(site, cluster, "ComponentSkipped"))
    completed = site.bke(cluster)["status"]["declarativeUpgrade"]["completed"]
    assert "provider" not in [one["name"] for one in completed], "left alone is not recorded as done"
    assert not workload.kubectl("get", *PROVIDER, "--ignore-not-found")


def _assert_nothing_of_ours_is_there(workload: ControlPlane) -> None:
    """Component objects by server-side apply, cordons and evictions of the nodes in hand, and nothing else."""
    components = {"configmaps", "deployments", "daemonsets", "serviceaccounts"}
    allowed = {("patch", resource) for resource in (*components, "nodes")} | {("create", "pods")}
    changed = written(workload, OURS) + written(workload, ROTATED)
    assert {(verb, resource) for verb, resource, _ in changed} <= allowed
    assert not workload.get("customresourcedefinitions")["items"]
    everything = "configmaps,secrets,events,namespaces,nodes,pods,deployments,daemonsets,serviceaccounts,leases"
    assert "hopline" not in json.dumps(workload.get(everything, "--all-namespaces"))
