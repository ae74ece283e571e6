"""How a run ends badly: refused, failed or aborted, and the failure that its callers see (design §2.7)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.failures import ErrorDetails, failure_details
    from hopline.domain.errors import HoplineError
    from hopline.domain.status import RunState, UpgradeStatus, ended

_TYPES = {RunState.REFUSED: "Refused", RunState.FAILED: "HopFailed", RunState.ABORTED: "Aborted"}
_EVENTS = {RunState.REFUSED: "UpgradeRefused", RunState.FAILED: "UpgradeHopFailed", RunState.ABORTED: "UpgradeAborted"}


@dataclass(frozen=True)
class RunEnd:
    """The last word of a run.

    Attributes:
        reason: CamelCase word for conditions; `subject`: the object that a refusal names.
    """

    state: RunState
    reason: str
    message: str
    subject: str = ""
    details: ErrorDetails | None = None

    @property
    def event_reason(self) -> str:
        """Reason of the Kubernetes Event."""
        return _EVENTS[self.state]

    def after_writing(self) -> RunEnd:
        """Something was changed already, so it is no refusal any more."""
        return replace(self, state=RunState.FAILED) if self.state is RunState.REFUSED else self

    def shown_on(self, status: UpgradeStatus, now: datetime) -> UpgradeStatus:
        """The last picture of the run."""
        return ended(status, self.state, now, reason=self.reason, message=self.message, subject=self.subject)

    def failure(self) -> ApplicationError:
        """What closes the workflow; the type decides the exit code of the starter."""
        details = self.details or ErrorDetails(
            kind=_TYPES[self.state], message=self.message, subject=self.subject, reason=self.reason
        )
        return ApplicationError(self.message, details, type=_TYPES[self.state], non_retryable=True)


def end_of(failure: BaseException, wanted: RunEnd | None) -> RunEnd:
    """What a failure of the story means. `wanted`: a person or a deletion has already said how it ends."""
    if wanted is not None:
        return wanted
    if isinstance(failure, asyncio.CancelledError):
        return RunEnd(RunState.ABORTED, "Cancelled", "the workflow was cancelled")
    details = failure_details(failure)
    if not isinstance(failure, HoplineError) and not details.message:
        details = details.model_copy(update={"message": repr(failure)})
    return RunEnd(RunState.REFUSED, details.reason or details.kind, details.sentence(), details.subject, details)
