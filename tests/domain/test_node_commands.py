"""Commands as documented (openfuyao-nodes.md §1.8) and as recorded (observed.md §6), and the nodes that get them."""

from __future__ import annotations

import pytest

from hopline.domain.cluster import ClusterFacts, NodeFacts
from hopline.domain.errors import InvalidRelease
from hopline.domain.node_commands import (
    NodeStep,
    command_document,
    command_prefix,
    is_collected,
    is_for,
    is_of_node_upgrade,
    is_same_work,
    members_of,
    node_command,
    steps_of,
)
from hopline.domain.plan import Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import Document
from hopline.domain.wire import ClusterKey

ETCD, MASTER, WORKER = InlineHandler.ETCD.value, InlineHandler.MASTER.value, InlineHandler.WORKER.value
CONTAINERD, AGENT = InlineHandler.CONTAINERD.value, InlineHandler.AGENT.value


def node(name: str, ip: str, *roles: str, code: int = 575, skip: bool = False) -> NodeFacts:
    return NodeFacts(
        name=f"demo-{ip.replace('.', '-')}", ip=ip, hostname=name, roles=roles, state_code=code, need_skip=skip
    )


M1 = node("master-1", "127.10.0.11", "master", "etcd")
M2 = node("master-2", "127.10.0.12", "master", "etcd")
W1 = node("worker-1", "127.10.0.21", "node")
W2 = node("worker-2", "127.10.0.22", "node")
FACTS = ClusterFacts(key=ClusterKey(kube_namespace="demo", name="demo"), uid="5a6e", nodes=(W2, M2, W1, M1))


def document(handler: str, version: str, of: NodeFacts, step: NodeStep = NodeStep.UPGRADE) -> Document:
    command = node_command(FACTS, handler, version, of, step)
    return command_document(FACTS, command, of, f"{command.prefix}-1796042534")


def names(handler: str, pool: Pool, facts: ClusterFacts = FACTS) -> list[str]:
    return [one.hostname for one in members_of(facts, handler, pool).nodes]


def test_an_etcd_command_is_the_recorded_one_field_by_field() -> None:
    assert document(ETCD, "v3.6.8-of.1", M1) == {
        "apiVersion": "bkeagent.bocloud.com/v1beta1",
        "kind": "Command",
        "metadata": {
            "labels": {"bke.bocloud.com/cluster-command": "", "cluster.x-k8s.io/cluster-name": "demo"},
            "name": "upgrade-node-127.10.0.11-1796042534",
            "namespace": "demo",
            "ownerReferences": [
                {
                    "apiVersion": "bke.bocloud.com/v1beta1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "BKECluster",
                    "name": "demo",
                    "uid": "5a6e",
                }
            ],
        },
        "spec": {
            "activeDeadlineSecond": 1000,
            "backoffLimit": 3,
            "commands": [
                {
                    "backoffDelay": 3,
                    "command": [
                        "Kubeadm",
                        "phase=UpgradeEtcd",
                        "bkeConfig=demo:demo",
                        "clusterType=bke",
                        "backUpEtcd=true",
                        "etcdVersion=v3.6.8-of.1",
                    ],
                    "id": "upgrade",
                    "type": "BuiltIn",
                }
            ],
            "nodeName": "",
            "nodeSelector": {"matchLabels": {"127.10.0.11": "127.10.0.11"}},
            "suspend": False,
            "ttlSecondsAfterFinished": 600,
        },
    }


@pytest.mark.parametrize(
    ("handler", "of", "arguments"),
    [
        (
            ETCD,
            M2,
            ["phase=UpgradeEtcd", "bkeConfig=demo:demo", "clusterType=bke", "backUpEtcd=false", "etcdVersion=v1"],
        ),
        (MASTER, M1, ["phase=UpgradeControlPlane", "bkeConfig=demo:demo", "clusterType=bke", "backUpEtcd=true"]),
        (MASTER, M2, ["phase=UpgradeControlPlane", "bkeConfig=demo:demo", "clusterType=bke", "backUpEtcd=false"]),
        (WORKER, W1, ["phase=UpgradeWorker", "bkeConfig=demo:demo", "clusterType=bke", "backUpEtcd=false"]),
    ],
)
def test_arguments_stand_in_the_documented_order(handler: str, of: NodeFacts, arguments: list[str]) -> None:
    assert document(handler, "v1", of)["spec"]["commands"][0]["command"] == ["Kubeadm", *arguments]


def test_the_containerd_commands_are_the_recorded_ones_but_for_one_node() -> None:
    reset = document(CONTAINERD, "v2.1.2", W1, NodeStep.RESET)
    redeploy = document(CONTAINERD, "v2.1.2", W1, NodeStep.REDEPLOY)
    assert reset["metadata"]["name"] == "k8s-containerd-reset-1796042534"
    assert redeploy["metadata"]["name"] == "k8s-containerd-redeploy-1796042534"
    assert reset["spec"] == {
        "activeDeadlineSecond": 1000,
        "backoffLimit": 3,
        "commands": [
            {
                "backoffIgnore": True,
                "command": ["Reset", "bkeConfig=demo:demo", "scope=containerd-cfg", "extra="],
                "id": "reset",
                "type": "BuiltIn",
            }
        ],
        "nodeName": "",
        "nodeSelector": {"matchLabels": {"127.10.0.21": "127.10.0.21"}},
        "suspend": False,
    }
    assert redeploy["spec"]["commands"] == [
        {
            "backoffDelay": 5,
            "command": [
                "K8sEnvInit",
                "init=true",
                "check=true",
                "scope=runtime",
                "bkeConfig=demo:demo",
                "containerdVersion=v2.1.2",
            ],
            "id": "init and check node env",
            "type": "BuiltIn",
        }
    ]


