"""`RetryAnswer`: a retry that meets no open run. Nodes that were given up take part again, and an event says so."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.failures import application_error, failure_details
    from activities.retry import AnswerRequest, RetryActivities
    from hopline.domain.errors import HoplineError
    from hopline.domain.node_revival import RevivedNodes
    from workflows import activity_options, identifiers
    from workflows.messages import RetryAnswerInput


@workflow.defn(name=identifiers.RETRY_ANSWER, failure_exception_types=[HoplineError])
class RetryAnswer:
    """One retry of one cluster."""

    @workflow.run
    async def run(self, retry: RetryAnswerInput) -> RevivedNodes:
        """The nodes that take part again; fails with what refused the retry."""
        request = AnswerRequest(
            cluster=retry.cluster,
            run_id=workflow.info().run_id,
            nodes=retry.nodes,
            annotation=retry.annotation,
            keep=retry.keep,
            told=retry.told,
        )
        try:
            revived: RevivedNodes = await workflow.execute_activity_method(
                RetryActivities.answer_retry,
                request,
                summary=f"answer a retry of {retry.cluster}",
                **activity_options.EFFECT,
            )
        except ActivityError as failure:
            details, cause = failure_details(failure), application_error(failure)
            kind = cause.type if cause is not None else details.kind
            raise ApplicationError(details.sentence(), details, type=kind, non_retryable=True) from failure
        return revived
