"""`hopline offline load`: a bundle into the registry and the file folder of a site."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from starter.commands.options import output_option
from starter.exit_codes import LEGEND, ExitCode
from starter.session import finish
from starter.terminal import Output, Terminal

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)
_INTERRUPTED = "stopped; the same command goes on where this one was"


@click.command(epilog=LEGEND)
@click.option("--source", type=click.Path(exists=True, path_type=Path), required=True, help="tarball, or its folder")
@click.option("--target", metavar="HOST:PORT", required=True, help="registry that the clusters ask")
@click.option("--files-dir", type=_FOLDER, help="install files there: /bke/mount/source_registry/files")
@click.option("--work-dir", type=_FOLDER, help="for what is unpacked and under way; default: beside the source")
@click.option("--ca", type=_FILE, envvar="HOPLINE_REGISTRY_CA", help="PEM certificates that the registry is trusted by")
@click.option("--insecure", is_flag=True, help="do not verify the registry's certificate")
@click.option("--plain-http", is_flag=True, envvar="HOPLINE_REGISTRY_PLAIN_HTTP", help="talk without TLS")
@click.option("--auth-file", type=_FILE, envvar="HOPLINE_REGISTRY_AUTH", help="logins as container tools keep them")
@output_option
def load(
    source: Path,
    target: str,
    files_dir: Path | None,
    work_dir: Path | None,
    ca: Path | None,
    insecure: bool,
    plain_http: bool,
    auth_file: Path | None,
    output: str,
) -> None:
    """Bring every image of a bundle to a registry, read it back, and install its files.

    What is there already is not sent again; stopped or killed, the same command goes on where it was.
    """
    # Imported here: no other command pays for the registry client.
    from starter.offline_access import AccessOptions
    from starter.offline_load import check_target, report_lines
    from starter.offline_load import load as load_package
    from starter.transfer_progress import TransferProgress

    terminal = Terminal(Output(output))

    def work() -> int:
        host = check_target(target)
        options = AccessOptions(
            [str(ca)] if ca else [], [host] if insecure else [], [host] if plain_http else [], auth_file
        )
        access = options.read().to(host)
        with TransferProgress(terminal, "loading") as progress:
            report = asyncio.run(load_package(source, host, access, progress, files_dir=files_dir, work=work_dir))
        terminal.show(report_lines(report))
        terminal.document(report)
        return ExitCode.DONE

    finish(terminal, work, on_interrupt=[_INTERRUPTED])
