"""Turns ClusterVersion changes into the one workflow per cluster: one task per cluster, so that none blocks another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

from temporalio.client import WorkflowExecutionStatus

from hopline.domain.errors import (
    ClusterNotReady,
    ContradictingWish,
    HoplineError,
    InvalidInput,
    NotFound,
    PortError,
    Refusal,
    bounded,
)
from hopline.domain.left_failed import is_left_failed, is_wish_after_failure
from hopline.domain.resources import Document
from hopline.domain.wire import ClusterKey
from hopline.operations.events import EventRecord, Regarding, tell
from hopline.ports import ClusterClient
from starter.requests import Requests
from starter.retrying import RetryAnnotations
from starter.sightings import Sightings
from starter.upkeep import Given, Upkeep
from starter.wishes import Memory, Move, Sight, is_watched, next_move
from workflows.identifiers import TARGET_VERSION
from workflows.messages import Question, UpgradeInput

logger = logging.getLogger("starter.watch")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between two attempts to hand a wish over while nobody answers."""

FIRST_DOUBT, LONGEST_DOUBT = 15.0, 600.0
"""Seconds after which a refused wish is planned again, because not everything that refuses can be watched: a release
source, another controller, the nodes of a workload cluster."""

PATIENCE = timedelta(seconds=60)
DESIRED_VERSION_REFUSED, RUN_TERMINATED = "DesiredVersionRefused", "UpgradeTerminated"
LEFT_FAILED = "UpgradeLeftFailed"


@dataclass
class _Seat:
    """One cluster under watch: its task, what wakes it, and what was done for it."""

    changed: asyncio.Event = field(default_factory=asyncio.Event)
    memory: Memory = field(default_factory=Memory)
    update_id: str = ""
    doubt: float = FIRST_DOUBT
    is_due: bool = False
    """A refused wish is to be planned again, although nothing that is watched has changed."""
    task: asyncio.Task[None] | None = None
    beside: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """What goes on for the cluster beside its task, by what it is for."""

    def tasks(self) -> list[asyncio.Task[None]]:
        return [*self.beside.values(), *([self.task] if self.task else [])]


