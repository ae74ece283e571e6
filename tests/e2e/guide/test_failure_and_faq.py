"""The guide's prerequisites (前提条件), what to do after a failure (升级失败处理), and its FAQ, typed line by line."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from controlplane.agent_script import Outcome, Step
from example_folders import BROKEN, FIRST, HELD, MISSING, WELL, catalogue
from guide_lines import DESCRIBE, EVENTS, RETRY, Line, Person
from hopline.domain.resources import ANNOTATION_UPGRADE_READY
from real_lab import TARGET, WORKER, RealCluster, RealSite, in_order

pytestmark = [pytest.mark.slow, pytest.mark.controlplane]
OLD, MIDDLE, NEW = WELL
BIG_MIDDLE = "v26.06-rc.3"
VERSION_OF_NODE_STEPS = "v1.0.0"
"""What the BKECluster records for every inline component, as the existing controller does."""
STATUS = "hopline status <集群名称> -n <命名空间>"
VERSIONS = "hopline versions <集群名称> -n <命名空间>"
TAINT = "example.test/nothing-new"
PROVIDER, PROVIDERS_PLACE = "bke-controller-manager", "cluster-system"


@pytest.fixture(scope="module")
def healthy(site: RealSite) -> Iterator[tuple[Person, RealCluster]]:
    """A small workload cluster that is refused again and again, and never upgraded before its last test."""
    cluster = site.add_cluster("small", (1, 0), family=WELL)
    yield Person(site, cluster.key), cluster
    site.remove_cluster(cluster)


@pytest.fixture
def failing(site: RealSite) -> Iterator[tuple[Person, RealCluster]]:
    """A small workload cluster whose next release has an object that does not fit."""
    cluster = site.add_cluster("failing", (1, 0), family=HELD)
    yield Person(site, cluster.key), cluster
    site.remove_cluster(cluster)
    site.control_plane.kubectl("delete", "namespace", MISSING, "--ignore-not-found")


def set_health(site: RealSite, cluster: RealCluster, state: str) -> None:
    body = json.dumps({"status": {"clusterHealthState": state}})
    site.control_plane.kubectl(
        "patch", "bkecluster", *cluster.where, "--subresource=status", "--type=merge", "-p", body
    )


def assert_refused(person: Person, cluster: RealCluster, *words: str, current: str = OLD) -> None:
    """The wish is answered: phase, condition and event say why, and nothing has changed."""
    site = person.site
    site.until(lambda: site.outcome(cluster) == "Refused", "refused")
    assert person.type(Line.PHASE) == "PreCheckFailed"
    assert person.type(Line.CURRENT_VERSION) == current
    site.until(lambda: "Warning" in person.type(EVENTS), "told")
    described = " ".join(person.type(DESCRIBE).split())
    assert [word for word in words if word not in described] == [], described
    assert ANNOTATION_UPGRADE_READY not in (site.bke(cluster)["metadata"].get("annotations") or {})
    assert not site.applies(cluster, TARGET)


def take_back(person: Person) -> None:
    """`kubectl edit`: desired is what is there."""
    person.type(Line.EDIT, editor=f"sed -i 's/desiredVersion: .*/desiredVersion: {OLD}/'")
    person.site.until(lambda: person.type(Line.PHASE) == "Ready", "taken back")


def set_current_version(site: RealSite, cluster: RealCluster, version: str) -> None:
    body = json.dumps({"status": {"currentVersion": version}})
    where = ("clusterversion", *cluster.where, "--subresource=status", "--type=merge")
    site.control_plane.kubectl("patch", *where, "-p", body)


def test_limits_an_older_platform_is_sent_to_its_own_guide(healthy: tuple[Person, RealCluster]) -> None:
    """使用限制: v26.03 is upgraded by another guide; nothing starts, and the refusal names that guide."""
    person, cluster = healthy
    set_current_version(person.site, cluster, "v26.03")
    person.type(Line.PATCH)
    assert_refused(person, cluster, "v26.03 is older than v26.06-rc.2", "upgrade guide", current="v26.03")
    set_current_version(person.site, cluster, OLD)
    take_back(person)


def test_prerequisites_the_cluster_must_be_healthy(healthy: tuple[Person, RealCluster]) -> None:
    """前提条件, 步骤一: 若输出不是Healthy，需先排查和修复集群问题. It is shown, and a wish is refused by name."""
    person, cluster = healthy
    set_health(person.site, cluster, "Unhealthy")
    assert person.type(Line.CLUSTER).splitlines()[1].split()[2] == "Unhealthy"
    person.type(Line.PATCH, version=NEW)
    assert_refused(person, cluster, "BKECluster small/small", "status.clusterHealthState", "Unhealthy")
    take_back(person)
    set_health(person.site, cluster, "Healthy")
    assert person.type(Line.CLUSTER).splitlines()[1].split()[2] == "Healthy"


def test_prerequisites_the_version_repository_can_be_reached(healthy: tuple[Person, RealCluster]) -> None:
    """前提条件: 管理集群可以访问远程版本仓库. A release that cannot be had is refused before anything changes."""
    person, cluster = healthy
    release, away = person.site.releases / MIDDLE, person.site.folder / "away"
    shutil.move(release, away)
    try:
        person.type(Line.PATCH, version=NEW)
        assert_refused(person, cluster, MIDDLE)
    finally:
        shutil.move(away, release)
    take_back(person)


def test_step_3_trigger_the_upgrade_by_edit(healthy: tuple[Person, RealCluster]) -> None:
    """步骤三：触发升级, `kubectl edit`: refused first, it begins by itself when the cluster is well."""
    person, cluster = healthy
    set_health(person.site, cluster, "Unhealthy")
    person.type(Line.EDIT, editor=f"sed -i 's/desiredVersion: .*/desiredVersion: {NEW}/'")
    assert_refused(person, cluster, "status.clusterHealthState")
    set_health(person.site, cluster, "Healthy")
    person.site.until_ready(cluster, NEW)
    assert person.type(Line.CURRENT_VERSION) == NEW
    assert person.type(Line.HEALTH) == "Healthy"


def assert_failure_is_shown(person: Person, name: str, version: str, *words: str) -> dict[str, Any]:
    """The three lines of 查看失败详情; returns `lastFailure`."""
    person.site.until(lambda: "UpgradeHeld" in person.type(EVENTS), "held")
    assert in_order(person.type(Line.VERSION_YAML), "kind: ClusterVersion", "status:", "phase: Failed")
    failure: dict[str, Any] = json.loads(person.type(Line.LAST_FAILURE))
    assert (failure["name"], failure["version"], failure["attempt"]) == (name, version, 1)
    assert [word for word in words if word not in failure["error"]] == []
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", failure["failedAt"])
    assert person.type(Line.HEALTH) == "UpgradeFailed"
    return failure


def test_after_a_failure_look_at_the_details_and_go_on(failing: tuple[Person, RealCluster]) -> None:
    """升级失败处理, 查看失败详情: three lines; after the repair the annotation goes on exactly where it stopped."""
    person, cluster = failing
    old, new = HELD
    person.type(Line.PATCH, version=new)
    assert_failure_is_shown(person, BROKEN, new, MISSING)
    assert person.type(Line.CURRENT_VERSION) == old
    described = " ".join(person.type(DESCRIBE).split())
    assert "hopline retry failing -n failing" in described and "hopline abort failing -n failing" in described
    person.site.control_plane.kubectl("create", "namespace", MISSING)
    person.type(RETRY)
    person.site.until_ready(cluster, new)
    assert person.type(Line.CURRENT_VERSION) == new
    assert person.type(Line.PHASE) == "Ready"
    assert person.type(Line.HEALTH) == "Healthy"
    assert person.type(Line.LAST_FAILURE) == ""
    assert person.site.applies(cluster, TARGET)[("configmaps", FIRST)] == 1, "what was done is not done again"
    answer = json.loads(person.type(f"{VERSIONS} -o json"))
    assert (answer["versions"], answer["reason"]) == ([], "NoPath")


@dataclass(frozen=True)
class Rolled:
    """The cluster that manages itself, after its worker died while the provider's Deployment rolled."""

    person: Person
    cluster: RealCluster
    available: int
    """Pods of the provider that served meanwhile."""


