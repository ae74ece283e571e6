"""`hopline path`: the way from one version to another, from a file alone."""

from __future__ import annotations

from pathlib import Path

import click

from starter import offline
from starter.commands.options import files_option, output_option
from starter.exit_codes import LEGEND, ExitCode
from starter.render_path import route_lines
from starter.render_refusal import refusal_lines
from starter.session import finish
from starter.terminal import Output, Terminal


@click.command(epilog=LEGEND)
@click.argument("current", metavar="FROM")
@click.argument("desired", metavar="TO")
@files_option(required=True)
@output_option
def path(current: str, desired: str, files: tuple[Path, ...], output: str) -> None:
    """Show the upgrade path FROM one version TO another by the UpgradePath in a file. Needs no server."""
    terminal = Terminal(Output(output))

    def work() -> int:
        route = offline.find_path(files, current, desired)
        terminal.document(route.document())
        if offline.is_refusal(route.reason):
            terminal.complain(refusal_lines(route.refusal()))
            return ExitCode.REFUSED
        terminal.show(route_lines(route))
        return ExitCode.DONE

    finish(terminal, work)
