"""What a retry does before anything goes on: nodes that were given up get another chance."""

from __future__ import annotations

from temporalio import activity

from activities.failures import translated
from activities.heartbeats import heartbeating
from activities.requests import ManagementFence, RunRequest
from hopline.domain.left_failed import taken_over
from hopline.domain.node_revival import RevivedNodes
from hopline.domain.wire import WireModel
from hopline.operations.node_revival import revive_nodes
from hopline.operations.one_controller import OneController
from hopline.operations.reading import read_cluster
from hopline.operations.retry_answers import RetryAnswers, left_commands
from hopline.ports import ClusterClient


class ReviveRequest(RunRequest):
    """Which nodes, by address; all of the cluster when none is named."""

    nodes: tuple[str, ...] = ()


class AnswerRequest(ReviveRequest):
    """A retry that meets no open run; see `workflows.messages.RetryAnswerInput`."""

    annotation: str | None = None
    keep: bool = False
    told: str = ""


class Takeover(WireModel):
    """What is taken over from another controller, as a sentence."""

    sentence: str = ""


class RetryActivities:
    """Writes BKENodes while no rollout works on them."""

    def __init__(self, management: ClusterClient, fence: ManagementFence, one_controller: OneController) -> None:
        self._management = management
        self._fence = fence
        self._one_controller = one_controller
        self._answers = RetryAnswers(management, one_controller)

    @activity.defn
    @translated
    async def revive_nodes(self, request: ReviveRequest) -> RevivedNodes:
        """Take the marks of an earlier failure away. Raises InvalidInput when a node is unknown: nothing is written."""
        await self._fence.check(request)
        async with heartbeating():
            return await revive_nodes(
                self._management, request.cluster, request.nodes, before_writing=self._one_controller.require_alone
            )

    @activity.defn
    @translated
    async def answer_retry(self, request: AnswerRequest) -> RevivedNodes:
        """Answer a retry while no run is open. Raises InvalidInput as `revive_nodes`, and OtherController."""
        await self._fence.check(request)
        async with heartbeating():
            return await self._answers.answer(
                request.cluster,
                request.nodes,
                annotation=request.annotation,
                keep=request.keep,
                told=request.told,
                request_id=request.run_id,
            )

    @activity.defn
    @translated
    async def describe_takeover(self, request: RunRequest) -> Takeover:
        """What another controller has left there, before anything of it is changed."""
        await self._fence.check(request)
        async with heartbeating():
            facts = await read_cluster(self._management, request.cluster)
            return Takeover(sentence=taken_over(facts, await left_commands(self._management, facts)))
