"""Node agents pushed to a real OpenSSH server: whole, proven, and put back when they are deaf."""

from __future__ import annotations

import pytest

from hopline.domain.agent_push import short
from hopline.domain.errors import Transient
from hopline.ports import InstallPhase
from ssh.push_lab import KEY, NEW, PushLab, sha256
from ssh.sshd import agent


async def test_a_new_agent_is_installed_started_and_asked(lab: PushLab) -> None:
    lab.offer(agent("new"))
    state = await lab.push()
    assert state.phase is InstallPhase.DONE, state.message
    assert short(sha256(agent("new"))) in state.message
    assert lab.sshd.binary.read_bytes() == agent("new")
    assert lab.sshd.runs == agent("new")
    assert lab.sshd.binary.stat().st_mode & 0o777 == 0o755
    assert lab.sshd.binary.with_name("bkeagent.bak.hopline").read_bytes() == agent("old")
    assert lab.sshd.leftovers == []
    assert lab.sshd.restarts == 1
    assert await lab.commands() == []


async def test_a_node_that_shows_the_agent_is_left_alone(lab: PushLab) -> None:
    await lab.push()
    calls = lab.sshd.restarts
    lab.told.clear()
    state = await lab.push()
    assert state.phase is InstallPhase.DONE
    assert "it was there" in state.message
    assert lab.sshd.restarts == calls
    assert not [line for line in lab.told if "upload" in line]


async def test_a_binary_that_was_copied_and_never_started_is_started(lab: PushLab) -> None:
    lab.sshd.binary.unlink()
    lab.sshd.binary.write_bytes(agent("new"))
    lab.sshd.binary.chmod(0o755)
    state = await lab.push()
    assert state.phase is InstallPhase.DONE, state.message
    assert lab.sshd.runs == agent("new")
    assert lab.sshd.restarts == 1


async def test_an_agent_that_does_not_start_gives_way_to_the_old_one(lab: PushLab) -> None:
    lab.offer(agent("BROKEN"))
    state = await lab.push()
    assert state.phase is InstallPhase.FAILED
    assert "could not be restarted: Job for bkeagent.service failed" in state.message
    assert f"the old agent {short(sha256(agent('old')))} is back" in state.message
    assert lab.sshd.binary.read_bytes() == lab.sshd.runs == agent("old")
    assert lab.sshd.leftovers == []


async def test_an_agent_that_does_not_answer_gives_way_to_the_old_one(lab: PushLab) -> None:
    lab.offer(agent("DEAF"))
    state = await lab.push()
    assert state.phase is InstallPhase.FAILED
    assert "does not answer: it has not taken up a Ping" in state.message
    assert f"the old agent {short(sha256(agent('old')))} is back, and bkeagent was restarted (active)" in state.message
    assert lab.sshd.binary.read_bytes() == lab.sshd.runs == agent("old")
    assert lab.sshd.leftovers == []
    assert await lab.commands() == []


async def test_a_restart_that_changes_nothing_is_no_success(lab: PushLab) -> None:
    """The old process would answer the Ping in the new one's place."""
    tools = lab.sshd.home / "tools"
    (tools / "systemctl").rename(tools / "systemctl.real")
    lab.sshd.fake("systemctl", f'[ $1 = restart ] || exec {tools}/systemctl.real "$@"')
    state = await lab.push()
    assert state.phase is InstallPhase.FAILED
    told = f"bkeagent runs {short(sha256(agent('old')))} and not the binary {short(sha256(agent('new')))}"
    assert told in state.message
    assert lab.sshd.binary.read_bytes() == agent("old")


async def test_a_second_bad_agent_does_not_cost_the_good_one(lab: PushLab) -> None:
    for bad in ("DEAF one", "BROKEN two"):
        lab.offer(agent(bad))
        assert (await lab.push()).phase is InstallPhase.FAILED
        assert lab.sshd.runs == agent("old")
    lab.offer(agent("good"))
    assert (await lab.push()).phase is InstallPhase.DONE
    assert lab.sshd.runs == agent("good")


async def test_a_node_without_an_agent_gets_one_or_none(lab: PushLab) -> None:
    lab.sshd.stop_agent()
    lab.sshd.binary.unlink()
    lab.offer(agent("DEAF"))
    state = await lab.push()
    assert "no agent was there before, and the new one was taken away" in state.message
    assert not lab.sshd.binary.exists()
    lab.offer(agent("new"))
    assert (await lab.push()).phase is InstallPhase.DONE
    assert lab.sshd.runs == agent("new")


async def test_a_full_disk_is_told_before_anything_is_sent(lab: PushLab) -> None:
    lab.sshd.fake("df", "echo 'Filesystem 1024-blocks Used Available Capacity Mounted'; echo 'x 9 9 5 99% /'")
    state = await lab.push()
    assert state.phase is InstallPhase.FAILED
    assert "there is no room beside" in state.message
    assert "5 KiB are free; nothing was changed" in state.message
    assert lab.sshd.runs == agent("old")
    assert lab.sshd.leftovers == []
    assert lab.sshd.restarts == 0


async def test_a_disk_that_fills_up_in_the_middle(lab: PushLab) -> None:
    lab.sshd.fake("cat", "head -c 1000; echo 'cat: write error: No space left on device' >&2; exit 1")
    state = await lab.push()
    assert "there is no room beside" in state.message
    assert "nothing was changed" in state.message
    assert lab.sshd.leftovers == []
    assert lab.sshd.binary.read_bytes() == agent("old")


async def test_an_upload_that_is_cut_short_is_never_installed(lab: PushLab) -> None:
    lab.sshd.fake("cat", 'case $# in 0) head -c 1000 ;; *) /bin/cat "$@" ;; esac')
    state = await lab.push()
    assert state.phase is InstallPhase.FAILED
    assert f"1000 of {len(agent('new'))} bytes came; nothing was changed" in state.message
    assert lab.sshd.leftovers == []
    assert lab.sshd.runs == agent("old")


async def test_another_push_that_holds_the_node_is_waited_for(lab: PushLab) -> None:
    """The lock is the node's: an attempt whose worker is believed dead may still be at it."""
    lab.sshd.fake("flock", "exit 1")
    with pytest.raises(Transient, match="another push holds the agent"):
        await lab.push()
    assert lab.sshd.runs == agent("old")
    (lab.sshd.home / "tools" / "flock").unlink()
    assert (await lab.push()).phase is InstallPhase.DONE
    assert lab.sshd.leftovers == []


async def test_a_node_that_is_not_there(lab: PushLab) -> None:
    state = await lab.agents().install(KEY, "127.0.0.99", NEW)
    assert (state.phase, state.message) == (InstallPhase.FAILED, "cluster east/east has no node 127.0.0.99")
