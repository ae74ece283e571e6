"""What the exit code of `hopline` means. Documented in `--help`; CI systems rely on it."""

from __future__ import annotations

from enum import IntEnum

from hopline.domain.errors import HoplineError, InvalidInput, Refusal
from hopline.domain.status import RunState

INTERRUPTED = 130
"""Ctrl-C, as shells spell it. The upgrade goes on."""


class ExitCode(IntEnum):
    """Stable."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    HELD = 4
    TIMED_OUT = 5


LEGEND = (
    "Exit codes: 0 done, 1 failed or aborted, 2 usage, 3 refused by a check or the path (nothing has changed), "
    "4 held and waiting for a person, 5 timed out waiting (the upgrade goes on)."
)


def exit_code_of(error: HoplineError) -> ExitCode:
    """The exit code of an error that ends a command."""
    if isinstance(error, InvalidInput):
        return ExitCode.USAGE
    return ExitCode.REFUSED if isinstance(error, Refusal) else ExitCode.FAILED


def exit_code_of_state(state: RunState) -> ExitCode:
    """The exit code of a run that is over or waits for a person."""
    return {
        RunState.DONE: ExitCode.DONE,
        RunState.REFUSED: ExitCode.REFUSED,
        RunState.HELD: ExitCode.HELD,
    }.get(state, ExitCode.FAILED)
