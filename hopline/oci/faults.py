"""Answers of registries as errors of the ports: what may pass, and what is final."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping

import aiohttp

from hopline.domain.errors import HoplineError, NotFound, Rejected, Transient, bounded
from hopline.domain.release_origin import RegistryAccess

MAX_WAIT_SECONDS = 60.0
"""As long as a registry may ask for patience with Retry-After; it must not park us for a day."""

_NOT_FOUND, _UNAUTHORIZED, _FORBIDDEN, _TOO_MANY, _NOT_ALLOWED = 404, 401, 403, 429, 405
_MAY_PASS = frozenset({_UNAUTHORIZED, _FORBIDDEN, _TOO_MANY, 408, 425})


class NotLetIn(Transient):
    """401 or 403. A worker tries again, because Secrets are renewed; a person at a terminal wants to know at once."""


def unreachable(subject: str, error: BaseException, access: RegistryAccess) -> Transient:
    """No answer, or one that broke off."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        return _tls(subject, reason)
    if isinstance(error, ssl.SSLError | aiohttp.ClientConnectorSSLError | aiohttp.ClientSSLError):
        return _tls(subject, _words(error))
    if isinstance(error, TimeoutError):
        return transient(subject, "the registry is silent", "timeout", "check that it runs and answers from here")
    where = "http" if access.plain_http else "https"
    return transient(
        subject, "the registry cannot be reached", _words(error), f"check that it answers {where} from here"
    )


def _tls(subject: str, reason: str) -> Transient:
    remedy = "renew its certificate, or give its authority: imageRepo.tlsSecretRef, HOPLINE_REGISTRY_CA, or --ca"
    return transient(subject, "the registry's TLS certificate is not accepted", reason, remedy)


def _words(error: BaseException) -> str:
    return bounded(" ".join(str(error).split()) or type(error).__name__, 200)


def transient(subject: str, message: str, value: str, remedy: str, *, retry_after: float = 0.0) -> Transient:
    """A fault that may pass."""
    return Transient(message, subject=subject, value=value, remedy=remedy, retry_after=retry_after)


def refused(subject: str, status: int, headers: Mapping[str, str], body: bytes, access: RegistryAccess) -> HoplineError:
    """An answer that is not the one that was asked for: NotFound when it is final, else Transient."""
    said = said_by(body)
    value = f"{status} {said}".strip()
    if status == _NOT_FOUND and not is_web_page(headers, body):
        return NotFound("the registry does not have it", subject=subject, value=value, remedy="push it, or correct it")
    if status in (_UNAUTHORIZED, _FORBIDDEN):
        who = f"credentials from {access.source}" if access.source else "no credentials were given"
        remedy = f"{who}: correct imageRepo.authSecretRef, or --auth-file"
        return NotLetIn("the registry does not let us in", subject=subject, value=value, remedy=remedy)
    if status == _TOO_MANY:
        wait = retry_after(headers)
        return transient(subject, "the registry wants fewer requests", value, "it is asked again", retry_after=wait)
    if is_web_page(headers, body):
        return web_page(subject, status)
    wait = retry_after(headers)
    return transient(subject, "the registry has a fault", value, "it is asked again", retry_after=wait)


def not_taken(
    subject: str, status: int, headers: Mapping[str, str], body: bytes, access: RegistryAccess
) -> HoplineError:
    """An answer to an upload that is not the one that was hoped for."""
    value = f"{status} {said_by(body)}".strip()
    if status == _NOT_FOUND and not is_web_page(headers, body):
        remedy = "create the project or repository at the registry, if it does not do so by itself"
        return NotFound("the registry has no place for it", subject=subject, value=value, remedy=remedy)
    if status == _NOT_ALLOWED:
        remedy = "end its read-only mode, or load into another one"
        return Rejected("the registry takes no uploads", subject=subject, value=value, remedy=remedy)
    if 400 <= status < 500 and status not in _MAY_PASS and not is_web_page(headers, body):
        return Rejected("the registry does not take it", subject=subject, value=value, remedy="see what it says")
    return refused(subject, status, headers, body, access)


def web_page(subject: str, status: int) -> Transient:
    """A proxy, a login page or a wrong port: no word of it says anything about the image."""
    return transient(
        subject, "what answers is a web page, not a registry", str(status), "check host, port and proxies on the way"
    )


def is_web_page(headers: Mapping[str, str], body: bytes) -> bool:
    """HTML, whatever the header says."""
    start = body.lstrip()[:32].lower()
    return start.startswith((b"<!doctype", b"<html")) or (
        headers.get("Content-Type", "").lower().startswith("text/html") and not start.startswith(b"{")
    )


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the registry asks for; 0 when it does not, or gives a date."""
    text = headers.get("Retry-After", "").strip()
    return min(float(text), MAX_WAIT_SECONDS) if text.isascii() and text.isdigit() else 0.0


def said_by(body: bytes) -> str:
    """Code and message of a registry's own error document, empty when there is none."""
    try:
        errors = json.loads(body).get("errors") or []
        first = errors[0]
        return bounded(f"{first.get('code', '')} {first.get('message', '')}".strip(), 200)
    except (ValueError, AttributeError, IndexError, TypeError, KeyError):
        return ""
