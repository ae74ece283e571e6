"""`hopline status`: where the upgrade of a cluster is."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime

import click

from hopline.domain.errors import NotFound, Transient
from hopline.domain.status import UpgradeStatus
from hopline.domain.wire import ClusterKey
from starter.commands.options import cluster_key, cluster_options, output_option
from starter.exit_codes import ExitCode
from starter.render_status import status_lines
from starter.requests import Requests
from starter.session import finish, with_requests
from starter.terminal import Output, Terminal
from starter.without_worker import Look, known_without_worker
from workflows.messages import Question


@click.command()
@cluster_options
@output_option
def status(name: str, kube_namespace: str, output: str) -> None:
    """Show the upgrade of cluster NAME that runs, or else the last one, or else what the cluster says.

    While no worker runs, what Temporal remembers and the cluster's objects say is shown, with a note.
    """
    cluster, terminal = cluster_key(name, kube_namespace), Terminal(Output(output))

    async def body(requests: Requests) -> int:
        try:
            await requests.require_worker()
            found = await requests.status(cluster) or await _seen(requests, cluster)
        except Transient as error:
            known = await known_without_worker(requests, cluster, _objects_seen())
            if known is None:
                raise
            terminal.tell([f"{error.message}, so this may be old; {error.remedy}", *known.sources])
            found = known.status
        terminal.show(status_lines(found, datetime.now(UTC)))
        terminal.document(found)
        return ExitCode.DONE

    finish(terminal, with_requests(body))


def _objects_seen() -> Look:
    """Loaded by name: only this case of the terminal needs an adapter."""
    found: Look = importlib.import_module("starter.objects_seen").objects_seen
    return found


async def _seen(requests: Requests, cluster: ClusterKey) -> UpgradeStatus:
    """What a worker reads from the cluster's objects when there is no run to ask."""
    result = await requests.inspect(cluster, Question.STATUS)
    if result.status is None:
        raise NotFound("nothing is known about this cluster", subject=f"ClusterVersion {cluster}")
    return result.status
