"""`hopline plan`: what an upgrade would do. Changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hopline.domain.errors import Refusal
from hopline.domain.plan import UpgradePlan
from hopline.runtime.settings import Settings
from starter import offline
from starter.commands.options import cluster_key, cluster_options, files_option, output_option
from starter.exit_codes import LEGEND, ExitCode
from starter.render_plan import plan_lines
from starter.session import finish, with_requests
from starter.terminal import Output, Terminal

if TYPE_CHECKING:
    from starter.requests import Requests


@click.command(epilog=LEGEND)
@cluster_options
@click.option("--to", "version", required=True, metavar="VERSION", help="the version that the cluster should have")
@files_option(required=False)
@click.option(
    "--releases",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="with -f: directory of release bundles, one sub-folder each",
)
@click.option("--mode", type=click.Choice(["batches", "eager"]), default="batches", help="whose predicted time to show")
@output_option
def plan(
    name: str,
    kube_namespace: str,
    version: str,
    files: tuple[Path, ...],
    releases: Path | None,
    mode: str,
    output: str,
) -> None:
    """Show what an upgrade of cluster NAME would do, hop by hop.

    Live by default: a worker looks at the cluster. With -f and --releases on files alone, without any server.
    Exit code 3 when it could not start.
    """
    if bool(files) != bool(releases):
        raise click.UsageError("-f and --releases belong together: objects and release bundles")
    cluster, terminal = cluster_key(name, kube_namespace), Terminal(Output(output))

    def on_files() -> int:
        assert releases is not None
        settings = Settings.from_environment(offline=True)
        return _show(terminal, offline.plan(files, releases, cluster, version, mode=mode, settings=settings), mode)

    async def live(requests: Requests) -> int:
        await requests.require_worker()
        made = await requests.whole_plan(cluster, version, nodes=terminal.is_json)
        if made is None:
            raise Refusal(
                "the worker has made no plan", subject=f"ClusterVersion {cluster}", remedy="upgrade the worker"
            )
        return _show(terminal, made, mode)

    finish(terminal, on_files if files else with_requests(live))


def _show(terminal: Terminal, made: UpgradePlan, mode: str) -> int:
    terminal.show(plan_lines(made, mode))
    terminal.document(made)
    return ExitCode.REFUSED if made.blocking else ExitCode.DONE
