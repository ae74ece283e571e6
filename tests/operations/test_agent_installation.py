"""Before an agent is restarted nothing is unfinished on its node; and what an agent's answer is."""

from __future__ import annotations

from typing import Any

import pytest

from hooked_clusters import Call, HookedClusters
from hopline.domain.agent_push import ping_document
from hopline.domain.errors import AlreadyExists, Blocked, Transient
from hopline.domain.resources import COMMAND
from hopline.operations import agent_installation
from hopline.operations.agent_ping import ping
from operations.conftest import East
from operations.test_nodes import LONG, begin, ended, running


async def clear(east: East, hostname: str) -> None:
    await agent_installation.begin(east.management, east.key, await east.node(hostname))


async def test_a_command_that_runs_is_waited_for(east: East) -> None:
    east.clusters.script.command_seconds(LONG)
    name = (await begin(east, "m1")).name
    await running(east, name)
    with pytest.raises(Blocked, match=f"Command east/{name}"):
        await clear(east, "m1")
    await clear(east, "m2")


async def test_a_failed_upgrade_is_gone_before_its_agent_could_repeat_it(east: East) -> None:
    east.clusters.script.fail_command("no", node="m1", times=4)
    name = (await begin(east, "m1")).name
    await ended(east, name)
    await clear(east, "m1")
    assert await east.commands() == []


async def test_a_ping_that_was_left_holds_nobody(east: East) -> None:
    east.clusters.script.agent_down((await east.node("m1")).ip)
    document = ping_document(await east.facts(), await east.node("m1"), "ping--1")
    await east.management.create(document, kind=COMMAND)
    await clear(east, "m1")


async def test_an_agent_that_answers(east: East) -> None:
    assert await ping(east.management, await east.facts(), await east.node("m1"), 10.0) == ""
    assert await east.commands() == []


async def test_an_agent_that_does_not(east: East) -> None:
    east.clusters.script.agent_down((await east.node("m1")).ip)
    told = await ping(east.management, await east.facts(), await east.node("m1"), 0.3)
    assert told == "it has not taken up a Ping within 0 s"
    assert await east.commands() == []


async def test_an_agent_that_fails_its_ping(east: East) -> None:
    east.clusters.script.fail_command("broken inside", node="m1", times=4)
    told = await ping(east.management, await east.facts(), await east.node("m1"), 30.0)
    assert told == "its Ping failed: broken inside"


async def test_what_an_interrupted_ping_has_left_goes_and_is_no_answer(east: East) -> None:
    facts, node = await east.facts(), await east.node("m1")
    document: dict[str, Any] = ping_document(facts, node, "ping--1")
    await east.management.create(document, kind=COMMAND)
    await ended(east, "ping--1")
    assert await ping(east.management, facts, node, 10.0) == ""
    assert await east.commands() == []
    await east.management.create(document, kind=COMMAND)
    await ended(east, "ping--1")
    east.clusters.script.agent_down(node.ip)
    assert await ping(east.management, facts, node, 0.3) != ""


async def test_a_name_that_is_taken_is_counted_up(east: East) -> None:
    """Pings of many nodes begin within one second."""
    facts = await east.facts()
    taken: list[str] = []

    def before(call: Call) -> None:
        if call.verb == "create" and not taken:
            taken.append(call.subject)
            raise AlreadyExists("taken", subject=call.subject)

    hooked = HookedClusters(east.clusters, before=before)
    assert await ping(hooked.management, facts, await east.node("m1"), 10.0) == ""
    created = [call.subject for call in hooked.calls if call.verb == "create"]
    assert int(created[1].rpartition("-")[2]) == int(created[0].rpartition("-")[2]) + 1


async def test_an_api_server_that_is_away_leaves_no_word_about_the_agent(east: East) -> None:
    def before(call: Call) -> None:
        if call.verb == "create":
            raise Transient("away", subject=call.subject)

    hooked = HookedClusters(east.clusters, before=before)
    with pytest.raises(Transient):
        await ping(hooked.management, await east.facts(), await east.node("m1"), 1.0)
