"""The status of a Command: one entry per node, under `hostname/ip` (openfuyao-nodes.md §1.3)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hopline.domain.resources import Document
from hopline.sim.storage import Storage, timestamp

RUNNING = -1
"""`succeeded` and `failed` while the node has not ended."""


def entry_of(command: Document, key: str) -> Document | None:
    """A node's entry, or None."""
    entry = (command.get("status") or {}).get(key)
    return entry if isinstance(entry, dict) else None


def write_entry(storage: Storage, uid: str, key: str, entry: Document) -> None:
    """Replace a node's entry, in the Command as it is now; nothing when the Command is gone."""
    command = storage.find_uid(uid)
    if command is None:
        return
    status = command.get("status") or {}
    if status.get(key) != entry:
        command["status"] = {**status, key: entry}
        storage.update(command)


def started(entry: Document | None, moment: float) -> Document:
    """The entry of a node that begins; conditions of an earlier start stay."""
    return {
        "conditions": list((entry or {}).get("conditions") or []),
        "lastStartTime": timestamp(moment),
        "succeeded": RUNNING,
        "failed": RUNNING,
        "phase": "Running",
        "status": "Unknown",
    }


def with_condition(entry: Document, condition: Document) -> Document:
    """The entry with a sub-command's condition added or replaced."""
    others = [known for known in entry.get("conditions") or () if known.get("id") != condition["id"]]
    return {**entry, "conditions": [*others, condition]}


def finished(entry: Document, commands: int, moment: float) -> Document:
    """The entry of a node that has ended, well or not."""
    conditions = entry.get("conditions") or []
    failed = sum(1 for known in conditions if known["status"] == "False")
    phase, status = "Completed", "True"
    if conditions and conditions[-1]["phase"] == "Failed":
        phase, status = "Failed", "False"
    elif len(conditions) < commands:
        phase, status = "Running", "Unknown"
    counts = {"succeeded": len(conditions) - failed, "failed": failed}
    kept: dict[str, Any] = {field: value for field, value in entry.items() if field not in counts}
    shown = {field: count for field, count in counts.items() if count}
    return {**kept, **shown, "completionTime": timestamp(moment), "phase": phase, "status": status}


def is_expired(command: Document, moment: float) -> bool:
    """Has every node gone well, and the last one long enough ago?"""
    seconds = int((command.get("spec") or {}).get("ttlSecondsAfterFinished") or 0)
    entries = list((command.get("status") or {}).values())
    if not seconds or not entries or any(entry.get("status") != "True" for entry in entries):
        return False
    ends = [datetime.fromisoformat(entry["completionTime"]).timestamp() for entry in entries]
    return max(ends) + seconds <= moment
