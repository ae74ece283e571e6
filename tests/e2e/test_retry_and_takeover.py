"""The retry annotation with node addresses, and a cluster left by another controller, on the real control plane."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from example_folders import BROKEN, FIRST, HELD, MISSING, WELL
from hopline.domain.cluster import FAILED_BIT
from hopline.domain.resources import ANNOTATION_RETRY, ANNOTATION_UPGRADE_READY
from real_lab import TARGET, RealCluster, RealSite

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]
NOBODY = "198.51.100.99"


@pytest.fixture
def held(site: RealSite) -> Iterator[RealCluster]:
    """Its next release has an object for a Kubernetes namespace that is not there."""
    made = site.add_cluster("retried", (1, 2), family=HELD)
    yield made
    site.remove_cluster(made)
    site.control_plane.kubectl("delete", "namespace", MISSING, "--ignore-not-found")


@pytest.fixture
def left(site: RealSite) -> Iterator[RealCluster]:
    made = site.add_cluster("left", (1, 1), family=WELL)
    yield made
    site.remove_cluster(made)


def typed(site: RealSite, *command: str) -> str:
    done = site.run(site.kubectl_program, *command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def nodes(site: RealSite, cluster: RealCluster) -> dict[str, dict[str, Any]]:
    """BKENodes by address."""
    listed = site.control_plane.get("bkenodes", "-n", cluster.key.kube_namespace)["items"]
    return {one["spec"]["ip"]: one for one in listed}


def write_status(site: RealSite, kind: str, name: str, kube_namespace: str, status: dict[str, Any]) -> None:
    """What a controller does: `kubectl patch --subresource=status`."""
    patch = json.dumps({"status": status})
    typed(site, "patch", kind, name, "-n", kube_namespace, "--subresource=status", "--type", "merge", "-p", patch)


def give_up(site: RealSite, cluster: RealCluster) -> None:
    """Every node as one that has failed too often."""
    for node in nodes(site, cluster).values():
        status = {"stateCode": node["status"]["stateCode"] | FAILED_BIT, "needSkip": True, "retryCount": 10}
        write_status(site, "bkenode", node["metadata"]["name"], cluster.key.kube_namespace, status)


def marked(site: RealSite, cluster: RealCluster) -> set[str]:
    return {ip for ip, node in nodes(site, cluster).items() if _is_marked(node["status"])}


def _is_marked(status: dict[str, Any]) -> bool:
    return bool(status["stateCode"] & FAILED_BIT or status.get("needSkip") or status.get("retryCount"))


def events(site: RealSite, cluster: RealCluster, reason: str) -> list[str]:
    listed = site.control_plane.get("events", "-n", cluster.key.kube_namespace)["items"]
    return [one["message"] for one in listed if one["reason"] == reason]


def is_heard(site: RealSite, cluster: RealCluster) -> bool:
    return ANNOTATION_RETRY not in site.bke(cluster)["metadata"].get("annotations", {})


def test_the_annotation_with_addresses_revives_these_nodes_and_goes_on(site: RealSite, held: RealCluster) -> None:
    new = HELD[1]
    site.patch_desired_version(held, new)
    site.until(lambda: site.version(held)["status"]["phase"] == "Failed", "held")
    give_up(site, held)
    first, second, third = sorted(nodes(site, held))

    typed(site, "annotate", "bkecluster", *held.where, f"{ANNOTATION_RETRY}={first},{NOBODY}")
    site.until(lambda: bool(events(site, held, "RetryRefused")), "answered")
    site.until(lambda: is_heard(site, held), "heard")
    assert NOBODY in events(site, held, "RetryRefused")[0]
    assert marked(site, held) == {first, second, third}
    unknown = site.hopline("retry", *held.where, "--node", NOBODY)
    assert unknown.returncode == 2, unknown.stderr
    assert NOBODY in unknown.stderr
    assert site.version(held)["status"]["phase"] == "Failed", "nothing is lost: the hop is held as before"

    typed(site, "annotate", "bkecluster", *held.where, f"{ANNOTATION_RETRY}={first},{second}")
    site.until(lambda: is_heard(site, held), "heard")
    site.until(lambda: marked(site, held) == {third}, "revived")
    site.until(lambda: _attempt(site, held) == 2, "held again, since nothing was repaired")

    site.control_plane.kubectl("create", "namespace", MISSING)
    retried = site.hopline("retry", *held.where, "--node", third)
    assert retried.returncode == 0, retried.stderr
    assert third in retried.stdout
    site.until_ready(held, new)
    assert site.bke(held)["status"]["clusterHealthState"] == "Healthy"
    assert not marked(site, held)
    assert site.applies(held, TARGET)[("configmaps", FIRST)] == 1, "what was done is not done again"


def _attempt(site: RealSite, cluster: RealCluster) -> int:
    progress = site.bke(cluster)["status"]["declarativeUpgrade"]
    return int((progress.get("lastFailure") or {}).get("attempt") or 0)


def leave_failed(site: RealSite, cluster: RealCluster) -> None:
    """As the existing controller leaves it after its tenth attempt, stopped before it took its annotation away."""
    old, new, _ = WELL
    where = cluster.key.kube_namespace
    at, error = "2026-08-01T00:00:00Z", f"{BROKEN}: component {BROKEN}: server-side apply: namespaces not found"
    site.patch_desired_version(cluster, new)
    spec = json.dumps({"spec": {"clusterConfig": {"cluster": {"openFuyaoVersion": new}}}})
    typed(site, "patch", "bkecluster", *cluster.where, "--type", "merge", "-p", spec)
    typed(site, "annotate", "bkecluster", *cluster.where, f"{ANNOTATION_UPGRADE_READY}={new}")
    failure = {"name": BROKEN, "version": new, "failedAt": at, "error": error, "attempt": 9}
    progress = {
        "targetVersion": new,
        "startedAt": at,
        "completed": [{"name": FIRST, "version": new, "completedAt": at}],
        "lastError": error,
        "lastFailure": failure,
    }
    conditions = [
        _condition("ClusterHealthyState", "False", "UpgradeFailed"),
        _condition("ManualInterventionRequired", "True", "RetryExhausted"),
    ]
    bke = {"clusterStatus": "UpgradeFailed", "clusterHealthState": "UpgradeFailed", "declarativeUpgrade": progress}
    write_status(site, "bkecluster", cluster.key.name, where, {**bke, "conditions": conditions})
    version = {
        "phase": "Failed",
        "conditions": [_condition("Ready", "False", "UpgradeHopFailed")],
        "upgradeHistory": [{"from": old, "to": new, "status": "Failed", "completedAt": at}],
    }
    write_status(site, "clusterversion", cluster.key.name, where, version)


def _condition(kind: str, status: str, reason: str) -> dict[str, str]:
    # After the wish: nobody has asked for anything since.
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": reason,
        "lastTransitionTime": "2099-01-01T00:00:00Z",
    }


def test_a_cluster_left_failed_by_another_controller_is_brought_home_by_the_annotation(
    site: RealSite, left: RealCluster
) -> None:
    _, new, _ = WELL
    site.kill("watcher")
    leave_failed(site, left)
    give_up(site, left)
    site.start_watcher()
    site.until(lambda: bool(events(site, left, "UpgradeLeftFailed")), "told")
    assert not site.runs(left), "nobody has asked for it yet"

    typed(site, "annotate", "bkecluster", *left.where, f"{ANNOTATION_RETRY}=")
    site.until_ready(left, new)
    bke = site.bke(left)
    assert bke["status"]["clusterHealthState"] == "Healthy"
    assert not {ANNOTATION_RETRY, ANNOTATION_UPGRADE_READY} & set(bke["metadata"]["annotations"])
    assert {one["type"]: one["status"] for one in bke["status"]["conditions"]} == {
        "ClusterHealthyState": "True",
        "ManualInterventionRequired": "False",
    }
    assert not marked(site, left)
    (told,) = events(site, left, "UpgradeTakenOver")
    assert f"its failure in {BROKEN}" in told
    assert site.applies(left, TARGET)[("configmaps", FIRST)] == 1, "a record is not believed"
