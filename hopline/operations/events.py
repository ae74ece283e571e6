"""Kubernetes Events about a run: fixed names, so that telling twice tells once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

from hopline.domain.errors import AlreadyExists, Forbidden, NotFound, Rejected, bounded
from hopline.domain.resources import ANNOTATION_EVENT, EVENT, Document
from hopline.domain.timestamps import timestamp
from hopline.domain.wire import WireModel
from hopline.ports import ClusterClient

COMPONENT = "hopline"
_BETWEEN = "; "
MAX_EVENT_MESSAGE = 1000
"""The API server refuses event messages of more than 1,024 characters."""


class Regarding(StrEnum):
    """Which object an event is about."""

    CLUSTER_VERSION = "ClusterVersion"
    BKE_CLUSTER = "BKECluster"


class EventRecord(WireModel):
    """One event that a run wants to tell; `number` is its place in the run."""

    number: int
    regarding: Regarding
    reason: str
    message: str
    warning: bool = False
    at: datetime


def together(records: Iterable[EventRecord]) -> list[tuple[EventRecord, ...]]:
    """What is told at one moment, as few events: those that say the same kind of thing of one object become one.

    Warnings stay alone, so that each can be counted and found. What does not fit into one message begins another.
    """
    groups: list[list[EventRecord]] = []
    for record in records:
        group = next((one for one in groups if _fits(one, record)), None)
        if group is None:
            groups.append([record])
        else:
            group.append(record)
    return [tuple(group) for group in groups]


def _fits(group: Sequence[EventRecord], record: EventRecord) -> bool:
    first = group[0]
    is_same = (first.regarding, first.reason) == (record.regarding, record.reason)
    length = len(_message(group)) + len(_BETWEEN) + len(record.message)
    return is_same and not first.warning and not record.warning and length <= MAX_EVENT_MESSAGE


def _message(records: Sequence[EventRecord]) -> str:
    return _BETWEEN.join(record.message for record in records)


def event_name(object_name: str, run_id: str, numbers: Sequence[int]) -> str:
    """Same run and numbers, same name: a retried attempt meets AlreadyExists."""
    told = ",".join(map(str, numbers))
    digest = hashlib.sha256(f"{run_id}/{told}".encode()).hexdigest()[:16]
    return f"{object_name}.{digest}"


def event_document(records: Sequence[EventRecord], regarding: Document, run_id: str) -> Document:
    """The core/v1 Event of one record, or of several that were put `together`."""
    metadata, first = regarding["metadata"], records[0]
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {
            "name": event_name(metadata["name"], run_id, [record.number for record in records]),
            "namespace": metadata["namespace"],
            # The platform's own log stream shows the events of a cluster that carry this mark.
            **({"annotations": {ANNOTATION_EVENT: ""}} if regarding["kind"] == Regarding.BKE_CLUSTER else {}),
        },
        "involvedObject": {
            "apiVersion": regarding["apiVersion"],
            "kind": regarding["kind"],
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata.get("uid", ""),
        },
        "reason": first.reason,
        "message": bounded(_message(records), MAX_EVENT_MESSAGE),
        "type": "Warning" if first.warning else "Normal",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": timestamp(first.at),
        "lastTimestamp": timestamp(records[-1].at),
        "count": 1,
    }


async def tell(client: ClusterClient, record: EventRecord, regarding: Document, run_id: str) -> None:
    """Make the event of one record; see `tell_together`."""
    await tell_together(client, (record,), regarding, run_id)


async def tell_together(
    client: ClusterClient, records: Sequence[EventRecord], regarding: Document, run_id: str
) -> None:
    """Make one event; one that exists already was told by an earlier attempt.

    An event that the API server does not take is left out: it must not keep the status from being told.
    """
    try:
        await client.create(event_document(records, regarding, run_id), kind=EVENT)
    except (AlreadyExists, Forbidden, Rejected, NotFound):
        return
