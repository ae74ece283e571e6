"""What is refused on the real API server, with what message, and that nothing has changed then."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from example_folders import WELL, catalogue
from real_lab import WORKER, RealCluster, RealSite

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]
OLD, MIDDLE, NEW = WELL


@pytest.fixture(scope="module")
def cluster(site: RealSite) -> Iterator[RealCluster]:
    """A workload cluster that could be upgraded."""
    made = site.add_cluster("refused", (1, 0), family=WELL)
    yield made
    site.remove_cluster(made)


def refusal(site: RealSite, cluster: RealCluster, version: str = NEW) -> str:
    """What `hopline upgrade` says; nothing but the event that tells it was written."""
    mark = site.control_plane.audit_mark()
    before = site.bke(cluster)["metadata"]["resourceVersion"]
    done = site.hopline("upgrade", *cluster.where, "--to", version)
    assert done.returncode == 3, (done.returncode, done.stdout, done.stderr)
    writes = [event for event in site.control_plane.audit_events(mark, WORKER) if event.is_write]
    written = [event.uri for event in writes if event.resource != "events"]
    assert written == []
    assert site.bke(cluster)["metadata"]["resourceVersion"] == before
    return " ".join(done.stderr.split())


def set_health(site: RealSite, cluster: RealCluster, state: str) -> None:
    body = json.dumps({"status": {"clusterHealthState": state}})
    site.control_plane.kubectl(
        "patch", "bkecluster", *cluster.where, "--subresource=status", "--type=merge", "-p", body
    )


def set_pause(site: RealSite, cluster: RealCluster, pause: bool) -> None:
    body = json.dumps({"spec": {"pause": pause}})
    site.control_plane.kubectl("patch", "bkecluster", *cluster.where, "--type=merge", "-p", body)


def without_catalogue(site: RealSite, *_: Any) -> None:
    site.control_plane.kubectl("delete", "upgradepath", "--all")


def with_two_catalogues(site: RealSite, *_: Any) -> None:
    second = catalogue()
    second["metadata"] = {"name": "another"}
    site.control_plane.apply(second)


def with_one_catalogue(site: RealSite, *_: Any) -> None:
    site.control_plane.kubectl("delete", "upgradepath", "another", "--ignore-not-found")
    site.control_plane.apply(catalogue())


@pytest.mark.parametrize(
    ("spoil", "mend", "words"),
    [
        pytest.param(
            lambda site, cluster: set_health(site, cluster, "Unhealthy"),
            lambda site, cluster: set_health(site, cluster, "Healthy"),
            ["BKECluster refused/refused", "status.clusterHealthState", "Unhealthy"],
            id="not-healthy",
        ),
        pytest.param(
            lambda site, cluster: set_pause(site, cluster, True),
            lambda site, cluster: set_pause(site, cluster, False),
            ["BKECluster refused/refused", "spec.pause", "true"],
            id="paused",
        ),
        pytest.param(without_catalogue, with_one_catalogue, ["UpgradePath"], id="no-catalogue"),
        pytest.param(
            with_two_catalogues, with_one_catalogue, ["UpgradePath", "another", "openfuyao-upgrade-paths"], id="two"
        ),
    ],
)
def test_a_cluster_or_catalogue_that_is_not_fit_is_refused(
    site: RealSite,
    cluster: RealCluster,
    spoil: Callable[[RealSite, RealCluster], None],
    mend: Callable[[RealSite, RealCluster], None],
    words: list[str],
) -> None:
    spoil(site, cluster)
    try:
        said = refusal(site, cluster)
    finally:
        mend(site, cluster)
    assert [word for word in words if word not in said] == [], said


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("v99.01", ["v99.01"]),
        ("v31.00", ["v31.00"]),
    ],
)
def test_a_version_that_no_path_leads_to_is_refused(
    site: RealSite, cluster: RealCluster, version: str, words: list[str]
) -> None:
    said = refusal(site, cluster, version)
    assert [word for word in words if word not in said] == [], said


def test_the_version_that_is_there_is_done_at_once(site: RealSite, cluster: RealCluster) -> None:
    done = site.hopline("upgrade", *cluster.where, "--to", OLD, "--wait")
    assert done.returncode == 0, done.stderr
    assert f"already at {OLD}" in done.stdout


def test_without_a_kubeconfig_a_workload_cluster_is_refused(site: RealSite) -> None:
    bare = site.add_cluster("bare", (1, 0), family=WELL, kubeconfig=False)
    assert site.runs(bare) == [], "the watcher has left it alone while it was being installed"
    said = refusal(site, bare)
    assert "Secret bare/bare-kubeconfig" in said
    assert "kubectl create secret generic bare-kubeconfig -n bare" in said
    site.remove_cluster(bare)


def test_a_refused_wish_of_the_guide_is_looked_at_again_when_its_cause_is_gone(
    site: RealSite, cluster: RealCluster
) -> None:
    set_health(site, cluster, "Unhealthy")
    site.patch_desired_version(cluster, NEW)
    site.until(lambda: site.outcome(cluster) == "Refused", "refused")
    version = site.version(cluster)
    assert version["status"]["phase"] == "PreCheckFailed"
    (ready,) = [one for one in version["status"]["conditions"] if one["type"] == "Ready"]
    assert (ready["status"], "clusterHealthState" in ready["message"]) == ("False", True)
    set_health(site, cluster, "Healthy")
    site.until_ready(cluster, NEW)
