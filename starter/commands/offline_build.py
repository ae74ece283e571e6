"""`hopline offline build`: one tarball with everything that an upgrade needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from starter.commands.options import output_option
from starter.exit_codes import LEGEND, ExitCode
from starter.session import finish
from starter.terminal import Output, Terminal

Command = TypeVar("Command", bound=Callable[..., Any])
_EVERY = "*"
_INTERRUPTED = "stopped; the same command goes on where this one was"


def registry_options(command: Command) -> Command:
    """How to reach registries and file servers, for all of them or for one."""
    auth = click.Path(exists=True, dir_okay=False, path_type=Path)
    options = [
        click.option("--ca", "cas", multiple=True, metavar="[HOST=]FILE", help="PEM certificates to trust"),
        click.option(
            "--insecure",
            multiple=True,
            is_flag=False,
            flag_value=_EVERY,
            metavar="[HOST]",
            help="do not verify the certificate, of one host or of all",
        ),
        click.option(
            "--plain-http",
            multiple=True,
            is_flag=False,
            flag_value=_EVERY,
            metavar="[HOST]",
            help="talk without TLS, to one registry or to all",
        ),
        click.option(
            "--auth-file", type=auth, envvar="HOPLINE_REGISTRY_AUTH", help="logins as container tools keep them"
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def run_build(
    terminal: Terminal,
    files: tuple[Path, ...],
    target: Path,
    starts: tuple[str, ...],
    releases: str,
    work: Path | None,
    access: dict[str, Any],
) -> int:
    """Build, and say what is in."""
    # Imported here: no other command pays for the registry client.
    from starter.offline_access import AccessOptions
    from starter.offline_build import build_now, build_order
    from starter.transfer_progress import TransferProgress, counted

    order = build_order(files, target, starts=starts, releases=releases, work=work)
    reach = AccessOptions(**access).read()
    with TransferProgress(terminal, "fetching") as progress:
        bundle = build_now(order, reach, progress)
    terminal.show(
        [
            f"{target}: {counted(len(bundle.images), 'image')}, {counted(len(bundle.files), 'file')}, "
            f"{bundle.size / 1024 / 1024:.1f} MiB",
            f"  for {', '.join(bundle.versions)} on {', '.join(bundle.architectures)}; "
            f"releases {', '.join(bundle.releases)}",
            f"  it unpacks to ./{bundle.name}",
        ]
    )
    terminal.document(bundle)
    return ExitCode.DONE


@click.command(epilog=LEGEND)
@click.option(
    "-f",
    "--file",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    required=True,
    help="VersionConfig; several: every version of the path",
)
@click.option("-t", "--target", type=click.Path(dir_okay=False, path_type=Path), required=True, help="NAME.tar.gz")
@click.option("--from", "starts", multiple=True, metavar="VERSION", help="what clusters have now; default: any version")
@click.option("--releases", metavar="HOST/PATH", default="", help="where releases and the catalogue are published")
@click.option(
    "--work-dir", type=click.Path(file_okay=False, path_type=Path), help="where it grows; default: beside the tarball"
)
@registry_options
@output_option
def build(
    files: tuple[Path, ...],
    target: Path,
    starts: tuple[str, ...],
    releases: str,
    work_dir: Path | None,
    output: str,
    **access: Any,
) -> None:
    """Fetch images, files, releases of every hop and the catalogue into one tarball.

    Stopped or killed, the same command goes on where it was. No container engine is needed.
    """
    terminal = Terminal(Output(output))
    finish(
        terminal,
        lambda: run_build(terminal, files, target, starts, releases, work_dir, access),
        on_interrupt=[_INTERRUPTED],
    )
