"""`hopline upgrade`: declare the version that a cluster should have, and see it carried out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from hopline.domain.wire import ClusterKey
from starter.commands.options import DurationType, cluster_key, cluster_options, output_option
from starter.exit_codes import LEGEND, ExitCode
from starter.follow import follow
from starter.render_plan import short_digest
from starter.render_progress import event_line
from starter.requests import Requests, wish_for
from starter.session import finish, with_requests
from starter.terminal import Output, Terminal
from starter.views import view_for
from workflows.identifiers import upgrade_workflow_id
from workflows.messages import Acceptance, OnFailure, UpgradeInput


@click.command(epilog=LEGEND)
@cluster_options
@click.option("--to", "version", required=True, metavar="VERSION", help="the version that the cluster should have")
@click.option("--wait", is_flag=True, help="follow the upgrade to its end; Ctrl-C ends the waiting, not the upgrade")
@click.option("--timeout", type=DurationType(), help="with --wait: stop waiting after 90s, 15m, 1h30m")
@click.option(
    "--on-failure",
    type=click.Choice([choice.value for choice in OnFailure]),
    default=OnFailure.HOLD.value,
    help="a component that fails holds the hop for a person (default), or ends the run",
)
@click.option("--mode", type=click.Choice(["batches", "eager"]), help="how components are scheduled")
@output_option
def upgrade(
    name: str,
    kube_namespace: str,
    version: str,
    wait: bool,
    timeout: timedelta | None,
    on_failure: str,
    mode: str | None,
    output: str,
) -> None:
    """Upgrade cluster NAME to a version.

    Starts the one upgrade of the cluster, or joins the one that runs towards the same version.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout says how long to wait, so it needs --wait")
    cluster, terminal = cluster_key(name, kube_namespace), Terminal(Output(output))

    async def body(requests: Requests) -> int:
        wish = wish_for(cluster, version, on_failure=OnFailure(on_failure), mode=mode or "")
        await requests.require_worker()
        acceptance = await requests.set_desired_version(wish)
        terminal.tell([accepted(wish, acceptance, datetime.now(UTC))])
        if wait:
            return await _wait(requests, cluster, timeout, terminal)
        terminal.document({"workflowId": upgrade_workflow_id(cluster), **acceptance.model_dump(mode="json")})
        return ExitCode.DONE

    look = f"hopline status {name} -n {kube_namespace}"
    hint = (f"stopped waiting; the upgrade goes on. Look at it: {look}",) if wait else ()
    finish(terminal, with_requests(body), on_interrupt=hint)


def accepted(wish: UpgradeInput, acceptance: Acceptance, now: datetime) -> str:
    """The first line: what was accepted, and what carries it out."""
    if not acceptance.hops:
        return event_line(now, f"{wish.cluster} is already at {acceptance.version}")
    hops = f"{acceptance.hops} hop{'s' if acceptance.hops != 1 else ''}"
    plan = f"plan {short_digest(acceptance.plan_digest)}"
    workflow_id = upgrade_workflow_id(wish.cluster)
    return event_line(now, f"{wish.cluster} accepted {acceptance.version} ({hops}, {plan}), workflow {workflow_id}")


async def _wait(requests: Requests, cluster: ClusterKey, timeout: timedelta | None, terminal: Terminal) -> int:
    with view_for(terminal) as view:
        ending = await follow(requests, cluster, view, timeout=timeout)
    now = datetime.now(UTC)
    if ending.timed_out:
        terminal.complain(ending.lines(now))
    elif ending.code is ExitCode.DONE:
        terminal.tell(ending.lines(now))
    else:
        terminal.complain(ending.lines(now))
    if ending.status is not None:
        terminal.document(ending.status)
    else:
        terminal.document({"cluster": cluster.model_dump(mode="json")})
    return ending.code
