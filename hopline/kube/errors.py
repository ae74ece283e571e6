"""The one place that reads HTTP codes: what an API server answers, as errors of the port.

Texts come from the server, so they are bounded, and whatever looks like a token is struck out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from hopline.domain.errors import (
    AlreadyExists,
    Blocked,
    Conflict,
    Forbidden,
    NotFound,
    PortError,
    Rejected,
    Transient,
)

_MAX_SERVER_TEXT = 700
_TAIL = 250
"""Characters kept from the end of a long text: `field is immutable` stands behind a dump of the whole value."""
_MAX_FIELDS_SHOWN = 8
_MAX_RETRY_AFTER_SECONDS = 60.0
_WEBHOOK_DENIED = re.compile(r'admission webhook "(?P<name>[^"]+)" (?:denied the request|does not support dry run)')
_POLICY_DENIED = re.compile(r"(?P<name>AdmissionPolicy '[^']+').* denied request")
_WEBHOOK_FAILED = re.compile(r'failed calling webhook "(?P<name>[^"]+)"')
_OWNER = re.compile(r'conflict with "(?P<manager>[^"]*)"')
_NOT_TYPED = "failed to create typed patch object"
"""A server-side apply of an object that does not fit its schema is answered with 500, for ever."""
_TWO_BUDGETS = "more than one PodDisruptionBudget"
"""An eviction of a pod under two budgets is answered with 500, for ever."""
_NO_SUCH_PATH = "the server could not find the requested resource"
_SECRETS = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}|\beyJ[\w-]+\.[\w-]+\.[\w-]*")


class Expired(Transient):
    """410: the resource version or the continue token is too old; list again."""


@dataclass(frozen=True)
class Cause:
    """One entry of `status.details.causes`."""

    reason: str
    message: str
    field: str


@dataclass(frozen=True)
class Answer:
    """A refusal of an API server: the interesting parts of a `Status` object, or the text of another body."""

    code: int
    reason: str
    message: str
    causes: tuple[Cause, ...] = ()
    retry_after: float = 0.0

    @property
    def is_unserved(self) -> bool:
        """404 for the path and not for an object: the kind is not served."""
        return self.code == 404 and (self.reason != "NotFound" or _NO_SUCH_PATH in self.message)


def clean(text: str) -> str:
    """Text of a server or library, fit for history: bounded, on one line, without anything that looks like a token."""
    line = _SECRETS.sub("[struck out]", " ".join(text.split()))
    if len(line) <= _MAX_SERVER_TEXT:
        return line
    return f"{line[: _MAX_SERVER_TEXT - _TAIL - 3]} … {line[-_TAIL:]}"


def read_answer(code: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """The refusal that a response with a code of 400 or more carries."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if isinstance(document, Mapping) and document.get("kind") == "Status":
        return read_status(document, code, _seconds(headers.get("Retry-After")))
    text = body[: 4 * _MAX_SERVER_TEXT].decode(errors="replace")
    return Answer(
        code, "", clean(text) or f"HTTP {code} without a text", retry_after=_seconds(headers.get("Retry-After"))
    )


def read_status(document: Mapping[str, Any], code: int = 0, retry_after: float = 0.0) -> Answer:
    """The refusal in a `Status` object, as a response's body or as the object of a watch's ERROR event."""
    details = document.get("details")
    details = details if isinstance(details, Mapping) else {}
    causes = tuple(
        Cause(str(cause.get("reason", "")), clean(str(cause.get("message", ""))), str(cause.get("field", "")))
        for cause in details.get("causes") or ()
        if isinstance(cause, Mapping)
    )
    return Answer(
        code=int(document.get("code") or code or 500),
        reason=str(document.get("reason") or ""),
        message=clean(str(document.get("message") or "")) or f"HTTP {code} without a message",
        causes=causes,
        retry_after=retry_after or _seconds(details.get("retryAfterSeconds")),
    )


def error_of(answer: Answer, subject: str, *, forbidden_is_transient: bool = False) -> PortError:
    """The error of the port for a refusal.

    Args:
        subject: what was asked for, as `Kind namespace/name`.
        forbidden_is_transient: an API server is being replaced: for some seconds a new one knows no roles yet.
    """
    if (denied := _WEBHOOK_DENIED.search(answer.message) or _POLICY_DENIED.search(answer.message)) is not None:
        return _rejected(
            answer, subject, f"read the message of {denied['name']}, and correct the object or that policy"
        )
    if answer.code == 500 and answer.message.startswith(_NOT_TYPED):
        return _rejected(answer, subject, "correct the object: a field is misspelt, of a wrong type, or stands twice")
    if answer.code == 500 and _TWO_BUDGETS in answer.message:
        return _rejected(answer, subject, "leave one PodDisruptionBudget over this pod: kubectl get pdb")
    if answer.code == 403 and forbidden_is_transient:
        return _transient(answer, subject, "")
    maker = _MAKERS.get(answer.code)
    if maker is not None:
        return maker(answer, subject)
    if 400 <= answer.code < 500:
        return _rejected(answer, subject, "correct the object")
    return _transient(answer, subject, "")


