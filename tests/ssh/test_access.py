"""Signing in on nodes: keys, passwords and sudo from the Secret alone, and host keys that are known."""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
from pathlib import Path

import asyncssh
import pytest

from hopline.domain.agent_push import HostKeyPolicy
from hopline.domain.errors import Forbidden, NotFound, PortError, Rejected, Transient
from hopline.domain.resources import BKE_NODE, CONFIG_MAP, SECRET, ObjectRef
from hopline.ports import InstallPhase, ShellAnswer
from ssh.push_lab import KEY, PushLab
from ssh.sshd import ACCOUNT, SUDO_PASSWORD, agent, make_key

RECORD = ObjectRef(kind=CONFIG_MAP, name="hopline-host-key-east-127-0-0-1", kube_namespace=KEY.kube_namespace)
WRONG = "not-this-one-93ae"


async def whoami(lab: PushLab, script: str = "id -un; cat") -> ShellAnswer:
    """One script on the node, which reads nothing."""
    async with lab.shells.open(KEY, await lab.node()) as shell:
        return await shell.run(script)


async def refusal(lab: PushLab) -> PortError:
    """Why nobody gets in."""
    with pytest.raises(PortError) as caught:
        await whoami(lab)
    return caught.value


async def test_the_key_of_the_secret_lets_in(lab: PushLab) -> None:
    answer = await whoami(lab)
    assert (answer.code, answer.output) == (0, f"{ACCOUNT}\n")


async def test_the_account_of_the_node_counts_where_the_secret_names_none(lab: PushLab) -> None:
    lab.grant(username="")
    assert (await whoami(lab)).output == f"{ACCOUNT}\n"


async def test_root_needs_no_sudo(lab: PushLab) -> None:
    """Where this server runs as root; else its account stands for it, and sudo is called."""
    user = "root" if os.getuid() == 0 else getpass.getuser()
    lab.grant(username=user)
    lab.offer(agent("by root"))
    assert (await lab.push()).phase is InstallPhase.DONE
    assert bool(lab.sshd.calls("sudo")) is (os.getuid() != 0)


async def test_a_key_with_a_passphrase(lab: PushLab, tmp_path: Path) -> None:
    make_key(tmp_path / "locked", "open it")
    allowed = (lab.sshd.folder / "authorized_keys").open("a")
    with allowed:
        allowed.write((tmp_path / "locked.pub").read_text())
    key = (tmp_path / "locked").read_text()
    lab.grant(ssh_privatekey=key, passphrase="open it")
    assert (await whoami(lab)).code == 0
    lab.grant(ssh_privatekey=key, passphrase=WRONG)
    error = await refusal(lab)
    assert isinstance(error, Rejected)
    assert str(error).startswith(
        "the private key cannot be read with the passphrase of the Secret; Secret east/node-access data[ssh-privatekey]"
    )
    lab.grant(ssh_privatekey=key)
    assert "without passphrase" in str(await refusal(lab))


async def test_a_key_that_the_node_does_not_know(lab: PushLab, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    lab.grant(ssh_privatekey=(tmp_path / "other").read_text())
    error = await refusal(lab)
    assert isinstance(error, Forbidden)
    assert f"the node does not let {ACCOUNT} in; node 127.0.0.1 port {lab.sshd.port} SSH is 'permission denied'" in str(
        error
    )


async def test_a_wrong_password(lab: PushLab) -> None:
    lab.grant(ssh_privatekey="", password=WRONG)
    error = await refusal(lab)
    assert isinstance(error, Forbidden)
    assert "permission denied" in str(error)
    assert "Failed password" in lab.sshd.log
    assert WRONG not in str(error)


async def test_a_password_alone_lets_in(lab: PushLab, tmp_path: Path) -> None:
    """OpenSSH asks the system for passwords, which a test has none of: the library's own server stands in."""

    class Server(asyncssh.SSHServer):
        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, password: str) -> bool:
            return (username, password) == (ACCOUNT, "right")

    make_key(tmp_path / "host")
    server = await asyncssh.create_server(
        Server, "127.0.0.1", 0, server_host_keys=[str(tmp_path / "host")], process_factory=_answer
    )
    port = server.sockets[0].getsockname()[1]
    host_key = " ".join((tmp_path / "host.pub").read_text().split()[:2])
    ref = ObjectRef(kind=BKE_NODE, name="east-m1", kube_namespace=KEY.kube_namespace)
    await lab.management.patch(ref, {"spec": {"port": str(port)}})
    lab.grant(ssh_privatekey="", password="right\n", known_hosts=f"[127.0.0.1]:{port} {host_key}")
    try:
        assert (await whoami(lab)).output == "in\n"
    finally:
        server.close()
        await server.wait_closed()