class Watcher:
    """Watches one management cluster and hands wishes to the workflows of one task queue.

    While a run is open the objects belong to the run (design §2.3), and nothing but Events is written here. What is
    written between runs is the business of `upkeep`; without one, nothing is.
    """

    def __init__(
        self,
        management: ClusterClient,
        requests: Requests,
        upkeep: Upkeep | None = None,
        *,
        first_doubt: float = FIRST_DOUBT,
    ) -> None:
        self._management = management
        self._requests = requests
        self._upkeep = upkeep
        self._first_doubt = first_doubt
        self._seats: dict[ClusterKey, _Seat] = {}
        self._retries = RetryAnnotations(requests)
        self._sightings = Sightings(management, self._wake)

    @property
    def is_ready(self) -> bool:
        """Every list has arrived."""
        return self._sightings.complete.is_set()

    async def run(self) -> None:
        """Watch until cancelled. Raises what ends a watch for good."""
        catalogues = asyncio.create_task(self._upkeep.keep_catalogues(self._sightings)) if self._upkeep else None
        try:
            await self._sightings.follow()
        finally:
            tasks = [task for seat in self._seats.values() for task in seat.tasks()]
            tasks += [catalogues] if catalogues else []
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _wake(self, cluster: ClusterKey) -> None:
        seat = self._seats.setdefault(cluster, _Seat(doubt=self._first_doubt))
        seat.changed.set()
        if seat.task is None or seat.task.done():
            seat.task = asyncio.create_task(self._look_after(cluster, seat))

    async def _look_after(self, cluster: ClusterKey, seat: _Seat) -> None:
        """Until ClusterVersion and BKECluster are gone: wait for a change, then do what there is to do."""
        pause = FIRST_PAUSE
        while True:
            await seat.changed.wait()
            seat.changed.clear()
            if self._sightings.pair(cluster) == (None, None):
                self._leave(cluster, seat)
                return
            try:
                await self._look(cluster, seat)
                pause = FIRST_PAUSE
            except (PortError, ClusterNotReady) as error:
                logger.warning("%s: %s; trying again in %.0f s", cluster, error, pause)
                asyncio.get_running_loop().call_later(pause, seat.changed.set)
                pause = min(pause * 2, LONGEST_PAUSE)

    def _leave(self, cluster: ClusterKey, seat: _Seat) -> None:
        self._seats.pop(cluster, None)
        for purpose in tuple(seat.beside):
            self._end_beside(seat, purpose)
        if self._upkeep:
            self._upkeep.forget(cluster)

    async def _look(self, cluster: ClusterKey, seat: _Seat) -> None:
        """Once: the objects first, then the wish."""
        given = await self._keep_up(cluster, seat)
        if given is Given.RUN_IS_OPEN:
            self._beside(seat, "end", self._until_run_ends(cluster, seat))
        sight = self._sightings.sight(cluster)
        if sight is None or given is Given.WRITTEN:
            return
        is_back = sight.wish.desired == sight.current and seat.memory.wish != sight.wish
        if given is Given.RUN_IS_OPEN and is_back:
            # Back to the current version in mid-run: that ends nothing, and the run says so.
            await self._ask(cluster, seat, sight, Move.START)
        while (move := await self._next_move(cluster, seat, sight)) in (Move.START, Move.RETRY):
            await self._ask(cluster, seat, sight, move)
        if move is Move.TELL_NO_CLUSTER and await self._sightings.has_cluster(cluster):
            return
        if move is not Move.NOTHING:
            await self._tell(sight.version, move.value, _explanation(move, cluster))

    async def _keep_up(self, cluster: ClusterKey, seat: _Seat) -> Given:
        if self._upkeep is None:
            return Given.NOTHING
        version, bke = self._sightings.pair(cluster)
        if version is None or bke is None:
            self._end_beside(seat, "health")
        elif self._upkeep.keeps_health:
            self._beside(seat, "health", self._upkeep.keep_health(cluster, partial(self._is_withdrawn, cluster)))
        given = await self._upkeep.look_after(cluster, version, bke)
        if given is Given.LOOK_AGAIN:
            self._beside(seat, "look again", _later(seat, self._upkeep.health_seconds))
        return given

    def _is_withdrawn(self, cluster: ClusterKey) -> bool:
        sight = self._sightings.sight(cluster)
        return sight is not None and sight.wish.desired == sight.current

    @staticmethod
    def _beside(seat: _Seat, purpose: str, work: Coroutine[Any, Any, None]) -> None:
        """Let it go on beside the cluster's task, unless it does already."""
        running = seat.beside.get(purpose)
        if running is not None and not running.done():
            work.close()
            return
        seat.beside[purpose] = asyncio.create_task(work)

    @staticmethod
    def _end_beside(seat: _Seat, purpose: str) -> None:
        task = seat.beside.pop(purpose, None)
        if task is not None:
            task.cancel()

    async def _next_move(self, cluster: ClusterKey, seat: _Seat, sight: Sight) -> Move:
        move, is_due, seat.is_due = next_move(sight, seat.memory), seat.is_due, False
        doubtful = seat.memory.refused_at is not None and seat.memory.contradicted is None
        if move is not Move.NOTHING or not doubtful or seat.memory.wish != sight.wish:
            return move
        if is_due and await self._could_start(cluster, sight):
            return Move.START
        if is_due:
            self._doubt(seat)
        return Move.NOTHING

    def _doubt(self, seat: _Seat) -> None:
        """Plan again later, each time after a longer pause."""
        self._end_beside(seat, "doubt")
        self._beside(seat, "doubt", _due(seat, seat.doubt))
        seat.doubt = min(seat.doubt * 2, LONGEST_DOUBT)

    async def _could_start(self, cluster: ClusterKey, sight: Sight) -> bool:
        """Whether the plan of a refused wish is startable now: nobody hears of it when it is not."""
        try:
            await self._requests.require_worker()
            seen = await self._requests.inspect(cluster, Question.PLAN, sight.wish.desired)
        except HoplineError as error:
            logger.debug("%s: %s is still refused: %s", cluster, sight.wish.desired, error)
            return False
        return seen.plan is not None and not seen.plan.blocking

    async def _until_run_ends(self, cluster: ClusterKey, seat: _Seat) -> None:
        await self._requests.until_closed(cluster)
        if seat.memory.contradicted is not None:
            seat.memory = replace(seat.memory, contradicted=None, refused_at="")
        seat.changed.set()

    async def _ask(self, cluster: ClusterKey, seat: _Seat, sight: Sight, move: Move) -> None:
        if move is Move.RETRY and await self._retry(cluster, seat, sight):
            return
        taken = await self._take_retry(cluster, seat, sight)
        if taken is None or await self._is_left_alone(cluster, seat, sight):
            return
        if seat.memory.wish != sight.wish:
            seat.doubt = self._first_doubt
        # One id per wish and circumstances: a request that timed out and is sent again is the same request.
        seat.update_id = seat.update_id or str(uuid4())
        wish = UpgradeInput(cluster=cluster, desired_version=sight.wish.desired)
        try:
            answer = await self._requests.set_desired_version(wish, update_id=seat.update_id, patience=PATIENCE)
        except (Refusal, InvalidInput) as error:
            await self._refused(cluster, seat, sight, error, taken)
        except PortError:
            raise
        except HoplineError as error:
            logger.warning("%s: the run of %s ended: %s", cluster, wish.desired_version, error)
            seat.memory, seat.update_id = Memory(wish=sight.wish, retried=taken), ""
        else:
            logger.info("%s: %s accepted, %d hops, plan %s", cluster, answer.version, answer.hops, answer.plan_digest)
            if sight.is_contradicted:
                await self._show_wish(cluster, sight)
            seat.memory, seat.update_id, seat.doubt = Memory(wish=sight.wish, retried=taken), "", self._first_doubt

    async def _is_left_alone(self, cluster: ClusterKey, seat: _Seat, sight: Sight) -> bool:
        """Whether this wish has had its run, and only a person starts another one; then that is told."""
        if await self._was_terminated(cluster, sight):
            reason, message = RUN_TERMINATED, _terminated(cluster, sight.wish.desired)
        elif await self._was_left_failed(cluster, seat, sight):
            reason, message = LEFT_FAILED, _left_failed(cluster, sight.wish.desired)
        else:
            return False
        logger.warning("%s: not started: %s", cluster, message)
        seat.memory = Memory(wish=sight.wish)
        await self._tell(sight.version, reason, message)
        return True

    async def _was_left_failed(self, cluster: ClusterKey, seat: _Seat, sight: Sight) -> bool:
        """Whether another controller has carried this very wish out until it failed."""
        is_known = seat.memory.wish is not None or bool(sight.retry_annotation)
        if is_known or not is_left_failed(sight.version) or is_wish_after_failure(sight.version, sight.wished_at):
            return False
        return not await self._requests.is_open(cluster)

    async def _was_terminated(self, cluster: ClusterKey, sight: Sight) -> bool:
        """Whether a person ended the run of this very wish in a way that leaves no mark on the ClusterVersion."""
        wished_at = sight.wished_at
        if wished_at is None or sight.retry_annotation:
            return False
        newest = await self._requests.describe(cluster)
        if newest is None or newest.status is not WorkflowExecutionStatus.TERMINATED or newest.close_time is None:
            return False
        carried = newest.typed_search_attributes.get(TARGET_VERSION)
        if carried is not None and carried != sight.wish.desired:
            # Times are known to the second only: a newer wish may be as old as the end of the run.
            return False
        return wished_at <= newest.close_time

    async def _refused(self, cluster: ClusterKey, seat: _Seat, sight: Sight, error: HoplineError, taken: str) -> None:
        logger.warning("%s: %s refused: %s", cluster, sight.wish.desired, error)
        contradicted = sight.handled if isinstance(error, ContradictingWish) else None
        seat.memory = Memory(sight.wish, sight.circumstances, contradicted, taken)
        seat.update_id = ""
        if taken:
            await self._retries.after_refusal(cluster, sight, error)
        elif sight.retry_annotation and contradicted is None:
            # The run that refuses does not answer the annotation any more: the next look does.
            await self._requests.until_closed(cluster)
        if contradicted is not None or isinstance(error, InvalidInput):
            # The run that refused a wish at its start says so itself; this wish has no run of its own.
            await self._tell(sight.version, DESIRED_VERSION_REFUSED, str(error))
        if contradicted is not None:
            self._beside(seat, "end", self._until_run_ends(cluster, seat))
            await self._show_wish(cluster, sight)
        elif not is_watched(error):
            self._doubt(seat)

    async def _show_wish(self, cluster: ClusterKey, sight: Sight) -> None:
        """Let the open run show on the ClusterVersion whether this wish is its own."""
        try:
            await self._requests.wish_seen(cluster, sight.wish.desired)
        except NotFound:
            logger.debug("%s: the run has ended meanwhile", cluster)

    async def _retry(self, cluster: ClusterKey, seat: _Seat, sight: Sight) -> bool:
        """Answer the annotation. False: no run is open, and the declared wish is to be planned again."""
        try:
            if not await self._retries.hand_over(cluster, sight):
                self._beside(seat, "retry", self._retry_after_end(cluster, seat))
        except NotFound:
            if sight.asks_for_upgrade:
                return False
            await self._retries.nothing_held(cluster, sight)
        seat.memory = replace(seat.memory, retried=sight.retry_annotation)
        return True

    async def _retry_after_end(self, cluster: ClusterKey, seat: _Seat) -> None:
        await self._requests.until_closed(cluster)
        seat.memory = replace(seat.memory, retried="")
        seat.changed.set()

    async def _take_retry(self, cluster: ClusterKey, seat: _Seat, sight: Sight) -> str | None:
        """Which annotation goes with a start: none while a run is open, which answers it itself.

        None: it was refused, and without it there is nothing to start.
        """
        if not sight.retry_annotation:
            return ""
        if sight.outcome is not None:
            # Its last word is written, and the next run begins when it has closed.
            await self._requests.until_closed(cluster)
        elif await self._requests.is_open(cluster):
            return ""
        if await self._retries.before_start(cluster, sight):
            return sight.retry_annotation
        seat.memory = replace(seat.memory, retried=sight.retry_annotation)
        return sight.retry_annotation if next_move(sight, seat.memory) is Move.START else None

    async def _tell(self, version: Document, reason: str, message: str) -> None:
        """A Warning event on the ClusterVersion, once per generation and message."""
        generation = version["metadata"].get("generation", 0)
        record = EventRecord(
            number=0,
            regarding=Regarding.CLUSTER_VERSION,
            reason=reason,
            message=bounded(message),
            warning=True,
            at=datetime.now(UTC),
        )
        await tell(self._management, record, version, f"{version['metadata'].get('uid')}/{generation}/{reason}")


