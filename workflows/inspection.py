"""`ClusterInspection`: what the terminal asks a worker when no run can answer. Looks, changes nothing."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.failures import REFUSED, failure_details
    from activities.inspection import Inspected, Inspection, InspectionActivities, PlanPageRequest
    from hopline.domain.errors import HoplineError
    from hopline.domain.plan_pieces import PlanPage
    from workflows import activity_options, identifiers
    from workflows.messages import InspectionInput, InspectionResult, Question, ReachableEntry, VersionsAnswer


@workflow.defn(name=identifiers.CLUSTER_INSPECTION, failure_exception_types=[HoplineError])
class ClusterInspection:
    """One question about one cluster."""

    @workflow.run
    async def run(self, request: InspectionInput) -> InspectionResult:
        """Answer, or fail as Refused with the reason."""
        try:
            return await (_page(request) if request.after else _look(request))
        except ActivityError as failure:
            details = failure_details(failure)
            raise ApplicationError(details.sentence(), details, type=REFUSED, non_retryable=True) from failure


async def _look(request: InspectionInput) -> InspectionResult:
    asked = Inspection(
        cluster=request.cluster,
        plan_to=request.desired_version if request.question is Question.PLAN else "",
        versions=request.question is Question.VERSIONS,
    )
    seen: Inspected = await workflow.execute_activity_method(
        InspectionActivities.inspect_cluster,
        asked,
        summary=f"{request.question.value} of {request.cluster}",
        **activity_options.PLAN,
    )
    return _answer(seen)


async def _page(request: InspectionInput) -> InspectionResult:
    page: PlanPage = await workflow.execute_activity_method(
        InspectionActivities.read_plan_page,
        PlanPageRequest(cluster=request.cluster, plan_to=request.desired_version, after=request.after),
        summary=f"{request.question.value} of {request.cluster}, from piece {request.after}",
        **activity_options.PLAN,
    )
    return InspectionResult(page=page)


def _answer(seen: Inspected) -> InspectionResult:
    versions = None
    if seen.reachable is not None:
        entries = tuple(
            ReachableEntry(version=entry.version, hops=entry.hops, deprecated=entry.deprecated)
            for entry in seen.reachable.versions
        )
        versions = VersionsAnswer(
            from_version=seen.reachable.from_version,
            versions=entries,
            reason=seen.reachable.reason.value,
            message=seen.reachable.message,
        )
    return InspectionResult(plan=seen.plan, page=seen.page, status=seen.status, versions=versions)
