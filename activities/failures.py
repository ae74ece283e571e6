"""The only translation between domain errors and Temporal failures, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ApplicationErrorCategory,
    FailureError,
    TimeoutError,
)

from hopline.domain.errors import (
    Blocked,
    ComponentFailed,
    Conflict,
    HoplineError,
    InvalidInput,
    NoUpgradePath,
    PortError,
    Refusal,
    Transient,
)
from hopline.domain.wire import WireModel

REFUSED = "Refused"
COMPONENT_FAILED = "ComponentFailed"
INVALID_INPUT = "InvalidInput"
WRONG_MANAGEMENT_CLUSTER = "WrongManagementCluster"

CONFLICT_DELAY = timedelta(milliseconds=200)
"""A conflict needs one fresh read, not the back-off of a fault."""

EXPECTED = ApplicationErrorCategory.BENIGN
"""A conflict is how a stale attempt ends: no fault, and no stack trace in the log."""

P = ParamSpec("P")
R = TypeVar("R")


class ErrorDetails(WireModel):
    """A domain error as it travels: the parts of its message, so that every screen can lay them out."""

    kind: str = ""
    message: str
    subject: str = ""
    field: str = ""
    value: str = ""
    remedy: str = ""
    reason: str = ""

    def sentence(self) -> str:
        """One paragraph."""
        error = HoplineError(self.message, subject=self.subject, field=self.field, value=self.value, remedy=self.remedy)
        return str(error)


def details_of(error: HoplineError) -> ErrorDetails:
    """The parts of a domain error."""
    return ErrorDetails(
        kind=type(error).__name__,
        message=error.message,
        subject=error.subject,
        field=error.field,
        value=error.value,
        remedy=error.remedy,
        reason=error.reason.value if isinstance(error, NoUpgradePath) else type(error).__name__,
    )


def to_application_error(error: HoplineError) -> ApplicationError:
    """What an activity raises for a domain error: its type, whether to retry, and how soon."""
    details = details_of(error)
    if isinstance(error, Refusal):
        return ApplicationError(str(error), details, type=REFUSED, non_retryable=True)
    if isinstance(error, ComponentFailed):
        return ApplicationError(str(error), details, type=COMPONENT_FAILED, non_retryable=True)
    if isinstance(error, InvalidInput):
        return ApplicationError(str(error), details, type=INVALID_INPUT, non_retryable=True)
    if isinstance(error, Conflict):
        return ApplicationError(
            str(error), details, type=details.kind, next_retry_delay=CONFLICT_DELAY, category=EXPECTED
        )
    retryable = isinstance(error, PortError) and isinstance(error, (Transient, Blocked))
    asked = error.retry_after if isinstance(error, Transient) else 0.0
    delay = timedelta(seconds=asked) if asked > 0 else None
    return ApplicationError(str(error), details, type=details.kind, non_retryable=not retryable, next_retry_delay=delay)


def translated(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Decorator of every activity: domain errors leave as ApplicationError."""

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await function(*args, **kwargs)
        except HoplineError as error:
            raise to_application_error(error) from error

    return call


def application_error(failure: BaseException) -> ApplicationError | None:
    """The innermost ApplicationError of a failure that has details, else the innermost one.

    The exception behind an activity's error travels as its cause, without details.
    """
    found: ApplicationError | None = None
    current: BaseException | None = failure
    while current is not None:
        if isinstance(current, ApplicationError) and (found is None or current.details or not found.details):
            found = current
        current = current.cause if isinstance(current, FailureError) else current.__cause__
    return found


def failure_details(failure: BaseException) -> ErrorDetails:
    """What an activity's or child's failure says, whatever its shape."""
    error = application_error(failure)
    if error is not None:
        if error.details and isinstance(error.details[0], dict):
            return ErrorDetails.model_validate(error.details[0])
        if error.details and isinstance(error.details[0], ErrorDetails):
            return error.details[0]
        return ErrorDetails(kind=error.type or "", message=error.message)
    if isinstance(failure, ActivityError) and isinstance(failure.cause, TimeoutError):
        last = failure.cause.last_heartbeat_details
        seen = f", last seen: {last[0]}" if last else ""
        return ErrorDetails(kind="Timeout", message=f"the deadline of the component ran out{seen}")
    return ErrorDetails(kind=type(failure).__name__, message=str(failure))
