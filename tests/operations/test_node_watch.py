"""Waiting for a node on the simulator: the Command first, then what the node shows."""

from __future__ import annotations

from typing import Any

import pytest

from hopline.domain.node_commands import NodeStep, node_command
from hopline.domain.plan import ComponentType, PlannedComponent
from hopline.domain.release import InlineHandler
from hopline.domain.resources import COMMAND, NODE, POD, ObjectRef
from hopline.operations import nodes
from hopline.operations.node_watch import NodeObservation, NodePhase, NodeWatch

STAMP = 1_796_042_534
NOTHING = NodeObservation()
VERSIONS = {
    InlineHandler.ETCD: "v3.6.8-of.1",
    InlineHandler.MASTER: "v1.34.4-of.1",
    InlineHandler.WORKER: "v1.34.4-of.1",
    InlineHandler.CONTAINERD: "v2.1.2",
}


class Step:
    """One step on one node, begun."""

    def __init__(self, east: Any, hostname: str, handler: InlineHandler, step: NodeStep = NodeStep.UPGRADE) -> None:
        self.east, self.hostname, self.handler, self.step = east, hostname, handler, step
        self.component = PlannedComponent(
            name="it", version=VERSIONS[handler], type=ComponentType.NODE, handler=handler.value
        )
        self.command = ""

    async def begin(self, stamp: int = STAMP) -> None:
        await self.east.declare(
            kubernetesVersion=VERSIONS[InlineHandler.MASTER],
            etcdVersion=VERSIONS[InlineHandler.ETCD],
            containerdVersion=VERSIONS[InlineHandler.CONTAINERD],
        )
        facts, node = await self.east.facts(), await self.east.node(self.hostname)
        command = node_command(facts, self.handler.value, self.component.version, node, self.step)
        begun = await nodes.create_command(self.east.management, facts, node, command, stamp)
        self.command = begun.name

    async def wait(self, last: NodeObservation = NOTHING, seconds: float = 5.0, quiet: float = 0.0) -> NodeObservation:
        node = await self.east.node(self.hostname)
        watch = NodeWatch(self.east.key, self.component, node, self.step, self.command)
        return await watch.wait(
            self.east.management, await self.east.target(), last, timeout_seconds=seconds, quiet_seconds=quiet
        )


@pytest.mark.parametrize(
    ("hostname", "handler"),
    [("m1", InlineHandler.ETCD), ("m2", InlineHandler.MASTER), ("w1", InlineHandler.WORKER)],
)
async def test_a_node_is_done_when_its_command_and_its_gate_are(
    east: Any, hostname: str, handler: InlineHandler
) -> None:
    step = Step(east, hostname, handler)
    assert (await step.wait(seconds=0.3)).phase is NodePhase.WAITING
    await step.begin()
    seen = await step.wait(quiet=5.0)
    assert (seen.phase, seen.command_over) == (NodePhase.DONE, True)


async def test_what_it_waits_for_is_told_step_by_step(east: Any) -> None:
    east.clusters.script.command_seconds(0.5)
    east.clusters.script.static_pod_seconds(0.5)
    step = Step(east, "m1", InlineHandler.ETCD)
    await step.begin()
    told = [await step.wait()]
    while told[-1].phase is NodePhase.WAITING:
        told.append(await step.wait(told[-1]))
    messages = [one.message for one in told]
    assert f"the agent runs Command east/{step.command}" in messages
    assert any("etcd-m1 is not ready" in message for message in messages)
    assert [one.command_over for one in told] == sorted(one.command_over for one in told)
    assert told[-1].phase is NodePhase.DONE


async def test_a_failed_command_fails_the_node_with_the_agents_words(east: Any) -> None:
    east.clusters.script.fail_command("disk full on /var/lib/containerd", node="m1")
    step = Step(east, "m1", InlineHandler.MASTER)
    await step.begin()
    seen = await step.wait(quiet=5.0)
    assert seen.phase is NodePhase.FAILED
    assert "disk full on /var/lib/containerd" in seen.message
    assert step.command in seen.message


