"""`hopline-worker`: runs the workflows and activities of Hopline."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from contextlib import AsyncExitStack
from typing import NoReturn

from temporalio.worker import Worker

from hopline.domain.errors import HoplineError, InvalidInput
from hopline.runtime.logs import configure_logs
from hopline.runtime.probes import probes
from hopline.runtime.processes import connect_patiently, stop_on_signal
from hopline.runtime.settings import Settings
from hopline.runtime.telemetry import otlp_exporters, telemetry
from hopline.wiring import build_ports
from worker.composition import build_worker
from worker.lifecycle import run_until_stopped
from worker.release_cache import keep_release_cache
from worker.schedules import keep_catalogue_schedule
from worker.search_attributes import ensure_search_attributes

logger = logging.getLogger("worker")


async def serve(settings: Settings) -> None:
    """Poll until SIGTERM or SIGINT."""
    worker: Worker | None = None

    def polls() -> bool:
        return worker is not None and worker.is_running and not worker.is_shutdown

    async with AsyncExitStack() as stack:
        stop = stack.enter_context(stop_on_signal())
        await stack.enter_async_context(probes(settings.probe_port, polls))
        exporters = otlp_exporters() if settings.telemetry else None
        observed = await stack.enter_async_context(telemetry(exporters, service="hopline-worker"))
        ports = await build_ports(settings)
        stack.push_async_callback(ports.aclose)
        client = await connect_patiently(settings, observed, stop, role="hopline-worker")
        if client is None:
            return
        usable = await ensure_search_attributes(client)
        worker = build_worker(client, ports, settings, search_attributes=usable)
        schedule = asyncio.create_task(keep_catalogue_schedule(client, ports.clusters.management, settings))
        stack.callback(schedule.cancel)
        pruning = asyncio.create_task(keep_release_cache(client, settings))
        stack.callback(pruning.cancel)
        if settings.observe:
            logger.info("observing: plans and reports, changes nothing")
        logger.info("polling task queue %s at %s", settings.task_queue, settings.temporal.address)
        await run_until_stopped(worker, stop)


def main() -> NoReturn:
    """Entry point. Exit codes: 0 stopped by a signal, 1 failed, 2 a setting cannot be used."""
    code = 0
    try:
        observe = _arguments().observe
        settings = Settings.from_environment()
        settings = settings.model_copy(update={"observe": settings.observe or observe})
        configure_logs(settings.log_format, settings.log_level)
        asyncio.run(serve(settings))
    except InvalidInput as error:
        sys.stderr.write(f"hopline-worker: {error}\n")
        code = 2
    except HoplineError as error:
        logger.error("%s", error)
        code = 1
    except Exception:
        logger.exception("the worker ended")
        code = 1
    finally:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    # The SDK's native threads may crash an interpreter that is on its way out (temporal.md §0.8).
    os._exit(code)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hopline-worker", description=__doc__)
    parser.add_argument(
        "--observe", action="store_true", help="plan and report only, beside another controller (HOPLINE_OBSERVE)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
