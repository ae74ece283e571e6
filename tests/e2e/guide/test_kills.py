"""kill -9 of worker, watcher and Temporal server in the middle of each section of the guide's online part.

Each test is one section, each parameter one victim. While the victim is gone the person types on, and what she waits
for happens unobserved; the section ends as the guide promises, and nothing that was done is done again.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import pytest

from controlplane.agent_script import Outcome, Step
from example_folders import BROKEN, FIRST, HELD, LAST, MISSING, WELL
from guide_lines import DESCRIBE, RETRY, Line, Person
from hopline.domain.resources import ANNOTATION_RETRY, ANNOTATION_UPGRADE_READY
from own_temporal import OwnServer
from real_lab import TARGET, RealCluster, RealSite

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]
BIG_OLD, BIG_NEW = "v26.06-rc.2", "v26.06-rc.3"


class Victim(StrEnum):
    """What is killed with SIGKILL."""

    WORKER = "worker"
    WATCHER = "watcher"
    TEMPORAL = "temporal"


@dataclass(frozen=True)
class Killer:
    """Kills, and brings back."""

    site: RealSite
    server: OwnServer

    @contextmanager
    def without(self, victim: Victim) -> Iterator[None]:
        """The victim is dead inside, and back afterwards: the server with its database file."""
        if victim is Victim.TEMPORAL:
            self.server.kill()
        else:
            self.site.kill(victim.value)
        try:
            yield
        finally:
            self._bring_back(victim)

    def _bring_back(self, victim: Victim) -> None:
        match victim:
            case Victim.WORKER:
                self.site.start_worker()
            case Victim.WATCHER:
                self.site.start_watcher()
            case Victim.TEMPORAL:
                self.server.start_and_wait()


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    """A Temporal server that may be killed, for this file alone."""
    own = OwnServer(tmp_path_factory.mktemp("temporal"))
    own.start_and_wait()
    asyncio.run(own.prepare())
    yield own
    own.kill()


@pytest.fixture(scope="module")
def temporal_address(own_server: OwnServer) -> str:
    """In place of the run's server, which nobody may kill."""
    return own_server.server.address


@pytest.fixture
def killer(site: RealSite, own_server: OwnServer) -> Killer:
    return Killer(site, own_server)


@pytest.fixture
def person_at(site: RealSite) -> Iterator[Callable[..., tuple[Person, RealCluster]]]:
    """Makes a workload cluster and a person who looks after it."""
    made: list[RealCluster] = []

    def make(name: str, family: tuple[str, ...] = (), nodes: tuple[int, int] = (1, 0)) -> tuple[Person, RealCluster]:
        cluster = site.add_cluster(name, nodes, family=family)
        made.append(cluster)
        return Person(site, cluster.key), cluster

    yield make
    for cluster in made:
        site.remove_cluster(cluster)
    site.control_plane.kubectl("delete", "namespace", MISSING, "--ignore-not-found", "--wait=false")


victims = pytest.mark.parametrize("victim", list(Victim))
PersonAt = Callable[..., tuple[Person, RealCluster]]


def assert_confirmed(person: Person, cluster: RealCluster, version: str, hops: int = 1) -> None:
    """Step five of the guide, and as many executions as there were hops."""
    person.site.until_ready(cluster, version)
    assert_shown(person, version)
    assert len(person.site.runs(cluster)) == hops


def assert_shown(person: Person, version: str) -> None:
    """The three lines of step five."""
    assert person.type(Line.CURRENT_VERSION) == version
    assert person.type(Line.PHASE) == "Ready"
    assert person.type(Line.HEALTH) == "Healthy"


def assert_written_once(person: Person, cluster: RealCluster, hops: int = 1) -> None:
    """Every object of the small releases was written once per hop."""
    once = {("configmaps", FIRST): hops, ("configmaps", BROKEN): hops, ("deployments", LAST): hops}
    assert person.site.applies(cluster, TARGET) == once


def set_health(site: RealSite, cluster: RealCluster, state: str) -> None:
    body = json.dumps({"status": {"clusterHealthState": state}})
    site.control_plane.kubectl(
        "patch", "bkecluster", *cluster.where, "--subresource=status", "--type=merge", "-p", body
    )


def tries_of_the_broken_component(site: RealSite, cluster: RealCluster) -> int:
    return sum(event.is_write and event.name == BROKEN for event in site.requests(cluster, TARGET))


@victims
def test_steps_one_to_three_before_the_upgrade(killer: Killer, person_at: PersonAt, victim: Victim) -> None:
    """步骤一, 步骤二, 步骤三: what is typed while nobody listens is heard afterwards."""
    old, new, _ = WELL
    person, cluster = person_at(f"before-{victim}", WELL)
    with killer.without(victim):
        assert "Healthy" in person.type(Line.CLUSTER)
        assert new in person.type(Line.PATHS)
        person.type(Line.PATCH, version=new)
        assert person.type(Line.CURRENT_VERSION) == old
    assert_confirmed(person, cluster, new)
    assert_written_once(person, cluster)


