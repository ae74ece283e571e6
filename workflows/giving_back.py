"""Giving back what a run has taken on the BKECluster, whatever its end is (design §2.6)."""

from __future__ import annotations

from functools import partial

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.failures import failure_details
    from activities.planning import Ledger
    from hopline.operations.events import Regarding
    from workflows.status_publisher import StatusPublisher
    from workflows.upgrade_steps import UpgradeSteps

LEFTOVERS = "annotations of an earlier run, which ended without giving them back"


async def give_back(
    steps: UpgradeSteps, publisher: StatusPublisher, ledger: Ledger | None, restore: dict[str, str]
) -> None:
    """What this run took, by its ledger; without one, what an earlier run that was terminated has left."""
    tell = partial(publisher.tell, Regarding.BKE_CLUSTER)
    try:
        closed = await steps.give_back(ledger, restore)
    except ActivityError as failure:
        tell("NotGivenBack", failure_details(failure).sentence(), warning=True)
        return
    if closed.refused:
        tell("VersionsNotRestored", closed.refused, warning=True)
    if closed.gave_back and ledger is None:
        tell("LeftoversGivenBack", f"removed: {LEFTOVERS}")
