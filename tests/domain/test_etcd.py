"""Whether a member of etcd may be taken down, and when it is back: every rule on values."""

from __future__ import annotations

import pytest

from builders_domain import node, sample_facts
from hopline.domain.cluster import ClusterFacts, NodeFacts, node_facts
from hopline.domain.etcd import (
    DEFAULT_QUOTA,
    EtcdAlarm,
    EtcdAlarmType,
    EtcdMember,
    EtcdSighting,
    endpoints,
    health_problems,
    not_back,
    objection,
    space_problems,
    successor,
)


def etcd_node(name: str) -> NodeFacts:
    return node_facts(node(name, "master", "etcd"))


def member(name: str, **more: object) -> EtcdMember:
    fields = {"address": etcd_node(name).ip, "listed": True, "applied": 50_000, "db_size": 10, "quota": 100, **more}
    return EtcdMember(name=name, **fields)


def sighting(size: int = 3, *, leader: str = "m1", **changed: EtcdMember) -> EtcdSighting:
    members = tuple(changed.get(name) or member(name) for name in (f"m{number}" for number in range(1, size + 1)))
    return EtcdSighting(members=members, leader=leader)


def facts(size: int = 3) -> ClusterFacts:
    nodes = tuple(etcd_node(f"m{number}") for number in range(1, size + 1))
    return sample_facts().model_copy(update={"nodes": (*nodes, node_facts(node("w1", "node")))})


DOWN = member("m2", problem="no answer from 192.0.2.12:2379: Connection refused")


def test_a_healthy_cluster_of_any_size_may_lose_any_member() -> None:
    for size in (1, 2, 3, 5):
        seen = sighting(size)
        assert health_problems(seen, facts(size)) == ()
        for number in range(1, size + 1):
            for changes in (True, False):
                assert objection(seen, etcd_node(f"m{number}"), changes_etcd=changes) is None


@pytest.mark.parametrize(("size", "quorum", "spare"), [(1, 1, False), (2, 2, False), (3, 2, True), (5, 3, True)])
def test_quorums(size: int, quorum: int, spare: bool) -> None:
    seen = sighting(size)
    assert (seen.voters, seen.quorum, seen.has_spare) == (size, quorum, spare)


def test_no_member_goes_that_would_take_the_quorum_with_it_whatever_the_work_is() -> None:
    seen = sighting(m2=DOWN)
    for changes in (True, False):
        found = objection(seen, etcd_node("m3"), changes_etcd=changes)
        assert found is not None
        assert found.passes
        assert "without m3 etcd would lose its quorum of 2 of 3" in found.message
        assert "etcd member m2 does not serve" in found.message
        assert "etcd pod of m2" in found.remedy


def test_the_member_that_is_down_may_be_worked_on_because_that_heals_it() -> None:
    assert objection(sighting(m2=DOWN), etcd_node("m2"), changes_etcd=True) is None


def test_of_five_members_two_are_not_out_at_once_for_a_change_of_etcd_but_may_be_for_other_work() -> None:
    seen = sighting(5, m2=DOWN)
    found = objection(seen, etcd_node("m3"), changes_etcd=True)
    assert found is not None
    assert "m2 does not serve" in found.message
    assert objection(seen, etcd_node("m3"), changes_etcd=False) is None


@pytest.mark.parametrize(
    ("ill", "told"),
    [
        (member("m2", listed=False), "etcd member m2 is not in the list of members"),
        (member("m2", learner=True), "etcd member m2 is a learner"),
        (member("m2", applied=10), "etcd member m2 is 49990 entries behind"),
    ],
)
def test_a_member_that_only_looks_as_if_it_were_there_does_not_count(ill: EtcdMember, told: str) -> None:
    seen = sighting(m2=ill)
    found = objection(seen, etcd_node("m3"), changes_etcd=True)
    assert found is not None
    assert told in found.message
    assert told in not_back(seen, etcd_node("m2"))
    assert any(told in one for one in health_problems(seen, facts()))


@pytest.mark.parametrize(
    ("alarm", "way"), [(EtcdAlarmType.NOSPACE, "etcdctl defrag"), (EtcdAlarmType.CORRUPT, "from a good one")]
)
def test_an_alarm_stops_a_change_of_etcd_until_a_person_has_taken_it_back(alarm: EtcdAlarmType, way: str) -> None:
    seen = sighting().model_copy(update={"alarms": (EtcdAlarm(member="m3", type=alarm),)})
    found = objection(seen, etcd_node("m1"), changes_etcd=True)
    assert found is not None
    assert not found.passes
    assert found.message == f"etcd member m3 has raised the alarm {alarm.value}"
    assert way in found.remedy
    assert "etcdctl alarm disarm" in found.remedy
    assert objection(seen, etcd_node("m1"), changes_etcd=False) is None, "a kubelet may be changed all the same"
    assert found.message in health_problems(seen, facts())


