"""The snapshot of etcd: what the agent is told, what its shell line really prints, and what makes its answer good."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from builders_domain import node, sample_facts
from hopline.domain.cluster import node_facts
from hopline.domain.errors import ComponentFailed
from hopline.domain.etcd import EtcdMember, EtcdSighting
from hopline.domain.etcd_snapshots import BACKUP_FOLDER, DATA_FOLDER, SCRIPT, TELL, read_snapshot, snapshot_command
from hopline.domain.etcd_snapshots import snapshot_node as choose
from hopline.domain.node_commands import (
    NodeStep,
    command_document,
    is_of_node_upgrade,
    is_same_work,
    node_command,
)
from hopline.domain.release import InlineHandler

M1 = node_facts(node("m1", "master", "etcd"))
NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    (tmp_path / "backup").mkdir()
    return tmp_path / "backup"


def run_script(disk: Path) -> subprocess.CompletedProcess[str]:
    """The very shell line, on another folder."""
    script = SCRIPT.replace(BACKUP_FOLDER, str(disk)).replace(DATA_FOLDER, str(disk))
    return subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False, timeout=30)


def write_snapshot(disk: Path, name: str = "backup-2607301200.db", *, content: bytes = b"keys" * 5000) -> Path:
    file = disk / name
    file.write_bytes(content + hashlib.sha256(content).digest())
    return file


def command_with(output: list[str], *, started: datetime = NOW) -> dict[str, Any]:
    document = command_document(
        sample_facts(), snapshot_command(sample_facts(), M1, "v3.6.7-of.1"), M1, "upgrade-node-1"
    )
    moment = started.strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {"id": "upgrade", "status": "True", "phase": "Completed", "lastStartTime": moment},
        {"id": TELL, "status": "True", "phase": "Completed", "lastStartTime": moment, "stdOut": output},
    ]
    entry = {"phase": "Completed", "status": "True", "succeeded": 2, "conditions": conditions}
    return {**document, "status": {f"m1/{M1.ip}": entry}}


def test_the_command_is_the_documented_upgrade_to_the_version_that_is_there_and_a_shell_line() -> None:
    command = snapshot_command(sample_facts(), M1, "v3.6.7-of.1")
    document = command_document(sample_facts(), command, M1, "upgrade-node-192.0.2.11-1")
    assert document["spec"]["commands"] == [
        {
            "id": "upgrade",
            "command": [
                "Kubeadm", "phase=UpgradeEtcd", "bkeConfig=east:east", "clusterType=bke", "backUpEtcd=true",
                "etcdVersion=v3.6.7-of.1",
            ],
            "type": "BuiltIn",
            "backoffDelay": 3,
        },
        {"id": TELL, "command": [SCRIPT], "type": "Shell"},
    ]  # fmt: skip
    assert is_of_node_upgrade(document, M1) is (document["metadata"]["name"] == f"upgrade-node-{M1.ip}-1")
    assert is_same_work(document, command, M1)
    upgrade = node_command(sample_facts(), InlineHandler.ETCD.value, "v3.6.7-of.1", M1, NodeStep.UPGRADE)
    assert not is_same_work(document, upgrade, M1), "an upgrade is never taken for the snapshot, nor the other way"
    assert not is_same_work(command_document(sample_facts(), upgrade, M1, "n-1"), command, M1)


def test_what_the_shell_line_prints_of_a_good_snapshot_is_believed(disk: Path) -> None:
    write_snapshot(disk, "backup-2601010000.db", content=b"older")
    os.utime(disk / "backup-2601010000.db", (1, 1))
    file = write_snapshot(disk)
    done = run_script(disk)
    assert done.returncode == 0, done.stderr
    found = read_snapshot(command_with([done.stdout]), M1)
    assert (found.node, found.path, found.size) == ("m1", str(file), 20_032)
    assert found.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert found.taken_at is not None
    assert abs(found.taken_at.timestamp() - time.time()) < 60
    assert read_snapshot(command_with(done.stdout.splitlines()), M1) == found, "however the agent cuts it"


def test_the_shell_line_fails_where_there_is_no_snapshot(disk: Path) -> None:
    assert run_script(disk).returncode != 0


def test_an_empty_file_is_no_snapshot(disk: Path) -> None:
    (disk / "backup-2607301200.db").touch()
    with pytest.raises(ComponentFailed, match="it has 0 bytes"):
        read_snapshot(command_with([run_script(disk).stdout]), M1)


def test_a_snapshot_that_was_cut_off_or_changed_does_not_match_its_seal(disk: Path) -> None:
    file = write_snapshot(disk)
    content = bytearray(file.read_bytes())
    for damaged in (bytes(content[:-100]), bytes([content[0] ^ 1, *content[1:]])):
        file.write_bytes(damaged)
        with pytest.raises(ComponentFailed, match="sealed") as caught:
            read_snapshot(command_with([run_script(disk).stdout]), M1)
        assert "no member was touched" in caught.value.message
        assert str(file) in caught.value.remedy


def test_a_snapshot_of_long_ago_is_not_taken_for_a_new_one(disk: Path) -> None:
    os.utime(write_snapshot(disk), (NOW.timestamp() - 3600,) * 2)
    with pytest.raises(ComponentFailed, match="older than the instruction"):
        read_snapshot(command_with([run_script(disk).stdout]), M1)


@pytest.mark.parametrize("output", [[], ["pong"], ["file=\nsize=x"]])
def test_an_agent_that_tells_nothing_is_not_believed(output: list[str]) -> None:
    with pytest.raises(ComponentFailed, match="does not say where it lies"):
        read_snapshot(command_with(output), M1)


def test_a_disk_without_room_for_another_one_stops_the_upgrade(disk: Path) -> None:
    write_snapshot(disk)
    told = run_script(disk).stdout
    for key in ("free", "data_free"):
        lines = [f"{key}=1" if line.startswith(f"{key}=") else line for line in told.splitlines()]
        with pytest.raises(ComponentFailed, match="nearly full") as caught:
            read_snapshot(command_with(lines), M1)
        assert "1 KiB free" in caught.value.value


def test_the_node_is_one_whose_member_serves_and_does_not_lead_and_whose_agent_answers() -> None:
    nodes = [node_facts(node(name, "master", "etcd")) for name in ("m1", "m2", "m3")]

    def seen(leader: str, down: str = "") -> EtcdSighting:
        members = [
            EtcdMember(name=one.display_name, address=one.ip, listed=True, problem="x" if down == one.hostname else "")
            for one in nodes
        ]
        return EtcdSighting(members=tuple(members), leader=leader)

    def name(*given: Any) -> str:
        found = choose(*given)
        return found.display_name if found else ""

    assert name(nodes, seen("m1")) == "m2"
    assert name(nodes, seen("m2")) == "m1"
    assert name(nodes, seen("m2", down="m1")) == "m3"
    assert name(nodes[:1], seen("m1")) == "m1", "a cluster of one"
    silent = nodes[0].model_copy(update={"state_code": 1})
    assert name([silent, *nodes[1:]], seen("m2")) == "m3"
    assert name(nodes, None) == "m1", "nobody could look, and an operator has allowed it"
    assert name([silent], seen("m1")) == ""