@pytest.fixture(scope="module")
def rolled(site: RealSite) -> Iterator[Rolled]:
    """No node takes the provider's new pod until another worker is there; a node's agent fails later."""
    cluster = site.add_cluster("guide", (1, 1))
    person = Person(site, cluster.key)
    cluster.script.fail(cluster.master, Step.UPGRADE_CONTROL_PLANE, times=10)
    # Not a cordon, which an upgrade respects. The nodes of all clusters are on this one API server.
    site.control_plane.kubectl("taint", "nodes", "--all", f"{TAINT}=yes:NoSchedule")
    person.type(Line.PATCH, version=BIG_MIDDLE)
    # Its apply is over then, and stored: the next worker has only to wait for the pods.
    site.until(lambda: "Unschedulable" in person.type(STATUS), "provider rolling")
    site.kill("worker")
    status = site.control_plane.get("deployment", PROVIDER, "-n", PROVIDERS_PLACE)["status"]
    site.start_worker()
    site.control_plane.kubectl("taint", "nodes", "--all", f"{TAINT}-")
    yield Rolled(person, cluster, status["availableReplicas"])
    site.remove_cluster(cluster)


def test_faq_4_the_provider_is_replaced_while_the_upgrade_goes_on(site: RealSite, rolled: Rolled) -> None:
    """FAQ 升级过程中provider自升级后为什么会有短暂中断: old pods serve until new ones do; a worker may end."""
    assert rolled.available >= 2
    site.until(lambda: "1/5 provider: v26.06-rc.3" in rolled.person.type(EVENTS), "told")
    deployment = site.control_plane.get("deployment", PROVIDER, "-n", PROVIDERS_PLACE)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"].endswith(f":{BIG_MIDDLE}")
    assert deployment["status"]["updatedReplicas"] == deployment["status"]["readyReplicas"] == 2
    assert site.applies(rolled.cluster, WORKER, ("deployments",))[("deployments", PROVIDER)] == 1


