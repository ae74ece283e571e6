"""Etcd on the simulator, with real activities: snapshot first, leader last, and no member without a healthy rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client

from hopline.domain.etcd import EtcdAlarmType
from hopline.domain.node_strategy import DrainPolicy, DrainRules
from hopline.domain.plan import Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import CLUSTER_VERSION, COMMAND, SECRET, ObjectRef
from hopline.operations.etcd_snapshots import RECORD
from hopline.operations.reading import read_cluster
from hopline.sim.etcd import SECRET_SUFFIX
from hopline.sim.journal import EffectType
from hopline.sim.script import SnapshotDamage
from hopline.wiring import store_on
from rollout_lab import VERSIONS, Handle, RolloutLab, failure_of

pytestmark = pytest.mark.slow

OLD, NEW = "v3.6.7-of.1", VERSIONS[InlineHandler.ETCD]
OFF = DrainRules(policy=DrainPolicy.OFF)


@pytest_asyncio.fixture
async def lab(temporal_client: Client, task_queue: str, tmp_path: Path) -> AsyncIterator[RolloutLab]:
    made = RolloutLab(temporal_client, task_queue, tmp_path / "sim.db", nodes=(3, 1))
    await made.declare()
    yield made
    await made.clusters.aclose()


async def start(lab: RolloutLab, handler: InlineHandler = InlineHandler.ETCD) -> Handle:
    return await lab.start(handler, Pool.CONTROL_PLANE, drain=OFF)


def ran(lab: RolloutLab) -> list[tuple[str, str, str]]:
    """Node, version and whether a snapshot was asked for, of every change of etcd, in order."""
    found = []
    for one in lab.clusters.journal(EffectType.COMMAND):
        given = dict(argument.partition("=")[::2] for argument in one.arguments)
        if given.get("phase") == "UpgradeEtcd":
            found.append((one.node.split("/")[0], given["etcdVersion"], given["backUpEtcd"]))
    return found


def plugins(lab: RolloutLab) -> set[str]:
    """What agents have been asked to run."""
    return {one.verb for one in lab.clusters.journal(EffectType.COMMAND)}


async def commands(lab: RolloutLab) -> list[str]:
    listing = await lab.clusters.management.list(COMMAND, kube_namespace=lab.key.kube_namespace)
    return [one["metadata"]["name"] for one in listing.items]


async def test_a_snapshot_comes_first_and_the_leader_last(lab: RolloutLab) -> None:
    lab.script.etcd_leader("m1")
    async with lab.worker():
        handle = await start(lab)
        result = await handle.result()
    assert ran(lab) == [("m2", OLD, "true"), ("m2", NEW, "false"), ("m3", NEW, "false"), ("m1", NEW, "true")]
    assert result.upgraded == ("m2", "m3", "m1")
    facts = await read_cluster(lab.clusters.management, lab.key)
    assert (await lab.clusters.etcd.look(facts)).leader == "m3", "m1 handed over before its turn"
    assert lab.clusters.journal(EffectType.VIOLATION) == []
    assert set(await lab.states()) >= {"m1", "m2", "m3"}
    assert {state for host, (state, _) in (await lab.states()).items()} == {"Ready"}


async def test_the_snapshot_is_verified_told_and_recorded(lab: RolloutLab) -> None:
    async with lab.worker():
        handle = await start(lab)
        result = await handle.result()
    found = result.snapshot
    assert found is not None
    assert (found.node, found.path.rpartition("/")[0]) == ("m1", "/etc/openFuyao/bkeagent/etcd-backup")
    assert found.size > 0
    assert found.taken_at is not None
    assert abs((datetime.now(UTC) - found.taken_at).total_seconds()) < 600
    where = {"name": lab.key.name, "kube_namespace": lab.key.kube_namespace}
    owner = await lab.clusters.management.get(ObjectRef(kind=CLUSTER_VERSION, **where))
    store = store_on(lab.clusters.management)
    (record,) = await store.records(owner)
    assert record.digest == found.digest
    assert (record.about[RECORD], record.about["hop"]) == ("m1", "v26.06-rc.3")
    assert found.sha256.encode() in await store.get(owner, record.digest)


@pytest.mark.parametrize("damage", list(SnapshotDamage))
async def test_a_snapshot_that_cannot_be_relied_on_stops_before_any_member(
    lab: RolloutLab, damage: SnapshotDamage
) -> None:
    lab.script.damage_snapshot(damage)
    async with lab.worker():
        details = await failure_of(await start(lab))
        assert "was not begun" in details.message
        assert "m1" in details.message + details.remedy
        assert details.remedy
        assert ran(lab) == [("m1", OLD, "true")], "the snapshot, and no member"
        assert {state for state, _ in (await lab.states()).values()} == {"Ready"}
        assert await commands(lab) == [] or damage is not SnapshotDamage.MISSING
        result = await (await start(lab)).result()
    assert len(result.upgraded) == 3


async def test_an_agent_that_fails_to_take_it_stops_before_any_member_and_is_not_told_again_later(
    lab: RolloutLab,
) -> None:
    lab.script.fail_command("dial tcp 192.0.2.11:2379: i/o timeout", phase="UpgradeEtcd", times=1)
    async with lab.worker():
        details = await failure_of(await start(lab))
        assert "was not begun" in details.message
        assert "i/o timeout" in details.message
        assert "no member was touched" in details.message
        await lab.until(lambda: commands(lab), lambda names: not names)
        assert (await (await start(lab)).result()).upgraded == ("m1", "m2", "m3")


async def test_a_member_that_is_down_is_waited_for_and_nothing_is_taken_down_meanwhile(lab: RolloutLab) -> None:
    fault = lab.script.etcd_member_down("m3", "no answer from 198.18.0.3:2379: Connection refused")
    async with lab.worker():
        handle = await start(lab)
        seen = await lab.until_progress(handle, lambda seen: "etcd member m3" in seen.message)
        assert "without m1 etcd would lose its quorum of 2 of 3" in seen.message
        assert [version for _, version, _ in ran(lab)] == [OLD]
        assert {state for state, _ in (await lab.states()).values()} == {"Ready"}
        lab.script.clear(fault)
        assert (await handle.result()).upgraded == ("m1", "m3", "m2"), "m2 has come to lead meanwhile"


async def test_the_next_member_does_not_begin_before_the_last_one_serves(lab: RolloutLab) -> None:
    sealing = lab.script.hold_commands(phase="Shell", node="m1")
    async with lab.worker():
        handle = await start(lab)
        await lab.until(lambda: asyncio.to_thread(plugins, lab), lambda seen: "Shell" in seen)
        upgrading = lab.script.hold_commands(phase="UpgradeEtcd", node="m1")
        lab.script.clear(sealing)
        await lab.until(lambda: asyncio.to_thread(ran, lab), lambda seen: ("m1", NEW, "true") in seen)
        fault = lab.script.etcd_member_down("m1", "it replays its log")
        lab.script.clear(upgrading)
        seen = await lab.until_progress(handle, lambda seen: "it replays its log" in seen.message)
        assert "etcd member m1 does not serve" in seen.message
        assert [host for host, version, _ in ran(lab) if version == NEW] == ["m1"]
        lab.script.clear(fault)
        assert (await handle.result()).upgraded == ("m1", "m2", "m3")


@pytest.mark.parametrize("alarm", [EtcdAlarmType.NOSPACE, EtcdAlarmType.CORRUPT])
async def test_an_alarm_ends_the_rollout_at_once_with_the_way_out(lab: RolloutLab, alarm: EtcdAlarmType) -> None:
    fault = lab.script.etcd_alarm("m2", alarm)
    async with lab.worker():
        details = await failure_of(await start(lab))
        assert f"etcd member m2 has raised the alarm {alarm.value}" in details.message
        assert "etcdctl alarm disarm" in details.remedy
        assert all(version == OLD for _, version, _ in ran(lab))
        assert {state for state, _ in (await lab.states()).values()} == {"Ready"}, "nothing is wrong with the node"
        lab.script.clear(fault)
        assert len((await (await start(lab)).result()).upgraded) == 3


async def test_a_database_that_is_nearly_full_ends_it_too(lab: RolloutLab) -> None:
    lab.script.etcd_space("m2", size=95, quota=100)
    async with lab.worker():
        details = await failure_of(await start(lab))
    assert "the database of etcd member m2" in details.message
    assert "defrag" in details.remedy


async def test_without_credentials_no_member_is_touched_unless_an_operator_allows_it(lab: RolloutLab) -> None:
    secret = ObjectRef(kind=SECRET, name=f"{lab.key.name}{SECRET_SUFFIX}", kube_namespace=lab.key.kube_namespace)
    await lab.clusters.management.delete(secret)
    async with lab.worker():
        details = await failure_of(await start(lab))
    assert "could not look at etcd" in details.message
    assert f"Secret {lab.key.kube_namespace}/{secret.name}" in details.message
    assert "HOPLINE_ETCD_PROBE=optional" in details.remedy
    assert lab.clusters.journal(EffectType.COMMAND) == []
    async with lab.worker(etcd_required=False):
        result = await (await start(lab)).result()
    assert result.upgraded == ("m1", "m2", "m3")
    assert result.snapshot is not None, "the snapshot is the agent's work"


async def test_no_control_plane_node_is_cordoned_that_etcd_needs(lab: RolloutLab) -> None:
    fault = lab.script.etcd_member_down("m2")
    async with lab.worker():
        handle = await lab.start(InlineHandler.MASTER, Pool.CONTROL_PLANE)
        seen = await lab.until_progress(handle, lambda seen: "etcd" in seen.message)
        assert "without m1 etcd would lose its quorum" in seen.message
        assert await lab.cordoned() == set()
        assert lab.runs() == []
        lab.script.clear(fault)
        assert (await handle.result()).upgraded == ("m1", "m2", "m3")


async def test_the_member_that_is_down_is_the_one_that_may_be_worked_on(lab: RolloutLab) -> None:
    """A second attempt heals what the first one has left: the member in hand need not be well."""
    lab.script.fail_command("kubelet did not restart", node="m1", phase="UpgradeEtcd", times=4)
    async with lab.worker():
        await failure_of(await start(lab))
        lab.script.clear_all()
        fault = lab.script.etcd_member_down("m1")
        handle = await start(lab)
        seen = await lab.until_progress(handle, lambda seen: "etcd member m1 does not serve" in seen.message)
        assert ("m1", NEW, "true") in ran(lab), seen
        lab.script.clear(fault)
        assert len((await handle.result()).upgraded) == 3


async def test_an_abort_in_a_snapshot_leaves_no_command_that_begins_later(lab: RolloutLab) -> None:
    lab.script.pick_up_seconds(3600.0)
    async with lab.worker():
        handle = await start(lab)
        await lab.until(lambda: commands(lab), lambda names: len(names) == 1)
        await handle.cancel()
        await lab.until(lambda: commands(lab), lambda names: not names)
    assert lab.clusters.journal(EffectType.COMMAND) == []


async def test_a_worker_that_dies_in_a_snapshot_takes_no_second_one(lab: RolloutLab) -> None:
    held = lab.script.hold_commands(phase="UpgradeEtcd", node="m1")
    async with lab.worker():
        handle = await start(lab)
        await lab.until(lambda: asyncio.to_thread(ran, lab), bool)
    lab.script.clear(held)
    async with lab.worker():
        await handle.result()
    assert ran(lab).count(("m1", OLD, "true")) == 1