def test_alarms_that_could_not_be_asked_for_are_not_no_alarms() -> None:
    seen = sighting().model_copy(update={"alarms_unread": "request timed out"})
    found = objection(seen, etcd_node("m1"), changes_etcd=True)
    assert found is not None
    assert found.passes
    assert "nobody knows" in found.message
    assert any("nobody knows" in one for one in health_problems(seen, facts()))


def test_without_a_leader_nothing_goes_and_nobody_is_back() -> None:
    seen = sighting(leader="")
    found = objection(seen, etcd_node("m1"), changes_etcd=True)
    assert found is not None
    assert "no leader" in found.message
    assert "no leader" in not_back(seen, etcd_node("m1"))
    assert not_back(sighting(), etcd_node("m1")) == ""


def test_a_database_that_is_nearly_full_stops_a_change_of_etcd() -> None:
    seen = sighting(m2=member("m2", db_size=91, quota=100))
    found = objection(seen, etcd_node("m1"), changes_etcd=True)
    assert found is not None
    assert not found.passes
    assert "the database of etcd member m2" in found.message
    assert "defrag" in found.remedy
    full = member("m2", db_size=int(DEFAULT_QUOTA * 0.95), quota=0)
    assert "1946 MiB of at most 2048 MiB" in space_problems(sighting(m2=full))[0]


def test_no_quorum_a_stranger_and_a_node_without_a_member_are_all_named() -> None:
    stranger = EtcdMember(name="old", listed=True, problem="it is in the list of members, and no BKENode is its node")
    seen = EtcdSighting(members=(member("m1"), DOWN, stranger))
    told = health_problems(seen, facts())
    assert "etcd has no quorum: 1 of 3 members serve, 2 must" in told
    assert "etcd has no member on node m3" in told
    assert any("etcd member old" in one for one in told)
    assert not_back(seen, etcd_node("m3")) == "etcd has no member on node m3"


def test_the_port_is_the_nodes_own_else_the_clusters_else_the_usual_one() -> None:
    found = facts()
    assert {one.url for one in endpoints(found)} == {f"https://{etcd_node(f'm{n}').ip}:2379" for n in (1, 2, 3)}
    document = {
        "spec": {"clusterConfig": {"cluster": {"etcd": {"extraArgs": {"listen-client-urls": "https://:3379"}}}}}
    }
    found = found.model_copy(update={"document": document})
    assert {one.port for one in endpoints(found)} == {3379}
    arguments = {"advertise-client-urls": "https://192.0.2.11:4379,https://10.0.0.1:5379"}
    own = node_facts(
        {"metadata": {"name": "n"}, "spec": {"ip": "::1", "etcd": {"extraArgs": arguments}, "role": ["etcd"]}}
    )
    assert own.etcd_port == 4379
    (only,) = endpoints(found.model_copy(update={"nodes": (own,)}))
    assert only.url == "https://[::1]:4379"
    for bad in ({"extraArgs": "text"}, {"extraArgs": {"listen-client-urls": "https://x:port"}}, "text", None):
        assert node_facts({"metadata": {}, "spec": {"ip": "1", "etcd": bad}}).etcd_port == 0


def test_a_word_that_this_version_does_not_know_is_no_error() -> None:
    assert EtcdAlarmType("WHATEVER") is EtcdAlarmType.UNKNOWN


@pytest.mark.parametrize(
    ("seen", "heir"),
    [
        (sighting(leader="m1"), "m3"),
        (sighting(leader="m2"), ""),
        (sighting(leader=""), ""),
        (sighting(1, leader="m1"), ""),
        (sighting(2, leader="m1"), ""),
        (sighting(5, leader="m1"), "m5"),
        (sighting(leader="m1", m3=member("m3", problem="no answer")), "m2"),
        (sighting(leader="m1", m3=member("m3", learner=True), m2=DOWN), ""),
        (sighting(leader="m1", m3=member("m3", applied=1)), "m2"),
        (sighting(leader="m1", m3=member("m3", address="")), "m2"),
    ],
)
def test_a_leader_hands_over_to_a_member_that_is_well(seen: EtcdSighting, heir: str) -> None:
    assert successor(seen, etcd_node("m1")) == heir