def test_common_causes_a_node_fails(site: RealSite, rolled: Rolled) -> None:
    """常见失败原因: a node's agent fails; the details name the node, and only it is done again."""
    person, cluster, script = rolled.person, rolled.cluster, rolled.cluster.script
    failure = assert_failure_is_shown(person, "kubernetes-master", VERSION_OF_NODE_STEPS, cluster.master)
    assert f"failed on {cluster.master}" in failure["error"] and "journalctl -u bkeagent" in failure["error"]
    tries = len(script.executions)
    script.fail(cluster.master, Step.UPGRADE_CONTROL_PLANE, times=0)
    person.type(RETRY)
    site.until_ready(cluster, BIG_MIDDLE)
    assert person.type(Line.HEALTH) == "Healthy"
    again = script.executions[tries:]
    assert {one.outcome for one in again} == {Outcome.SUCCEEDED}
    # The environment of a node is prepared before its kubernetes is upgraded, by the same Command.
    assert [one.step for one in again if one.step is not Step.ENVIRONMENT] == [
        Step.UPGRADE_CONTROL_PLANE,
        Step.UPGRADE_WORKER,
    ]


def test_faq_1_declarative_upgrade_and_the_old_trigger(site: RealSite) -> None:
    """FAQ 声明式升级和旧版PhaseFlow升级有什么区别: the old field starts nothing, and gets the new command."""
    cluster = site.add_cluster("old", (1, 0), family=WELL)
    person = Person(site, cluster.key)
    spec = json.dumps({"spec": {"clusterConfig": {"cluster": {"openFuyaoVersion": MIDDLE}}}})
    person.type(f"kubectl patch bkecluster <集群名称> -n <命名空间> --type merge -p {shlex.quote(spec)}")
    site.until(lambda: "OldTriggerIgnored" in person.type(EVENTS), "told")
    assert site.runs(cluster) == []
    told = json.loads(person.type(f"{EVENTS} --field-selector reason=OldTriggerIgnored -o json"))["items"]
    (command,) = re.findall(r"kubectl patch clusterversion .*?'\{.*?\}'", told[0]["message"])
    person.type(command)
    site.until_ready(cluster, MIDDLE)
    site.remove_cluster(cluster)


def test_faq_2_why_the_list_of_versions_is_empty(site: RealSite) -> None:
    """FAQ 升级版本列表为空是什么原因: the two lines, and the three causes by name."""
    cluster = site.add_cluster("newest", (1, 0), family=WELL[-1:])
    person = Person(site, cluster.key)

    def answered() -> dict[str, Any]:
        done = site.hopline("versions", *cluster.where, "-o", "json")
        answer: dict[str, Any] = json.loads(done.stdout)
        assert answer["versions"] == []
        return answer

    try:
        edges = catalogue()["spec"]["paths"]
        site.until(lambda: person.type(Line.ANY_PATHS).split()[-2:] == ["Active", str(len(edges))], "judged")
        assert json.loads(person.type(Line.PATH_RULES)) == edges
        assert answered()["reason"] == "AlreadyNewest"

        further = catalogue()
        further["spec"]["paths"].append({"from": "v31.04", "to": "v31.05"})
        site.control_plane.apply(further)
        assert NEW not in [edge["from"] for edge in json.loads(person.type(Line.PATH_RULES))]
        assert (answer := answered())["reason"] == "NoPath" and NEW in answer["message"]

        noted = {
            "type": "Fetched",
            "status": "False",
            "reason": "Unreachable",
            "message": "dial tcp 192.0.2.5:40443: connection refused",
            "lastTransitionTime": "2026-08-01T02:00:00Z",
        }
        patch = json.dumps([{"op": "add", "path": "/status/conditions/-", "value": noted}])
        where = ("upgradepath", "openfuyao-upgrade-paths", "--subresource=status", "--type=json")
        site.control_plane.kubectl("patch", *where, "-p", patch)
        answer = answered()
        assert answer["reason"] == "CatalogueUnreachable"
        assert noted["lastTransitionTime"] in answer["message"] and "connection refused" in answer["message"]

        site.control_plane.kubectl("delete", "upgradepath", "--all")
        assert person.type(Line.ANY_PATHS) == ""
        missing = site.hopline("versions", *cluster.where)
        assert missing.returncode == 3
        assert "UpgradePath" in missing.stderr
    finally:
        site.control_plane.kubectl("delete", "upgradepath", "--all")
        site.control_plane.apply(catalogue())
        site.remove_cluster(cluster)
