"""Where the progress of a run is shown: redrawn in place on a terminal, as lines of events elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console, Group
from rich.live import Live

from hopline.domain.errors import HoplineError
from hopline.domain.status import UpgradeStatus
from starter.follow import View
from starter.render_progress import event_line, event_lines, progress_lines
from starter.terminal import Terminal, print_lines


class LiveView:
    """The progress picture, redrawn in place."""

    def __init__(self, live: Live, url: str) -> None:
        self._live = live
        self._url = url

    def show(self, status: UpgradeStatus) -> None:
        """Draw it."""
        lines = progress_lines(status, datetime.now(UTC), self._url, self._live.console.width)
        self._live.update(Group(*lines), refresh=True)

    def silence(self, error: HoplineError) -> None:
        """The last picture stays; above it, why it is old."""
        self._live.console.print(event_line(datetime.now(UTC), error.message))


class EventView:
    """One line per event, each understandable alone."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._before: UpgradeStatus | None = None
        self._silent = False

    def show(self, status: UpgradeStatus) -> None:
        """Print what happened since the last look."""
        print_lines(self._console, event_lines(self._before, status, datetime.now(UTC)))
        self._before, self._silent = status, False

    def silence(self, error: HoplineError) -> None:
        """Say once that nobody answers."""
        if not self._silent:
            print_lines(self._console, [event_line(datetime.now(UTC), f"{error.message}; waiting")])
        self._silent = True


@contextmanager
def view_for(terminal: Terminal, url: str = "") -> Iterator[View]:
    """The view that fits where the command writes."""
    console = terminal.talk
    if not console.is_terminal:
        yield EventView(console)
        return
    with Live(console=console, auto_refresh=False, transient=False) as live:
        yield LiveView(live, url)
