"""What clients asked of the API server, read from its audit log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class AuditEvent:
    """One finished request. A watch appears when it ends; `body` is kept for writes only, and never for Secrets.

    `response` is what a write has made of its object, on a control plane with `audit_responses`.
    """

    at: str
    user: str
    verb: str
    api_group: str
    resource: str
    subresource: str
    kube_namespace: str
    name: str
    uri: str
    code: int
    body: Any
    response: Any = None

    @property
    def is_write(self) -> bool:
        """Whether the request could change something: dry runs count, since they are sent with a writing verb."""
        return self.verb in _WRITES

    @property
    def is_dry_run(self) -> bool:
        """Whether the server was asked to change nothing."""
        return "dryRun=" in self.uri


def parse_audit_log(lines: Iterable[str]) -> list[AuditEvent]:
    """Events in the order in which their requests were finished; a last line still being written is left out."""
    return [_event(json.loads(line)) for line in lines if line.endswith("\n")]


def _event(record: dict[str, Any]) -> AuditEvent:
    target = record.get("objectRef", {})
    return AuditEvent(
        at=record["requestReceivedTimestamp"],
        user=record.get("impersonatedUser", record["user"])["username"],
        verb=record["verb"],
        api_group=target.get("apiGroup", ""),
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        kube_namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        uri=record["requestURI"],
        code=record.get("responseStatus", {}).get("code", 0),
        body=record.get("requestObject"),
        response=record.get("responseObject"),
    )
