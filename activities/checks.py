"""Checks before and after a hop: they look, and say what they saw."""

from __future__ import annotations

from pydantic import Field
from temporalio import activity

from activities.failures import ErrorDetails, details_of, translated
from activities.heartbeats import heartbeating
from activities.requests import ManagementFence, RunRequest
from hopline.domain.plan import CheckStage, PlannedCheck
from hopline.domain.wire import WireModel
from hopline.operations.checks import ClusterChecks
from hopline.operations.one_controller import HopWrites, OneController
from hopline.operations.target_reach import TargetReach
from hopline.ports import Clusters

PATIENCE_SECONDS = 20.0
"""After the first write a node that is late by a moment is waited for; before it, a refusal comes at once."""


class ChecksRequest(RunRequest):
    """The checks that the catalogue names for one side of a hop.

    Attributes:
        first: nothing was written yet in this run.
        to_version: target of the hop; empty (an older run): whether it can be written is not proven.
        targets: the versions that it declares.
    """

    stage: CheckStage
    to_version: str = ""
    targets: dict[str, str] = Field(default_factory=dict)
    checks: tuple[PlannedCheck, ...] = ()
    first: bool = True


class ChecksReport(WireModel):
    """The checks with what they saw; `refusal` is None when the hop may go on.

    Attributes:
        away: why the cluster that is upgraded could not be looked at at all; empty: it could, or the run has not begun.
    """

    checks: tuple[PlannedCheck, ...] = ()
    refusal: ErrorDetails | None = None
    away: str = ""


class CheckActivities:
    """Looks for `ClusterUpgrade`; changes nothing."""

    def __init__(self, clusters: Clusters, fence: ManagementFence, one_controller: OneController) -> None:
        self._fence = fence
        self._checks = ClusterChecks(clusters, one_controller)
        self._reach = TargetReach(clusters)

    @activity.defn
    @translated
    async def run_checks(self, request: ChecksRequest) -> ChecksReport:
        """Guards and named checks before a hop; the target's health and named checks after it."""
        await self._fence.check(request)
        patience = 0.0 if request.first else PATIENCE_SECONDS
        writes = HopWrites(request.to_version, request.targets) if request.to_version else None
        async with heartbeating():
            if request.stage is CheckStage.BEFORE:
                checks, refusal = await self._checks.before(
                    request.cluster, request.checks, request.workflow_id, writes=writes, patience_seconds=patience
                )
            else:
                checks, refusal = await self._checks.after(request.cluster, request.checks, patience_seconds=patience)
            away = await self._reach.outage(request.cluster) if refusal and not request.first else None
        return ChecksReport(
            checks=checks, refusal=details_of(refusal) if refusal else None, away=str(away) if away else ""
        )
