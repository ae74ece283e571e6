"""Installations of node agents go on by themselves, happen once, and restart the agent."""

from __future__ import annotations

from typing import Any

from hopline.domain.resources import COMMAND
from hopline.ports import InstallPhase
from hopline.sim.journal import EffectType

W1, W1_KEY = "192.0.2.21", "w1/192.0.2.21"


async def phase(world: Any, version: str = "v1.0.2", ip: str = W1) -> InstallPhase:
    state = await world.clusters.agents.install(world.key, ip, version)
    return InstallPhase(state.phase)


async def test_an_installation_takes_its_time_and_happens_once(world) -> None:
    world.clusters.script.install_seconds(10.0)
    assert await phase(world) is InstallPhase.RUNNING
    assert await phase(world) is InstallPhase.RUNNING
    assert world.clusters.agent_versions(world.key)[W1] == "v1.0.1"
    world.clock.advance(10)
    assert await phase(world) is InstallPhase.DONE
    assert await phase(world) is InstallPhase.DONE
    assert world.clusters.agent_versions(world.key)[W1] == "v1.0.2"
    (effect,) = world.clusters.journal(EffectType.INSTALL)
    assert (effect.node, effect.arguments, effect.outcome) == (W1_KEY, ("v1.0.2",), "done")
    assert effect.ended == effect.started + 10


async def test_the_version_that_is_there_is_not_installed_again(world) -> None:
    assert await phase(world, "v1.0.1") is InstallPhase.DONE
    assert world.clusters.journal(EffectType.INSTALL) == []


async def test_it_goes_on_while_every_process_is_dead(world) -> None:
    world.clusters.script.install_seconds(10.0)
    await phase(world)
    await world.reopen()
    world.clock.advance(60)
    assert await phase(world) is InstallPhase.DONE


async def test_a_failure_is_reported_once_and_then_tried_anew(world) -> None:
    world.clusters.script.fail_install("ssh: connection refused", node=W1)
    await phase(world)
    state = await world.clusters.agents.install(world.key, W1, "v1.0.2")
    assert (state.phase, state.message) == (InstallPhase.FAILED, "ssh: connection refused")
    assert await phase(world) is InstallPhase.RUNNING
    assert await phase(world) is InstallPhase.DONE
    assert [effect.outcome for effect in world.clusters.journal(EffectType.INSTALL)] == ["failed", "done"]


async def test_a_node_that_is_not_there(world) -> None:
    state = await world.clusters.agents.install(world.key, "192.0.2.99", "v1.0.2")
    assert (state.phase, state.message) == (InstallPhase.FAILED, "cluster east/east has no node 192.0.2.99")


async def test_a_restarted_agent_takes_up_failed_commands_again(world) -> None:
    world.clusters.script.fail_command("disk full")
    await world.command("one", W1, words=["Ping"])
    assert (await world.entry("one", W1_KEY))["phase"] == "Failed"
    await phase(world)
    assert await phase(world) is InstallPhase.DONE
    assert (await world.entry("one", W1_KEY))["phase"] == "Completed"


async def test_a_restarted_agent_has_lost_what_it_ran_and_begins_again(world) -> None:
    world.clusters.script.command_seconds(30.0)
    await world.command("one", W1, words=["Ping"])
    await world.management.get(world.ref(COMMAND, "one"))
    world.clock.advance(10)
    await phase(world)
    world.clock.advance(25)
    assert (await world.entry("one", W1_KEY))["phase"] == "Running"
    world.clock.advance(5)
    assert (await world.entry("one", W1_KEY))["phase"] == "Completed"
    assert [effect.outcome for effect in world.clusters.journal(EffectType.COMMAND)] == ["lost", "done"]
    assert world.clusters.journal(EffectType.VIOLATION) == []
