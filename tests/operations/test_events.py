"""What is told at one moment, as few events."""

from __future__ import annotations

from datetime import UTC, datetime

from hopline.operations.events import MAX_EVENT_MESSAGE, EventRecord, Regarding, event_document, together

NOW = datetime(2026, 7, 30, 8, 12, tzinfo=UTC)
CLUSTER = {
    "apiVersion": "bke.bocloud.com/v1beta1",
    "kind": "BKECluster",
    "metadata": {"name": "east", "namespace": "east", "uid": "u"},
}


def record(
    number: int, reason: str, message: str = "", *, warning: bool = False, on: str = "BKECluster"
) -> EventRecord:
    text = message or f"message {number}"
    return EventRecord(number=number, regarding=Regarding(on), reason=reason, message=text, warning=warning, at=NOW)


def numbers(*records: EventRecord) -> list[list[int]]:
    return [[one.number for one in group] for group in together(records)]


def test_the_same_kind_of_thing_of_one_object_is_one_event() -> None:
    begun, ended = "ComponentUpgrading", "ComponentUpgraded"
    assert numbers(record(1, begun), record(2, ended), record(3, begun), record(4, ended)) == [[1, 3], [2, 4]]
    assert numbers(record(1, begun), record(2, begun, on="ClusterVersion")) == [[1], [2]]


def test_warnings_stay_alone() -> None:
    failed = "ComponentUpgradeFailed"
    assert numbers(record(1, failed, warning=True), record(2, failed, warning=True)) == [[1], [2]]


def test_no_message_is_longer_than_an_api_server_takes() -> None:
    records = [record(number, "ComponentUpgraded", "x" * 400) for number in range(5)]
    documents = [event_document(group, CLUSTER, "run") for group in together(records)]
    assert [len(document["message"]) for document in documents] == [802, 802, 400]
    assert all(len(document["message"]) <= MAX_EVENT_MESSAGE for document in documents)


def test_the_name_tells_run_and_numbers() -> None:
    def name(run: str, *told: int) -> str:
        return str(event_document([record(number, "x") for number in told], CLUSTER, run)["metadata"]["name"])

    assert name("run", 1, 2) == name("run", 1, 2)
    assert len({name("run", 1), name("run", 2), name("run", 1, 2), name("other", 1)}) == 4