async def _later(seat: _Seat, seconds: float) -> None:
    await asyncio.sleep(seconds)
    seat.changed.set()


async def _due(seat: _Seat, seconds: float) -> None:
    await asyncio.sleep(seconds)
    seat.is_due = True
    seat.changed.set()


def _terminated(cluster: ClusterKey, version: str) -> str:
    return (
        f"the upgrade to {version} was terminated by hand and is not started again by itself; remedy: "
        f"hopline upgrade {cluster.name} -n {cluster.kube_namespace} --to {version}, or set the annotation "
        "bke.bocloud.com/retry on the BKECluster"
    )


def _left_failed(cluster: ClusterKey, version: str) -> str:
    return (
        f"the upgrade to {version} has failed under another controller and is not started by itself; remedy: repair "
        f"what failed, then kubectl annotate bkecluster {cluster.name} -n {cluster.kube_namespace} "
        "bke.bocloud.com/retry=, or ask for another version"
    )


def _explanation(move: Move, cluster: ClusterKey) -> str:
    if move is Move.TELL_NO_VERSION:
        return (
            "spec.desiredVersion is empty, so there is nothing to do; remedy: kubectl patch clusterversion "
            f'{cluster.name} -n {cluster.kube_namespace} --type merge -p \'{{"spec":{{"desiredVersion":"VERSION"}}}}\''
        )
    return (
        f"there is no BKECluster {cluster}, so nothing can be upgraded; remedy: a ClusterVersion has the name and "
        "Kubernetes namespace of its BKECluster, see kubectl get bkecluster -A"
    )
