"""`hopline release`: what can be said about a release image at its registry."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from starter.commands.options import output_option
from starter.exit_codes import LEGEND, ExitCode
from starter.session import finish
from starter.terminal import Output, Terminal

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(epilog=LEGEND)
def release() -> None:
    """Look at releases where they are published. Needs no cluster and no Temporal service."""


@release.command(epilog=LEGEND)
@click.argument("reference", metavar="REF")
@click.option("--digest", metavar="sha256:…", default="", help="the digest that the index or manifest must have")
@click.option("--key", "keys", type=_FILE, multiple=True, help="public key that must have signed it; several: any")
@click.option("--ca", type=_FILE, envvar="HOPLINE_REGISTRY_CA", help="PEM certificates that the registry is trusted by")
@click.option("--plain-http", is_flag=True, envvar="HOPLINE_REGISTRY_PLAIN_HTTP", help="talk without TLS")
@click.option("--auth-file", type=_FILE, envvar="HOPLINE_REGISTRY_AUTH", help="logins as container tools keep them")
@output_option
def show(
    reference: str,
    digest: str,
    keys: tuple[Path, ...],
    ca: Path | None,
    plain_http: bool,
    auth_file: Path | None,
    output: str,
) -> None:
    """Fetch the release image REF, check it, and say what it holds.

    Exit code 0 when it is Valid, 3 for any other phase; Pending means that the registry gave no usable answer.
    """
    # Imported here: no other command pays for the registry client.
    from starter.release_images import look, origin_of
    from starter.render_release import release_lines

    terminal = Terminal(Output(output))

    def work() -> int:
        origin = origin_of(reference, digest=digest, keys=keys, ca=ca, plain_http=plain_http, auth_file=auth_file)
        view = asyncio.run(look(origin))
        terminal.show(release_lines(view))
        terminal.document(view)
        return ExitCode.DONE if view.is_valid else ExitCode.REFUSED

    finish(terminal, work)
