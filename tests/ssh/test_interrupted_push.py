"""A push that is cut off anywhere is gone on with by the next call, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from hopline.domain.agent_push import short
from hopline.domain.errors import Transient
from hopline.domain.resources import BKE_NODE, ObjectRef
from hopline.ports import InstallPhase
from ssh.cut_off import CutOff, DroppingProxy, Killed
from ssh.push_lab import KEY, NEW, PushLab, sha256
from ssh.sshd import agent

STAGES = 6
"""Scripts of a push that goes well: look, upload, replace, restart, look, confirm."""

RESTORING_STAGES = 8
"""Of one whose agent is deaf: look, upload, replace, restart, look, look, restore, look."""


def die() -> None:
    raise Killed


async def cut(lab: PushLab, at: int, *, after: bool) -> None:
    """One push that dies at a script."""
    with pytest.raises(Killed):
        await lab.push(shells=CutOff(lab.shells, at, after=after, die=die))


async def test_how_many_scripts_a_push_has(lab: PushLab) -> None:
    shells = CutOff(lab.shells, 0, after=False, die=die)
    await lab.push(shells=shells)
    assert shells.scripts == STAGES
    lab.offer(agent("DEAF"))
    shells = CutOff(lab.shells, 0, after=False, die=die)
    await lab.push(shells=shells)
    assert shells.scripts == RESTORING_STAGES


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, STAGES + 1))
async def test_a_push_that_was_killed_is_ended_by_the_next(lab: PushLab, at: int, after: bool) -> None:
    await cut(lab, at, after=after)
    state = await lab.push()
    assert state.phase is InstallPhase.DONE, state.message
    assert lab.sshd.binary.read_bytes() == lab.sshd.runs == agent("new")
    assert lab.sshd.binary.with_name("bkeagent.bak.hopline").read_bytes() == agent("old")
    assert lab.sshd.leftovers == []
    assert lab.sshd.restarts == 1
    assert await lab.commands() == []


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, RESTORING_STAGES + 1))
async def test_a_push_of_a_deaf_agent_that_was_killed_is_undone(lab: PushLab, at: int, after: bool) -> None:
    lab.offer(agent("DEAF"))
    await cut(lab, at, after=after)
    state = await lab.push()
    assert state.phase is InstallPhase.FAILED
    assert f"the old agent {short(sha256(agent('old')))} is back" in state.message
    assert lab.sshd.binary.read_bytes() == lab.sshd.runs == agent("old")
    assert lab.sshd.leftovers == []


async def test_a_killed_push_of_another_version_keeps_the_last_agent_that_answered(lab: PushLab) -> None:
    lab.offer(agent("DEAF"))
    await cut(lab, 4, after=True)
    assert lab.sshd.runs == agent("DEAF")
    lab.offer(agent("BROKEN"))
    state = await lab.push()
    assert f"the old agent {short(sha256(agent('old')))} is back" in state.message
    assert lab.sshd.runs == agent("old")
    assert lab.sshd.leftovers == []


PROCESS = """
import asyncio, os, signal, sys
from pathlib import Path
from ssh.cut_off import CutOff
from ssh.push_lab import KEY, QUICK, SECRET_NAME
from ssh.push_lab import AgentPlace, PushedAgents, RepositoryAgentBinaries, SecretName, SshNodes
from hopline.sim.clusters import open_simulation

async def main(simulation, binary, cache, address, version, at):
    clusters = open_simulation(Path(simulation))
    shells = SshNodes(clusters.management, SecretName(SECRET_NAME), patience=QUICK)
    cut = CutOff(shells, int(at), after=False, die=lambda: os.kill(os.getpid(), signal.SIGKILL))
    agents = PushedAgents(clusters.management, cut, RepositoryAgentBinaries(Path(cache)), AgentPlace(binary=binary))
    await agents.install(KEY, address, version)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", [3, 4, 5, 6])
async def test_a_process_that_is_killed_leaves_no_harm(lab: PushLab, tmp_path: Path, at: int) -> None:
    arguments = [str(tmp_path / "lab" / "simulation.db"), str(lab.sshd.binary), str(lab.cache), lab.sshd.address, NEW]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", PROCESS, *arguments, str(at)]
    ended = await asyncio.create_subprocess_exec(*command, env=environment)
    assert await ended.wait() == -signal.SIGKILL
    state = await lab.push()
    assert state.phase is InstallPhase.DONE, state.message
    assert lab.sshd.runs == agent("new")
    assert lab.sshd.leftovers == []


async def through(lab: PushLab, port: int) -> None:
    """The node is reached at another port."""
    ref = ObjectRef(kind=BKE_NODE, name="east-m1", kube_namespace=KEY.kube_namespace)
    await lab.management.patch(ref, {"spec": {"port": str(port)}})
    lab.grant(known_hosts=lab.sshd.known_hosts.replace(str(lab.sshd.port), str(port)))


async def test_a_connection_that_is_cut_in_an_upload_may_pass(lab: PushLab) -> None:
    """Transient: tried again. What came of the file is gone at once, and the agent of before runs on."""
    lab.offer(agent("new" + "x" * 4_000_000))
    proxy = DroppingProxy(lab.sshd.address, lab.sshd.port, limit=1_000_000)
    async with proxy.listening() as port:
        await through(lab, port)
        with pytest.raises(Transient, match="cut off"):
            await lab.push()
        assert proxy.dropped == 1
        assert lab.sshd.runs == agent("old")
        assert lab.sshd.restarts == 0
        proxy.limit = 0
        assert (await lab.push()).phase is InstallPhase.DONE
    assert lab.sshd.leftovers == []
    assert lab.sshd.restarts == 1
