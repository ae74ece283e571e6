"""A component that fails for good holds the hop: what kubectl shows, and what a person can do about it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from example_folders import BROKEN, FIRST, HELD, MISSING
from hopline.domain.resources import (
    ANNOTATION_RETRY,
    ANNOTATION_TAKEN_BY,
    ANNOTATION_UPGRADE_READY,
)
from real_lab import TARGET, RealCluster, RealSite

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]
OLD, NEW = HELD


@pytest.fixture
def cluster(site: RealSite, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """A workload cluster whose next release has an object for a Kubernetes namespace that is not there."""
    made = site.add_cluster("mended" if "repair" in request.node.name else "ended", (1, 0), family=HELD)
    yield made
    site.remove_cluster(made)
    site.control_plane.kubectl("delete", "namespace", MISSING, "--ignore-not-found")


def shown(site: RealSite, cluster: RealCluster, kind: str, path: str) -> str:
    """The guide's way to look: `kubectl get … -o jsonpath=…`."""
    done = site.run(site.kubectl_program, "get", kind, *cluster.where, "-o", f"jsonpath={{{path}}}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_held(site: RealSite, cluster: RealCluster, attempt: int) -> None:
    """kubectl shows the failure as the guide says that it does."""
    site.until(lambda: _attempt(site, cluster) == attempt, f"held after attempt {attempt}")
    assert shown(site, cluster, "clusterversion", ".status.phase") == "Failed"
    assert shown(site, cluster, "clusterversion", ".status.currentVersion") == OLD
    failure = json.loads(shown(site, cluster, "bkecluster", ".status.declarativeUpgrade.lastFailure"))
    assert (failure["name"], failure["version"], failure["attempt"]) == (BROKEN, NEW, attempt)
    assert MISSING in failure["error"]
    assert shown(site, cluster, "bkecluster", ".status.clusterHealthState") == "UpgradeFailed"


def test_a_held_hop_goes_on_after_a_repair_and_a_retry(site: RealSite, cluster: RealCluster) -> None:
    waited = site.hopline("upgrade", *cluster.where, "--to", NEW, "--wait")
    assert waited.returncode == 4, waited.stderr
    told = waited.stdout + waited.stderr
    assert MISSING in told
    assert f"hopline retry {cluster.key.name} -n {cluster.key.kube_namespace}" in told
    assert_held(site, cluster, 1)

    annotated = site.run(site.kubectl_program, "annotate", "bkecluster", *cluster.where, f"{ANNOTATION_RETRY}=")
    assert annotated.returncode == 0, annotated.stderr
    assert_held(site, cluster, 2)
    assert ANNOTATION_RETRY not in site.bke(cluster)["metadata"]["annotations"], "it was heard"

    site.control_plane.kubectl("create", "namespace", MISSING)
    assert site.hopline("retry", *cluster.where).returncode == 0
    waited = site.hopline("upgrade", *cluster.where, "--to", NEW, "--wait")
    assert waited.returncode == 0, waited.stderr
    site.until_ready(cluster, NEW)
    assert shown(site, cluster, "bkecluster", ".status.clusterHealthState") == "Healthy"
    assert not shown(site, cluster, "bkecluster", ".status.declarativeUpgrade.lastFailure")
    assert site.applies(cluster, TARGET)[("configmaps", FIRST)] == 1, "what was done is not done again"


def _attempt(site: RealSite, cluster: RealCluster) -> int:
    progress = site.bke(cluster)["status"]["declarativeUpgrade"]
    return int((progress.get("lastFailure") or {}).get("attempt") or 0)


def test_a_held_hop_ends_by_abort_and_is_not_started_again(site: RealSite, cluster: RealCluster) -> None:
    site.patch_desired_version(cluster, NEW)
    site.until(lambda: _phase(site, cluster) == "Failed", "held")
    assert site.bke(cluster)["metadata"]["annotations"][ANNOTATION_UPGRADE_READY] == NEW

    ended = site.hopline("abort", *cluster.where, "--reason", "tested")
    assert ended.returncode == 0, ended.stderr
    site.until(lambda: site.outcome(cluster) == "Aborted", "ended")
    version, bke = site.version(cluster), site.bke(cluster)
    assert (version["status"]["phase"], version["status"]["currentVersion"]) == ("Failed", OLD)
    assert not {ANNOTATION_UPGRADE_READY, ANNOTATION_TAKEN_BY} & set(bke["metadata"]["annotations"])
    assert len(site.runs(cluster)) == 1

    for command in ("abort", "retry"):
        again = site.hopline(command, *cluster.where)
        assert again.returncode == 1
        assert "no upgrade" in again.stderr
    failed = site.hopline("upgrade", *cluster.where, "--to", NEW, "--wait", "--on-failure", "fail")
    assert failed.returncode == 1, failed.stdout
    assert MISSING in failed.stdout + failed.stderr
    assert len(site.runs(cluster)) == 2, "the watcher has started none of its own"


def _phase(site: RealSite, cluster: RealCluster) -> str:
    return str(site.version(cluster)["status"]["phase"])
