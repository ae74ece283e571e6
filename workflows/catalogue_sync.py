"""`CatalogueSync`: one round of the schedule that follows the catalogue's registry."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.catalogue import CatalogueActivities, CatalogueRequest
    from activities.failures import application_error, failure_details
    from hopline.domain.errors import HoplineError
    from hopline.domain.wire import WireModel
    from hopline.operations.catalogue_sync import CatalogueSync
    from workflows import activity_options, identifiers


class CatalogueSyncInput(WireModel):
    """Start input of `CatalogueSync`; `management_uid` as in `workflows.messages.RunPolicy`."""

    management_uid: str = ""


@workflow.defn(name=identifiers.CATALOGUE_SYNC, failure_exception_types=[HoplineError])
class ScheduledCatalogueSync:
    """Brings the UpgradePath to what the registry has; the one that is there stays when anything is wrong."""

    @workflow.run
    async def run(self, request: CatalogueSyncInput) -> CatalogueSync:
        """What was done; fails with what kept the catalogue from being followed, until the next round."""
        try:
            done: CatalogueSync = await workflow.execute_activity_method(
                CatalogueActivities.sync_catalogue,
                CatalogueRequest(management_uid=request.management_uid),
                summary="follow the catalogue's registry",
                **activity_options.CATALOGUE,
            )
        except ActivityError as failure:
            details, cause = failure_details(failure), application_error(failure)
            kind = cause.type if cause is not None else details.kind
            raise ApplicationError(details.sentence(), details, type=kind, non_retryable=True) from failure
        workflow.set_current_details(f"{done.action.value} {done.name} {done.digest}".strip())
        return done
