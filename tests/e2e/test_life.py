"""The life of a ClusterVersion, and what is not forgotten, on a real API server: typed by a person with kubectl."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from example_folders import HELD, MISSING, WELL, catalogue
from hopline.domain.resources import ANNOTATION_RETRY
from real_lab import RealCluster, RealSite

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]
OLD, MIDDLE, NEW = WELL
ACCEPTED = "DesiredVersionAccepted"


@pytest.fixture(scope="module")
def well(site: RealSite) -> Iterator[RealCluster]:
    """A workload cluster that can be upgraded twice; its health is kept by the watcher."""
    site.kill("watcher")
    site.start_watcher(HOPLINE_KEEP_HEALTH="true")
    made = site.add_cluster("life", (1, 0), family=WELL)
    yield made
    site.remove_cluster(made)


@pytest.fixture
def broken(site: RealSite) -> Iterator[RealCluster]:
    """A workload cluster whose next release does not fit."""
    made = site.add_cluster(f"wishes-{uuid4().hex[:6]}", (1, 0), family=HELD)
    yield made
    site.remove_cluster(made)
    site.control_plane.kubectl("delete", "namespace", MISSING, "--ignore-not-found")


def typed(site: RealSite, *arguments: str) -> str:
    """`kubectl …`"""
    done = site.run(site.kubectl_program, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def phase(site: RealSite, cluster: RealCluster) -> str:
    return typed(site, "get", "clusterversion", *cluster.where, "-o", "jsonpath={.status.phase}")


def health(site: RealSite, cluster: RealCluster) -> str:
    return typed(site, "get", "bkecluster", *cluster.where, "-o", "jsonpath={.status.clusterHealthState}")


def condition(site: RealSite, cluster: RealCluster, kind: str = ACCEPTED) -> dict[str, Any]:
    found = (site.version(cluster).get("status") or {}).get("conditions") or ()
    return next((dict(one) for one in found if one["type"] == kind), {})


def events(site: RealSite, cluster: RealCluster, reason: str) -> list[dict[str, Any]]:
    found = site.control_plane.get("events", "-n", cluster.key.kube_namespace)["items"]
    return [event for event in found if event["reason"] == reason]


def test_a_missing_cluster_version_is_made_by_the_watcher(site: RealSite, well: RealCluster) -> None:
    typed(site, "delete", "clusterversion", *well.where)
    site.until(lambda: phase_or_nothing(site, well) == "Ready", "made again")
    made, bke = site.version(well), site.bke(well)
    assert made["spec"]["desiredVersion"] == made["status"]["currentVersion"] == OLD
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("BKECluster", bke["metadata"]["uid"], True)
    site.until(lambda: bool(events(site, well, "ClusterVersionCreated")), "told")
    assert site.runs(well) == []


def phase_or_nothing(site: RealSite, cluster: RealCluster) -> str:
    done = site.run(site.kubectl_program, "get", "clusterversion", *cluster.where, "-o", "jsonpath={.status.phase}")
    return done.stdout if done.returncode == 0 else ""


def test_the_old_trigger_starts_nothing_and_names_the_right_command(site: RealSite, well: RealCluster) -> None:
    def spec(version: str) -> str:
        return json.dumps({"spec": {"clusterConfig": {"cluster": {"openFuyaoVersion": version}}}})

    typed(site, "patch", "bkecluster", *well.where, "--type", "merge", "-p", spec(NEW))
    site.until(lambda: bool(events(site, well, "OldTriggerIgnored")), "told")
    (event,) = events(site, well, "OldTriggerIgnored")
    assert (event["type"], event["involvedObject"]["kind"]) == ("Warning", "BKECluster")
    assert "set to v31.03 by kubectl-patch" in event["message"]
    wish = f'{{"spec":{{"desiredVersion":"{NEW}"}}}}'
    assert f"kubectl patch clusterversion life -n life --type merge -p '{wish}'" in event["message"]
    typed(site, "patch", "bkecluster", *well.where, "--type", "merge", "-p", spec(OLD))
    assert site.runs(well) == []


def test_the_catalogue_says_whether_it_can_be_used(site: RealSite, well: RealCluster) -> None:
    def columns() -> list[str]:
        return typed(site, "get", "upgradepath", "--no-headers").split()

    sound = catalogue()
    count = str(len(sound["spec"]["paths"]))
    site.until(lambda: columns()[1:3] == ["Active", count], "judged")
    bad = catalogue()
    bad["spec"]["paths"].append({"from": NEW, "to": OLD})
    site.control_plane.apply(bad)
    site.until(lambda: columns()[1:3] == ["Invalid", str(len(bad["spec"]["paths"]))], "judged anew")
    told = typed(
        site, "get", "upgradepath", "-o", 'jsonpath={.items[0].status.conditions[?(@.type=="Validated")].message}'
    )
    assert f"spec.paths[{len(bad['spec']['paths']) - 1}]" in told
    site.patch_desired_version(well, MIDDLE)
    site.until(lambda: phase(site, well) == "PreCheckFailed", "refused")
    site.control_plane.apply(sound)
    site.until_ready(well, MIDDLE)
    assert columns()[1:3] == ["Active", count]


def test_kubectl_edit_works_like_patch_and_the_newest_version_has_nothing_above(
    site: RealSite, well: RealCluster
) -> None:
    editor = site.folder / "editor.sh"
    editor.write_text(f'#!/bin/sh\nsed -i "s/desiredVersion: .*/desiredVersion: {NEW}/" "$1"\n')
    editor.chmod(0o755)
    path = os.environ["PATH"]
    done = site.run(
        "env", f"KUBE_EDITOR={editor}", f"PATH={path}", site.kubectl_program, "edit", "clusterversion", *well.where
    )
    assert done.returncode == 0, done.stderr
    site.until_ready(well, NEW)
    assert health(site, well) == "Healthy"
    answer = json.loads(site.hopline("versions", *well.where, "-o", "json").stdout)
    assert (answer["versions"], answer["reason"]) == ([], "AlreadyNewest")
    assert not events(site, well, "OldTriggerIgnored")[1:], "our own declarations are no old trigger"


def test_the_health_state_is_kept_true_between_upgrades(site: RealSite, well: RealCluster) -> None:
    node = site.control_plane.get("node", well.master)
    site.control_plane.kubectl("delete", "node", well.master, "--wait=false")
    site.until(lambda: health(site, well) == "Unhealthy", "seen")
    message = typed(
        site, "get", "bkecluster", *well.where, "-o",
        'jsonpath={.status.conditions[?(@.type=="ClusterHealthyState")].message}',
    )  # fmt: skip
    assert f"there is no Node {well.master}" in message
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        node["metadata"].pop(key, None)
    site.control_plane.apply(node)
    site.control_plane.apply(node, subresource="status")
    site.until(lambda: health(site, well) == "Healthy", "seen to be well")


def test_what_the_phases_mean_is_explained(site: RealSite) -> None:
    told = typed(site, "explain", "clusterversion.status.phase")
    for word in (
        "PreChecking",
        "Upgrading: from the first write of the first hop",
        "PreCheckFailed: refused",
        "Failed",
    ):
        assert word in told


def test_another_wish_in_mid_run_is_answered_and_looked_at_afterwards(site: RealSite, broken: RealCluster) -> None:
    old, new = HELD
    site.patch_desired_version(broken, new)
    site.until(lambda: phase(site, broken) == "Failed", "held")
    site.patch_desired_version(broken, "v99.01")
    site.until(lambda: condition(site, broken).get("status") == "False", "answered")
    assert f"v99.01 is asked for while the upgrade to {new} is under way" in condition(site, broken)["message"]
    (event,) = events(site, broken, "DesiredVersionRefused")
    assert event["type"] == "Warning"
    assert len(site.runs(broken)) == 1

    site.patch_desired_version(broken, new)
    site.until(lambda: condition(site, broken).get("status") == "True", "joined")
    site.patch_desired_version(broken, "v99.01")
    site.until(lambda: condition(site, broken).get("status") == "False", "answered again")
    assert site.hopline("abort", *broken.where).returncode == 0
    site.until(lambda: phase(site, broken) == "PreCheckFailed", "evaluated in its turn")
    assert condition(site, broken, "Ready")["reason"] == "UnknownVersion"

    site.patch_desired_version(broken, old)
    site.until(lambda: phase(site, broken) == "Ready", "taken back")
    site.until(lambda: health(site, broken) == "Healthy", "well")
    assert condition(site, broken)["status"] == "True"


def test_a_run_that_has_ended_starts_again_by_the_annotation_which_then_is_gone(
    site: RealSite, broken: RealCluster
) -> None:
    new = HELD[1]
    site.patch_desired_version(broken, new)
    site.until(lambda: phase(site, broken) == "Failed", "held")
    assert site.hopline("abort", *broken.where).returncode == 0
    site.control_plane.kubectl("create", "namespace", MISSING)
    typed(site, "annotate", "bkecluster", *broken.where, f"{ANNOTATION_RETRY}=")
    site.until_ready(broken, new)
    assert ANNOTATION_RETRY not in site.bke(broken)["metadata"]["annotations"]
    assert health(site, broken) == "Healthy"