def test_the_cluster_type_is_that_of_the_annotation() -> None:
    facts = FACTS.model_copy(update={"annotations": {"bke.bocloud.com/cluster-from": "bocloud"}})
    assert "clusterType=bocloud" in node_command(facts, MASTER, "v1", M1, NodeStep.UPGRADE).arguments


def test_the_snapshot_moves_on_when_the_first_etcd_node_is_left_out() -> None:
    failed = M1.model_copy(update={"state_code": 575 | 128})
    facts = FACTS.model_copy(update={"nodes": (failed, M2, W1)})
    assert "backUpEtcd=true" in node_command(facts, ETCD, "v1", M2, NodeStep.UPGRADE).arguments


def test_nodes_of_a_pool_are_sorted_whatever_the_list_is() -> None:
    assert names(ETCD, Pool.CONTROL_PLANE) == ["master-1", "master-2"]
    assert names(MASTER, Pool.CONTROL_PLANE) == ["master-1", "master-2"]
    assert names(CONTAINERD, Pool.CONTROL_PLANE) == ["master-1", "master-2"]
    for handler in (WORKER, CONTAINERD, AGENT):
        assert names(handler, Pool.WORKERS) == ["worker-1", "worker-2"]


def test_a_node_with_both_roles_is_in_one_pool_only() -> None:
    both = node("both", "127.10.0.31", "master/node")
    facts = FACTS.model_copy(update={"nodes": (both,)})
    assert names(MASTER, Pool.CONTROL_PLANE, facts) == ["both"]
    assert names(WORKER, Pool.WORKERS, facts) == []


def test_an_etcd_node_without_control_plane_takes_etcd_and_containerd_only() -> None:
    alone = node("etcd-1", "127.10.0.41", "etcd")
    facts = FACTS.model_copy(update={"nodes": (alone,)})
    assert names(ETCD, Pool.CONTROL_PLANE, facts) == ["etcd-1"]
    assert names(CONTAINERD, Pool.CONTROL_PLANE, facts) == ["etcd-1"]
    assert names(MASTER, Pool.CONTROL_PLANE, facts) == []


def test_nodes_that_are_left_out_are_named() -> None:
    failed = node("worker-3", "127.10.0.23", "node", code=527 | 128)
    skipped = node("worker-4", "127.10.0.24", "node", skip=True)
    skipped_master = M1.model_copy(update={"need_skip": True})
    facts = FACTS.model_copy(update={"nodes": (skipped_master, W1, failed, skipped)})
    workers = members_of(facts, WORKER, Pool.WORKERS)
    assert [one.hostname for one in workers.nodes] == ["worker-1"]
    assert [text.split(" ")[0] for text in workers.left_out] == ["worker-3", "worker-4"]
    assert "stateCode 655" in workers.left_out[0]
    assert "needSkip" in workers.left_out[1]
    assert names(MASTER, Pool.CONTROL_PLANE, facts) == ["master-1"]


def test_steps_and_prefixes() -> None:
    assert steps_of(CONTAINERD) == (NodeStep.RESET, NodeStep.REDEPLOY)
    assert steps_of(AGENT) == (NodeStep.INSTALL,)
    for handler in (ETCD, MASTER, WORKER):
        assert steps_of(handler) == (NodeStep.UPGRADE,)
        assert command_prefix(handler, NodeStep.UPGRADE, "10.0.0.1") == "upgrade-node-10.0.0.1"


@pytest.mark.parametrize("handler", ["EnsurePreUpgradeResources", "EnsureNothing", ""])
def test_another_handler_is_refused(handler: str) -> None:
    with pytest.raises(InvalidRelease, match=r"spec.inline.handler is|spec.inline.handler"):
        steps_of(handler)


def test_adoption_goes_by_node_and_arguments_never_by_name() -> None:
    command = node_command(FACTS, MASTER, "v1", M2, NodeStep.UPGRADE)
    same = command_document(FACTS, command, M2, "a-name-of-somebody-else")
    assert is_same_work(same, command, M2)
    assert not is_same_work(document(MASTER, "v1", M1), command, M2)
    assert not is_same_work(document(ETCD, "v1", M2), command, M2)
    shared = command_document(FACTS, command, M2, "shared")
    shared["spec"]["nodeSelector"]["matchLabels"][M1.ip] = M1.ip
    assert not is_same_work(shared, command, M2)
    assert is_for(shared, M1)
    assert not is_for(shared, W1)


def test_a_command_that_names_the_node_is_for_it() -> None:
    named = document(MASTER, "v1", M1)
    named["spec"]["nodeName"], named["spec"]["nodeSelector"] = "master-2", None
    assert is_for(named, M2)
    assert not is_for(named, M1)


def test_node_upgrades_are_known_by_their_names_for_one_node() -> None:
    assert is_of_node_upgrade(document(ETCD, "v1", M1), M1)
    assert is_of_node_upgrade(document(CONTAINERD, "v1", W1, NodeStep.RESET), W1)
    assert not is_of_node_upgrade(document(ETCD, "v1", M2), M1)
    other = document(ETCD, "v1", M1)
    other["metadata"]["name"] = "upgrade-node-127.10.0.11-again"
    assert not is_of_node_upgrade(other, M1)
    shared = document(CONTAINERD, "v1", W1, NodeStep.RESET)
    shared["spec"]["nodeSelector"]["matchLabels"][W2.ip] = W2.ip
    assert not is_of_node_upgrade(shared, W1)


def test_agents_collect_upgrades_and_leave_containerd_to_us() -> None:
    assert is_collected(document(ETCD, "v1", M1))
    assert not is_collected(document(CONTAINERD, "v1", W1, NodeStep.RESET))
