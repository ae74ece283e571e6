"""Node agents carry out Commands as openfuyao-nodes.md §1.3-1.7 says, also while every process is dead."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hopline.domain.errors import NotFound
from hopline.domain.resources import COMMAND, FINALIZER_COMMAND, NODE, Document, ObjectRef
from hopline.ports import ChangeType
from hopline.sim.journal import EffectType
from looking import PATIENCE

M1, M2, W1 = "192.0.2.11", "192.0.2.12", "192.0.2.21"
M1_KEY, W1_KEY = "m1/192.0.2.11", "w1/192.0.2.21"
MASTER = ["Kubeadm", "phase=UpgradeControlPlane", "bkeConfig=east:east", "clusterType=bke", "backUpEtcd=true"]
WORKER = ["Kubeadm", "phase=UpgradeWorker", "bkeConfig=east:east", "clusterType=bke", "backUpEtcd=false"]
ETCD = ["Kubeadm", "phase=UpgradeEtcd", "bkeConfig=east:east", "clusterType=bke", "backUpEtcd=true"]
RESET = ["Reset", "bkeConfig=east:east", "scope=containerd-cfg", "extra="]
REDEPLOY = ["K8sEnvInit", "init=true", "check=true", "scope=runtime", "bkeConfig=east:east", "containerdVersion=v2.1.2"]


def entry(name: str, words: list[str], **more: object) -> Document:
    return {"id": name, "command": words, "type": "BuiltIn", **more}


async def ready(world: Any, node: str) -> str:
    found = await (await world.target()).get(ObjectRef(kind=NODE, name=node))
    return next(str(one["status"]) for one in found["status"]["conditions"] if one["type"] == "Ready")


async def test_a_command_runs_for_its_time_and_then_takes_effect(world) -> None:
    world.clusters.script.command_seconds(5.0)
    await world.want(kubernetesVersion="v1.34.4-of.1")
    await world.command("upgrade-node-1", M1, words=MASTER)
    assert await world.entry("upgrade-node-1", M1_KEY) == {
        "conditions": [],
        "lastStartTime": "2027-01-15T08:00:00Z",
        "succeeded": -1,
        "failed": -1,
        "phase": "Running",
        "status": "Unknown",
    }
    taken = await world.management.get(world.ref(COMMAND, "upgrade-node-1"))
    assert taken["metadata"]["finalizers"] == [FINALIZER_COMMAND]
    world.clock.advance(4.9)
    assert (await world.entry("upgrade-node-1", M1_KEY))["phase"] == "Running"
    assert (await world.node_info("m1"))["kubeletVersion"] == "v1.34.3-of.1"
    world.clock.advance(0.1)
    assert await world.entry("upgrade-node-1", M1_KEY) == {
        "conditions": [
            {
                "id": "upgrade",
                "status": "True",
                "phase": "Completed",
                "lastStartTime": "2027-01-15T08:00:00Z",
                "count": 1,
            }
        ],
        "lastStartTime": "2027-01-15T08:00:00Z",
        "completionTime": "2027-01-15T08:00:05Z",
        "succeeded": 1,
        "phase": "Completed",
        "status": "True",
    }
    assert (await world.node_info("m1"))["kubeletVersion"] == "v1.34.4-of.1"
    assert (await world.node_info("m2"))["kubeletVersion"] == "v1.34.3-of.1"


async def test_the_control_plane_gets_new_static_pods(world) -> None:
    names = [f"{component}-m1" for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")]
    before = [await world.static_pod(name) for name in names]
    etcd = await world.static_pod("etcd-m1")
    await world.want(kubernetesVersion="v1.34.4-of.1", etcdVersion="v3.6.8-of.1")
    await world.command("upgrade-node-1", M1, words=MASTER)
    for old in before:
        new = await world.static_pod(old["metadata"]["name"])
        component = new["metadata"]["labels"]["component"]
        image = f"registry.example.test:40443/kubernetes/{component}:1.34.4-of.1"
        assert new["spec"]["containers"][0] == {"name": component, "image": image}
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        hashes = {pod["metadata"]["annotations"]["kubernetes.io/config.hash"] for pod in (old, new)}
        assert len(hashes) == 2
    assert await world.static_pod("etcd-m1") == etcd


async def test_the_same_version_again_leaves_the_static_pods_alone(world) -> None:
    before = await world.static_pod("kube-apiserver-m1")
    await world.command("upgrade-node-1", M1, words=MASTER)
    assert (await world.entry("upgrade-node-1", M1_KEY))["phase"] == "Completed"
    assert await world.static_pod("kube-apiserver-m1") == before


async def test_etcd_takes_its_version_from_the_argument_before_the_spec(world) -> None:
    await world.want(etcdVersion="v3.6.9-of.1")
    await world.command("one", M1, words=[*ETCD, "etcdVersion=v3.6.8-of.1"])
    await world.command("two", M2, words=ETCD)
    tags = [(await world.static_pod(f"etcd-{node}"))["spec"]["containers"][0]["image"] for node in ("m1", "m2")]
    assert [tag.rpartition(":")[2] for tag in tags] == ["3.6.8-of.1", "3.6.9-of.1"]


async def test_etcd_does_nothing_on_a_node_without_that_role(world) -> None:
    await world.command("one", W1, words=[*ETCD, "etcdVersion=v3.6.8-of.1"])
    assert (await world.entry("one", W1_KEY))["phase"] == "Completed"
    with pytest.raises(NotFound):
        await world.static_pod("etcd-w1")


async def test_versions_are_read_when_the_instruction_starts(world) -> None:
    world.clusters.script.command_seconds(5.0)
    await world.want(kubernetesVersion="v1.34.4-of.1")
    await world.command("one", W1, words=WORKER)
    assert (await world.entry("one", W1_KEY))["phase"] == "Running"
    await world.want(kubernetesVersion="v1.34.5-of.1")
    world.clock.advance(5)
    assert (await world.node_info("w1"))["kubeletVersion"] == "v1.34.4-of.1"


async def test_a_static_pod_may_take_longer_than_its_command(world) -> None:
    world.clusters.script.static_pod_seconds(3.0, name="kube-scheduler")
    await world.want(kubernetesVersion="v1.34.4-of.1")
    await world.command("one", M1, words=MASTER)
    assert (await world.entry("one", M1_KEY))["phase"] == "Completed"
    assert (await world.static_pod("kube-scheduler-m1"))["status"]["phase"] == "Pending"
    assert (await world.static_pod("kube-apiserver-m1"))["status"]["phase"] == "Running"
    world.clock.advance(3)
    assert (await world.static_pod("kube-scheduler-m1"))["status"]["phase"] == "Running"


async def test_containerd_is_reset_and_then_deployed_again(world) -> None:
    await world.command("reset", W1, words=RESET)
    assert (await world.entry("reset", W1_KEY))["phase"] == "Completed"
    assert await ready(world, "w1") == "False"
    await world.command("redeploy", W1, words=REDEPLOY)
    assert (await world.entry("redeploy", W1_KEY))["phase"] == "Completed"
    assert await ready(world, "w1") == "True"
    assert (await world.node_info("w1"))["containerRuntimeVersion"] == "containerd://2.1.2"


async def test_containerd_is_not_deployed_where_one_is_detected(world) -> None:
    await world.command("redeploy", W1, words=REDEPLOY)
    assert (await world.entry("redeploy", W1_KEY))["phase"] == "Completed"
    assert (await world.node_info("w1"))["containerRuntimeVersion"] == "containerd://2.1.1"


async def test_a_reset_of_a_node_without_containerd_is_skipped_and_counts_as_failed(world) -> None:
    await world.command("first", W1, words=RESET)
    assert (await world.entry("first", W1_KEY))["phase"] == "Completed"
    await world.commands("second", W1, entries=[entry("reset", RESET, backoffIgnore=True)])
    found = await world.entry("second", W1_KEY)
    assert (found["phase"], found["failed"], found["conditions"][0]["phase"]) == ("Completed", 1, "Skip")


async def test_ping_answers_with_the_hostname(world) -> None:
    await world.command("ping--1", M1, W1, words=["Ping"])
    for key, host in ((M1_KEY, "m1"), (W1_KEY, "w1")):
        found = await world.entry("ping--1", key)
        assert found["conditions"][0]["stdOut"] == ["pong", host]


async def test_a_scripted_failure_has_its_text_and_no_effect(world) -> None:
    fault = world.clusters.script.fail_command("disk full", node="w1", phase="UpgradeWorker", times=1)
    await world.want(kubernetesVersion="v1.34.4-of.1")
    await world.command("one", W1, words=WORKER)
    found = await world.entry("one", W1_KEY)
    assert (found["phase"], found["status"], found["failed"]) == ("Failed", "False", 1)
    assert "succeeded" not in found
    assert found["completionTime"]
    condition = found["conditions"][0]
    assert (condition["status"], condition["phase"], condition["count"]) == ("False", "Failed", 4)
    assert condition["stdErr"] == ["disk full"]
    assert (await world.node_info("w1"))["kubeletVersion"] == "v1.34.3-of.1"
    await world.command("two", W1, words=WORKER)
    assert (await world.entry("two", W1_KEY))["phase"] == "Completed"
    assert world.clusters.script.hits(fault) == 1
    assert [effect.outcome for effect in world.clusters.journal(EffectType.COMMAND)] == ["failed", "done"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["Conjure"], "Instruction not found: Conjure"),
        (["Kubeadm", "phase=upgradeworker", "bkeConfig=east:east"], "unknown command: upgradeworker"),
        (["Kubeadm", "phase=UpgradeWorker", "bkeConfig=east:west"], "bkecluster east/west not found"),
    ],
)
async def test_an_instruction_that_cannot_run_fails(world, words: list[str], text: str) -> None:
    await world.command("one", W1, words=words)
    found = await world.entry("one", W1_KEY)
    assert (found["phase"], found["conditions"][0]["stdErr"]) == ("Failed", [text])


async def test_plugin_names_are_matched_whatever_their_case(world) -> None:
    await world.want(kubernetesVersion="v1.34.4-of.1")
    await world.command("one", W1, words=["kubeADM", *WORKER[1:]])
    assert (await world.entry("one", W1_KEY))["phase"] == "Completed"
    assert (await world.node_info("w1"))["kubeletVersion"] == "v1.34.4-of.1"


async def test_an_instruction_that_is_held_ends_once_it_is_let_go(world) -> None:
    held = world.clusters.script.hold_commands(node="w1", phase="UpgradeWorker")
    await world.want(kubernetesVersion="v1.34.4-of.1")
    await world.command("one", W1, words=WORKER)
    await world.command("other", M1, words=["Ping"])
    assert (await world.entry("other", M1_KEY))["phase"] == "Completed"
    world.clock.advance(60)
    assert (await world.entry("one", W1_KEY))["phase"] == "Running"
    assert (await world.node_info("w1"))["kubeletVersion"] == "v1.34.3-of.1"
    world.clusters.script.clear(held)
    world.clock.advance(1)
    assert (await world.entry("one", W1_KEY))["phase"] == "Completed"
    assert (await world.node_info("w1"))["kubeletVersion"] == "v1.34.4-of.1"
    assert len(world.clusters.journal(EffectType.COMMAND)) == 2


async def test_deleting_a_command_does_not_stop_what_runs(world) -> None:
    world.clusters.script.command_seconds(5.0)
    await world.want(kubernetesVersion="v1.34.4-of.1")
    await world.command("one", W1, words=WORKER)
    assert (await world.entry("one", W1_KEY))["phase"] == "Running"
    await world.management.delete(world.ref(COMMAND, "one"))
    with pytest.raises(NotFound):
        await world.management.get(world.ref(COMMAND, "one"))
    world.clock.advance(5)
    assert (await world.node_info("w1"))["kubeletVersion"] == "v1.34.4-of.1"
    effect = world.clusters.journal(EffectType.COMMAND)[0]
    assert (effect.outcome, effect.ended) == ("done", world.clock.now)


async def test_a_command_that_is_deleted_before_an_agent_saw_it_never_runs(world) -> None:
    world.clusters.script.pick_up_seconds(2.0)
    await world.command("one", W1, words=WORKER)
    world.clock.advance(1)
    await world.management.delete(world.ref(COMMAND, "one"))
    world.clock.advance(60)
    assert world.clusters.journal(EffectType.COMMAND) == []


async def test_a_suspended_command_is_not_begun_until_it_is_released(world) -> None:
    await world.command("one", W1, words=["Ping"], suspend=True)
    assert (await world.entry("one", W1_KEY))["phase"] == "Suspend"
    await world.management.patch(world.ref(COMMAND, "one"), {"spec": {"suspend": False}})
    assert (await world.entry("one", W1_KEY))["phase"] == "Completed"
    assert len(world.clusters.journal(EffectType.COMMAND)) == 1


async def test_suspending_stops_between_two_instructions_and_goes_on_there(world) -> None:
    world.clusters.script.command_seconds(5.0)
    await world.commands("one", W1, entries=[entry("first", ["Ping"]), entry("second", WORKER)])
    assert (await world.entry("one", W1_KEY))["phase"] == "Running"
    await world.management.patch(world.ref(COMMAND, "one"), {"spec": {"suspend": True}})
    world.clock.advance(30)
    stopped = await world.entry("one", W1_KEY)
    assert stopped["phase"] == "Suspend"
    assert [one["id"] for one in stopped["conditions"]] == ["first"]
    await world.management.patch(world.ref(COMMAND, "one"), {"spec": {"suspend": False}})
    assert (await world.entry("one", W1_KEY))["lastStartTime"] == "2027-01-15T08:00:30Z"
    world.clock.advance(5)
    assert (await world.entry("one", W1_KEY))["phase"] == "Completed"
    assert [effect.verb for effect in world.clusters.journal(EffectType.COMMAND)] == ["Ping", "Kubeadm"]


async def test_the_deadline_counts_before_instructions_only(world) -> None:
    world.clusters.script.command_seconds(5.0)
    entries = [entry("first", ["Ping"]), entry("second", ["Ping"])]
    await world.commands("one", W1, entries=entries, activeDeadlineSecond=3)
    assert (await world.entry("one", W1_KEY))["phase"] == "Running"
    world.clock.advance(5)
    late = await world.entry("one", W1_KEY)
    assert [one["id"] for one in late["conditions"]] == ["first"]
    assert (late["phase"], late["status"], late["succeeded"]) == ("Running", "Unknown", 1)
    assert late["completionTime"]


async def test_a_failed_instruction_is_the_last_one(world) -> None:
    world.clusters.script.fail_command("no", phase="Ping")
    await world.commands("one", W1, entries=[entry("first", ["Ping"]), entry("second", ["Ping"])])
    found = await world.entry("one", W1_KEY)
    assert (found["phase"], [one["id"] for one in found["conditions"]]) == ("Failed", ["first"])


async def test_two_commands_at_once_on_one_node_are_a_violation(world) -> None:
    world.clusters.script.command_seconds(5.0)
    await world.command("one", W1, words=WORKER)
    world.clock.advance(1)
    await world.command("other-node", M1, words=MASTER)
    assert world.clusters.journal(EffectType.VIOLATION) == []
    await world.management.delete(world.ref(COMMAND, "one"))
    await world.command("two", W1, words=WORKER)
    (violation,) = world.clusters.journal(EffectType.VIOLATION)
    assert violation.node == W1_KEY
    assert violation.detail == "two started while one was still running on the node"


async def test_a_command_that_went_well_is_deleted_after_its_time(world) -> None:
    world.clusters.script.fail_command("no", node="m1")
    await world.command("good", W1, words=["Ping"], ttlSecondsAfterFinished=600)
    await world.command("kept", W1, words=["Ping"])
    await world.command("bad", M1, words=["Ping"], ttlSecondsAfterFinished=600)
    assert (await world.entry("good", W1_KEY))["phase"] == "Completed"
    world.clock.advance(601)
    names = [item["metadata"]["name"] for item in (await world.management.list(COMMAND)).items]
    assert names == ["bad", "kept"]


async def test_an_agent_that_is_down_takes_the_command_up_later(world) -> None:
    down = world.clusters.script.agent_down(W1)
    await world.command("one", W1, words=["Ping"])
    world.clock.advance(60)
    assert "status" not in await world.management.get(world.ref(COMMAND, "one"))
    world.clusters.script.clear(down)
    assert (await world.entry("one", W1_KEY))["lastStartTime"] == "2027-01-15T08:01:00Z"


async def test_a_command_of_another_cluster_is_not_taken(world) -> None:
    document = await world.management.create(
        {
            "apiVersion": COMMAND.api_version,
            "kind": "Command",
            "metadata": {
                "name": "one",
                "namespace": "east",
                "labels": {"cluster.x-k8s.io/cluster-name": "west"},
            },
            "spec": {
                "nodeName": "w1",
                "nodeSelector": {"matchLabels": {W1: W1}},
                "commands": [entry("ping", ["Ping"])],
            },
        },
        kind=COMMAND,
    )
    found = await world.management.get(world.ref(COMMAND, "one"))
    assert found == document


async def test_a_command_may_name_its_node_or_select_it_by_expression(world) -> None:
    await world.command("by-name", words=["Ping"], nodeName="w1", nodeSelector=None)
    await world.command("by-ip", words=["Ping"], nodeSelector={"matchExpressions": [{"key": W1, "operator": "Exists"}]})
    for name in ("by-name", "by-ip"):
        assert (await world.entry(name, W1_KEY))["phase"] == "Completed"


async def test_a_completion_by_time_is_seen_by_a_watch(world) -> None:
    world.clusters.script.command_seconds(5.0)
    await world.command("one", W1, words=["Ping"])
    changes = world.management.watch(COMMAND, kube_namespace="east")
    async with asyncio.timeout(PATIENCE):
        assert (await anext(changes)).type is ChangeType.SYNCED
        world.clock.advance(5)
        phases = []
        while phases[-1:] != ["Completed"]:
            change = await anext(changes)
            assert change.type is ChangeType.MODIFIED
            phases.append(change.documents[0]["status"][W1_KEY]["phase"])


async def test_agents_go_on_while_every_process_is_dead(world) -> None:
    world.clusters.script.command_seconds(5.0)
    await world.want(kubernetesVersion="v1.34.4-of.1")
    await world.commands("one", W1, entries=[entry("first", ["Ping"]), entry("second", WORKER)])
    await world.reopen()
    world.clock.advance(3600)
    found = await world.entry("one", W1_KEY)
    assert found["completionTime"] == "2027-01-15T08:00:10Z"
    assert [effect.ended for effect in world.clusters.journal(EffectType.COMMAND)] == [
        world.clock.now - 3595,
        world.clock.now - 3590,
    ]
    assert (await world.node_info("w1"))["kubeletVersion"] == "v1.34.4-of.1"
