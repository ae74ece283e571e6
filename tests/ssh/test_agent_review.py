"""What the plan says of a push: every refusal by node, field and remedy, and nothing changed anywhere."""

from __future__ import annotations

import asyncssh

from hopline.domain.agent_push import HostKeyPolicy
from hopline.domain.plan import Finding, Severity
from hopline.domain.resources import CONFIG_MAP, SECRET, ObjectRef
from ssh.push_lab import KEY, NEW, PushLab
from ssh.sshd import ACCOUNT


async def findings(lab: PushLab) -> tuple[Finding, ...]:
    """Of a push of the new version to every node."""
    facts = await lab.facts()
    return await lab.agents().review(facts, facts.nodes, NEW)


async def only(lab: PushLab) -> Finding:
    """The one that there is."""
    (found,) = await findings(lab)
    return found


async def test_nothing_is_in_the_way(lab: PushLab) -> None:
    assert await findings(lab) == ()
    assert lab.sshd.calls("systemctl") == ["show -p MainPID --value bkeagent", "is-active bkeagent"]
    assert not lab.cache.exists()


async def test_no_secret_is_one_finding_for_all_nodes(lab: PushLab) -> None:
    await lab.management.delete(ObjectRef(kind=SECRET, name="node-access", kube_namespace="east"))
    facts = await lab.facts()
    nodes = [facts.nodes[0].model_copy(update={"hostname": f"m{number}"}) for number in range(5)]
    (found,) = await lab.agents().review(facts, nodes, NEW)
    assert (found.severity, found.object) == (Severity.BLOCKS, "Secret east/node-access")
    assert found.message == "there is no Secret with credentials for SSH to the nodes"
    assert "kubectl create secret generic node-access -n east" in found.remedy


async def test_a_host_key_that_nobody_vouches_for(lab: PushLab) -> None:
    lab.grant(known_hosts="")
    found = await only(lab)
    fingerprint = asyncssh.read_public_key(lab.sshd.folder / "host_key.pub").get_fingerprint()
    assert (found.severity, found.object, found.field) == (Severity.BLOCKS, "node m1", "host key")
    assert found.message == f"m1: nobody vouches for the host key of the node (ssh-ed25519 {fingerprint})"
    assert "HOPLINE_AGENT_SSH_HOST_KEYS=accept-new" in found.remedy


async def test_a_host_key_that_will_be_recorded(lab: PushLab) -> None:
    lab.policy = HostKeyPolicy.ACCEPT_NEW
    lab.grant(known_hosts="")
    found = await only(lab)
    assert found.severity is Severity.INFO
    assert found.message.startswith("host keys that nobody knows yet are recorded at the first push: m1 (SHA256:")
    listing = await lab.management.list(CONFIG_MAP, kube_namespace=KEY.kube_namespace)
    assert listing.items == []
    assert "Accepted" not in lab.sshd.log


async def test_a_node_that_is_away(lab: PushLab) -> None:
    lab.sshd.stop()
    found = await only(lab)
    assert (found.severity, found.object) == (Severity.BLOCKS, "node m1")
    assert found.message.startswith("m1: the way to the node over SSH is cut off")
    assert "BKENode spec.ip, spec.port" in found.remedy


async def test_sudo_that_asks(lab: PushLab) -> None:
    lab.sshd.sudo("asks")
    found = await only(lab)
    assert found.message == f"m1: {ACCOUNT} may not act as root on the node: sudo: a password is required"
    assert "data[sudo-password] of Secret east/node-access" in found.remedy


async def test_a_machine_that_no_agent_is_for(lab: PushLab) -> None:
    lab.sshd.fake("uname", "echo riscv64")
    found = await only(lab)
    assert found.message == "m1: there is no node agent for this kind of machine (riscv64)"


async def test_a_binary_that_is_missing(lab: PushLab) -> None:
    for file in lab.files.iterdir():
        file.unlink()
    found = await only(lab)
    assert (found.severity, found.object) == (Severity.BLOCKS, "BKECluster east/east")
    assert "the file repository has no node agent bkeagent-1.0.3-linux-amd64" in found.message
    assert "bkeagent-1.0.3-linux-amd64.sha256 beside it" in found.remedy


async def test_bytes_that_nothing_vouches_for(lab: PushLab) -> None:
    for file in lab.files.glob("*.sha256"):
        file.unlink()
    found = await only(lab)
    assert found.severity is Severity.WARNS
    assert "there is no .sha256 beside it" in found.message
    assert found.remedy == "put one there: sha256sum bkeagent-1.0.3-linux-amd64"


async def test_a_push_that_was_cut_off_is_told(lab: PushLab) -> None:
    (lab.sshd.binary.parent / "bkeagent.hopline-pending").write_text("ab" * 32)
    found = await only(lab)
    assert found.severity is Severity.WARNS
    assert found.message == "a push of the agent was cut off on m1 (abababababab before): it is ended, or undone, first"


async def test_only_so_many_nodes_are_looked_at(lab: PushLab) -> None:
    facts = await lab.facts()
    await lab.management.delete(ObjectRef(kind=SECRET, name="node-access", kube_namespace="east"))
    nodes = [facts.nodes[0].model_copy(update={"hostname": f"m{number}"}) for number in range(503)]
    told = await lab.agents().review(facts, nodes, NEW)
    assert [one.message for one in told][1:] == ["3 nodes were not signed in on; their turn finds what is wrong there"]
