"""Commands on the simulator: adoption, locks, names, and giving up without leaving work behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hooked_clusters import Call, HookedClusters
from hopline.domain.cluster import NodeFacts
from hopline.domain.errors import Blocked, Conflict, NotFound
from hopline.domain.node_commands import NodeCommand, NodeStep, command_document, node_command
from hopline.domain.release import InlineHandler
from hopline.domain.resources import BKE_NODE, COMMAND, FINALIZER_COMMAND
from hopline.operations import nodes
from looking import PATIENCE

ETCD, MASTER, CONTAINERD = InlineHandler.ETCD.value, InlineHandler.MASTER.value, InlineHandler.CONTAINERD.value
STAMP = 1_796_042_534
LONG = 600.0


async def work(east: Any, hostname: str, handler: str = MASTER) -> tuple[NodeFacts, NodeCommand]:
    facts, node = await east.facts(), await east.node(hostname)
    step = NodeStep.RESET if handler == CONTAINERD else NodeStep.UPGRADE
    return node, node_command(facts, handler, "v1.34.4-of.1", node, step)


async def begin(east: Any, hostname: str, handler: str = MASTER, stamp: int = STAMP) -> nodes.BegunCommand:
    node, command = await work(east, hostname, handler)
    claimed = await nodes.claim_node(east.management, await east.facts(), node, command, stamp)
    return claimed or await nodes.create_command(east.management, await east.facts(), node, command, stamp)


async def running(east: Any, name: str) -> None:
    """Until an agent has begun the Command."""
    async with asyncio.timeout(PATIENCE):
        while True:
            document = await east.management.get(east.ref(COMMAND, name))
            if any(entry.get("lastStartTime") for entry in (document.get("status") or {}).values()):
                return
            await asyncio.sleep(0.02)


async def ended(east: Any, name: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            document = await east.management.get(east.ref(COMMAND, name))
            if any(entry.get("completionTime") for entry in (document.get("status") or {}).values()):
                return
            await asyncio.sleep(0.02)


async def test_an_unfinished_command_with_equal_arguments_is_adopted_whatever_its_name(east: Any) -> None:
    east.clusters.script.command_seconds(LONG)
    node, command = await work(east, "m2")
    other = command_document(await east.facts(), command, node, "somebody-elses-name")
    await east.management.create(other, kind=COMMAND)
    assert await begin(east, "m2") == nodes.BegunCommand(name="somebody-elses-name", adopted=True)
    await running(east, "somebody-elses-name")
    assert await begin(east, "m2") == nodes.BegunCommand(name="somebody-elses-name", adopted=True)
    assert len(await east.commands()) == 1


async def test_another_unfinished_command_holds_its_node_and_no_other(east: Any) -> None:
    east.clusters.script.command_seconds(LONG)
    held = (await begin(east, "m1", ETCD)).name
    with pytest.raises(Blocked) as caught:
        await begin(east, "m1", MASTER, STAMP + 1)
    assert f"Command east/{held}" in str(caught.value)
    assert "UpgradeEtcd" in str(caught.value)
    assert f"kubectl -n east delete command {held}" in caught.value.remedy
    assert (await begin(east, "m2", MASTER)).name == f"upgrade-node-{(await east.node('m2')).ip}-{STAMP}"


async def test_a_finished_command_holds_nothing(east: Any) -> None:
    first = (await begin(east, "m1", ETCD)).name
    await ended(east, first)
    second = await begin(east, "m1", MASTER, STAMP + 1)
    assert not second.adopted
    assert {one["metadata"]["name"] for one in await east.commands()} == {first, second.name}


async def test_a_repeated_attempt_finds_its_command_although_the_agent_has_ended_it(east: Any) -> None:
    """The worker died before it could say that it had made it; whoever begins again must not let it run twice."""
    first = await begin(east, "w1", CONTAINERD)
    await ended(east, first.name)
    made = await east.commands()
    assert await begin(east, "w1", CONTAINERD) == first
    assert await east.commands() == made


async def test_a_failed_command_of_the_family_is_removed_before_the_next(east: Any) -> None:
    east.clusters.script.fail_command("disk full", node="m1", times=1)
    first = (await begin(east, "m1")).name
    await ended(east, first)
    second = await begin(east, "m1", stamp=STAMP + 1)
    assert not second.adopted
    async with asyncio.timeout(PATIENCE):
        while first in {one["metadata"]["name"] for one in await east.commands()}:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_name_that_another_node_has_counts_up(east: Any) -> None:
    east.clusters.script.command_seconds(LONG)
    first, second = await begin(east, "m1", CONTAINERD), await begin(east, "w1", CONTAINERD)
    assert (first.name, second.name) == (f"k8s-containerd-reset-{STAMP}", f"k8s-containerd-reset-{STAMP + 1}")
    node, command = await work(east, "w1", CONTAINERD)
    found = await nodes.created_command(east.management, await east.facts(), node, command, STAMP)
    assert found == second.name


async def test_a_repeated_attempt_makes_one_command(east: Any) -> None:
    node, command = await work(east, "m1")
    first = await nodes.create_command(east.management, await east.facts(), node, command, STAMP)
    again = await nodes.create_command(east.management, await east.facts(), node, command, STAMP)
    assert first.name == again.name
    assert len(await east.commands()) == 1


async def test_a_command_that_no_agent_has_begun_is_made_harmless_and_deleted(east: Any) -> None:
    node, _ = await work(east, "m1")
    east.clusters.script.agent_down(node.ip)
    name = (await begin(east, "m1")).name
    released = await nodes.suspend_command(east.management, east.key, node, name, patience=0.2)
    assert (released.untouched, released.may_run) == (True, "")
    assert (await east.management.get(east.ref(COMMAND, name)))["spec"]["suspend"] is True
    await nodes.remove_command(east.management, east.key, name)
    with pytest.raises(NotFound):
        await east.management.get(east.ref(COMMAND, name))
    assert await nodes.suspend_command(east.management, east.key, node, name) == nodes.ReleasedNode(gone=True)


async def test_a_command_that_may_still_run_stays_and_holds_its_node_until_it_is_over(east: Any) -> None:
    east.clusters.script.command_seconds(1.5)
    node, _ = await work(east, "m1")
    name = (await begin(east, "m1")).name
    await running(east, name)
    released = await nodes.suspend_command(east.management, east.key, node, name, patience=0.5)
    assert name in released.may_run
    assert "m1" in released.may_run
    assert FINALIZER_COMMAND in (await east.management.get(east.ref(COMMAND, name)))["metadata"]["finalizers"]
    with pytest.raises(Blocked, match="may still be running"):
        await begin(east, "m1", stamp=STAMP + 1)
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                second = await begin(east, "m1", stamp=STAMP + 1)
                break
            except Blocked:
                await nodes.wait_for_commands(east.management, east.key, timeout_seconds=1)
    assert second.name.endswith(str(STAMP + 1))
    assert not second.adopted


async def test_a_command_given_up_within_the_same_second_is_no_interrupted_creation_of_ours(east: Any) -> None:
    east.clusters.script.command_seconds(1.0)
    node, _ = await work(east, "m1")
    name = (await begin(east, "m1")).name
    await running(east, name)
    assert (await nodes.suspend_command(east.management, east.key, node, name, patience=0.2)).may_run
    with pytest.raises(Blocked, match="may still be running"):
        await begin(east, "m1")
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                second = await begin(east, "m1")
                break
            except Blocked:
                await nodes.wait_for_commands(east.management, east.key, timeout_seconds=1)
    made = await east.management.get(east.ref(COMMAND, second.name))
    assert (second.adopted, made["spec"]["suspend"]) == (False, False)


async def test_a_name_whose_holder_goes_away_meanwhile_counts_up(east: Any) -> None:
    east.clusters.script.command_seconds(LONG)
    held = (await begin(east, "m1", CONTAINERD)).name

    async def gone(call: Call) -> None:
        if (call.verb, call.subject) == ("get", f"Command east/{held}"):
            raise NotFound("it is gone", subject=call.subject)

    node, command = await work(east, "w1", CONTAINERD)
    hooked = HookedClusters(east.clusters, before=gone).management
    second = await nodes.create_command(hooked, await east.facts(), node, command, STAMP)
    assert second.name == f"k8s-containerd-reset-{STAMP + 1}"


async def test_marking_a_node_writes_only_what_differs_and_tells_what_was(east: Any) -> None:
    node, _ = await work(east, "w1")
    ref = east.ref(BKE_NODE, node.name)
    assert await nodes.mark_node(east.management, east.key, node, "Upgrading", "Upgrading") == "Ready"
    version = (await east.management.get(ref))["metadata"]["resourceVersion"]
    assert await nodes.mark_node(east.management, east.key, node, "Upgrading", "Upgrading") == "Upgrading"
    assert (await east.management.get(ref))["metadata"]["resourceVersion"] == version
    status = await east.node_status("w1")
    assert (status["state"], status["message"], status["stateCode"]) == ("Upgrading", "Upgrading", 527)


async def test_a_stale_attempt_dies_on_the_resource_version(east: Any) -> None:
    node, _ = await work(east, "w1")
    ref = east.ref(BKE_NODE, node.name)
    stale = await east.management.get(ref)
    await east.set_node("w1", state="UpgradeFailed")

    class Late:
        """A client whose read was answered before somebody else wrote."""

        async def get(self, _: object) -> dict[str, Any]:
            return dict(stale)

        patch = east.management.patch

    with pytest.raises(Conflict):
        await nodes.mark_node(Late(), east.key, node, "Ready", "Upgrading success")  # type: ignore[arg-type]
    assert (await east.node_status("w1"))["state"] == "UpgradeFailed"