def unreachable(problem: BaseException, subject: str, server: str) -> Transient:
    """The error for a request that got no answer."""
    remedy = "see that the API server runs and is reachable from here"
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        text = f"the certificate of the API server is not trusted: {clean(str(problem.certificate_error))}"
        remedy = "put the authority that signed it into certificate-authority-data of the kubeconfig"
    elif isinstance(problem, TimeoutError):
        text = "the API server did not answer in time"
    else:
        code = problem.errno if isinstance(problem, OSError) else None
        reason = os.strerror(code) if code else clean(str(problem)) or type(problem).__name__
        text = f"the API server cannot be reached: {reason}"
    return Transient(text, subject=subject, value=server, remedy=remedy)


def _not_found(answer: Answer, subject: str) -> PortError:
    if not answer.is_unserved:
        return NotFound(answer.message, subject=subject)
    return NotFound(
        "this API server does not serve the kind",
        subject=subject,
        remedy="install its CustomResourceDefinition (kubectl api-resources shows what is served)",
    )


def _conflict(answer: Answer, subject: str) -> PortError:
    if answer.reason == "AlreadyExists":
        return AlreadyExists(
            answer.message, subject=subject, remedy="choose another name, or patch the existing object"
        )
    owners = tuple(
        (found["manager"], cause.field)
        for cause in answer.causes
        if cause.reason == "FieldManagerConflict" and (found := _OWNER.search(cause.message)) is not None
    )
    if not owners:
        return Conflict(answer.message, subject=subject, remedy="read the object again and repeat the change on it")
    managers = ", ".join(sorted({manager for manager, _ in owners}))
    shown = [field for _, field in owners[:_MAX_FIELDS_SHOWN]]
    more = f" and {len(owners) - len(shown)} more" if len(owners) > len(shown) else ""
    return Conflict(
        f"other field managers own {len(owners)} of the applied fields: {managers}",
        subject=subject,
        field=", ".join(shown) + more,
        remedy="have these managers give the fields up, or take them on purpose (force)",
        owners=owners,
    )


def _forbidden(answer: Answer, subject: str) -> PortError:
    return Forbidden(answer.message, subject=subject, remedy="allow it to this account (RBAC), or lift what forbids it")


def _invalid(answer: Answer, subject: str) -> PortError:
    return _rejected(answer, subject, "correct the object")


def _rejected(answer: Answer, subject: str, remedy: str) -> Rejected:
    fields = [cause.field for cause in answer.causes if cause.field]
    return Rejected(answer.message, subject=subject, field=", ".join(fields[:_MAX_FIELDS_SHOWN]), remedy=remedy)


def _unauthorized(answer: Answer, subject: str) -> PortError:
    return _transient(answer, subject, "renew the token or client certificate of this account")


def _expired(answer: Answer, subject: str) -> PortError:
    return Expired(answer.message, subject=subject)


def _too_many(answer: Answer, subject: str) -> PortError:
    if any(cause.reason == "DisruptionBudget" for cause in answer.causes):
        budget = next(cause.message for cause in answer.causes if cause.reason == "DisruptionBudget")
        return Blocked(f"{answer.message} {budget}".strip(), subject=subject, remedy="wait until the budget allows it")
    return _transient(answer, subject, "")


def _internal(answer: Answer, subject: str) -> PortError:
    failed = _WEBHOOK_FAILED.search(answer.message)
    return _transient(answer, subject, f"see that the service behind webhook {failed['name']} runs" if failed else "")


def _transient(answer: Answer, subject: str, remedy: str) -> Transient:
    return Transient(
        answer.message, subject=subject, value=f"HTTP {answer.code}", remedy=remedy, retry_after=answer.retry_after
    )


_MAKERS = {
    401: _unauthorized,
    403: _forbidden,
    404: _not_found,
    408: lambda answer, subject: _transient(answer, subject, ""),
    409: _conflict,
    410: _expired,
    422: _invalid,
    429: _too_many,
    500: _internal,
    501: _invalid,
}


def _seconds(value: object) -> float:
    """Seconds of a Retry-After header or field; a date, which API servers do not send, counts as not said."""
    try:
        seconds = float(str(value))
    except ValueError:
        return 0.0
    return min(max(seconds, 0.0), _MAX_RETRY_AFTER_SECONDS) if seconds == seconds else 0.0
