"""`hopline watch`: the process that turns a patched ClusterVersion into an upgrade."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack

import click

from hopline.domain.errors import Forbidden, NotFound
from hopline.operations.one_controller import OneController
from hopline.runtime.logs import configure_logs
from hopline.runtime.probes import probes
from hopline.runtime.processes import connect_patiently, stop_on_signal
from hopline.runtime.settings import Settings
from hopline.runtime.telemetry import otlp_exporters, telemetry
from hopline.wiring import build_clusters
from starter.exit_codes import ExitCode
from starter.requests import Requests
from starter.session import finish
from starter.terminal import Output, Terminal
from starter.upkeep import Upkeep
from starter.watcher import Watcher

logger = logging.getLogger("starter.watch")


@click.command()
def watch() -> None:
    """Watch the management cluster: a changed desiredVersion starts the upgrade, the retry annotation retries it.

    Runs until SIGTERM or Ctrl-C. The management cluster is the one of HOPLINE_KUBECONFIG, of this pod, or of
    HOPLINE_SIMULATION.
    """
    finish(Terminal(Output.TEXT), lambda: asyncio.run(watch_until_stopped(Settings.from_environment())))


async def watch_until_stopped(settings: Settings) -> int:
    """Watch until SIGTERM or SIGINT. Raises Forbidden and NotFound with what the account or the cluster lacks."""
    configure_logs(settings.log_format, settings.log_level)
    watcher: Watcher | None = None
    async with AsyncExitStack() as stack:
        stop = stack.enter_context(stop_on_signal())
        await stack.enter_async_context(probes(settings.probe_port, lambda: watcher is not None and watcher.is_ready))
        exporters = otlp_exporters() if settings.telemetry else None
        observed = await stack.enter_async_context(telemetry(exporters, service="hopline-watch"))
        clusters = await build_clusters(settings)
        stack.push_async_callback(clusters.aclose)
        client = await connect_patiently(settings, observed, stop, role="hopline-watch")
        if client is None:
            return ExitCode.DONE
        requests = Requests(client, settings.task_queue)
        alone = OneController(clusters.management, settings.controllers, observing=settings.observe)
        upkeep = Upkeep(clusters, requests, alone, keep_health=settings.keep_health)
        watcher = Watcher(clusters.management, requests, upkeep)
        logger.info("watching ClusterVersions for task queue %s at %s", settings.task_queue, settings.temporal.address)
        await run_until(watcher, stop)
    return ExitCode.DONE


async def run_until(watcher: Watcher, stop: asyncio.Event) -> None:
    """Watch until `stop`; raises what ended a watch for good."""
    watching = asyncio.create_task(watcher.run())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            await watching
    except* (Forbidden, NotFound) as group:
        raise group.exceptions[0] from None
    finally:
        for task in (watching, stopping):
            task.cancel()
        await asyncio.gather(watching, stopping, return_exceptions=True)
