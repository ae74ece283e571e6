"""`bke`: the two lines of the openFuyao guide's offline section, as they stand there.

`bke build -f FILE -t TARBALL` is `hopline offline build`, `bke registry patch --source FOLDER --target HOST:PORT` is
`hopline offline load`. As with the original, the target needs no login and its certificate is not verified, unless
`--ca` or `--auth-file` says otherwise; where it speaks no TLS at all, it is talked to without.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NoReturn

import click

from starter.command_line import leave, run_command
from starter.commands.offline_build import registry_options, run_build
from starter.exit_codes import LEGEND, ExitCode
from starter.session import finish
from starter.terminal import Output, Terminal

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_GOES_ON = ["stopped; the same command goes on where this one was"]


@click.group(epilog=LEGEND, context_settings={"help_option_names": ["-h", "--help"]})
def bke() -> None:
    """The guide's offline lines, carried out by Hopline: see `hopline offline`."""


@bke.command(epilog=LEGEND)
@click.option("-f", "--file", "files", type=_FILE, multiple=True, required=True, help="VersionConfig")
@click.option("-t", "--target", type=click.Path(dir_okay=False, path_type=Path), required=True, help="NAME.tar.gz")
@registry_options
def build(files: tuple[Path, ...], target: Path, **access: Any) -> None:
    """Make an offline package: `hopline offline build`."""
    terminal = Terminal(Output.TEXT)
    finish(terminal, lambda: run_build(terminal, files, target, (), "", None, access), on_interrupt=_GOES_ON)


@bke.group()
def registry() -> None:
    """The registry of the bootstrap node."""


@registry.command(epilog=LEGEND)
@click.option("--source", type=click.Path(exists=True, path_type=Path), required=True, help="the unpacked package")
@click.option("--target", metavar="HOST:PORT", default="127.0.0.1:40443", show_default=True)
@click.option("--ca", type=_FILE, help="PEM certificates; with it the target's certificate is verified")
@click.option("--auth-file", type=_FILE, envvar="HOPLINE_REGISTRY_AUTH", help="logins as container tools keep them")
def patch(source: Path, target: str, ca: Path | None, auth_file: Path | None) -> None:
    """Bring the images of a package to a registry: `hopline offline load`."""
    terminal = Terminal(Output.TEXT)
    finish(terminal, lambda: _patch(terminal, source, target, ca, auth_file), on_interrupt=_GOES_ON)


def _patch(terminal: Terminal, source: Path, target: str, ca: Path | None, auth_file: Path | None) -> int:
    # Imported here: `bke build` does not need it.
    from hopline.oci.uploads import speaks_tls
    from starter.offline_access import AccessOptions
    from starter.offline_load import check_target, load, report_lines
    from starter.transfer_progress import TransferProgress

    host = check_target(target)
    secure = ca is not None or asyncio.run(speaks_tls(host))
    insecure = [host] if ca is None else []
    access = AccessOptions([str(ca)] if ca else [], insecure, [] if secure else [host], auth_file).read().to(host)
    if ca is None:
        how = "its certificate is not verified" if secure else "it speaks no TLS"
        terminal.tell([f"{host}: {how}, as with bke; hopline offline load verifies it"])
    with TransferProgress(terminal, "loading") as progress:
        report = asyncio.run(load(source, host, access, progress))
    terminal.show(report_lines(report))
    return ExitCode.DONE


def run(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    return run_command(bke, arguments, "bke")


def main() -> NoReturn:
    """Entry point."""
    leave(run())


if __name__ == "__main__":
    main()
