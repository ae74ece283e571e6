"""`NodeRollout` with its real activities and a real sshd: from the plan's component to an agent that answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Worker

from activities.nodes import NodeActivities, WatchNode
from activities.requests import ManagementFence
from activities.target import TargetActivities
from hopline.domain.agent_push import short
from hopline.domain.node_commands import NodeStep
from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.plan import ComponentType, PlannedComponent, Pool
from hopline.domain.release import InlineHandler
from hopline.operations.one_controller import OneController
from hopline.ports import InstallPhase
from looking import until_enough
from ssh.push_lab import KEY, NEW, PushLab, sha256
from ssh.sshd import SUDO_PASSWORD, agent
from workflows.messages import RolloutInput, RolloutResult
from workflows.node_rollout import NodeRollout

pytestmark = pytest.mark.slow
Handle = WorkflowHandle[NodeRollout, RolloutResult]
WRONG = "not-this-one-93ae"


@asynccontextmanager
async def worker(lab: PushLab, client: Client, task_queue: str) -> AsyncIterator[Worker]:
    """A worker that pushes agents."""
    lab.hooked.installer = lab.agents()
    fence = ManagementFence(lab.management)
    acts = NodeActivities(lab.hooked, fence)
    reach = TargetActivities(acts.reach, fence)
    async with Worker(
        client,
        task_queue=task_queue,
        workflows=[NodeRollout],
        activities=[acts.look_at_pool, acts.begin_node, acts.watch_node, acts.end_node, reach.wait_for_target],
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        max_heartbeat_throttle_interval=timedelta(seconds=0.5),
    ) as running:
        yield running


async def start(client: Client, task_queue: str, *, seconds: int = 60) -> Handle:
    """The component bkeagent on the control plane."""
    component = PlannedComponent(
        name="bkeagent",
        version=NEW,
        type=ComponentType.AGENT,
        handler=InlineHandler.AGENT.value,
        timeout_seconds=seconds,
    )
    request = RolloutInput(
        cluster=KEY,
        component=component,
        pool=Pool.CONTROL_PLANE,
        hop_version="v26.06-rc.3",
        deadline=datetime.now(UTC) + timedelta(seconds=seconds),
    )
    return await client.start_workflow(NodeRollout.run, request, id=f"push-{uuid4()}", task_queue=task_queue)


async def failure(handle: Handle) -> str:
    """What the rollout says at its end."""
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert isinstance(caught.value.cause, ApplicationError)
    return str(caught.value.cause)


async def test_a_rollout_pushes_the_agent(lab: PushLab, temporal_client: Client, task_queue: str) -> None:
    async with worker(lab, temporal_client, task_queue):
        result = await (await start(temporal_client, task_queue)).result()
    assert result.upgraded == ("m1",)
    assert lab.sshd.runs == agent("new")
    assert lab.sshd.leftovers == []


async def test_a_deaf_agent_fails_its_node_and_says_what_is_back(
    lab: PushLab, temporal_client: Client, task_queue: str
) -> None:
    lab.offer(agent("DEAF"))
    async with worker(lab, temporal_client, task_queue):
        message = await failure(await start(temporal_client, task_queue))
    assert f"failed on m1: the installation of agent {NEW} failed: the agent" in message
    assert f"the old agent {short(sha256(agent('old')))} is back" in message
    assert lab.sshd.runs == agent("old")


async def test_a_node_that_is_away_is_waited_for(lab: PushLab, temporal_client: Client, task_queue: str) -> None:
    lab.sshd.stop()
    async with worker(lab, temporal_client, task_queue):
        handle = await start(temporal_client, task_queue)

        async def attempts() -> int:
            description = await handle.describe()
            return max((one.attempt for one in description.raw_description.pending_activities), default=0)

        await until_enough(attempts, lambda seen: seen >= 2)
        lab.sshd.start()
        assert (await handle.result()).upgraded == ("m1",)


async def test_a_refusal_is_not_repeated_and_no_secret_gets_into_history(
    lab: PushLab, temporal_client: Client, task_queue: str
) -> None:
    lab.sshd.sudo("asks")
    lab.grant(sudo_password=WRONG, password=SUDO_PASSWORD)
    async with worker(lab, temporal_client, task_queue):
        refused = await start(temporal_client, task_queue)
        message = await failure(refused)
        assert "the password of the Secret is not the one that sudo wants" in message
        lab.grant(sudo_password=SUDO_PASSWORD)
        done = await start(temporal_client, task_queue)
        await done.result()
    key = [line for line in lab.sshd.user_key.read_text().splitlines() if not line.startswith("-----")]
    for handle in (refused, done):
        history = (await handle.fetch_history()).to_json()
        assert "m1" in history
        for secret in (WRONG, SUDO_PASSWORD, *key):
            assert secret not in history


async def test_a_worker_that_may_only_look_pushes_nothing(lab: PushLab) -> None:
    """Asked again right before: another controller may have come since the node's turn began."""
    lab.hooked.installer = lab.agents()
    alone = OneController(lab.management, ControllerPolicy(), observing=True)
    acts = NodeActivities(lab.hooked, ManagementFence(lab.management), alone)
    component = PlannedComponent(
        name="bkeagent", version=NEW, type=ComponentType.AGENT, handler=InlineHandler.AGENT.value
    )
    request = WatchNode(
        cluster=KEY, component=component, pool=Pool.CONTROL_PLANE, node=await lab.node(), step=NodeStep.INSTALL
    )
    with pytest.raises(ApplicationError, match="observ"):
        await ActivityEnvironment().run(acts.watch_node, request)
    assert "Accepted" not in lab.sshd.log
    assert lab.sshd.runs == agent("old")


async def test_an_aborted_push_is_ended_by_the_next(lab: PushLab, temporal_client: Client, task_queue: str) -> None:
    lab.sshd.fake("sync", f"echo begun >>{lab.sshd.home}/sync.calls; sleep 2")
    async with worker(lab, temporal_client, task_queue):
        handle = await start(temporal_client, task_queue)

        async def begun() -> list[str]:
            return lab.sshd.calls("sync")

        await until_enough(begun, bool)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    (lab.sshd.home / "tools" / "sync").unlink()
    assert (await lab.push()).phase is InstallPhase.DONE
    assert lab.sshd.runs == agent("new")
    assert lab.sshd.leftovers == []
