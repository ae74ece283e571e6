"""`NodeRollout` with its real activities on the simulated cluster: effects are counted, not believed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.worker import Worker

from activities.failures import ErrorDetails
from activities.nodes import NodeActivities
from activities.requests import ManagementFence
from activities.target import TargetActivities
from hopline.domain.errors import Transient
from hopline.domain.plan import ComponentType, PlannedComponent, Pool
from hopline.domain.release import InlineHandler
from hopline.domain.resources import BKE_CLUSTER, BKE_NODE, COMMAND, NODE, Document, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.sim import open_simulation
from hopline.sim.journal import EffectType
from hopline.sim.scenarios import Durations, create_scenario
from hopline.sim.script import Failure, Verb
from looking import PATIENCE, until_enough
from rollout_lab import etcd_activities, raise_api_servers
from workflows.messages import RolloutInput, RolloutResult
from workflows.node_rollout import NodeRollout

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
QUICK = Durations(command=0.1, static_pod=0.1, install=0.1)
VERSIONS = {
    InlineHandler.ETCD: "v3.6.8-of.1",
    InlineHandler.MASTER: "v1.34.4-of.1",
    InlineHandler.WORKER: "v1.34.4-of.1",
    InlineHandler.CONTAINERD: "v2.1.2",
    InlineHandler.AGENT: "v1.0.2",
}
Handle = WorkflowHandle[NodeRollout, RolloutResult]


class Site:
    """The simulated cluster, and rollouts on it."""

    def __init__(self, client: Client, task_queue: str, path: Path, key: ClusterKey) -> None:
        self.client, self.task_queue, self.key = client, task_queue, key
        self.clusters = open_simulation(path)
        self.script = self.clusters.script
        self.id = f"rollout-{uuid4()}"

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Worker]:
        management = self.clusters.management
        fence = ManagementFence(management)
        acts, etcd = NodeActivities(self.clusters, fence), etcd_activities(self.clusters, fence)
        reach = TargetActivities(acts.reach, fence)
        async with Worker(
            self.client,
            task_queue=self.task_queue,
            workflows=[NodeRollout],
            activities=[
                acts.look_at_pool, acts.begin_node, acts.watch_node, acts.end_node, reach.wait_for_target, *etcd.all,
            ],
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
            max_heartbeat_throttle_interval=timedelta(seconds=0.5),
        ) as worker:  # fmt: skip
            yield worker

    async def start(self, handler: InlineHandler, pool: Pool, *, seconds: int = 60) -> Handle:
        component = PlannedComponent(
            name=handler.value,
            version=VERSIONS[handler],
            type=ComponentType.AGENT if handler is InlineHandler.AGENT else ComponentType.NODE,
            handler=handler.value,
            timeout_seconds=seconds,
        )
        request = RolloutInput(
            cluster=self.key,
            component=component,
            pool=pool,
            hop_version="v26.06-rc.3",
            deadline=datetime.now(UTC) + timedelta(seconds=seconds),
        )
        return await self.client.start_workflow(NodeRollout.run, request, id=self.id, task_queue=self.task_queue)

    async def declare(self) -> None:
        """As the opening of a hop does: agents read their versions from there."""
        versions = {
            "etcdVersion": VERSIONS[InlineHandler.ETCD],
            "kubernetesVersion": VERSIONS[InlineHandler.MASTER],
            "containerdVersion": VERSIONS[InlineHandler.CONTAINERD],
        }
        await self.clusters.management.patch(
            ObjectRef(kind=BKE_CLUSTER, name=self.key.name, kube_namespace=self.key.kube_namespace),
            {"spec": {"clusterConfig": {"cluster": versions}}},
        )

    async def commands(self) -> list[Document]:
        return (await self.clusters.management.list(COMMAND, kube_namespace=self.key.kube_namespace)).items

    async def states(self) -> dict[str, tuple[str, str]]:
        found = (await self.clusters.management.list(BKE_NODE, kube_namespace=self.key.kube_namespace)).items
        return {one["spec"]["hostname"]: (one["status"]["state"], one["status"].get("message", "")) for one in found}

    async def node_info(self, name: str, field: str) -> str:
        node = await (await self.clusters.target(self.key)).get(ObjectRef(kind=NODE, name=name))
        return str(node["status"]["nodeInfo"][field])

    def runs(self) -> list[tuple[str, str]]:
        """(hostname, plugin) of every instruction that ran on a node, in order."""
        return [(one.node.split("/")[0], one.verb) for one in self.clusters.journal(EffectType.COMMAND)]

    def made(self) -> list[str]:
        """Names of the Commands that were ever made, in order."""
        writes = self.clusters.journal(EffectType.WRITE)
        return [one.subject.rpartition("/")[2] for one in writes if one.verb == "create" and "Command" in one.subject]

    def violations(self) -> list[str]:
        """Nodes on which two Commands ran at once."""
        return [one.node for one in self.clusters.journal(EffectType.VIOLATION)]

    async def until_running(self, count: int = 1) -> str:
        """Until an agent runs the Command number `count`; its name."""
        async with asyncio.timeout(PATIENCE):
            while True:
                begun = [
                    one["metadata"]["name"]
                    for one in await self.commands()
                    if any(entry.get("lastStartTime") for entry in (one.get("status") or {}).values())
                ]
                if len(begun) >= count:
                    return str(sorted(begun)[-1])
                await asyncio.sleep(0.02)


@pytest_asyncio.fixture
async def site(temporal_client: Client, task_queue: str, tmp_path: Path) -> AsyncIterator[Site]:
    path = tmp_path / "simulation.db"
    key = create_scenario(path, examples=EXAMPLES, nodes=(3, 2), durations=QUICK)
    made = Site(temporal_client, task_queue, path, key)
    await made.declare()
    await raise_api_servers(made.clusters, made.key)
    yield made
    await made.clusters.aclose()


async def failure_of(handle: Handle) -> ErrorDetails:
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert isinstance(caught.value.cause, ApplicationError)
    return ErrorDetails.model_validate(caught.value.cause.details[0])


async def test_etcd_goes_node_by_node_with_one_snapshot(site: Site) -> None:
    async with site.worker():
        handle = await site.start(InlineHandler.ETCD, Pool.CONTROL_PLANE)
        result = await handle.result()
    assert result.upgraded == ("m1", "m2", "m3")
    first = [("m1", "Kubeadm"), ("m1", "Shell")]
    assert site.runs() == [*first, ("m1", "Kubeadm"), ("m2", "Kubeadm"), ("m3", "Kubeadm")]
    told = [one.arguments[3:] for one in site.clusters.journal(EffectType.COMMAND) if one.verb == "Kubeadm"]
    assert told == [
        ("backUpEtcd=true", "etcdVersion=v3.6.7-of.1"),
        ("backUpEtcd=true", "etcdVersion=v3.6.8-of.1"),
        ("backUpEtcd=false", "etcdVersion=v3.6.8-of.1"),
        ("backUpEtcd=false", "etcdVersion=v3.6.8-of.1"),
    ]
    states = await site.states()
    assert {states[name] for name in ("m1", "m2", "m3")} == {("Ready", "Upgrading success")}
    assert states["w1"][0] == "Ready"


async def test_commands_run_one_after_another(site: Site) -> None:
    async with site.worker():
        await (await site.start(InlineHandler.MASTER, Pool.CONTROL_PLANE)).result()
    effects = site.clusters.journal(EffectType.COMMAND)
    for before, after in pairwise(effects):
        assert before.ended is not None
        assert before.ended <= after.started
    assert site.violations() == []
    assert await site.node_info("m3", "kubeletVersion") == VERSIONS[InlineHandler.MASTER]


async def test_a_second_rollout_changes_nothing(site: Site) -> None:
    async with site.worker():
        await (await site.start(InlineHandler.WORKER, Pool.WORKERS)).result()
        writes = len(site.clusters.journal(EffectType.WRITE))
        result = await (await site.start(InlineHandler.WORKER, Pool.WORKERS)).result()
    assert (result.upgraded, result.already) == ((), ("w1", "w2"))
    assert len(site.clusters.journal(EffectType.WRITE)) == writes


async def test_containerd_leaves_no_command_behind(site: Site) -> None:
    async with site.worker():
        result = await (await site.start(InlineHandler.CONTAINERD, Pool.WORKERS)).result()
    assert result.upgraded == ("w1", "w2")
    assert site.runs() == [("w1", "Reset"), ("w1", "K8sEnvInit"), ("w2", "Reset"), ("w2", "K8sEnvInit")]
    assert await site.node_info("w2", "containerRuntimeVersion") == "containerd://2.1.2"
    async with asyncio.timeout(PATIENCE):
        while await site.commands():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_agents_are_installed_without_a_command(site: Site) -> None:
    async with site.worker():
        result = await (await site.start(InlineHandler.AGENT, Pool.CONTROL_PLANE)).result()
    assert result.upgraded == ("m1", "m2", "m3")
    assert site.made() == []
    assert list(site.clusters.agent_versions(site.key).values())[:3] == ["v1.0.2"] * 3


async def test_a_failed_node_keeps_the_rest_away_and_a_retry_goes_on_there(site: Site) -> None:
    site.script.fail_command("disk full on /var/lib/etcd", node="m2", times=1)
    async with site.worker():
        details = await failure_of(await site.start(InlineHandler.ETCD, Pool.CONTROL_PLANE))
        assert details.subject == f"BKENode {site.key.kube_namespace}/{site.key.name}-198-18-0-2"
        assert "disk full on /var/lib/etcd" in details.message
        states = await site.states()
        assert states["m1"] == ("Ready", "Upgrading success")
        assert states["m2"][0] == "UpgradeFailed"
        assert "disk full" in states["m2"][1]
        assert states["m3"][0] == "Ready"
        result = await (await site.start(InlineHandler.ETCD, Pool.CONTROL_PLANE)).result()
    assert (result.upgraded, result.already) == (("m2", "m3"), ("m1",))
    snapshot = ["m1", "m1"]
    assert [host for host, _ in site.runs()] == [*snapshot, "m1", "m2", *snapshot, "m2", "m3"]
    assert (await site.states())["m2"] == ("Ready", "Upgrading success")


async def go_on(site: Site, held: int) -> RolloutResult:
    """Another rollout, which finds a Command that still runs on w1; then that may end."""
    handle = await site.start(InlineHandler.WORKER, Pool.WORKERS)
    await until_enough(
        lambda: handle.query(NodeRollout.progress), lambda seen: seen.nodes.in_hand == ("w1",) and bool(seen.message)
    )
    site.script.clear(held)
    return await handle.result()


async def test_a_run_after_a_termination_adopts_the_unfinished_command(site: Site) -> None:
    held = site.script.hold_commands()
    async with site.worker():
        first = await site.start(InlineHandler.WORKER, Pool.WORKERS)
        await site.until_running()
        await first.terminate("as a person would")
        result = await go_on(site, held)
    assert result.upgraded == ("w1", "w2")
    assert [host for host, _ in site.runs()] == ["w1", "w2"]
    assert len(site.made()) == 2
    assert site.violations() == []


async def test_a_worker_that_dies_in_mid_command_is_replaced_without_a_second_one(site: Site) -> None:
    held = site.script.hold_commands()
    async with site.worker():
        handle = await site.start(InlineHandler.WORKER, Pool.WORKERS)
        await site.until_running()
    site.script.clear(held)
    async with site.worker():
        result = await handle.result()
    assert result.upgraded == ("w1", "w2")
    assert len(site.made()) == 2
    assert [host for host, _ in site.runs()] == ["w1", "w2"]


async def test_an_abort_before_the_agent_began_leaves_the_node_as_it_was(site: Site) -> None:
    site.script.agent_down("198.18.0.4")
    async with site.worker():
        handle = await site.start(InlineHandler.WORKER, Pool.WORKERS)
        async with asyncio.timeout(PATIENCE):
            while not site.made():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    assert isinstance(caught.value.cause, CancelledError)
    assert (await site.states())["w1"][0] == "Ready"
    assert await site.commands() == []
    site.script.clear_all()
    assert site.runs() == []


async def test_an_abort_in_mid_command_names_what_may_still_run_and_keeps_the_lock(site: Site) -> None:
    held = site.script.hold_commands()
    async with site.worker():
        handle = await site.start(InlineHandler.WORKER, Pool.WORKERS)
        name = await site.until_running()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        state, message = (await site.states())["w1"]
        assert state == "UpgradeFailed"
        assert name in message
        assert "may still be running" in message
        (left,) = await site.commands()
        assert left["spec"]["suspend"] is True
        result = await go_on(site, held)
    assert set(result.upgraded) == {"w1", "w2"}
    assert site.violations() == []


async def test_a_node_that_never_ends_fails_at_the_deadline_and_stays_locked(site: Site) -> None:
    site.script.command_seconds(3600.0)
    async with site.worker():
        details = await failure_of(await site.start(InlineHandler.WORKER, Pool.WORKERS, seconds=3))
    (left,) = await site.commands()
    assert "not done within 3 s" in details.message
    assert "the agent runs Command" in details.message
    assert left["metadata"]["name"] in details.remedy
    assert left["spec"]["suspend"] is True


async def left_behind(site: Site) -> tuple[str, int]:
    """A Command of a rollout that was terminated, which its agent carries out until the fault is cleared."""
    held = site.script.hold_commands()
    etcd = await site.start(InlineHandler.ETCD, Pool.CONTROL_PLANE)
    name = await site.until_running()
    await etcd.terminate("leaves its Command behind")
    return name, held


async def test_a_foreign_command_is_named_as_long_as_it_is_waited_for(site: Site) -> None:
    async with site.worker():
        name, held = await left_behind(site)
        handle = await site.start(InlineHandler.MASTER, Pool.CONTROL_PLANE)
        await until_enough(
            lambda: handle.query(NodeRollout.progress),
            lambda seen: "another Command holds node m1: Kubeadm" in seen.message and name in seen.message,
            PATIENCE,
        )
        site.script.clear(held)
        result = await handle.result()
    assert result.upgraded == ("m1", "m2", "m3")
    assert name in site.made()
    assert site.violations() == []


async def test_a_node_that_is_held_for_too_long_fails_with_what_holds_it(site: Site) -> None:
    async with site.worker():
        name, _ = await left_behind(site)
        details = await failure_of(await site.start(InlineHandler.MASTER, Pool.CONTROL_PLANE, seconds=3))
    assert "it could not be begun in time: another Command holds node m1: Kubeadm" in details.message
    assert "Shell" in details.message
    assert "echo" not in details.message, "a whole script is no message"
    assert name in details.message
    assert site.made() == [name]


async def test_a_conflict_is_read_again(site: Site) -> None:
    async with site.worker():
        number = site.script.fail_request(Failure.CONFLICT, verb=Verb.PATCH_STATUS, kind="BKENode", times=2)
        result = await (await site.start(InlineHandler.WORKER, Pool.WORKERS)).result()
    assert result.upgraded == ("w1", "w2")
    assert site.script.hits(number) == 2
    assert len(site.made()) == 2


async def test_requests_that_are_dropped_are_made_again(site: Site) -> None:
    site.script.fail_request(Failure.TRANSIENT, verb=Verb.CREATE, kind="Command", times=1)
    site.script.unreachable(site.key, times=3)
    async with site.worker():
        result = await (await site.start(InlineHandler.WORKER, Pool.WORKERS)).result()
    assert result.upgraded == ("w1", "w2")
    assert len(site.made()) == 2


async def test_a_create_whose_answer_is_lost_makes_no_second_command(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    management = site.clusters.management
    create, lost = management.create, []

    async def losing(document: Document, **more: Any) -> Document:
        made = await create(document, **more)
        if not lost:
            lost.append(made["metadata"]["name"])
            raise Transient("the answer did not arrive", subject="Command", remedy="try again")
        return made

    monkeypatch.setattr(management, "create", losing)
    async with site.worker():
        result = await (await site.start(InlineHandler.WORKER, Pool.WORKERS)).result()
    assert result.upgraded == ("w1", "w2")
    assert len(site.made()) == 2
    assert [host for host, _ in site.runs()] == ["w1", "w2"]


@pytest.mark.parametrize("count", [1, 2])
async def test_an_abort_leaves_no_node_without_a_runtime(site: Site, count: int) -> None:
    held = site.script.hold_commands(phase=("Reset", "K8sEnvInit")[count - 1])
    async with site.worker():
        handle = await site.start(InlineHandler.CONTAINERD, Pool.WORKERS)
        async with asyncio.timeout(PATIENCE):
            while len(site.runs()) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await handle.cancel()
        site.script.clear(held)
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    assert isinstance(caught.value.cause, CancelledError)
    assert site.runs() == [("w1", "Reset"), ("w1", "K8sEnvInit")]
    assert await site.node_info("w1", "containerRuntimeVersion") == "containerd://2.1.2"
    assert (await site.states())["w1"] == ("Ready", "Upgrading success")
    assert site.violations() == []


async def test_an_abort_before_the_reset_began_leaves_the_runtime(site: Site) -> None:
    site.script.agent_down("198.18.0.4")
    async with site.worker():
        handle = await site.start(InlineHandler.CONTAINERD, Pool.WORKERS)
        async with asyncio.timeout(PATIENCE):
            while not site.made():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert await site.commands() == []
    assert (await site.states())["w1"][0] == "Ready"
    assert len(site.made()) == 1


async def test_a_node_that_an_earlier_run_left_is_settled_without_a_command(site: Site) -> None:
    async with site.worker():
        await (await site.start(InlineHandler.WORKER, Pool.WORKERS)).result()
        (ref,) = [
            ObjectRef(kind=BKE_NODE, name=one["metadata"]["name"], kube_namespace=site.key.kube_namespace)
            for one in (await site.clusters.management.list(BKE_NODE, kube_namespace=site.key.kube_namespace)).items
            if one["spec"]["hostname"] == "w2"
        ]
        body = {"status": {"state": "UpgradeFailed", "message": "an earlier run", "stateCode": 527 & ~2}}
        await site.clusters.management.patch(ref, body, subresource="status")
        result = await (await site.start(InlineHandler.WORKER, Pool.WORKERS)).result()
    assert (result.upgraded, result.already) == ((), ("w1", "w2"))
    assert len(site.made()) == 2
    assert (await site.states())["w2"] == ("Ready", "Upgrading success")


async def test_an_agent_that_is_not_ready_is_waited_for_and_named(site: Site) -> None:
    (ref,) = [
        ObjectRef(kind=BKE_NODE, name=one["metadata"]["name"], kube_namespace=site.key.kube_namespace)
        for one in (await site.clusters.management.list(BKE_NODE, kube_namespace=site.key.kube_namespace)).items
        if one["spec"]["hostname"] == "w1"
    ]
    await site.clusters.management.patch(ref, {"status": {"stateCode": 527 & ~2}}, subresource="status")
    async with site.worker():
        details = await failure_of(await site.start(InlineHandler.WORKER, Pool.WORKERS, seconds=2))
    assert "the node agent of w1 is not ready" in details.message
    assert site.made() == []
    assert (await site.states())["w2"][0] == "Ready"
