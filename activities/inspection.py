"""Looking for the terminal: the plan, the versions that can be reached, the status of a cluster without a run."""

from __future__ import annotations

import asyncio
import time

from temporalio import activity

from activities.failures import translated
from activities.heartbeats import heartbeating
from hopline.domain.plan import UpgradePlan
from hopline.domain.plan_pieces import PAGE_BYTES, PlanInPieces, PlanPage
from hopline.domain.routes import Reachable
from hopline.domain.status import UpgradeStatus
from hopline.domain.wire import ClusterKey, WireModel
from hopline.operations.node_review import NodeReview
from hopline.operations.planning import Planner
from hopline.operations.reading import read_cluster
from hopline.operations.resting_status import resting_status
from hopline.ports import Clusters

KEPT_SECONDS = 120.0
"""How long a plan in pieces waits for whoever reads it; then, and at another worker, it is made again."""

KEPT_PLANS = 4


class Inspection(WireModel):
    """What to look at; with `desired_version` the plan to it."""

    cluster: ClusterKey
    plan_to: str = ""
    versions: bool = False


class PlanPageRequest(WireModel):
    """The page of a plan that begins with piece number `after`."""

    cluster: ClusterKey
    plan_to: str
    after: int


class Inspected(WireModel):
    """What was asked for; the status always. A plan that is too large for one payload comes as its first `page`."""

    status: UpgradeStatus
    plan: UpgradePlan | None = None
    page: PlanPage | None = None
    reachable: Reachable | None = None


class InspectionActivities:
    """Reads; changes nothing."""

    def __init__(self, planner: Planner, clusters: Clusters, review: NodeReview | None = None) -> None:
        self._review = review
        self._planner = planner
        self._clusters = clusters
        self._kept: dict[tuple[str, str], tuple[float, PlanInPieces]] = {}

    @activity.defn
    @translated
    async def inspect_cluster(self, request: Inspection) -> Inspected:
        """Look at one cluster. Raises Refused as the upgrade itself would."""
        async with heartbeating():
            facts = await read_cluster(self._clusters.management, request.cluster)
            plan, page, reachable = None, None, None
            if request.plan_to:
                plan = await self._plan(request.cluster, request.plan_to)
                if await asyncio.to_thread(_is_large, plan):
                    page = (await self._in_pieces(request.cluster, request.plan_to, plan)).page()
                    plan = None
            if request.versions:
                reachable = await self._planner.reachable(facts)
            return Inspected(status=resting_status(facts), plan=plan, page=page, reachable=reachable)

    @activity.defn
    @translated
    async def read_plan_page(self, request: PlanPageRequest) -> PlanPage:
        """One more page. Raises Refused as the upgrade itself would."""
        async with heartbeating():
            since, kept = self._kept.get((str(request.cluster), request.plan_to), (0.0, None))
            if kept is None or time.monotonic() - since > KEPT_SECONDS:
                plan = await self._plan(request.cluster, request.plan_to)
                kept = await self._in_pieces(request.cluster, request.plan_to, plan)
            return kept.page(request.after)

    async def _plan(self, cluster: ClusterKey, version: str) -> UpgradePlan:
        facts, plan = await self._planner.plan(cluster, version)
        return await self._review.review(facts, plan) if self._review else plan

    async def _in_pieces(self, cluster: ClusterKey, version: str, plan: UpgradePlan) -> PlanInPieces:
        made = await asyncio.to_thread(PlanInPieces, plan)
        self._kept.pop((str(cluster), version), None)
        self._kept[str(cluster), version] = (time.monotonic(), made)
        for oldest in list(self._kept)[:-KEPT_PLANS]:
            del self._kept[oldest]
        return made


def _is_large(plan: UpgradePlan) -> bool:
    return len(plan.model_dump_json().encode()) > PAGE_BYTES
