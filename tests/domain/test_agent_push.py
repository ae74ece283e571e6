"""Which file, which next move, and what the wire looks like when a node agent is raised."""

from __future__ import annotations

from typing import Any

import pytest

from builders_domain import sample_facts
from hopline.domain.agent_push import (
    AgentState,
    Move,
    agent_file,
    architecture_of,
    file_repository,
    is_ping_of,
    known_host_name,
    next_move,
    ping_document,
    read_state,
)
from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import Rejected

OLD, NEW = "a" * 64, "b" * 64


def facts(cluster: dict[str, Any], **extra: str) -> ClusterFacts:
    config = {"cluster": cluster, "customExtra": extra}
    return sample_facts().model_copy(update={"document": {"spec": {"clusterConfig": config}}})


@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        ({"domain": "files.test", "port": "8080", "prefix": "/a/b/"}, "http://files.test:8080/a/b"),
        ({"domain": "files.test", "ip": "192.0.2.1"}, "http://files.test"),
        ({"ip": "192.0.2.1", "port": 80}, "http://192.0.2.1:80"),
        ({"ip": "2001:db8::1", "port": "80"}, "http://[2001:db8::1]:80"),
        ({"port": "80"}, ""),
        (None, ""),
    ],
)
def test_where_the_files_of_a_cluster_are(repository: Any, expected: str) -> None:
    assert file_repository(facts({"httpRepo": repository})) == expected


def test_names_of_binaries() -> None:
    assert agent_file(sample_facts(), "v1.0.3", "arm64") == "bkeagent-1.0.3-linux-arm64"
    assert agent_file(sample_facts(), "", "amd64") == "bkeagent-latest-linux-amd64"
    assert agent_file(facts({}, bkeagent="own-{.arch}.bin"), "v1.0.3", "amd64") == "own-amd64.bin"
    assert agent_file(facts({}, bkeagent="own"), "v1.0.3", "amd64") == "own"


def test_kinds_of_machines() -> None:
    node = sample_facts().nodes[0]
    assert [architecture_of(one, node) for one in ("x86_64", "aarch64")] == ["amd64", "arm64"]
    with pytest.raises(Rejected, match="uname -m is 'riscv64'; remedy: known are amd64, arm64"):
        architecture_of("riscv64", node)


@pytest.mark.parametrize(
    ("state", "move"),
    [
        (AgentState(), Move.UPLOAD),
        (AgentState(installed=OLD, running=OLD, active="active"), Move.UPLOAD),
        (AgentState(installed=OLD, running=OLD, active="active", staged=OLD), Move.UPLOAD),
        (AgentState(installed=OLD, running=OLD, active="active", staged=NEW), Move.REPLACE),
        (AgentState(installed=NEW, running=OLD, active="active", staged=NEW), Move.RESTART),
        (AgentState(installed=NEW, running="", active="active"), Move.RESTART),
        (AgentState(installed=NEW, running="", active="failed"), Move.RESTART),
        (AgentState(installed=NEW, running=NEW, active="deactivating"), Move.RESTART),
        (AgentState(installed=NEW, running=NEW, active="active", pending=OLD), Move.ASK),
    ],
)
def test_the_next_move_follows_from_what_the_node_shows(state: AgentState, move: Move) -> None:
    assert next_move(state, NEW) is move


def test_what_a_node_prints() -> None:
    shown = f"machine=x86_64\ninstalled={OLD}\nmotd=a=b\nrunning=\nactive=active\nfree_kib=12\nrubbish\n"
    assert read_state(shown) == AgentState(machine="x86_64", installed=OLD, active="active", free_kib=12)
    assert read_state("free_kib=\n") == AgentState()


def test_a_ping_as_documented() -> None:
    cluster = sample_facts()
    node = cluster.nodes[0]
    document = ping_document(cluster, node, "ping--1796042534")
    assert document["metadata"]["labels"] == {
        "bke.bocloud.com/cluster-command": "",
        "cluster.x-k8s.io/cluster-name": cluster.key.name,
    }
    assert document["metadata"]["ownerReferences"] == [cluster.owner_reference]
    assert document["spec"] == {
        "nodeName": "",
        "suspend": False,
        "commands": [{"id": "ping", "command": ["Ping"], "type": "BuiltIn", "backoffDelay": 3}],
        "backoffLimit": 3,
        "activeDeadlineSecond": 1000,
        "ttlSecondsAfterFinished": 600,
        "nodeSelector": {"matchLabels": {node.ip: node.ip}},
    }
    assert is_ping_of(document, node)
    assert not is_ping_of(document, cluster.nodes[1])


def test_a_command_for_more_than_one_node_is_not_ours_to_delete() -> None:
    cluster = sample_facts()
    one, other = cluster.nodes[:2]
    document = ping_document(cluster, one, "ping--1")
    document["spec"]["nodeSelector"]["matchLabels"][other.ip] = other.ip
    assert not is_ping_of(document, one)


def test_records_of_host_keys_have_names_of_their_own() -> None:
    assert known_host_name("east", "192.0.2.1") == "hopline-host-key-east-192-0-2-1"
    assert known_host_name("east", "2001:db8::1") == "hopline-host-key-east-2001-db8--1"
    long = [known_host_name("c" * 220 + end, "192.0.2.1") for end in ("a", "b")]
    assert len(set(long)) == 2
    assert max(len(name) for name in long) <= 253
