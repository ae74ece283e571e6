"""What the update `retry` does: nodes that were given up get another chance, then the held hop goes on."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.failures import INVALID_INPUT, ErrorDetails, application_error, failure_details
    from hopline.domain.errors import Transient
    from hopline.domain.node_revival import RevivedNodes
    from hopline.domain.resources import ANNOTATION_RETRY
    from hopline.domain.status import RunState
    from hopline.operations.events import Regarding
    from hopline.operations.retry_answers import NODES_REVIVED, RETRY_ANSWERED, RETRY_REFUSED
    from workflows.messages import Acknowledgement, RetryRequest
    from workflows.status_publisher import StatusPublisher
    from workflows.upgrade_steps import UpgradeSteps

PATIENCE = timedelta(seconds=50)
"""Shorter than a caller waits for the answer (starter/requests.py); who hears "not now" asks again."""


class Retries:
    """The retries of one run. `wanted`: the hop that is held shall go on."""

    def __init__(self, steps: UpgradeSteps, publisher: StatusPublisher) -> None:
        self._steps = steps
        self._publisher = publisher
        self.wanted = False

    async def answer(self, request: RetryRequest) -> Acknowledgement:
        """Revive the nodes, and wake the hold that was there when the retry came.

        Raises ApplicationError when a node is unknown or could not be written: nothing goes on then. One that came by
        the annotation is answered by an event too, and its annotation is removed.
        """
        publisher = self._publisher
        was_held, since = publisher.status.state is RunState.HELD, publisher.status.since
        try:
            revived: RevivedNodes = await self._steps.revive_nodes(request.nodes, PATIENCE)
        except ActivityError as failure:
            raise self._refused(request, failure) from failure
        if revived.nodes:
            publisher.tell(Regarding.BKE_CLUSTER, NODES_REVIVED, revived.sentence())
        if was_held and publisher.status.since == since:
            self.wanted = True
        elif request.annotation and not was_held:
            publisher.tell(Regarding.BKE_CLUSTER, RETRY_ANSWERED, self._nothing_held())
        self._take_annotation_away(request)
        parts = (revived.sentence(), publisher.status.message)
        return Acknowledgement(state=RunState.RUNNING.value, message="; ".join(part for part in parts if part))

    def _nothing_held(self) -> str:
        status = self._publisher.status
        return f"nothing is held: the upgrade to {status.to_version} is {status.state.value}, {status.message}"

    def _refused(self, request: RetryRequest, failure: ActivityError) -> ApplicationError:
        details, cause = failure_details(failure), application_error(failure)
        kind = cause.type if cause is not None else Transient.__name__
        if cause is None:
            details = ErrorDetails(kind=kind, message="no worker could write the BKENodes in time")
        if request.annotation and kind == INVALID_INPUT:
            self._publisher.tell(Regarding.BKE_CLUSTER, RETRY_REFUSED, details.sentence(), warning=True)
            self._take_annotation_away(request)
        return _answer(details, kind)

    def _take_annotation_away(self, request: RetryRequest) -> None:
        if request.annotation:
            self._publisher.annotations[ANNOTATION_RETRY] = None
            self._publisher.show(self._publisher.status)


def _answer(details: ErrorDetails, kind: str | None) -> ApplicationError:
    return ApplicationError(details.sentence(), details, type=kind, non_retryable=True)
