"""`hopline retry` and `hopline abort`: what a person can do about a run."""

from __future__ import annotations

import click

from starter.commands.options import cluster_key, cluster_options, output_option
from starter.exit_codes import ExitCode
from starter.requests import Requests
from starter.session import finish, with_requests
from starter.terminal import Output, Terminal
from workflows.messages import AbortRequest, Acknowledgement, RetryRequest

reason_option = click.option("--reason", default="", help="why, for whoever reads the history")


@click.command()
@cluster_options
@click.option(
    "--node", "nodes", multiple=True, help="address of a node that failed and is repaired; default: all such nodes"
)
@reason_option
@output_option
def retry(name: str, kube_namespace: str, nodes: tuple[str, ...], reason: str, output: str) -> None:
    """Go on with the held upgrade of cluster NAME, at the component that failed.

    Nodes that were given up, with bit 128 of status.stateCode or needSkip, take part again.
    """
    terminal = Terminal(Output(output))

    async def body(requests: Requests) -> int:
        await requests.require_worker()
        request = RetryRequest(reason=reason, nodes=nodes)
        return _told(terminal, await requests.retry(cluster_key(name, kube_namespace), request))

    finish(terminal, with_requests(body))


@click.command()
@cluster_options
@reason_option
@output_option
def abort(name: str, kube_namespace: str, reason: str, output: str) -> None:
    """End the upgrade of cluster NAME and give back what it took; finished components stay."""
    terminal = Terminal(Output(output))

    async def body(requests: Requests) -> int:
        await requests.require_worker()
        request = AbortRequest(reason=reason)
        return _told(terminal, await requests.abort(cluster_key(name, kube_namespace), request))

    finish(terminal, with_requests(body))


def _told(terminal: Terminal, answer: Acknowledgement) -> int:
    terminal.show([answer.message or answer.state])
    terminal.document(answer)
    return ExitCode.DONE
