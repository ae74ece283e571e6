"""`hopline versions`: which versions can be reached, from a file alone or for a live cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hopline.domain.errors import InvalidCatalogue, NoUpgradePath, PathReason, Refusal
from starter import offline
from starter.commands.options import cluster_key, files_option, output_option
from starter.exit_codes import LEGEND, ExitCode
from starter.render_path import versions_lines
from starter.render_refusal import refusal_lines
from starter.session import finish, with_requests
from starter.terminal import Output, Terminal
from workflows.messages import Question, VersionsAnswer

if TYPE_CHECKING:
    from starter.requests import Requests

UNANSWERED = (
    PathReason.UNKNOWN_VERSION,
    PathReason.INVALID_CATALOGUE,
    PathReason.CATALOGUE_UNREACHABLE,
    PathReason.TOO_OLD,
)
"""Reasons that are no answer. That nothing newer exists, or that every edge is blocked, is one."""


@click.command(epilog=LEGEND)
@click.argument("subject", metavar="FROM|NAME")
@files_option(required=False)
@click.option("-n", "--namespace", "kube_namespace", help="with a cluster NAME: its Kubernetes namespace")
@output_option
def versions(subject: str, files: tuple[Path, ...], kube_namespace: str | None, output: str) -> None:
    """Show the versions that can be reached.

    With -f: FROM a version, by the UpgradePath in a file, without any server.
    With -n: from the current version of the cluster NAME.
    """
    if bool(files) == bool(kube_namespace):
        raise click.UsageError("give either FROM and -f FILE, or NAME and -n NAMESPACE")
    terminal = Terminal(Output(output))
    if files:
        finish(terminal, lambda: _from_files(terminal, files, subject))
    else:
        finish(terminal, with_requests(lambda requests: _live(terminal, requests, subject, kube_namespace or "")))


def _from_files(terminal: Terminal, files: tuple[Path, ...], version: str) -> int:
    answer = offline.reachable(files, version)
    terminal.document(answer.document())
    if answer.reason in UNANSWERED:
        terminal.complain(refusal_lines(_refusal(answer.reason, answer.message, answer.remedy)))
        return ExitCode.REFUSED
    terminal.show(versions_lines(answer))
    return ExitCode.DONE


async def _live(terminal: Terminal, requests: Requests, name: str, kube_namespace: str) -> int:
    await requests.require_worker()
    result = await requests.inspect(cluster_key(name, kube_namespace), Question.VERSIONS)
    answer = result.versions or VersionsAnswer()
    terminal.document(answer)
    reason = next((reason for reason in UNANSWERED if reason.value == answer.reason), None)
    if reason is not None:
        terminal.complain(refusal_lines(_refusal(reason, answer.message, "")))
        return ExitCode.REFUSED
    terminal.show(versions_lines(answer))
    return ExitCode.DONE


def _refusal(reason: PathReason, message: str, remedy: str) -> Refusal:
    if reason is PathReason.INVALID_CATALOGUE:
        return InvalidCatalogue(message)
    return NoUpgradePath(message, reason=reason, remedy=remedy)
