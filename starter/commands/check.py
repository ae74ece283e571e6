"""`hopline check`: what can be said about files before anything is applied."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from hopline.files.manifest_folder import check_folder, read_values
from starter.commands.options import output_option
from starter.exit_codes import LEGEND, ExitCode
from starter.render_findings import report_lines
from starter.session import finish
from starter.terminal import Output, Terminal


@click.group(epilog=LEGEND)
def check() -> None:
    """Judge files before anything is applied. Needs no server and no cluster."""


@check.command(epilog=LEGEND)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--values",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML or JSON file of template variables, as a cluster would give them",
)
@click.option("--kubernetes", metavar="VERSION", default="", help="the Kubernetes that the cluster will have")
@click.option(
    "--render-to",
    type=click.Path(file_okay=False, path_type=Path),
    help="folder for each rendered file and, beside it, FILE.json with its documents as read",
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="a cluster to ask which kinds it serves; nothing is written there",
)
@output_option
def manifests(
    folder: Path, values: Path | None, kubernetes: str, render_to: Path | None, kubeconfig: Path | None, output: str
) -> None:
    """Read and render the manifests below DIR as a component, and say what is wrong with them.

    Exit code 3 when the component could not be applied as it stands.
    """
    terminal = Terminal(Output(output))

    def work() -> int:
        variables = read_values(values) if values else {}
        ask = partial(_served_kinds(), kubeconfig) if kubeconfig else None
        report = check_folder(folder, variables, kubernetes=kubernetes, render_to=render_to, ask=ask)
        terminal.show(report_lines(report))
        terminal.document(report)
        return ExitCode.REFUSED if report.blocks else ExitCode.DONE

    finish(terminal, work)


def _served_kinds() -> Callable[..., Any]:
    """By name, as commands are: without a cluster nobody pays for the Kubernetes client."""
    found: Callable[..., Any] = importlib.import_module("starter.served_kinds").served_kinds
    return found