def _answer(process: asyncssh.SSHServerProcess[str]) -> None:
    process.stdout.write("hopline-script-begins\nin\n")
    process.exit(0)


async def test_without_a_secret(lab: PushLab) -> None:
    await lab.management.delete(ObjectRef(kind=SECRET, name="node-access", kube_namespace="east"))
    error = await refusal(lab)
    assert isinstance(error, NotFound)
    assert error.subject == "Secret east/node-access"
    assert "kubectl create secret generic node-access -n east --from-literal=username=USER" in error.remedy


async def test_a_secret_without_credentials(lab: PushLab) -> None:
    lab.grant(ssh_privatekey="")
    assert "holds neither a private key nor a password" in str(await refusal(lab))


async def test_sudo_that_asks_gets_the_password_and_the_script_does_not(lab: PushLab) -> None:
    """Also where the script reads: the password must never become data, nor data a password."""
    lab.sshd.sudo("asks")
    lab.grant(sudo_password=SUDO_PASSWORD)
    state = await lab.push()
    assert state.phase is InstallPhase.DONE, state.message
    assert lab.sshd.binary.read_bytes() == agent("new")
    assert not [call for call in lab.sshd.calls("sudo") if SUDO_PASSWORD in call]


async def test_sudo_that_does_not_ask_does_not_get_it(lab: PushLab) -> None:
    lab.grant(sudo_password=SUDO_PASSWORD)
    assert (await whoami(lab)).output == f"{ACCOUNT}\n"
    assert (await lab.push()).phase is InstallPhase.DONE
    assert lab.sshd.binary.read_bytes() == agent("new")


async def test_sudo_with_a_wrong_password(lab: PushLab) -> None:
    lab.sshd.sudo("asks")
    lab.grant(sudo_password=WRONG)
    error = await refusal(lab)
    assert isinstance(error, Forbidden)
    assert "the password of the Secret is not the one that sudo wants" in str(error)
    assert WRONG not in str(error)


async def test_sudo_that_asks_while_there_is_no_password(lab: PushLab) -> None:
    lab.sshd.sudo("asks")
    error = await refusal(lab)
    assert isinstance(error, Forbidden)
    assert f"{ACCOUNT} may not act as root on the node: sudo: a password is required" in str(error)


@pytest.mark.parametrize("password", ["", SUDO_PASSWORD])
async def test_sudo_that_refuses(lab: PushLab, password: str) -> None:
    lab.sshd.sudo("refuses")
    lab.grant(sudo_password=password)
    error = await refusal(lab)
    assert isinstance(error, Forbidden)
    assert f"{ACCOUNT} is not in the sudoers file." in str(error)
    assert "data[sudo-password] of Secret east/node-access" in error.remedy


async def test_a_node_that_nobody_vouches_for(lab: PushLab) -> None:
    lab.grant(known_hosts="")
    error = await refusal(lab)
    assert isinstance(error, Rejected)
    fingerprint = asyncssh.read_public_key(lab.sshd.folder / "host_key.pub").get_fingerprint()
    assert error.value == f"ssh-ed25519 {fingerprint}"
    assert f"ssh-keyscan -p {lab.sshd.port} 127.0.0.1" in error.remedy
    assert "Accepted" not in lab.sshd.log


