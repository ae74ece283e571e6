"""Waiting for the end of a run. Ending the waiting never ends the run."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from rich.text import Text
from temporalio.client import WorkflowFailureError
from temporalio.service import RPCError

from hopline.domain.errors import HoplineError, PortError
from hopline.domain.status import RunState, UpgradeStatus
from hopline.domain.wire import ClusterKey
from starter.exit_codes import ExitCode, exit_code_of, exit_code_of_state
from starter.failures import error_of
from starter.layout import sentence
from starter.render_progress import done_line
from starter.render_refusal import refusal_lines
from starter.render_status import status_lines
from starter.requests import Requests
from starter.terminal import Line
from workflows.identifiers import upgrade_workflow_id

LOOK_INTERVAL = 0.5
"""Seconds between two looks at the status."""


class View(Protocol):
    """What shows a run while it is followed."""

    def show(self, status: UpgradeStatus) -> None:
        """A newer status."""
        ...

    def silence(self, error: HoplineError) -> None:
        """Nobody answered just now; the run may go on all the same."""
        ...


@dataclass(frozen=True)
class Ending:
    """How the waiting ended. `error` is set when the run closed as failed, `status` as far as a worker told it."""

    cluster: ClusterKey
    code: ExitCode
    status: UpgradeStatus | None
    error: HoplineError | None = None
    timed_out: bool = False

    def lines(self, now: datetime) -> list[Line]:
        """The last block on the screen: the result, the refusal, what holds it, or where it was left."""
        if self.code is ExitCode.DONE and self.status is not None:
            return [done_line(self.status, now)]
        if self.code is ExitCode.REFUSED and self.error is not None:
            return list[Line](refusal_lines(self.error))
        lines: list[Text] = status_lines(self.status, now) if self.status is not None else []
        if self.error is not None and self.status is None:
            lines += refusal_lines(self.error)
        if self.timed_out:
            look = f"hopline status {self.cluster.name} -n {self.cluster.kube_namespace}"
            lines += sentence(f"stopped waiting at the timeout; the upgrade goes on. Look at it: {look}", 0)
        return list[Line](lines)


async def follow(requests: Requests, cluster: ClusterKey, view: View, *, timeout: timedelta | None = None) -> Ending:
    """Show a run until it is over, held, or `timeout` has passed; then the truth is read once more (design §8)."""
    closing = asyncio.create_task(_closed(requests, cluster))
    seen: UpgradeStatus | None = None
    try:
        async with asyncio.timeout(timeout.total_seconds() if timeout else None):
            while True:
                await asyncio.wait({closing}, timeout=LOOK_INTERVAL)
                seen = await _look(requests, cluster, view) or seen
                if closing.done():
                    return _ending(cluster, closing.result(), seen)
                if seen is not None and seen.state is RunState.HELD:
                    return Ending(cluster, ExitCode.HELD, seen)
    except TimeoutError:
        with contextlib.suppress(HoplineError):
            seen = await requests.status(cluster) or seen
        if closing.done():
            return _ending(cluster, closing.result(), seen)
        if seen is not None and (seen.state is RunState.HELD or seen.state.is_final):
            return Ending(cluster, exit_code_of_state(seen.state), seen)
        return Ending(cluster, ExitCode.TIMED_OUT, seen, timed_out=True)
    finally:
        closing.cancel()


async def _look(requests: Requests, cluster: ClusterKey, view: View) -> UpgradeStatus | None:
    try:
        status = await requests.status(cluster)
    except PortError as error:
        view.silence(error)
        return None
    if status is not None:
        view.show(status)
    return status


async def _closed(requests: Requests, cluster: ClusterKey) -> HoplineError | None:
    """Return when the run is closed: None when it was done, else the error that it closed with."""
    handle = requests.client.get_workflow_handle(upgrade_workflow_id(cluster))
    while True:
        try:
            await handle.result()
        except WorkflowFailureError as error:
            return error_of(error)
        except RPCError:
            await asyncio.sleep(1.0)
        else:
            return None


def _ending(cluster: ClusterKey, error: HoplineError | None, status: UpgradeStatus | None) -> Ending:
    if error is None:
        return Ending(cluster, ExitCode.DONE, status)
    return Ending(cluster, exit_code_of(error), status, error)
