"""How a command begins and ends: settings, connection, errors as screens and exit codes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import click

from hopline.domain.errors import HoplineError
from starter.exit_codes import INTERRUPTED, exit_code_of
from starter.render_refusal import refusal_document, refusal_lines
from starter.terminal import Terminal

if TYPE_CHECKING:
    from starter.requests import Requests


def finish(terminal: Terminal, work: Callable[[], int], *, on_interrupt: Iterable[str] = ()) -> None:
    """Do the work of a command and leave with its exit code; an error becomes its block and its code.

    Args:
        on_interrupt: what a person is told after Ctrl-C.
    """
    try:
        code = int(work())
    except HoplineError as error:
        terminal.complain(refusal_lines(error))
        terminal.document(refusal_document(error))
        code = int(exit_code_of(error))
    except (KeyboardInterrupt, asyncio.CancelledError):
        terminal.complain(on_interrupt)
        code = INTERRUPTED
    raise click.exceptions.Exit(code)


def with_requests(body: Callable[[Requests], Awaitable[int]]) -> Callable[[], int]:
    """Work that talks to Temporal: connects as the environment says, then runs `body`."""

    # Imported here: a command that works on files alone must not pay 0.4 s for the SDK.
    from hopline.runtime.settings import Settings
    from hopline.runtime.telemetry import otlp_exporters, telemetry
    from hopline.runtime.temporal import connect
    from starter.requests import Requests

    async def connected() -> int:
        settings = Settings.from_environment()
        exporters = otlp_exporters() if settings.telemetry else None
        async with telemetry(exporters, service="hopline") as observed:
            client = await connect(settings, role="hopline", telemetry=observed)
            return await body(Requests(client, settings.task_queue))

    return lambda: asyncio.run(connected())
