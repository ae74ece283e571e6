"""What the watcher itself writes, and only while no run is open: lives of ClusterVersions, health, catalogue status.

Beside another controller nothing of a cluster is written: that one has the word there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from enum import StrEnum

from hopline.domain.cluster_checks import LEFTOVERS
from hopline.domain.cluster_version_life import READY, Care, care_for, is_wish_of_its_own, old_trigger
from hopline.domain.errors import ClusterNotReady, Conflict, Forbidden, HoplineError, NotFound, PortError
from hopline.domain.resources import Document
from hopline.domain.wire import ClusterKey
from hopline.operations.catalogue_status import write_catalogue_status
from hopline.operations.cluster_version_life import OLD_TRIGGER_IGNORED, ClusterVersionLife
from hopline.operations.events import Regarding
from hopline.operations.health_keeping import HealthKeeper
from hopline.operations.one_controller import OneController
from hopline.ports import Clusters
from starter.requests import Requests
from starter.sightings import Sightings

logger = logging.getLogger("starter.watch")

HEALTH_SECONDS = 60.0
"""Between two looks at a target cluster, when nothing changes there."""

CATALOGUE_PAUSE = 30.0
"""Seconds until a catalogue status that could not be written is tried again."""


class Given(StrEnum):
    """What came of looking after a cluster's objects."""

    NOTHING = "nothing"
    """There was nothing to write, or somebody else has the word."""
    WRITTEN = "written"
    """What is known of it is old now; the watch will report it anew."""
    LOOK_AGAIN = "look again"
    """The cluster is not well yet, and nothing that is watched will tell when it is."""
    RUN_IS_OPEN = "run is open"
    """There is something to write, after its end."""


class Upkeep:
    """Looks after the objects of every cluster of one management cluster."""

    def __init__(
        self,
        clusters: Clusters,
        requests: Requests,
        one_controller: OneController,
        *,
        keep_health: bool = False,
        health_seconds: float = HEALTH_SECONDS,
    ) -> None:
        self._management = clusters.management
        self._requests = requests
        self._one_controller = one_controller
        self._life = ClusterVersionLife(clusters.management)
        self._health = HealthKeeper(clusters)
        self.keeps_health = keep_health
        self.health_seconds = health_seconds
        self._told: dict[ClusterKey, str] = {}

    async def look_after(self, cluster: ClusterKey, version: Document | None, bke: Document | None) -> Given:
        """Write what is missing. Raises PortError when that is to be tried again."""
        if bke is not None:
            await self._answer_old_trigger(cluster, version, bke)
        care = care_for(version, bke)
        leftover = version is not None and bke is not None and _has_leftovers(version, bke)
        if bke is None or (care is Care.NOTHING and not leftover) or not await self._is_alone(cluster):
            return Given.NOTHING
        if await self._requests.is_open(cluster):
            return Given.RUN_IS_OPEN
        if care is Care.NOTHING:
            written = await self._look_at_health(cluster, withdrawn=True)
            return Given.WRITTEN if written else Given.LOOK_AGAIN
        done = await self._life.give(care, version, bke)
        logger.info("%s: %s%s", cluster, care.value, "" if done else ": somebody else was faster")
        return Given.WRITTEN

    async def _answer_old_trigger(self, cluster: ClusterKey, version: Document | None, bke: Document) -> None:
        said = old_trigger(version, bke)
        if said == self._told.get(cluster, ""):
            return
        if said:
            logger.warning("%s: %s", cluster, said)
            await self._life.tell(bke, Regarding.BKE_CLUSTER, OLD_TRIGGER_IGNORED, said, warning=True)
        self._told[cluster] = said

    async def _is_alone(self, cluster: ClusterKey) -> bool:
        other = await self._one_controller.refusal()
        if other is not None:
            logger.warning("%s: nothing is written: %s", cluster, other.message)
        return other is None

    def forget(self, cluster: ClusterKey) -> None:
        """The cluster is gone."""
        self._told.pop(cluster, None)

    # Health.

    async def keep_health(self, cluster: ClusterKey, is_withdrawn: Callable[[], bool]) -> None:
        """For ever: keep the health state true while no run is open."""

        async def look() -> None:
            try:
                await self._look_at_health(cluster, withdrawn=is_withdrawn())
            except Conflict:
                logger.info("%s: it has changed during the look at its health", cluster)
            except (PortError, ClusterNotReady) as error:
                logger.warning("%s: its health is not kept: %s", cluster, error)

        await self._health.keep(cluster, look, self.health_seconds)

    async def _look_at_health(self, cluster: ClusterKey, *, withdrawn: bool) -> bool:
        """Whether there was something new to write."""
        found, health = await self._health.look(cluster)
        status = self._health.news(found, health, withdrawn=withdrawn)
        if not status or not await self._is_alone(cluster) or await self._requests.is_open(cluster):
            return False
        await self._health.write(found, status)
        logger.info("%s: health state %s", cluster, status.get("clusterHealthState", "as before"))
        return True

    # Catalogues.

    async def keep_catalogues(self, sightings: Sightings) -> None:
        """For ever: judge every UpgradePath that changes, and write its status."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CATALOGUE_PAUSE):
                    await sightings.catalogues_changed.wait()
            sightings.catalogues_changed.clear()
            for document in sightings.catalogues:
                await self._judge(document)

    async def _judge(self, document: Document) -> None:
        name = document["metadata"]["name"]
        try:
            if await write_catalogue_status(self._management, document):
                logger.info("UpgradePath %s: status written", name)
        except (Conflict, NotFound):
            logger.debug("UpgradePath %s has changed meanwhile", name)
        except (Forbidden, HoplineError) as error:
            logger.warning("the status of UpgradePath %s is not written: %s", name, error)


def _has_leftovers(version: Document, bke: Document) -> bool:
    """Nobody asks for an upgrade, and a failed one still shows."""
    status = bke.get("status") or {}
    settled = (version.get("status") or {}).get("phase") == READY and not is_wish_of_its_own(version)
    return settled and status.get("clusterHealthState") in LEFTOVERS
