"""Settings that a run writes down at its start, so that a change in mid-run changes no replay (design §2.11)."""

from __future__ import annotations

from temporalio import activity

from activities.failures import translated
from activities.requests import ManagementFence, RunRequest
from hopline.domain.node_strategy import DrainRules
from hopline.domain.wire import WireModel


class WorkerPolicy(WireModel):
    """What this worker would do for a new run.

    Attributes:
        mode: `batches` or `eager`.
        slots: components in flight at once.
        search_attributes: they are registered and may be written.
        drain: how nodes make room, where a release says nothing else.
    """

    mode: str = "batches"
    slots: int = 8
    search_attributes: bool = False
    drain: DrainRules = DrainRules()


class RecordedPolicy(WorkerPolicy):
    """The worker's policy with the identity of its management cluster."""

    management_uid: str = ""


class PolicyActivities:
    """The first activity of every run."""

    def __init__(self, policy: WorkerPolicy, fence: ManagementFence) -> None:
        self._policy = policy
        self._fence = fence

    @activity.defn
    @translated
    async def record_policy(self, request: RunRequest) -> RecordedPolicy:
        """The settings of this worker, and the uid of its management cluster's `kube-system`."""
        return RecordedPolicy(**self._policy.model_dump(), management_uid=await self._fence.identity())
