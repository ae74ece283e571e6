"""The schedule that follows the catalogue's registry: kept as the settings say, by every worker that starts."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError

from hopline.domain.errors import PortError
from hopline.ports import ClusterClient
from hopline.runtime.settings import Settings
from workflows.catalogue_sync import CatalogueSyncInput
from workflows.identifiers import CATALOGUE_SYNC, catalogue_schedule_id

logger = logging.getLogger(__name__)

PAUSED_BY_US = "paused by Hopline: "
FOLLOWED = "follows upgrade-path:latest"
ROUND_TIMEOUT = timedelta(minutes=10)
"""A round that nobody carries out is given up, so that the next one can begin."""
CATCHUP_WINDOW = timedelta(minutes=1)
"""Rounds that were missed while the server was away are not made up for."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 600.0
"""Seconds until it is tried again while Temporal or the management cluster does not let us."""


async def keep_catalogue_schedule(client: Client, management: ClusterClient, settings: Settings) -> None:
    """Until it is as the settings say; a worker carries upgrades out meanwhile."""
    pause = FIRST_PAUSE
    while True:
        try:
            await ensure_catalogue_schedule(client, settings, await management.identity())
        except (RPCError, PortError) as error:
            logger.warning("the schedule of the catalogue is not kept: %s; trying again in %.0f s", error, pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        else:
            return


async def ensure_catalogue_schedule(client: Client, settings: Settings, management_uid: str) -> None:
    """Make it, or bring it to what the settings say. Idempotent, also when several workers start at once.

    A person's pause stays; one of ours goes when its reason has gone, and then a round begins at once.
    """
    schedule_id = catalogue_schedule_id(settings.task_queue)
    wanted = _schedule(settings, management_uid)
    try:
        await client.create_schedule(schedule_id, wanted, trigger_immediately=not wanted.state.paused)
        return
    except ScheduleAlreadyRunningError:
        pass
    resumed = False

    def bring(present: ScheduleUpdateInput) -> ScheduleUpdate:
        nonlocal resumed
        state = present.description.schedule.state
        is_ours = not state.paused or (state.note or "").startswith(PAUSED_BY_US)
        resumed = state.paused and is_ours and not wanted.state.paused
        kept = wanted.state if is_ours else state
        return ScheduleUpdate(Schedule(wanted.action, wanted.spec, policy=wanted.policy, state=kept))

    handle = client.get_schedule_handle(schedule_id)
    await handle.update(bring)
    if resumed:
        await handle.trigger(overlap=ScheduleOverlapPolicy.SKIP)


def _schedule(settings: Settings, management_uid: str) -> Schedule:
    reason = _reason_to_pause(settings)
    every = timedelta(seconds=settings.catalogue_interval or Settings().catalogue_interval)
    return Schedule(
        action=ScheduleActionStartWorkflow(
            CATALOGUE_SYNC,
            CatalogueSyncInput(management_uid=management_uid),
            id=catalogue_schedule_id(settings.task_queue),
            task_queue=settings.task_queue,
            execution_timeout=ROUND_TIMEOUT,
            static_summary="follow the catalogue's registry",
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=CATCHUP_WINDOW),
        state=ScheduleState(paused=bool(reason), note=f"{PAUSED_BY_US}{reason}" if reason else FOLLOWED),
    )


def _reason_to_pause(settings: Settings) -> str:
    """Empty: the registry is followed."""
    if settings.releases is not None:
        return "HOPLINE_RELEASES is set, so nothing comes from a registry"
    if not settings.catalogue_interval:
        return "HOPLINE_CATALOGUE_INTERVAL is 0"
    return "the worker only observes" if settings.observe else ""
