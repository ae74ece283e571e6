"""Hearing that a cluster is deleted, or that another controller has come, while nothing is published."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.failures import failure_details
    from hopline.operations.events import Regarding
    from workflows import activity_options
    from workflows.status_publisher import StatusPublisher
    from workflows.upgrade_steps import UpgradeSteps


async def guard(steps: UpgradeSteps, publisher: StatusPublisher) -> None:
    """Look from time to time whether the cluster is still there, and nobody else; cancelled at the end of the run.

    Another controller is told by an event at once; the next effect is refused, and that holds the hop.
    """
    pause, told = activity_options.FIRST_LOOK, ""
    while True:
        await workflow.sleep(pause, summary="until the next look whether the cluster is still there")
        pause = min(2 * pause, activity_options.LONGEST_LOOK)
        try:
            seen = await steps.look_for_deletion()
        except FailureError as failure:
            if is_cancelled_exception(failure):
                raise
            workflow.logger.warning("could not look: %s", failure_details(failure).sentence())
        else:
            publisher.gone = publisher.gone or seen.gone
            if seen.other_controller and seen.other_controller != told:
                publisher.tell(Regarding.CLUSTER_VERSION, "OtherController", seen.other_controller, warning=True)
            told = seen.other_controller
