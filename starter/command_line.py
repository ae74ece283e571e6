"""How a console script runs its command, and how its process ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from starter.exit_codes import INTERRUPTED, ExitCode


def run_command(command: click.Command, arguments: Sequence[str] | None, name: str) -> int:
    """Run one command; returns its exit code.

    Args:
        arguments: those of the process when None.
        name: the script's, for messages.
    """
    try:
        result = command.main(args=arguments, prog_name=name, standalone_mode=False)
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except BrokenPipeError:
        # Whoever read along has left, for example `hopline status … | head -1`.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
        return ExitCode.DONE
    return result if isinstance(result, int) else ExitCode.DONE


def leave(code: int) -> NoReturn:
    """End the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    # The SDK's native threads crash 2 to 10 % of short-lived processes on their way out (temporal.md §0.8).
    os._exit(code)
