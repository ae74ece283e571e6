from datetime import timedelta

from hopline.domain.status import RunState, StepState, UpgradeStatus
from starter.render_status import status_lines
from starter_pictures import NOW, START, component, held_on_containerd, running


def texts(status: UpgradeStatus) -> list[str]:
    return [line.plain for line in status_lines(status, NOW)]


def test_a_held_run_says_what_failed_what_it_means_and_what_to_type() -> None:
    lines = texts(held_on_containerd())
    assert lines[0] == ("east/east  v26.06-rc.2 -> v26.06   HELD in hop 1 of 2 since 02:23 UTC (1m00s)   plan 7c1f3a9e")
    assert lines[1] == '  containerd failed on w3, attempt 2: agent reported "disk full" on /var/lib/containerd'
    assert "  remedy   free space on w3" in lines
    assert any(line == "  impact   done: provider; failed: containerd; not touched: calico" for line in lines)
    assert any(line.startswith("  next     hopline retry east -n east") for line in lines)
    assert any(line.startswith("  or       hopline abort east -n east") for line in lines)


def test_components_and_history_stand_last() -> None:
    lines = texts(held_on_containerd())
    table = [line.split() for line in lines]
    assert ["component", "state", "version", "nodes"] in table
    assert ["provider", "done", "v2"] in table
    row = next(line for line in lines if line.startswith("  containerd  "))
    assert "v1 -> v2" in row
    assert "7/8, failed: w3" in row
    assert lines[-1] == "History  v26.06-rc.2 since 2026-08-01 02:12 UTC (took 58m00s)"


def test_a_newer_wish_is_told_until_the_run_has_ended() -> None:
    waiting = held_on_containerd().model_copy(update={"newer_wish": "v26.09"})
    told = "  v26.09 is asked for meanwhile; it is looked at when this run has ended"
    assert told in texts(waiting)
    assert told not in texts(waiting.model_copy(update={"state": RunState.DONE}))


def test_a_finished_run_is_short() -> None:
    done = running(
        component("provider", StepState.DONE, took=5),
        state=RunState.DONE,
        since=START + timedelta(minutes=10),
        message="east/east is at v26.06",
    )
    assert texts(done) == [
        "east/east  v26.06-rc.2 -> v26.06   DONE since 02:22 UTC (2m04s)   plan 7c1f3a9e",
        "  east/east is at v26.06",
    ]


def test_no_line_is_wider_than_100_columns() -> None:
    status = held_on_containerd()
    assert status.failure is not None
    long = status.failure.model_copy(update={"error": "much " * 100, "remedy": "more " * 100})
    assert max(len(line) for line in texts(status.model_copy(update={"failure": long}))) <= 100
