"""Terminal and temporal CLI start the same run as kubectl does; all of them at once start one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from example_folders import WELL
from real_lab import RBAC, TARGET, WATCHER, WORKER, RealCluster, RealSite, in_order

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]
OLD, MIDDLE, NEW = WELL


@pytest.fixture(scope="module", autouse=True)
def rights_for_workload_clusters_only(site: RealSite) -> Iterator[None]:
    """Worker and watcher as on a management cluster that only manages others: without hopline-target-apply."""
    site.control_plane.kubectl("delete", "clusterrolebinding", "hopline-target-apply")
    yield
    site.control_plane.kubectl("apply", "--server-side", "-f", str(RBAC))


@pytest.fixture
def cluster(site: RealSite) -> Iterator[RealCluster]:
    """A workload cluster of one node, two hops of three small components away from the newest version."""
    made = site.add_cluster(f"well-{uuid4().hex[:6]}", (1, 0), family=WELL)
    yield made
    site.remove_cluster(made)


def assert_walked(site: RealSite, cluster: RealCluster) -> None:
    """Both hops are there, the wish is the ClusterVersion's own, and each object was written once per hop."""
    site.until_ready(cluster, NEW)
    version = site.version(cluster)
    assert version["spec"]["desiredVersion"] == NEW
    assert [hop["to"] for hop in version["status"]["upgradeHistory"]] == [MIDDLE, NEW]
    assert site.bke(cluster)["status"]["clusterHealthState"] == "Healthy"
    applied = site.applies(cluster, TARGET)
    assert applied == {("configmaps", "first"): 2, ("configmaps", "broken"): 2, ("deployments", "last"): 2}
    assert_never_refused(site, cluster)


def assert_never_refused(site: RealSite, cluster: RealCluster) -> None:
    """Neither account has asked for what deploy/rbac.yaml does not grant."""
    for account in (WORKER, WATCHER):
        assert [event.uri for event in site.requests(cluster, account) if event.code in (401, 403)] == []


def start_arguments(site: RealSite, cluster: RealCluster, request: dict[str, Any]) -> list[str]:
    """The documented line."""
    return [
        *("workflow", "start", "--type", "ClusterUpgrade", "--task-queue", site.task_queue),
        *("--workflow-id", cluster.workflow_id, "--fail-existing", "--input", json.dumps(request)),
    ]


def test_hopline_upgrade_waits_for_the_end(site: RealSite, cluster: RealCluster) -> None:
    done = site.hopline("upgrade", *cluster.where, "--to", NEW, "--wait")
    assert done.returncode == 0, done.stderr
    assert in_order(done.stdout, f"{cluster.key} accepted {NEW} (2 hops", MIDDLE, f"done: {NEW}"), done.stdout
    assert done.stderr == ""
    assert_walked(site, cluster)
    again = site.hopline("upgrade", *cluster.where, "--to", NEW, "--wait")
    assert again.returncode == 0
    assert f"already at {NEW}" in again.stdout


def test_hopline_upgrade_prints_one_document(site: RealSite, cluster: RealCluster) -> None:
    done = site.hopline("upgrade", *cluster.where, "--to", NEW, "--wait", "-o", "json")
    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout)
    assert (status["state"], status["to"]) == ("Done", NEW)
    shown = json.loads(site.hopline("status", *cluster.where, "-o", "json").stdout)
    assert shown == status
    assert_walked(site, cluster)


@pytest.mark.parametrize("spelling", ["camelCase", "snake_case"])
def test_temporal_workflow_start(site: RealSite, cluster: RealCluster, spelling: str) -> None:
    key = cluster.key
    request = {
        "camelCase": {"cluster": {"namespace": key.kube_namespace, "name": key.name}, "desiredVersion": NEW},
        "snake_case": {"cluster": {"kube_namespace": key.kube_namespace, "name": key.name}, "desired_version": NEW},
    }[spelling]
    done = site.temporal(*start_arguments(site, cluster, request))
    assert done.returncode == 0, done.stderr
    assert_walked(site, cluster)
    assert len(site.runs(cluster)) == 2, "one execution per hop, and none of the watcher's own"


def test_a_start_that_nobody_can_read_is_refused_by_the_field(site: RealSite, cluster: RealCluster) -> None:
    done = site.temporal(
        *start_arguments(site, cluster, {"cluster": {"name": cluster.key.name}, "desiredVersion": NEW})
    )
    assert done.returncode == 0, done.stderr
    failure = site.temporal("workflow", "result", "--workflow-id", cluster.workflow_id)
    assert failure.returncode != 0
    assert "cluster.namespace" in failure.stdout + failure.stderr


def test_a_wish_is_heard_that_came_while_nobody_watched(site: RealSite, cluster: RealCluster) -> None:
    site.kill("watcher")
    site.patch_desired_version(cluster, NEW)
    site.start_watcher()
    assert_walked(site, cluster)
    assert len(site.runs(cluster)) == 2


def test_all_triggers_at_once_start_one_run(site: RealSite) -> None:
    cluster = site.add_cluster("three", (1, 1))
    key = cluster.key
    request = {"cluster": {"namespace": key.kube_namespace, "name": key.name}, "desiredVersion": "v26.06"}
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(site.hopline, "upgrade", *cluster.where, "--to", "v26.06", "--wait", timeout=200)
        started = pool.submit(site.temporal, *start_arguments(site, cluster, request))
        pool.submit(site.patch_desired_version, cluster, "v26.06").result()
        assert waiting.result().returncode == 0, waiting.result().stderr
    # The flag refuses it when another trigger was first.
    assert started.result().returncode == 0 or "already" in started.result().stderr.lower(), started.result().stderr
    site.until_ready(cluster, "v26.06")
    assert len(site.runs(cluster)) == 2
    assert set(cluster.script.times_run().values()) <= {1, 2}
    assert len(cluster.script.executions) == cluster.steps_of_both_hops
    assert set(site.applies(cluster, TARGET, ("deployments", "daemonsets")).values()) == {2}
    assert_never_refused(site, cluster)
    site.remove_cluster(cluster)
