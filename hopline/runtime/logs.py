"""Logs of every process: text for a person, JSON for a collector; both with the Temporal context of the record."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

import temporalio.activity
import temporalio.workflow

from hopline.runtime.settings import LogFormat, LogLevel

CONTEXT = ("workflow_id", "run_id", "workflow_type", "activity_id", "activity_type", "attempt", "update_id")
"""Keys of the SDK's `temporal_workflow` and `temporal_activity` that are logged; the others repeat them."""


def configure_logs(log_format: LogFormat, level: LogLevel, stream: TextIO | None = None) -> None:
    """Send everything to `stream` (standard error when None). Replaces the handlers of an earlier call."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else TextFormatter())
    logging.basicConfig(level=level.value.upper(), handlers=[handler], force=True)
    # The SDK would repeat the whole context as a Python dict at the end of every message.
    temporalio.workflow.logger.workflow_info_on_message = False
    temporalio.activity.logger.activity_info_on_message = False
    # One line per poll and request at INFO would bury ours.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)


def temporal_context(record: logging.LogRecord) -> dict[str, object]:
    """Workflow and activity that a record belongs to; empty outside of both."""
    context: dict[str, object] = {}
    for attribute in ("temporal_workflow", "temporal_activity"):
        details = getattr(record, attribute, None)
        if isinstance(details, dict):
            context |= {key: details[key] for key in CONTEXT if key in details}
    return context


class TextFormatter(logging.Formatter):
    """`02:12:03 warning worker.lifecycle: message [cluster-upgrade/east/east]`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it when there is one."""
        clock = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        context = temporal_context(record)
        place = " ".join(str(context[key]) for key in ("workflow_id", "activity_id") if key in context)
        line = f"{clock} {record.levelname.lower()} {record.name}: {record.getMessage()}"
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{line} [{place}]{trace}" if place else line + trace


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Keys: time, level, logger, message, the Temporal context, and error with its traceback."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **temporal_context(record),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)
