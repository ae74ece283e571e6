import io
import json
import logging

import pytest

from hopline.runtime.logs import JsonFormatter, TextFormatter, configure_logs, temporal_context
from hopline.runtime.settings import LogFormat, LogLevel


def record(**extra: object) -> logging.LogRecord:
    made = logging.LogRecord("activities.nodes", logging.WARNING, __file__, 1, "node %s waits", ("m1",), None)
    made.__dict__.update(extra)
    return made


ACTIVITY = {
    "activity_id": "v1/etcd/step/1",
    "workflow_id": "cluster-upgrade/east/east",
    "attempt": 2,
    "task_queue": "q",
}


def test_text_names_the_workflow_and_activity() -> None:
    line = TextFormatter().format(record(temporal_activity=ACTIVITY))
    assert line.endswith("warning activities.nodes: node m1 waits [cluster-upgrade/east/east v1/etcd/step/1]")


def test_json_is_one_object_with_the_context() -> None:
    entry = json.loads(JsonFormatter().format(record(temporal_activity=ACTIVITY)))
    assert entry["message"] == "node m1 waits"
    assert entry["level"] == "warning"
    assert entry["attempt"] == 2
    assert "task_queue" not in entry


def test_a_record_outside_of_temporal_has_no_context() -> None:
    assert temporal_context(record()) == {}


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_an_exception_keeps_its_traceback(log_format: LogFormat) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    try:
        configure_logs(log_format, LogLevel.INFO, stream)
        try:
            raise ValueError("bad")
        except ValueError:
            logging.getLogger("x").exception("went wrong")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert "went wrong" in stream.getvalue()
    assert "ValueError: bad" in stream.getvalue()
