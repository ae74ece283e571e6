"""`hopline catalogue`: the upgrade catalogue of the management cluster."""

from __future__ import annotations

import asyncio
import importlib

import click

from starter.commands.options import output_option
from starter.exit_codes import LEGEND, ExitCode
from starter.session import finish
from starter.terminal import Output, Terminal


@click.group(epilog=LEGEND)
def catalogue() -> None:
    """The catalogue of versions, which the registry publishes."""


@catalogue.command(epilog=LEGEND)
@click.option("--overwrite", is_flag=True, help="take the registry's catalogue in place of one made or edited by hand")
@output_option
def sync(overwrite: bool, output: str) -> None:
    """Bring the UpgradePath to what the registry has in upgrade-path:latest.

    Reaches the management cluster directly: HOPLINE_KUBECONFIG, and the repository of cluster-system/bke-config.
    Exit code 3 when what was fetched may not replace the present catalogue.
    """
    terminal = Terminal(Output(output))

    def work() -> int:
        # By name: the terminal reaches the Kubernetes client only where a command needs it.
        found = asyncio.run(importlib.import_module("starter.catalogue_sync").sync(overwrite=overwrite))
        terminal.show([f"UpgradePath {found.name} {found.action.value}: {found.paths} paths from {found.reference}"])
        terminal.document(found)
        return ExitCode.DONE

    finish(terminal, work)