async def test_a_node_that_is_another_one(lab: PushLab, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    other = " ".join((tmp_path / "other.pub").read_text().split()[:2])
    lab.grant(known_hosts=f"[127.0.0.1]:{lab.sshd.port} {other}\n")
    error = await refusal(lab)
    assert isinstance(error, Rejected)
    assert "another host key than the one that is known" in str(error)
    assert "Secret east/node-access data[known_hosts]" in error.remedy
    assert "Accepted" not in lab.sshd.log


async def test_a_revoked_key_counts_for_nothing(lab: PushLab) -> None:
    lab.policy = HostKeyPolicy.ACCEPT_NEW
    lab.grant(known_hosts=f"@revoked {lab.sshd.known_hosts}")
    assert "another host key" in str(await refusal(lab))


async def test_known_hosts_that_cannot_be_read(lab: PushLab) -> None:
    lab.grant(known_hosts="[127.0.0.1 what\n")
    error = await refusal(lab)
    assert "known hosts cannot be read" in str(error) or "nobody vouches" in str(error)


async def test_a_new_node_is_recorded_once_and_then_insisted_on(lab: PushLab, tmp_path: Path) -> None:
    lab.policy = HostKeyPolicy.ACCEPT_NEW
    lab.grant(known_hosts="")
    assert (await lab.push()).phase is InstallPhase.DONE
    record = await lab.management.get(RECORD)
    assert record["data"]["known_hosts"] == lab.sshd.known_hosts
    assert record["metadata"]["ownerReferences"][0]["kind"] == "BKENode"
    assert record["immutable"] is True
    lab.sshd.stop()
    for file in ("host_key", "host_key.pub"):
        (lab.sshd.folder / file).unlink()
    make_key(lab.sshd.folder / "host_key")
    lab.sshd.start()
    error = await refusal(lab)
    assert isinstance(error, Rejected)
    assert "ConfigMap east/hopline-host-key-east-127-0-0-1 (delete that record)" in error.remedy
    lab.grant()
    assert (await whoami(lab)).code == 0, "what the Secret says wins over the record"


async def test_two_workers_record_one_key(lab: PushLab) -> None:
    """Whoever is first decides; the other one reads what was decided."""
    lab.policy = HostKeyPolicy.ACCEPT_NEW
    lab.grant(known_hosts="")
    answers = await asyncio.gather(*(whoami(lab) for _ in range(4)))
    assert {answer.code for answer in answers} == {0}
    created = [call for call in lab.hooked.calls if call.verb == "create" and call.subject.startswith("ConfigMap")]
    assert len(created) > 1


async def test_looking_records_nothing(lab: PushLab) -> None:
    lab.policy = HostKeyPolicy.ACCEPT_NEW
    lab.grant(known_hosts="")
    fingerprint = await lab.shells.unrecorded_key(KEY, await lab.node())
    assert fingerprint.startswith("SHA256:")
    with pytest.raises(NotFound):
        await lab.management.get(RECORD)
    lab.grant()
    assert await lab.shells.unrecorded_key(KEY, await lab.node()) == ""


async def test_a_server_that_is_away_may_come_back(lab: PushLab) -> None:
    lab.sshd.stop()
    error = await refusal(lab)
    assert isinstance(error, Transient)
    assert "BKENode spec.ip, spec.port" in error.remedy


async def test_a_port_that_is_none(lab: PushLab) -> None:
    ref = ObjectRef(kind=BKE_NODE, name="east-m1", kube_namespace=KEY.kube_namespace)
    await lab.management.patch(ref, {"spec": {"port": "ssh"}})
    assert "the port of the node is not usable" in str(await refusal(lab))


async def test_a_script_that_takes_too_long(lab: PushLab) -> None:
    async with lab.shells.open(KEY, await lab.node()) as shell:
        with pytest.raises(Transient, match="in time"):
            await shell.run("sleep 60", timeout_seconds=0.3)


async def test_this_machine_s_own_ssh_does_not_count(
    lab: PushLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its known hosts, nor its keys, nor its configuration."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "known_hosts").write_text(lab.sshd.known_hosts)
    (home / ".ssh" / "id_ed25519").write_text(lab.sshd.user_key.read_text())
    (home / ".ssh" / "config").write_text("Host *\n  StrictHostKeyChecking no\n  ProxyCommand /bin/false\n")
    monkeypatch.setenv("HOME", str(home))
    assert (await whoami(lab)).code == 0
    lab.grant(known_hosts="")
    assert isinstance(await refusal(lab), Rejected)
    lab.grant(ssh_privatekey="", password=WRONG)
    assert isinstance(await refusal(lab), Forbidden)


async def test_no_secret_is_told_anywhere(lab: PushLab, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """Not in logs, messages, heartbeats, answers, the journal of writes, nor on the command lines of the node."""
    caplog.set_level(logging.DEBUG)
    make_key(tmp_path / "locked", "passphrase-55d1")
    with (lab.sshd.folder / "authorized_keys").open("a") as allowed:
        allowed.write((tmp_path / "locked.pub").read_text())
    key = (tmp_path / "locked").read_text()
    secrets = {"passphrase": "passphrase-55d1", "password": "password-77b2", "sudo_password": SUDO_PASSWORD}
    lab.sshd.sudo("asks")
    told = []
    for change in ({}, {"sudo_password": WRONG}, {"passphrase": WRONG}, {"ssh_privatekey": "", "password": WRONG}):
        lab.grant(**{**secrets, "ssh_privatekey": key, **change})
        lab.offer(agent(f"new {change}"))
        try:
            told.append((await lab.push()).message)
        except PortError as error:
            told.extend((str(error), repr(error), repr(error.__cause__), repr(error.__context__)))
    sudo_calls = lab.sshd.calls("sudo")
    lab.grant(**secrets, ssh_privatekey=key)
    echo = await whoami(lab, f"echo {SUDO_PASSWORD}; echo {SUDO_PASSWORD} >&2; exit 3")
    assert (echo.output, echo.error) == ("***\n", "***")
    journal = [repr(effect) for effect in lab.clusters.journal()]
    shown = "\n".join([*told, *lab.told, *journal, caplog.text, *sudo_calls, lab.sshd.log])
    body = [line for line in key.splitlines() if not line.startswith("-----")]
    for one in (*secrets.values(), WRONG, *body):
        assert one not in shown
