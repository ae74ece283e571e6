from datetime import timedelta

from hopline.domain.node_status import NodeProgress
from hopline.domain.status import FinishedHop, HopProgress, RunState, StepState, UpgradeStatus
from starter.render_progress import done_line, event_lines, progress_lines, seconds_left
from starter_pictures import NOW, START, component, held_on_containerd, running


def texts(status: UpgradeStatus) -> list[str]:
    return [line.plain for line in progress_lines(status, NOW)]


def test_the_picture_shows_state_bar_and_what_is_waited_for() -> None:
    lines = texts(
        running(
            component("provider", StepState.DONE, took=108),
            component(
                "containerd",
                StepState.RUNNING,
                batch=2,
                after=700,
                message="w3 draining: waiting for shop/cart-0",
                nodes=NodeProgress(done=5, total=8, in_hand=("w3",)),
            ),
            component("etcd", StepState.SKIPPED, batch=3, reason="up to date (v3.6.7)"),
            component("kubernetes-master", StepState.PENDING, batch=4, dependencies=("containerd", "etcd")),
        )
    )
    assert lines[0].startswith("east/east  v26.06-rc.2 -> v26.06   hop 1 of 2   running 12m04s, about ")
    assert lines[2] == "  1  provider           ✓  1m48s"
    assert lines[3].startswith("  2  containerd         ━")
    assert lines[3].endswith("5/8  24s  w3 draining: waiting for shop/cart-0")
    assert "  3  etcd               up to date (v3.6.7)" in lines
    assert "  4  kubernetes-master  waits for containerd" in lines


def test_no_line_is_wider_than_100_columns() -> None:
    status = running(component("x" * 40, StepState.RUNNING, message="waiting " * 40))
    assert max(len(line) for line in texts(status)) <= 100


def test_time_left_counts_the_longest_of_each_batch() -> None:
    status = running(
        component("a", StepState.DONE, took=1),
        component("b", StepState.RUNNING, batch=2, after=12 * 60 + 4 - 20),
        component("c", StepState.PENDING, batch=2, expected_seconds=30),
        component("d", StepState.PENDING, batch=3, expected_seconds=50),
    )
    assert seconds_left(status, NOW) == 100 + 50


def test_events_are_told_once_in_order_of_time() -> None:
    before = running(component("provider", StepState.RUNNING), component("dns", StepState.PENDING, batch=2))
    after = running(
        component("provider", StepState.DONE, took=108),
        component("dns", StepState.RUNNING, batch=2, after=109),
    )
    assert event_lines(None, before, NOW) == [
        "02:12:03 hop 1 of 2 started: v26.06-rc.2 -> v26.06-rc.3",
        "02:12:03 provider v2 started",
    ]
    assert event_lines(before, after, NOW) == [
        "02:13:51 provider v2 done in 1m48s",
        "02:13:52 dns v2 started",
    ]
    assert event_lines(after, after, NOW) == []


def test_nodes_are_told_as_they_finish() -> None:
    before = running(component("containerd", StepState.RUNNING, nodes=NodeProgress(done=4, total=8)))
    waiting = running(component("containerd", StepState.RUNNING, nodes=NodeProgress(done=4, total=8, in_hand=("w2",))))
    after = running(component("containerd", StepState.RUNNING, nodes=NodeProgress(done=5, total=8, in_hand=("w3",))))
    assert event_lines(before, waiting, NOW) == []
    assert event_lines(waiting, after, NOW) == ["02:24:07 containerd 5/8 nodes, in hand: w3"]


def test_the_next_hop_closes_the_one_before() -> None:
    before = running(component("provider", StepState.DONE, took=1))
    after = before.model_copy(
        update={
            "hop": HopProgress(
                number=2,
                total=2,
                from_version="v26.06-rc.3",
                to_version="v26.06",
                started_at=START + timedelta(minutes=9),
            ),
            "components": (component("provider", StepState.PENDING),),
            "finished_hops": (
                FinishedHop(
                    from_version="v26.06-rc.2",
                    to_version="v26.06-rc.3",
                    started_at=START,
                    completed_at=START + timedelta(minutes=8),
                ),
            ),
        }
    )
    assert event_lines(before, after, NOW) == [
        "02:20:03 hop 1 of 2 done: v26.06-rc.3 in 8m00s",
        "02:21:03 hop 2 of 2 started: v26.06-rc.3 -> v26.06",
    ]


def test_failure_hold_and_retry_are_told() -> None:
    held = held_on_containerd()
    before = running(
        *(
            part if part.name != "containerd" else component("containerd", StepState.RUNNING, batch=3, after=120)
            for part in held.components
        ),
        finished_hops=held.finished_hops,
    )
    assert event_lines(before, held, NOW) == [
        '02:19:03 containerd v2 failed, attempt 2: agent reported "disk full" on /var/lib/containerd',
        "02:23:07 held: held: containerd failed in v26.06-rc.3",
    ]
    again = before.model_copy(update={"since": NOW})
    assert "02:24:07 goes on" in event_lines(held, again, NOW)


def test_the_last_line_is_the_result() -> None:
    done = running(state=RunState.DONE, since=START + timedelta(hours=1, minutes=2, seconds=37))
    assert done_line(done, NOW) == "03:14:40 done: v26.06 after 1h02m37s"
