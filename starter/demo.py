"""`hopline demo`: the whole story in about a minute, with the real Temporal server and a simulated cluster.

Everything lives in one temporary directory and in two child processes; both are gone at the end, also after Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import click

from hopline.domain.errors import InvalidInput, Transient
from hopline.domain.wire import ClusterKey
from hopline.runtime.settings import Settings
from hopline.runtime.temporal import connect
from hopline.sim.scenarios import Durations, create_scenario
from starter.demo_stage import Stage, open_stage
from starter.dev_server import answers
from starter.exit_codes import ExitCode
from starter.follow import follow
from starter.layout import sentence
from starter.render_plan import plan_lines
from starter.render_status import status_lines
from starter.requests import Requests, wish_for
from starter.session import finish
from starter.terminal import Line, Output, Terminal
from starter.views import view_for
from workflows.identifiers import upgrade_workflow_id
from workflows.messages import Question

SOURCE_TREE = Path(__file__).resolve().parent.parent
TARGET = "v26.06"
SECONDS = 60
STEPS, BESIDE = 31.0, 30.0
"""Node steps one after another in both hops, and the seconds that the rest of the story takes."""

WORKER_START = 30.0


@click.command()
@click.option("--keep", is_flag=True, help="leave server, worker and files for a look, and say how to remove them")
@click.option("--seconds", type=click.IntRange(5, 3600), default=SECONDS, help="about how long the upgrade shall take")
@click.option("--mode", type=click.Choice(["batches", "eager"]), default="batches", help="how components are scheduled")
@click.option(
    "--examples",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=SOURCE_TREE / "deploy" / "examples",
    help="folder with cluster.yaml, upgrade-paths.yaml and releases/",
)
def demo(keep: bool, seconds: int, mode: str, examples: Path) -> None:
    """Carry a simulated cluster of 3 control-plane and 5 worker nodes through two hops.

    Starts the real Temporal dev server with its web UI and a worker. Needs no cluster, no account and no network.
    """
    terminal = Terminal(Output.TEXT)

    def work() -> int:
        with open_stage(keep=keep) as stage:
            cluster = create_scenario(
                stage.simulation,
                examples=examples,
                durations=Durations(command=max(seconds - BESIDE, 1.0) / STEPS, rollout=2.0),
            )
            code = asyncio.run(_play(stage, cluster, examples / "releases", mode, terminal))
            if keep:
                terminal.show(_kept(stage, cluster))
            return code

    finish(terminal, work, on_interrupt=("stopped; nothing is left behind",) if not keep else ())


async def _play(stage: Stage, cluster: ClusterKey, releases: Path, mode: str, terminal: Terminal) -> int:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    server = stage.start_server()
    terminal.show([f"Temporal server {server.address}, web UI {server.ui_url}"])
    await answers(stage.server_process, server.address, stage.server_log)
    stage.start_worker(releases)
    requests = Requests(await connect(_settings(server.address), role="hopline demo"), stage.task_queue)
    await _worker_polls(stage, requests)
    nodes = "3 control-plane and 5 worker nodes"
    terminal.show([f"cluster {cluster}: {nodes}, simulated and fast; the plan shows the times of real machines", ""])
    plan = (await requests.inspect(cluster, Question.PLAN, TARGET)).plan
    if plan is not None:
        terminal.show([*plan_lines(plan, mode), ""])
    await requests.set_desired_version(wish_for(cluster, TARGET, mode=mode))
    link = f"{server.ui_url}/namespaces/default/workflows/{quote(upgrade_workflow_id(cluster), safe='')}"
    terminal.show([f"$ hopline upgrade {cluster.name} -n {cluster.kube_namespace} --to {TARGET} --wait", link, ""])
    with view_for(terminal) as view:
        ending = await follow(requests, cluster, view)
    if ending.status is not None:
        command = f"$ hopline status {cluster.name} -n {cluster.kube_namespace}"
        terminal.show(["", command, *status_lines(ending.status, datetime.now(UTC))])
    if ending.code is not ExitCode.DONE:
        terminal.complain(ending.lines(datetime.now(UTC)))
    return ending.code


def _settings(address: str) -> Settings:
    return Settings.from_environment({"TEMPORAL_ADDRESS": address})


async def _worker_polls(stage: Stage, requests: Requests) -> None:
    """Return when the worker polls. Transient, with the end of its log, when it ended instead."""
    deadline = asyncio.get_running_loop().time() + WORKER_START
    while asyncio.get_running_loop().time() < deadline:
        with contextlib.suppress(Transient):
            await requests.require_worker(patience=0.2)
            return
        if stage.worker_process.poll() is not None:
            break
    log = stage.worker_log.read_text(encoding="utf-8").strip().splitlines()
    raise InvalidInput(
        "the worker of the demo did not start",
        subject=" / ".join(log[-3:]) or "worker",
        remedy=f"see {stage.worker_log}",
    )


def _kept(stage: Stage, cluster: ClusterKey) -> Iterable[Line]:
    where = f"{cluster.name} -n {cluster.kube_namespace}"
    yield ""
    yield "Kept for a look:"
    yield f"  web UI   {stage.server.ui_url}"
    yield f"  shell    export TEMPORAL_ADDRESS={stage.server.address}"
    yield f"           hopline status {where}"
    yield f"           temporal workflow show --workflow-id {upgrade_workflow_id(cluster)}"
    yield from sentence(f"files    {stage.directory} (simulation, logs)", 2)
    yield f"  remove   kill {stage.worker_process.pid} {stage.server.pid}; rm -r {stage.directory}"
