"""`hopline offline fetch`: the VersionConfig of a version, from the place where it is published."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from starter.commands.options import output_option
from starter.exit_codes import LEGEND, ExitCode
from starter.session import finish
from starter.terminal import Output, Terminal

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog=LEGEND)
@click.option("--index", required=True, metavar="URL|FILE", help="index.yaml: its address, or a file from wget")
@click.option("--version", required=True, metavar="VERSION", help="the version whose VersionConfig is wanted")
@click.option(
    "--to", "folder", type=click.Path(file_okay=False, path_type=Path), default=".", help="folder to write to"
)
@click.option("--ca", type=_FILE, help="PEM certificates that the server is trusted by, beside the machine's own")
@click.option("--insecure", is_flag=True, help="do not verify the server's certificate")
@click.option("--auth-file", type=_FILE, help="logins as container tools keep them")
@output_option
def fetch(
    index: str, version: str, folder: Path, ca: Path | None, insecure: bool, auth_file: Path | None, output: str
) -> None:
    """Bring index.yaml and the VersionConfig of a version into a folder.

    What was downloaded by hand works equally: name the file of the index, with the VersionConfig beside it.
    Exit code 3 when the index has no such version, or what comes is something else.
    """
    from starter.version_configs import access_of, fetch_from_file, fetch_from_server, is_url

    if not is_url(index) and not Path(index).is_file():
        raise click.UsageError(f"--index {index}: neither an address with http:// or https:// nor a file")
    terminal = Terminal(Output(output))

    def work() -> int:
        if is_url(index):
            access = access_of(index, ca=ca, insecure=insecure, auth_file=auth_file)
            found = asyncio.run(
                fetch_from_server(index, version, folder, access, tell=lambda text: terminal.complain([text]))
            )
        else:
            found = fetch_from_file(Path(index), version, folder)
        how = "written" if found.changed else "already there"
        terminal.show([f"VersionConfig of {found.version} {how}: {found.file}", f"  from {found.source}"])
        terminal.document(found)
        return ExitCode.DONE

    finish(terminal, work)
