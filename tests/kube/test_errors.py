"""HTTP codes and Status objects → errors of the port."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
from hopline.kube.errors import Expired, error_of, read_answer, read_status, unreachable
from kube.fake_api_server import status_document

SUBJECT = "Deployment team/web"


def refused(
    code: int, reason: str = "", message: str = "no", headers: dict[str, str] | None = None, **details: Any
) -> PortError:
    body = json.dumps(status_document(code, reason, message, **details)).encode()
    return error_of(read_answer(code, headers or {}, body), SUBJECT)


@pytest.mark.parametrize(
    ("code", "reason", "message", "expected"),
    [
        (400, "BadRequest", "the object provided is unrecognized", Rejected),
        (401, "Unauthorized", "Unauthorized", Transient),
        (403, "Forbidden", 'pods is forbidden: User "x" cannot list resource "pods"', Forbidden),
        (404, "NotFound", 'deployments.apps "web" not found', NotFound),
        (404, "NotFound", "the server could not find the requested resource", NotFound),
        (405, "MethodNotAllowed", "the server does not allow this method on the requested resource", Rejected),
        (408, "Timeout", "timeout", Transient),
        (409, "AlreadyExists", 'deployments.apps "web" already exists', AlreadyExists),
        (409, "Conflict", "the object has been modified", Conflict),
        (410, "Expired", "too old resource version", Expired),
        (410, "Gone", "gone", Expired),
        (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728", Rejected),
        (415, "UnsupportedMediaType", "the body of the request was in an unknown format", Rejected),
        (422, "Invalid", 'Deployment.apps "web" is invalid', Rejected),
        (429, "TooManyRequests", "too many requests", Transient),
        (500, "InternalError", "Internal error occurred: etcdserver: leader changed", Transient),
        (501, "NotImplemented", "not implemented", Rejected),
        (502, "", "bad gateway", Transient),
        (503, "ServiceUnavailable", "apiserver not ready", Transient),
        (504, "Timeout", "Timeout: request did not complete within the allotted timeout", Transient),
        (403, "Forbidden", 'admission webhook "v.example.test" denied the request: no', Rejected),
        (400, "", 'admission webhook "v.example.test" denied the request without explanation', Rejected),
        (500, "", 'admission webhook "v.example.test" denied the request: broken', Rejected),
        (400, "BadRequest", 'admission webhook "v.example.test" does not support dry run', Rejected),
        (422, "Invalid", "x is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", Rejected),
        (500, "InternalError", 'failed calling webhook "v.example.test": connection refused', Transient),
    ],
)
def test_each_code_has_its_error(code: int, reason: str, message: str, expected: type[PortError]) -> None:
    error = refused(code, reason, message)
    assert type(error) is expected
    assert SUBJECT in str(error)


def test_an_object_that_is_absent_is_told_from_a_kind_that_is_not_served() -> None:
    absent = refused(404, "NotFound", 'deployments.apps "web" not found')
    assert 'deployments.apps "web" not found' in str(absent)
    assert "CustomResourceDefinition" not in str(absent)
    for body in (
        b"404 page not found\n",
        json.dumps(status_document(404, "NotFound", "the server could not find the requested resource")).encode(),
    ):
        unserved = error_of(read_answer(404, {}, body), SUBJECT)
        assert isinstance(unserved, NotFound)
        assert "CustomResourceDefinition" in str(unserved)


def test_an_apply_conflict_names_every_manager_and_field() -> None:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "kubectl-edit" using apps/v1',
            "field": ".spec.replicas",
        },
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "hpa" with subresource "scale"',
            "field": ".spec.x",
        },
    ]
    error = refused(409, "Conflict", "Apply failed with 2 conflicts", causes=causes)
    assert isinstance(error, Conflict)
    assert error.owners == (("kubectl-edit", ".spec.replicas"), ("hpa", ".spec.x"))
    assert "hpa, kubectl-edit" in str(error)
    assert ".spec.replicas, .spec.x" in str(error)
    assert "force" in error.remedy


def test_a_change_since_the_read_has_no_owners() -> None:
    error = refused(409, "Conflict", "the object has been modified")
    assert isinstance(error, Conflict)
    assert error.owners == ()
    assert "read the object again" in error.remedy


def test_invalid_content_names_the_fields() -> None:
    causes = [{"reason": "FieldValueInvalid", "message": "must be positive", "field": "spec.replicas"}]
    error = refused(422, "Invalid", "Deployment is invalid: spec.replicas: must be positive", causes=causes)
    assert error.field == "spec.replicas"
    assert "must be positive" in error.message


def test_a_denial_names_the_webhook_in_the_remedy() -> None:
    assert "v.example.test" in refused(403, "", 'admission webhook "v.example.test" denied the request: no').remedy
    assert "v.example.test" in refused(500, "", 'failed calling webhook "v.example.test": timeout').remedy


def test_an_eviction_that_a_budget_refuses_is_blocked() -> None:
    causes = [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods"}]
    error = refused(429, "TooManyRequests", "Cannot evict pod", causes=causes)
    assert isinstance(error, Blocked)
    assert "needs 2 healthy pods" in error.message


@pytest.mark.parametrize(
    ("headers", "details", "expected"),
    [
        ({"Retry-After": "7"}, {}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({"Retry-After": "100000"}, {}, 60.0),
        ({"Retry-After": "-1"}, {}, 0.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, {}, 0.0),
        ({"Retry-After": "nan"}, {}, 0.0),
        ({}, {}, 0.0),
    ],
)
def test_the_wish_to_wait_is_noted_and_bounded(
    headers: dict[str, str], details: dict[str, Any], expected: float
) -> None:
    error = refused(503, "ServiceUnavailable", "not ready", headers, **details)
    assert isinstance(error, Transient)
    assert error.retry_after == expected


def test_403_is_transient_only_while_an_api_server_is_replaced() -> None:
    answer = read_status(status_document(403, "Forbidden", "cannot list"))
    assert isinstance(error_of(answer, SUBJECT), Forbidden)
    assert isinstance(error_of(answer, SUBJECT, forbidden_is_transient=True), Transient)
    denied = read_status(status_document(403, "Forbidden", 'admission webhook "v" denied the request: no'))
    assert isinstance(error_of(denied, SUBJECT, forbidden_is_transient=True), Rejected)


@pytest.mark.parametrize(
    "secret",
    [
        "Bearer abcdefghijklmnop",
        "bearer  abcdefghijklmnop",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
        "Basic YWRtaW46c2VjcmV0",
    ],
)
def test_tokens_are_struck_out(secret: str) -> None:
    for error in (
        refused(400, "BadRequest", f"bad header {secret} here"),
        unreachable(OSError(secret), SUBJECT, "https://x"),
    ):
        assert secret.split()[-1] not in str(error)
        assert "[struck out]" in str(error)


def test_texts_are_bounded_and_on_one_line() -> None:
    for error in (
        refused(422, "Invalid", "long\n" * 10_000),
        error_of(read_answer(502, {}, b"<html>\n" * 10_000), SUBJECT),
    ):
        assert len(str(error)) < 2000
        assert "\n" not in str(error)


def test_a_body_that_is_not_a_status() -> None:
    assert "Bad Gateway" in str(error_of(read_answer(502, {}, b"<h1>Bad Gateway</h1>"), SUBJECT))
    assert "HTTP 503 without a text" in str(error_of(read_answer(503, {}, b""), SUBJECT))
    assert isinstance(error_of(read_answer(503, {}, b'["not an object"]'), SUBJECT), Transient)


def test_no_answer_names_the_server_and_the_problem() -> None:
    assert "did not answer in time" in str(unreachable(TimeoutError(), SUBJECT, "https://10.0.0.1:6443"))
    text = str(unreachable(ConnectionResetError("reset by peer"), SUBJECT, "https://10.0.0.1:6443"))
    assert "reset by peer" in text
    assert "https://10.0.0.1:6443" in text
    assert "ValueError" in str(unreachable(ValueError(), SUBJECT, "x"))


def test_the_end_of_a_long_text_is_kept() -> None:
    dump = 'Job.batch "once" is invalid: spec.template: Invalid value: {' + '"a":"b",' * 500 + "}: field is immutable"
    assert str(refused(422, "Invalid", dump).message).endswith("field is immutable")


def test_an_object_that_does_not_fit_its_schema_is_rejected_though_the_server_says_500() -> None:
    text = "failed to create typed patch object (x; /v1, Kind=ConfigMap): .datta: field not declared in schema"
    assert isinstance(refused(500, "InternalError", text), Rejected)
    assert isinstance(refused(500, "InternalError", "etcdserver: leader changed"), Transient)