async def test_a_skipped_reset_of_a_node_without_runtime_is_healed_by_the_redeploy(east: Any) -> None:
    for stamp in (STAMP, STAMP + 1):
        reset = Step(east, "w1", InlineHandler.CONTAINERD, NodeStep.RESET)
        await reset.begin(stamp)
        assert (await reset.wait(quiet=5.0)).phase is NodePhase.DONE
    entry = (await east.management.get(east.ref(COMMAND, reset.command)))["status"]["w1/192.0.2.21"]
    assert [one["phase"] for one in entry["conditions"]] == ["Skip"]
    redeploy = Step(east, "w1", InlineHandler.CONTAINERD, NodeStep.REDEPLOY)
    await redeploy.begin()
    assert (await redeploy.wait(quiet=5.0)).phase is NodePhase.DONE


async def test_a_runtime_that_could_not_be_taken_away_is_not_called_done(east: Any) -> None:
    east.clusters.script.fail_command("cannot stop containerd", node="w1", phase="Reset")
    reset = Step(east, "w1", InlineHandler.CONTAINERD, NodeStep.RESET)
    await reset.begin()
    await reset.wait(quiet=5.0)
    redeploy = Step(east, "w1", InlineHandler.CONTAINERD, NodeStep.REDEPLOY)
    await redeploy.begin()
    seen = await redeploy.wait(seconds=1.0, quiet=1.0)
    assert (seen.phase, seen.command_over) == (NodePhase.WAITING, True)
    assert seen.message == "containerd runs 2.1.1, v2.1.2 is expected"


async def test_a_command_collected_after_its_end_is_judged_by_the_node(east: Any) -> None:
    step = Step(east, "w1", InlineHandler.WORKER)
    await step.begin()
    await step.wait(quiet=5.0)
    await nodes.remove_command(east.management, east.key, step.command)
    assert (await step.wait(quiet=5.0)).phase is NodePhase.DONE


async def test_a_command_deleted_before_its_end_is_a_failure(east: Any) -> None:
    step = Step(east, "w1", InlineHandler.WORKER)
    step.command = "upgrade-node-gone-1"
    seen = await step.wait(quiet=5.0)
    assert seen.phase is NodePhase.FAILED
    assert "was deleted" in seen.message
    assert "kubelet runs v1.34.3-of.1" in seen.message


async def test_a_suspended_command_is_named(east: Any) -> None:
    node = await east.node("w1")
    east.clusters.script.agent_down(node.ip)
    step = Step(east, "w1", InlineHandler.WORKER)
    await step.begin()
    assert "no agent has begun" in (await step.wait()).message
    await east.management.patch(east.ref(COMMAND, step.command), {"spec": {"suspend": True}})
    assert "is suspended" in (await step.wait()).message


async def test_an_unready_node_and_pod_hold_the_gate(east: Any) -> None:
    step = Step(east, "m1", InlineHandler.MASTER)
    await step.begin()
    await step.wait(quiet=5.0)
    target = await east.target()
    body = {"status": {"conditions": [{"type": "Ready", "status": "False", "message": "PLEG is not healthy"}]}}
    await target.patch(ObjectRef(kind=NODE, name="m1"), body, subresource="status")
    seen = await step.wait()
    assert (seen.phase, seen.command_over) == (NodePhase.WAITING, True)
    assert "PLEG is not healthy" in seen.message
    body["status"]["conditions"][0]["status"] = "True"
    await target.patch(ObjectRef(kind=NODE, name="m1"), body, subresource="status")
    pod = ObjectRef(kind=POD, name="etcd-m1", kube_namespace="kube-system")
    await target.patch(pod, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, subresource="status")
    assert "etcd-m1 is not ready" in (await step.wait()).message


async def test_a_target_that_does_not_answer_is_said(east: Any) -> None:
    step = Step(east, "w1", InlineHandler.WORKER)
    await step.begin()
    await step.wait(quiet=5.0)
    east.clusters.script.unreachable(east.key)
    seen = await step.wait(seconds=0.5)
    assert seen.phase is NodePhase.WAITING
    assert "no answer from its cluster" in seen.message
