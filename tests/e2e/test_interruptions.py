"""Processes die in the middle of a batch on the real API server, and nothing that was done is done again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane.agent_script import Outcome, Step
from controlplane.audit import AuditEvent
from real_lab import TARGET, WORKER, RealCluster, RealSite

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]
NEW = "v26.06"


@pytest.fixture
def cluster(site: RealSite, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """A control-plane node and a worker node; the step of the control plane goes on until it is released."""
    made = site.add_cluster("killed" if "worker" in request.node.name else "outage", (1, 1))
    made.script.hold(made.master, Step.UPGRADE_CONTROL_PLANE)
    yield made
    made.script.release(made.master, Step.UPGRADE_CONTROL_PLANE)
    site.remove_cluster(made)


def until_in_the_middle_of_a_batch(site: RealSite, cluster: RealCluster) -> None:
    """kubernetes-master is in hand; its batch has kubernetes-worker too, which begins when every API server is new."""

    def in_hand() -> bool:
        return Step.UPGRADE_CONTROL_PLANE in [execution.step for execution in cluster.script.executions]

    site.until(in_hand, "in the middle of a batch")
    completed = site.bke(cluster)["status"]["declarativeUpgrade"]["completed"]
    assert {"provider", "containerd"} <= {entry["name"] for entry in completed}


def assert_nothing_ran_twice(site: RealSite, cluster: RealCluster) -> None:
    """Every step of every node ran once per hop, and every workload was written once per hop."""
    executions = cluster.script.executions
    assert {execution.outcome for execution in executions} == {Outcome.SUCCEEDED}
    assert len(executions) == cluster.steps_of_both_hops
    assert cluster.script.overlaps() == []
    assert set(site.applies(cluster, TARGET, ("deployments", "daemonsets")).values()) == {2}
    assert [hop["status"] for hop in site.version(cluster)["status"]["upgradeHistory"]] == ["Succeeded", "Succeeded"]


def assert_others_join_or_are_refused(site: RealSite, cluster: RealCluster) -> None:
    """While a run is open: the same wish joins it and may stop waiting, another one is refused."""
    joined = site.hopline("upgrade", *cluster.where, "--to", NEW, "--wait", "--timeout", "1s")
    assert joined.returncode == 5, joined.stderr
    assert "the upgrade goes on" in " ".join((joined.stdout + joined.stderr).split())
    other = site.hopline("upgrade", *cluster.where, "--to", "v26.06-rc.3")
    assert other.returncode == 3, other.stdout
    assert f"hopline abort {cluster.key.name} -n {cluster.key.kube_namespace}" in " ".join(other.stderr.split())
    assert len(site.runs(cluster)) == 1


def commands_created(events: list[AuditEvent]) -> list[AuditEvent]:
    return [event for event in events if event.resource == "commands" and event.verb == "create" and event.code == 201]


def test_another_worker_finishes_what_a_killed_one_began(site: RealSite, cluster: RealCluster) -> None:
    site.patch_desired_version(cluster, NEW)
    until_in_the_middle_of_a_batch(site, cluster)
    assert_others_join_or_are_refused(site, cluster)
    mark = site.control_plane.audit_mark()
    site.kill("worker")
    cluster.script.release(cluster.master, Step.UPGRADE_CONTROL_PLANE)
    site.start_worker()
    site.until_ready(cluster, NEW)
    assert_nothing_ran_twice(site, cluster)
    since = site.control_plane.audit_events(mark, WORKER)
    still_to_do = 1 + cluster.steps_of_last_hop
    assert len(commands_created(since)) == still_to_do, "the worker node, then the last hop; the master's is adopted"


def test_an_upgrade_outlives_a_restart_of_the_api_server(site: RealSite, cluster: RealCluster) -> None:
    site.patch_desired_version(cluster, NEW)
    until_in_the_middle_of_a_batch(site, cluster)
    site.control_plane.kill_apiserver()
    cluster.script.release(cluster.master, Step.UPGRADE_CONTROL_PLANE)
    site.control_plane.start_apiserver()
    site.until_ready(cluster, NEW)
    assert_nothing_ran_twice(site, cluster)
