"""`hopline offline verify`: whether a bundle holds everything that its releases run, and every byte is as it was."""

from __future__ import annotations

from pathlib import Path

import click

from starter.commands.options import files_option, output_option
from starter.exit_codes import LEGEND, ExitCode
from starter.session import finish
from starter.terminal import Output, Terminal

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog=LEGEND)
@click.argument("source", type=click.Path(exists=True, path_type=Path), metavar="TARBALL|FOLDER")
@files_option(required=False)
@click.option("--key", "keys", type=_FILE, multiple=True, help="public key that must have signed every release")
@click.option("--architecture", "architectures", multiple=True, help="of the machines; default: as the bundle says")
@click.option("--from", "starts", multiple=True, metavar="VERSION", help="what clusters have now; default: any version")
@click.option("--except", "excepted", multiple=True, metavar="IMAGE", help="at hand without the bundle, or no image")
@click.option(
    "--overrides",
    metavar="FROM=TO,…",
    default="",
    envvar="HOPLINE_REGISTRY_OVERRIDES",
    help="registries that images are taken from, as the worker has it",
)
@click.option(
    "--work-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), help="to unpack a tarball in"
)
@output_option
def verify(
    source: Path,
    files: tuple[Path, ...],
    keys: tuple[Path, ...],
    architectures: tuple[str, ...],
    starts: tuple[str, ...],
    excepted: tuple[str, ...],
    overrides: str,
    work_dir: Path | None,
    output: str,
) -> None:
    """Prove that a bundle is closed: every image that any release in it runs is inside, and nothing is damaged.

    Releases are rendered for the BKEClusters in -f FILE, else for an assumed cluster. Exit code 0 or 3.
    """
    # Imported here: no other command pays for the reading of images.
    from hopline.domain.image_overrides import read_overrides
    from starter.offline_verify import VerifyOrder, key_texts
    from starter.offline_verify import verify as verify_package
    from starter.render_closure import closure_lines
    from starter.transfer_progress import TransferProgress

    terminal = Terminal(Output(output))

    def work() -> int:
        order = VerifyOrder(
            source=source,
            objects=files,
            keys=key_texts(keys),
            architectures=architectures,
            starts=starts,
            excepted=excepted,
            overrides=read_overrides(overrides, "--overrides"),
            work=work_dir,
        )
        with TransferProgress(terminal, "reading") as progress:
            report = verify_package(order, progress)
        terminal.show(closure_lines(report))
        terminal.document(report)
        return ExitCode.DONE if report.closed else ExitCode.REFUSED

    finish(terminal, work)