@victims
def test_step_four_during_the_upgrade(killer: Killer, person_at: PersonAt, victim: Victim) -> None:
    """步骤四: a node's step ends while the victim is gone; the hop goes on from there."""
    person, cluster = person_at(f"during-{victim}", nodes=(1, 1))
    site, script = person.site, cluster.script
    script.hold(cluster.master, Step.UPGRADE_CONTROL_PLANE)
    person.type(Line.PATCH, version=BIG_NEW)
    site.until(lambda: Step.UPGRADE_CONTROL_PLANE in {one.step for one in script.executions}, "in mid-hop")
    with killer.without(victim):
        assert person.type(Line.PHASE) == "Upgrading"
        assert person.type(Line.HEALTH) == "Upgrading"
        script.release(cluster.master, Step.UPGRADE_CONTROL_PLANE)
        site.until(lambda: all(one.finished for one in script.executions), "the step over")
    assert_confirmed(person, cluster, BIG_NEW)
    assert {one.outcome for one in script.executions} == {Outcome.SUCCEEDED}
    assert len(script.executions) == cluster.steps_of_first_hop
    assert script.overlaps() == []
    assert set(site.applies(cluster, TARGET, ("deployments", "daemonsets")).values()) == {1}


@victims
def test_step_five_after_the_upgrade(killer: Killer, person_at: PersonAt, victim: Victim) -> None:
    """步骤五: it stays confirmed; nobody begins anew what is done, as the next upgrade's count of runs shows."""
    _, middle, new = WELL
    person, cluster = person_at(f"after-{victim}", WELL)
    person.type(Line.PATCH, version=middle)
    assert_confirmed(person, cluster, middle)
    with killer.without(victim):
        assert_shown(person, middle)
    person.type(Line.PATCH, version=new)
    assert_confirmed(person, cluster, new, hops=2)
    assert_written_once(person, cluster, hops=2)


@victims
def test_a_refused_upgrade(killer: Killer, person_at: PersonAt, victim: Victim) -> None:
    """前提条件: a cluster that is not Healthy is refused; it gets well while the victim is gone."""
    old, new, _ = WELL
    person, cluster = person_at(f"refused-{victim}", WELL)
    site = person.site
    set_health(site, cluster, "Unhealthy")
    person.type(Line.PATCH, version=new)
    site.until(lambda: site.outcome(cluster) == "Refused", "refused")
    with killer.without(victim):
        assert person.type(Line.PHASE) == "PreCheckFailed"
        assert person.type(Line.CURRENT_VERSION) == old
        assert "clusterHealthState" in person.type(DESCRIBE)
        assert ANNOTATION_UPGRADE_READY not in site.bke(cluster)["metadata"]["annotations"]
        assert site.applies(cluster, TARGET) == Counter()
        set_health(site, cluster, "Healthy")
    site.until_ready(cluster, new)
    assert_written_once(person, cluster)


@victims
def test_a_failed_upgrade_that_is_held(killer: Killer, person_at: PersonAt, victim: Victim) -> None:
    """查看失败详情: the details stand while the victim is gone and after, and nothing is tried again by itself."""
    person, cluster = person_at(f"held-{victim}", HELD)
    fail(person, cluster)
    tries = tries_of_the_broken_component(person.site, cluster)
    with killer.without(victim):
        assert_failure_is_shown(person)
    status = json.loads(person.type("hopline status <集群名称> -n <命名空间> -o json"))
    assert status["state"] == "Held"
    assert_failure_is_shown(person)
    assert tries_of_the_broken_component(person.site, cluster) == tries
    repair(person)
    person.type(RETRY)
    assert_confirmed(person, cluster, HELD[1])
    assert_written_once(person, cluster)


@victims
def test_after_the_repair(killer: Killer, person_at: PersonAt, victim: Victim) -> None:
    """升级失败处理: repair and annotation come while the victim is gone; it goes on where it stopped."""
    person, cluster = person_at(f"repaired-{victim}", HELD)
    fail(person, cluster)
    with killer.without(victim):
        repair(person)
        person.type(RETRY)
    assert_confirmed(person, cluster, HELD[1])
    assert_written_once(person, cluster)
    assert person.type(Line.LAST_FAILURE) == ""
    person.site.until(lambda: ANNOTATION_RETRY not in person.site.bke(cluster)["metadata"]["annotations"], "heard")


def fail(person: Person, cluster: RealCluster) -> None:
    """The wish, and its second component fails."""
    site = person.site
    site.control_plane.kubectl("wait", "--for=delete", f"namespace/{MISSING}", "--timeout=60s")
    person.type(Line.PATCH, version=HELD[1])
    site.until(lambda: "UpgradeHeld" in person.type("kubectl get events -n <命名空间>"), "held")


def repair(person: Person) -> None:
    person.site.control_plane.kubectl("create", "namespace", MISSING)


def assert_failure_is_shown(person: Person) -> None:
    """The three lines of 查看失败详情."""
    assert "phase: Failed" in person.type(Line.VERSION_YAML)
    failure = json.loads(person.type(Line.LAST_FAILURE))
    assert (failure["name"], failure["version"], failure["attempt"]) == (BROKEN, HELD[1], 1)
    assert MISSING in failure["error"]
    assert failure["failedAt"]
    assert person.type(Line.HEALTH) == "UpgradeFailed"
