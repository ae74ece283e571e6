"""Turns what Temporal reports back into the domain errors that the workflows and activities raised."""

from __future__ import annotations

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError, TimeoutError
from temporalio.service import RPCError

from activities.failures import INVALID_INPUT, REFUSED, ErrorDetails, application_error, failure_details
from hopline.domain import errors
from hopline.domain.errors import (
    Aborted,
    HopFailed,
    HoplineError,
    InvalidInput,
    NoUpgradePath,
    PathReason,
    Refusal,
    Transient,
)


def error_of(failure: BaseException) -> HoplineError:
    """The domain error behind a failure of a workflow, update, query or request."""
    if isinstance(failure, RPCError):
        return _service_error(failure)
    cause = failure.cause if isinstance(failure, WorkflowFailureError) else failure.__cause__ or failure
    if isinstance(cause, TerminatedError):
        return Aborted("the run was terminated by hand", remedy="hopline upgrade … starts a new one, which looks first")
    if isinstance(cause, CancelledError):
        return Aborted("the run was cancelled")
    if isinstance(cause, TimeoutError):
        return Transient("no worker has answered in time", remedy="start one with hopline-worker")
    found = application_error(cause)
    return _domain_error(failure_details(cause), found)


def _domain_error(details: ErrorDetails, failure: ApplicationError | None) -> HoplineError:
    parts = {"subject": details.subject, "field": details.field, "value": details.value, "remedy": details.remedy}
    if details.kind == NoUpgradePath.__name__:
        reasons = [reason for reason in PathReason if reason.value == details.reason]
        return NoUpgradePath(details.message, reason=reasons[0] if reasons else PathReason.NONE, **parts)
    known = getattr(errors, details.kind, None)
    if isinstance(known, type) and issubclass(known, HoplineError):
        return known(details.message, **parts)
    kind = failure.type if failure is not None else ""
    fallback = {REFUSED: Refusal, INVALID_INPUT: InvalidInput, "Aborted": Aborted, "HopFailed": HopFailed}
    return fallback.get(kind or "", HoplineError)(details.message, **parts)


def _service_error(error: RPCError) -> HoplineError:
    return Transient(
        f"the Temporal service did not answer ({error.status.name}: {error.message})",
        subject="Temporal",
        remedy="check TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE, and whether a worker runs",
    )
