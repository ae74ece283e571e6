"""What every activity with effects is told, and the fence around effects (design §2.11)."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError

from activities.failures import WRONG_MANAGEMENT_CLUSTER
from hopline.domain.wire import ClusterKey, WireModel
from hopline.ports import ClusterClient


class RunRequest(WireModel):
    """Which run asks, for which cluster, in which management cluster.

    Attributes:
        workflow_id: marks what is taken (`hopline.dev/taken-by`).
        run_id: first execution of the chain; makes event names unique per run.
        management_uid: uid of `kube-system` where the run began; empty only before it is known.
    """

    cluster: ClusterKey
    workflow_id: str = ""
    run_id: str = ""
    management_uid: str = ""


class ManagementFence:
    """Lets a request through only in the management cluster where its run began.

    The error is retryable: another worker on the queue may be the right one.
    """

    def __init__(self, management: ClusterClient) -> None:
        self._management = management
        self._identity = ""

    async def identity(self) -> str:
        """uid of this worker's management cluster; read once."""
        if not self._identity:
            self._identity = await self._management.identity()
        return self._identity

    async def check(self, request: RunRequest) -> None:
        """Raise unless the request belongs here."""
        await self.check_identity(request.management_uid, f"the run of {request.cluster} began")

    async def check_identity(self, management_uid: str, what: str) -> None:
        """Raise unless this is that management cluster; empty: nobody has said which."""
        own = await self.identity()
        if management_uid and management_uid != own:
            raise ApplicationError(
                f"this worker looks after the management cluster with kube-system uid {own}, {what} "
                f"in {management_uid}; give each management cluster its own task queue",
                type=WRONG_MANAGEMENT_CLUSTER,
            )
